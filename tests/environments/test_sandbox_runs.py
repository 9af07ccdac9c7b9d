"""One call for one execution, and thousands of them: answers of every kind, several threads, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import psutil
import pytest

from benchmarks.sandbox import execute, inventory
from burnish.environments.sandbox import Cause, NamespaceProvider, SandboxSpec, default_provider, run_python
from tests.environments.sandboxed import NAMESPACES, processes, refused

ROOT = Path(__file__).parents[2]


def test_one_call_runs_files_and_gives_the_result() -> None:
    files = {"main.py": "import lib; print(lib.double(int(input())))", "lib.py": b"def double(n): return 2 * n"}
    result = asyncio.run(run_python(files, ["python3", "main.py"], stdin="21"))
    if NAMESPACES:
        assert result.ok and result.stdout.text == "42\n"
    else:
        assert result.failure is not None and result.failure.cause is Cause.MACHINERY


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1\0", "exit status 1"),
        ("def f(: pass", "exit status 1"),
        ("(" * 100_000, "exit status 1"),
        ("print(int('9' * 1_000_000))", "exit status 1"),
        ("import re; re.match(r'(a+)+$', 'a' * 64 + 'b')", "used more than 0.5 s of processor time"),
        ("\ud800", "exit status 1"),
        ("#" * 10_000_000, None),
        ("#" * 70_000_000, "the files have 70000000 bytes, more than the disk of 67108864"),
    ],
)
def test_answers_of_any_kind_are_scored(code: str, reason: str | None) -> None:
    """Nul bytes, nesting, huge integers, regular-expression bombs, 10 MB: the candidate's own doing, each time."""
    if not NAMESPACES:
        _nothing_runs()
        return
    spec = SandboxSpec(cpu_seconds=0.5)
    result = asyncio.run(run_python({"a.py": code}, ["python3", "a.py"], spec))
    assert (result.failure.reason if result.failure else None) == reason
    assert result.failure is None or result.failure.cause is Cause.CANDIDATE


def _nothing_runs() -> None:
    result = asyncio.run(run_python({}, ["/bin/true"]))
    assert result.failure is not None and result.failure.cause is Cause.MACHINERY


def test_hidden_files_of_one_call_are_there_for_its_command() -> None:
    if not NAMESPACES:
        _nothing_runs()
        return
    check = "import sys; sys.path.insert(0, '/work'); import answer; assert answer.value == 4; print('passed')"
    call = run_python({"answer.py": "value = 4"}, ["python3", "-I", "/hidden/check.py"], hidden={"check.py": check})
    assert asyncio.run(call).stdout.text == "passed\n"
    without = asyncio.run(run_python({"answer.py": "value = 4"}, ["python3", "-I", "/hidden/check.py"]))
    assert without.failure is not None and without.failure.cause is Cause.CANDIDATE


def test_calls_from_several_threads_share_one_helper() -> None:
    if not NAMESPACES:
        _nothing_runs()
        return
    results: list[str] = []

    def work(number: int) -> None:
        results.append(asyncio.run(run_python({}, ["/bin/echo", str(number)])).stdout.text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [f"{number}\n" for number in range(6)]
    helpers = [
        child.pid for child in psutil.Process().children() if "from inside import helper" in str(child.cmdline())
    ]
    assert helpers == [default_provider().helper.pid]


def test_many_executions_leave_no_process_file_mount_or_descriptor() -> None:
    """benchmarks/sandbox.py with fewer: among them programs that leave processes, and executions that are given up."""

    async def go() -> None:
        async with NamespaceProvider() as provider:
            if not NAMESPACES:
                await refused(provider)
                return
            await execute(provider, 0)
            before = await inventory(provider)
            for first in range(0, 140, 4):
                await asyncio.gather(*(execute(provider, first + i) for i in range(4)))
            assert await inventory(provider) == before
            helpers = processes(provider.helper.pid)
        assert len(helpers) == 2 and not any(process.is_running() for process in helpers)

    asyncio.run(go())


def test_the_figures_in_the_document_are_those_of_the_committed_run() -> None:
    figures = json.loads((ROOT / "benchmarks/results/sandbox.json").read_text(encoding="utf-8"))
    document = (ROOT / "docs/sandbox.md").read_text(encoding="utf-8")
    assert figures["executions"] == 2000 and figures["left behind"] == {} and figures["start median ms"] < 30
    for name in ("start median ms", "start p95 ms", "start fastest ms", "processor ms per sandbox"):
        assert f"| {figures[name]:.1f} ms |" in document, name
    assert f"| {figures['executions per second']:.1f} |" in document
    assert f"(load {figures['load before']:.1f} when it began)" in document


def test_the_example_in_the_document_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "docs/sandbox.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/sandbox.md", "exec"), {})
    shown = capsys.readouterr().out
    assert shown == "42\n True None\n" if NAMESPACES else "cause=<Cause.MACHINERY" in shown
