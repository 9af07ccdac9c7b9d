"""Worker processes: limits hold, whose fault it was is told apart, and nothing is left behind."""

from __future__ import annotations

import ast
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from burnish.feedback.workers.pool import Answer, Job, Pool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _tests_can_be_imported() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


@pytest.fixture(scope="module")
def one() -> Iterator[Pool]:
    pool = Pool(1)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def hasty() -> Iterator[Pool]:
    """Gives a worker that stands still up within a second."""
    pool = Pool(1, patience=0.3)
    yield pool
    pool.close()


def job(name: str, seconds: float = 0.5, memory: int = 256 << 20, **argument: Any) -> Job:
    return Job(f"tests.feedback.faulty:{name}", argument, seconds, memory)


def ask(pool: Pool, name: str, **more: Any) -> Answer:
    return pool.submit(job(name, **more)).result(60)


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        ("spins", "time_limit"),
        ("eats", "memory_limit"),
        ("nests", "too_deep"),
        ("crashes", "crashed"),
        ("leaves", "crashed"),
    ],
)
def test_what_the_answer_causes_is_scored_0_by_name(one: Pool, check: str, kind: str) -> None:
    answer = ask(one, check)
    assert (answer["value"], answer["kind"]) == (0.0, kind)
    assert ask(one, "right")["value"] == 1.0  # whatever became of the worker, there is one


@pytest.mark.parametrize(
    ("check", "kind", "reason"),
    [
        ("spins_over_the_key", "key_limit", "reading the right answer took more than 0.5 s"),
        ("eats_over_the_key", "key_limit", "memory_limit while reading the right answer"),
        ("raises", "verifier_raised", r"raised KeyError: 'session' (faulty.py:"),
        ("exits", "verifier_raised", "raised SystemExit: 0"),
        ("returns_no_number", "verifier_raised", "could not convert string to float: 'high'"),
        ("returns_nan", "verifier_raised", "the check returned nan"),
        ("returns_nothing", "verifier_raised", "AttributeError"),
        ("refuses", "bad_key", "no key"),
        ("lacks", "library_missing", "pip install 'burnish[tasks]'"),
        ("is_killed", "worker_killed", "ended from outside by SIGKILL"),
        ("shouts", "worker_killed", "ended from outside"),  # more than any check of ours says
        ("no_such_check", "verifier_raised", "has no attribute 'no_such_check'"),
    ],
)
def test_what_the_machinery_or_the_row_causes_is_missing_by_name(one: Pool, check: str, kind: str, reason: str) -> None:
    answer = ask(one, check)
    assert answer.keys() == {"missing", "reason"} and answer["missing"] == kind
    assert reason in answer["reason"]
    assert ask(one, "right")["value"] == 1.0


@pytest.mark.parametrize("how", ["sleeps", "right"])
def test_a_worker_that_stands_still_is_given_up_and_replaced(hasty: Pool, how: str) -> None:
    """One that sleeps, and one that is stopped from outside."""
    hasty.submit(job("right", seconds=20.0)).result(60)
    (pid,) = hasty.processes()
    if how == "right":
        os.kill(pid, signal.SIGSTOP)
    answer = hasty.submit(job(how, seconds=0.1)).result(60)
    assert answer == {"missing": "worker_stuck", "reason": f"worker {pid} stood still without computing"}
    assert not psutil.pid_exists(pid)
    assert hasty.submit(job("right", seconds=20.0)).result(60)["value"] == 1.0


def test_time_is_measured_while_the_worker_computes_not_on_the_wall(one: Pool) -> None:
    """A worker that gets no processor for longer than the limit has not used it up."""
    ask(one, "right")
    (pid,) = one.processes()
    future = one.submit(job("spins", seconds=0.3))
    time.sleep(0.02)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.6)
    assert not future.done()
    os.kill(pid, signal.SIGCONT)
    assert future.result(60)["kind"] == "time_limit"


def test_a_text_of_any_characters_arrives_as_it_is(one: Pool) -> None:
    text = "nul \0, surrogate \ud800, \U0001f600, \u2028" + "x" * 500_000
    assert ask(one, "right", say=text)["reason"] == text


def test_a_worker_is_lean_quiet_and_writes_nothing(one: Pool) -> None:
    said = ast.literal_eval(ask(one, "tells")["reason"])
    assert said["threads"] == 1 and said["files"] == 0
    assert not {"torch", "numpy", "pydantic", "transformers", "pytest"} & set(said["loaded"])


def test_one_worker_takes_many_jobs_and_several_work_at_a_time() -> None:
    pool = Pool(2)
    try:
        pids = {ast.literal_eval(ask(pool, "tells")["reason"])["pid"] for _ in range(6)}
        assert pids <= set(pool.processes()) and len(pids) <= 2
        slow, quick = pool.submit(job("spins", seconds=2.0)), pool.submit(job("right"))
        assert quick.result(60)["value"] == 1.0 and not slow.done()
        assert slow.result(60)["kind"] == "time_limit"
    finally:
        pool.close()


def test_a_worker_is_replaced_after_its_share_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnish.feedback.workers.pool.JOBS_OF_A_WORKER", 3)
    pool = Pool(1)
    try:
        pids = [ast.literal_eval(ask(pool, "tells")["reason"])["pid"] for _ in range(7)]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    finally:
        pool.close()


def test_the_loss_of_the_mother_costs_at_most_what_was_in_hand() -> None:
    pool = Pool(1)
    try:
        ask(pool, "right")
        (worker,) = pool.processes()
        mother = psutil.Process(worker).parent()
        assert mother is not None
        mother.kill()
        gone(mother.pid)
        assert ask(pool, "right")["value"] == 1.0  # the orphan still works
        assert ask(pool, "crashes")["missing"] == "worker_killed"  # and nobody can tell how it ended
        assert ask(pool, "right")["value"] == 1.0  # under a new mother
    finally:
        pool.close()


def test_workers_that_do_not_start_are_told_of_and_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    class Broken(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **more: Any) -> None:
            starts.append(command)
            super().__init__([sys.executable, "-c", "raise SystemExit('no room')"], **more)

    monkeypatch.setattr("burnish.feedback.workers.nursery.subprocess.Popen", Broken)
    pool = Pool(1)
    answers = [ask(pool, "right") for _ in range(5)]
    pool.close()
    assert all(answer["missing"] == "pool_broken" and "no room" in answer["reason"] for answer in answers)
    assert len(starts) == 3


def gone(pid: int, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def of(pool: Pool) -> list[int]:
    """All processes of a pool."""
    ask(pool, "right")
    parents = {parent.pid for pid in pool.processes() if (parent := psutil.Process(pid).parent()) is not None}
    return [*parents, *pool.processes()]


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_a_pool_that_is_done_with_leaves_no_process(how: str) -> None:
    pool = Pool(1)
    pids = of(pool)
    assert len(pids) == 2
    if how == "closed":
        pool.close()
        assert ask(pool, "right")["value"] == 1.0  # it starts again when it is asked again
        pool.close()
    del pool
    gc.collect()
    assert all(gone(pid) for pid in pids)


def test_lost_workers_and_closed_pools_leave_no_descriptor_open() -> None:
    def use() -> None:
        pool = Pool(2)
        for check in ("right", "crashes", "leaves", "right"):
            ask(pool, check)
        pool.close()

    use()
    before = psutil.Process().num_fds()
    for _ in range(3):
        use()
    assert psutil.Process().num_fds() <= before


def test_closing_answers_what_is_in_hand() -> None:
    pool = Pool(1)
    ask(pool, "right")
    futures = [pool.submit(job("spins", seconds=60.0)) for _ in range(3)]
    time.sleep(0.1)
    pids = [child.pid for child in psutil.Process().children(recursive=True) if child.pid in pool.processes()]
    pool.close()
    assert pids and all(gone(pid) for pid in pids)
    assert all(future.result(10)["missing"] in ("worker_killed", "pool_broken") for future in futures)


SCRIPT = """
import os, psutil, signal, sys, time
from burnish.feedback.workers.pool import Job, Pool
print("started", flush=True)  # a script without a main guard: a spawned worker would run it again
pool = Pool(1)
spin = lambda: pool.submit(Job("tests.feedback.faulty:spins", {}, 60.0, 1 << 28))
pool.submit(Job("tests.feedback.faulty:right", {}, 1.0, 1 << 28)).result()
children = psutil.Process().children(recursive=True)
print(*(child.pid for child in children), flush=True)
spin()
before = children[-1].cpu_times().user
while children[-1].cpu_times().user < before + 0.05:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.killpg(0, signal.SIGINT)"])
def test_a_script_that_ends_in_any_way_leaves_no_process(end: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = subprocess.run(
        [sys.executable, "-c", SCRIPT + end], env=environment, capture_output=True, text=True, start_new_session=True,
        timeout=120,
    )  # fmt: skip
    started, pids = script.stdout.splitlines()
    assert started == "started" and len(pids.split()) == 2
    assert all(gone(int(pid)) for pid in pids.split())


def test_many_threads_may_ask_one_pool(one: Pool) -> None:
    answers: list[Answer] = []

    def several() -> None:
        answers.extend(ask(one, "right", say=i) for i in range(5))

    threads: list[Callable[[], None]] = [several] * 8
    running = [threading.Thread(target=each) for each in threads]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert sorted(answer["reason"] for answer in answers) == sorted(str(i) for i in range(5) for _ in range(8))


def test_a_cancelled_job_is_not_done(one: Pool) -> None:
    slow = one.submit(job("spins", seconds=0.3))
    waiting = one.submit(job("crashes"))
    assert waiting.cancel()
    assert slow.result(60)["kind"] == "time_limit" and waiting.cancelled()
    assert ask(one, "right")["value"] == 1.0
