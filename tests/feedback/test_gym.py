"""The reasoning_gym verifier: every family by name, the library's scores, and nothing of a candidate's evaluated."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import reasoning_gym
from hypothesis import given
from hypothesis import strategies as st
from reasoning_gym.factory import DATASETS

from burnish.errors import InputError
from burnish.feedback.checks.gym import EVALUATED, PARSED, check, is_data, is_mathematics
from burnish.feedback.workers.pool import Pool
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards


def puzzle(family: str, **config: Any) -> dict[str, Any]:
    """A puzzle as it stands in a data file."""
    return json.loads(json.dumps(reasoning_gym.create_dataset(family, size=2, seed=1, **config)[0]))


@pytest.fixture(scope="module")
def gym() -> Iterator[Pool]:
    pool = Pool(1, ["burnish.feedback.checks.gym", "reasoning_gym"])
    yield pool
    pool.close()


def scored(entry: dict[str, Any], text: str) -> tuple[float, str]:
    job = {"entry": entry, "text": text, "read": "whole", "thoughts": None, "partial": True}
    found = check(job, lambda: None)
    return found.value, found.kind


FAMILIES = sorted(set(DATASETS) - {"composite"})  # a mixture of the others, whose puzzles name their own family


def test_every_family_scores_its_own_answer_with_1_after_a_way_through_json() -> None:
    unanswered = set()
    for family in FAMILIES:
        entry = puzzle(family)
        assert entry["metadata"]["source_dataset"] == family
        if entry["answer"] is None:
            unanswered.add(family)
            assert scored(entry, "certainly not")[0] < 0.1
        else:
            assert scored(entry, entry["answer"]) == (1.0, ""), family
    assert len(FAMILIES) == 105
    assert unanswered == {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}


def test_scores_are_the_librarys_own() -> None:
    """On wrong answers of several sorts; `unreadable` is where the library itself raises."""
    for family in (
        "chain_sum",
        "countdown",
        "spell_backward",
        "leg_counting",
        "prime_factorization",
        "basic_arithmetic",
    ):
        entry = puzzle(family)
        score = reasoning_gym.get_score_answer_fn(family)
        for text in ("7", "x", entry["answer"] + "0", entry["answer"][::-1]):
            try:
                expected = score(text, entry)
            except ValueError:
                assert scored(entry, text) == (0.0, "unreadable")
            else:
                assert scored(entry, text)[0] == min(expected, 1.0)


def test_answers_of_the_families_that_evaluate_are_let_through() -> None:
    for family in EVALUATED | PARSED:
        for entry in reasoning_gym.create_dataset(family, size=20, seed=2):
            answer = entry["answer"]
            assert is_data(answer) if family in EVALUATED else is_mathematics(answer, entry), (family, answer)
            assert family in PARSED or is_data(str(answer.split()))  # a list instead of a text has partial credit


def test_a_recipe_scores_puzzles_by_the_answer_in_its_tag(gym: Pool) -> None:
    entry = puzzle("countdown")
    texts = [f"so <answer>{entry['answer']}</answer>", "<answer>12</answer>", entry["answer"]]
    assert rewards("reasoning_gym", {"entry": entry}, texts, gym) == [1.0, 0.05, 0.0]
    assert rewards({"kind": "reasoning_gym", "partial": False}, {"entry": entry}, texts, gym) == [1.0, 0.0, 0.0]
    assert kinds("reasoning_gym", {"entry": json.dumps(entry)}, texts, gym) == ["", "wrong", "no_answer"]


PROGRAMS = [
    "__import__('os').system('touch /tmp/owned')", "[open('/tmp/owned', 'w')]", "[x for x in ().__class__.__mro__]",
    "(lambda: 1)()", "exec('1')", "[1 for _ in iter(int, 1)]", "f'{open(1)}'", "a.b", "x if y else z", "print(1)",
]  # fmt: skip


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize("family", ["n_queens", "countdown", "polynomial_multiplication", "string_insertion"])
def test_no_program_of_a_candidates_reaches_the_library(
    family: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = puzzle(family)
    given_to_it = []
    score = reasoning_gym.get_score_answer_fn(family)

    def spy(answer: Any, entry: Any) -> float:
        given_to_it.append(answer)
        return score(answer, entry)

    monkeypatch.setattr("burnish.feedback.checks.gym.scorer", lambda family: spy)
    assert scored(entry, text) == (0.0, "unsafe")
    assert given_to_it == [entry["answer"]]


@pytest.mark.parametrize(
    "text",
    ["x+", "sin(open)", "5! + __import__('os')", "x.diff(y)", "'a'", "x; y", "a_b", "x[0]", "`x`", "1" * 60 + "@"],
)
def test_what_is_no_plain_mathematics_is_not_parsed(text: str) -> None:
    assert is_mathematics(text, {"answer": "1"}) is (text == "x+")


@pytest.mark.parametrize(
    "text", ["3*x**2 + 5*x - 2/3", "sin(x)*exp(-2.5*x) + C", "(1+2)*.5", "-x^2", "4!", "log(x, 2)"]
)
def test_plain_mathematics_is_parsed(text: str) -> None:
    assert is_mathematics(text, {"answer": None})


@given(st.text(st.sampled_from("[]()'\"1a,._ -+:{}\n"), max_size=14))
def test_what_counts_as_data_runs_nothing(text: str) -> None:
    """As an expression it has values and containers of values, or is one word; nothing is called or looked into."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return
    harmless = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    nodes = [node for node in ast.walk(tree) if not isinstance(node, (ast.Expression, ast.expr_context, *harmless))]
    if is_data(text):
        assert not nodes or isinstance(tree.body, ast.Name)


def test_no_other_family_evaluates_what_it_is_given() -> None:
    """Read in the library's source: wherever a score function could reach `eval`, the text is looked at first."""
    calls = re.compile(r"(?<![\w.])(?:eval|exec|sympify|S)\(|(?<!def )parse_expr\(")
    guarded = EVALUATED | PARSED
    for family, (dataset, _) in DATASETS.items():
        source = inspect.getsource(dataset.score_answer)
        if calls.search(source) and family not in guarded:
            assert family == "number_sorting" and calls.findall(source) == ["eval("]  # of the entry's own answer
            assert 'eval(entry["answer"])' in source
    modules = {
        Path(inspect.getfile(DATASETS[family][0])).stem
        for family in DATASETS
        if calls.search(Path(inspect.getfile(DATASETS[family][0])).read_text(encoding="utf-8"))
    }
    making = {
        "codeio",
        "bitwise_arithmetic",
        "basic_arithmetic",
        "number_sorting",
        "propositional_logic",
        "decimal_arithmetic",
    }
    assert modules - making == {DATASETS[f][0].__module__.rpartition(".")[2] for f in guarded}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"answer": "not the answer"}, "bad_key"),
        ({"metadata": {"source_dataset": "no_such_family"}}, "bad_key"),
        ({"metadata": {"source_dataset": "countdown"}}, "bad_key"),
    ],
)
def test_a_row_that_is_no_puzzle_is_missing_and_not_0(change: dict[str, Any], kind: str, gym: Pool) -> None:
    entry = {**puzzle("countdown"), **change}
    (verdict,) = judged("reasoning_gym", {"entry": entry}, ["<answer>1</answer>"], gym)
    assert verdict.reward is None and verdict.evidence["kinds"] == {"reasoning_gym": kind}


@pytest.mark.parametrize("entry", ["text", {"question": "q"}, {"question": "q", "answer": "a", "metadata": {}}, [1]])
def test_rows_without_a_puzzle_are_refused_before_the_run(entry: Any) -> None:
    with pytest.raises(InputError, match="must hold a puzzle as reasoning-gym makes it"):
        feedback("reasoning_gym").check([Task(prompt="p", columns={"entry": entry})])


def test_the_library_is_loaded_in_workers_only() -> None:
    code = (
        "import sys\nfrom burnish.feedback import FeedbackSpec, build\n"
        "build(FeedbackSpec.model_validate('reasoning_gym'))\n"
        "sys.exit(any(m in sys.modules for m in ('reasoning_gym', 'math_verify', 'sympy', 'torch', 'jsonschema')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
