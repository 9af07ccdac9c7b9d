"""The math verifier: what math-verify says in a main thread, from any thread and any process."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from latex2sympy2_extended import NormalizationConfig
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from burnish.errors import InputError
from burnish.feedback.checks.mathematics import check
from burnish.feedback.checks.outcome import Unjudged
from burnish.feedback.workers.pool import Pool
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

TABLE = [  # right answer, completion, equal
    ("72", "72", True),
    ("72", "so it is 72.", True),
    ("72", r"Hence $x = 72$.", True),
    ("48/2 = 24, 24*3 = 72\n#### 72", r"\boxed{72}", True),
    ("1,000", "1000", True),
    (r"\frac{1}{2}", r"\boxed{0.5}", True),
    (r"$\frac{1}{2}$", r"it is $\dfrac{2}{4}$", True),
    (r"\frac{1}{2}", "1/2", True),
    (r"\frac{1}{3}", "0.33", False),
    (r"\sqrt{8}", r"\boxed{2\sqrt{2}}", True),
    (r"\sqrt{8}", r"\boxed{2\sqrt{3}}", False),
    ("x^2 + 2x + 1", r"\boxed{(x+1)^2}", True),
    ("x^2 + 2x + 1", r"\boxed{(x-1)^2}", False),
    (r"\{1, 2, 3\}", r"\boxed{\{3, 2, 1\}}", True),
    (r"\{1, 2\}", r"\boxed{\{1, 2, 3\}}", False),
    ("(1, 2)", r"\boxed{(1, 2)}", True),
    ("(1, 2)", r"\boxed{(2, 1)}", False),
    (r"[0, 1)", r"\boxed{[0,1)}", True),
    (r"[0, 1)", r"\boxed{(0,1)}", False),
    (r"10^{3}", "1000", True),
    (r"\pi/2", r"$\frac{\pi}{2}$", True),
    ("3", r"\boxed{3} and not 4", True),
    ("4", r"\boxed{3} and not 4", False),
    ("-3", r"$-3$", True),
    ("3", r"$-3$", False),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}", True),
    ("30\\%", "30\\%", True),
    ("0", r"\boxed{0}", True),
    ("2", "I do not know", False),
]


def directly(key: str, text: str) -> bool:
    """math-verify as its documentation has it, with its own timeouts on. Main thread only."""
    assert threading.current_thread() is threading.main_thread()
    key = key.rpartition("####")[2].strip()
    strict = NormalizationConfig(basic_latex=True, units=True, malformed_operators=False, nits=False, boxed="all")
    configs = [LatexExtractionConfig(boxed_match_priority=0, normalization_config=strict), ExprExtractionConfig()]
    return verify(parse(key if "$" in key else f"${key}$"), parse(text, configs))


def test_the_verdicts_are_those_of_a_table_and_of_math_verify_called_directly(pool: Pool) -> None:
    for key, text, equal in TABLE:
        assert rewards("math", {"answer": key}, [text], pool) == [float(equal)], (key, text)
        assert directly(key, text) is equal, (key, text)


def test_scoring_is_the_same_in_threads_and_in_processes(pool: Pool) -> None:
    """math-verify itself scores all zero in a thread: its time limit is a signal."""
    jobs = [{"key": k, "text": t, "read": "any", "repair": False, "thoughts": None} for k, t, _ in TABLE] * 3
    with ThreadPoolExecutor(8) as threads:
        in_threads = list(threads.map(lambda job: check(job, lambda: None).value, jobs))
        in_thread_without_us = threads.submit(lambda: _signals()).result()
    in_processes = [rewards("math", {"answer": job["key"]}, [job["text"]], pool)[0] for job in jobs[: len(TABLE)]]
    in_main_thread = [check(job, lambda: None).value for job in jobs[: len(TABLE)]]
    assert in_threads == in_processes * 3 and in_processes == in_main_thread == [float(e) for _, _, e in TABLE]
    assert in_thread_without_us == "signal only works in main thread of the main interpreter"


def _signals() -> str:
    """What math-verify's own limits come to in this thread."""
    try:
        parse("$1$", raise_on_error=True)
    except ValueError as error:
        return str(error.__cause__)
    return ""


def test_verdicts_may_be_asked_for_from_a_thread_with_a_loop_of_its_own(pool: Pool) -> None:
    answers: list[Any] = []
    judge = feedback("math", pool)

    def ask() -> None:
        answers.append(asyncio.run(judge.verdicts("t", {"answer": "1/2"}, ["0.5", "0.6"])))

    for _ in range(2):  # each run has a loop of its own
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert [[v.reward for v in verdicts] for verdicts in answers] == [[1.0, 0.0]] * 2


def test_boxed_takes_the_last_box_and_nothing_else(pool: Pool) -> None:
    texts = ["7", r"\boxed{7}", r"\boxed{7} or \boxed{8}", r"\boxed{8} so $7$", r"\boxed{\frac{14}{2}}", r"\boxed{7"]
    columns = {"answer": "7"}
    assert rewards({"kind": "math", "read": "boxed"}, columns, texts, pool) == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert kinds({"kind": "math", "read": "boxed"}, columns, texts, pool)[0] == "no_answer"


def test_malformed_latex_counts_only_with_repair(pool: Pool) -> None:
    columns = {"answer": r"\frac{1}{2}"}
    assert rewards("math", columns, [r"$\frac12$"], pool) == [0.0]
    assert rewards({"kind": "math", "repair": True}, columns, [r"$\frac12$"], pool) == [1.0]


def test_thoughts_do_not_count(pool: Pool) -> None:
    assert rewards("math", {"answer": "7"}, ["<think>7</think>8", "<think>8</think>7", "<think>7"], pool) == [0, 1, 0]


def test_what_an_answer_can_do_to_the_parser_is_scored_0_by_name(pool: Pool) -> None:
    unread = ["wrong", "no_answer"]  # as far as math-verify gets
    texts = {
        r"$9^{9^{9^{9}}}$": ["time_limit"],
        "$" + "(" * 20_000 + "1" + ")" * 20_000 + "$": ["time_limit", "too_deep", *unread],
        "9" * 10_000_000: ["too_long"],
        "9" * 900_000: ["time_limit", *unread],
        "\\boxed{" * 20_000: ["time_limit", *unread],
        "\\boxed{\\frac{1}{": unread,
        "\\boxed{\0}": unread,
        "\ud800": ["no_answer"],
        "no mathematics": ["no_answer"],
        "": ["no_answer"],
    }
    spec = {"kind": "math", "time_limit": 1.0}
    verdicts = judged(spec, {"answer": "3"}, list(texts), pool)
    assert [v.reward for v in verdicts] == [0.0] * len(texts)
    for verdict, kinds_that_may_be in zip(verdicts, texts.values(), strict=True):
        assert verdict.evidence["kinds"]["math"] in kinds_that_may_be
        assert verdict.evidence["kinds"]["math"] in verdict.reason


@pytest.mark.parametrize("key", ["", "   ", "####", "\\text{}", "$$", "?!"])
def test_a_right_answer_that_is_no_mathematics_is_missing_and_not_0(pool: Pool, key: str) -> None:
    verdicts = judged("math", {"answer": key}, ["3"], pool)
    assert verdicts[0].reward is None and verdicts[0].evidence["kinds"]["math"] in ("bad_key", "no_key")
    with pytest.raises(Unjudged):
        check({"key": key, "text": "3", "read": "any", "repair": False, "thoughts": None}, lambda: None)


def test_rows_and_libraries_are_looked_at_before_the_run(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = feedback("math", pool)
    judge.check([Task(prompt="p", columns={"answer": 7})])
    with pytest.raises(InputError, match="needs the right answer in column 'answer', which is not there"):
        judge.check([Task(prompt="p", columns={"solution": "7"})])
    with pytest.raises(InputError, match="needs an expression in column 'answer', not 'True'"):
        judge.check([Task(prompt="p", columns={"answer": True})])
    monkeypatch.setattr("burnish.feedback.verifiers.mathematics.MathReward.library", "no_such_library")
    with pytest.raises(InputError, match=r"the math reward needs the library no_such_library.*burnish\[tasks\]"):
        judge.check([Task(prompt="p", columns={"answer": 7})])
