"""Whose fault a failure is: what a candidate brings about is scored, what the machinery brings about is missing."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from burnish.environments.sandbox import Cause, Ended, NamespaceProvider, NamespaceSandbox, SandboxSpec
from burnish.environments.sandbox.inside import cgroups
from burnish.environments.sandbox.results import judge
from tests.environments.sandboxed import NAMESPACES, SMALL, in_sandbox, processes, python, refused


@in_sandbox()
async def test_a_program_that_is_not_there_is_the_machinerys_fault_unless_candidates_make_it(
    sandbox: NamespaceSandbox,
) -> None:
    absent = await sandbox.exec(["pythn"])
    assert absent.ended is Ended.FAULT and absent.failure is not None and absent.failure.cause is Cause.MACHINERY
    assert "pythn could not be started: [Errno 2]" in absent.failure.reason
    unmade = await sandbox.exec(["/work/a.out"])
    assert unmade.failure is not None and unmade.failure.cause is Cause.CANDIDATE
    long = await sandbox.exec(["python3", "-c", "x" * 10_000_000])
    assert long.failure is not None and long.failure.cause is Cause.CANDIDATE and "too long" in long.failure.reason


@in_sandbox()
async def test_a_sandbox_that_dies_is_the_machinerys_fault_and_says_so_from_then_on(sandbox: NamespaceSandbox) -> None:
    running = asyncio.ensure_future(sandbox.exec(["/bin/sleep", "20"]))
    while not (sleeping := [p for p in processes(sandbox.helper.pid) if p.name() == "sleep"]):
        await asyncio.sleep(0.01)
    assert (await sandbox.status()).state == "busy"
    os.kill(sleeping[0].ppid(), signal.SIGKILL)
    result = await running
    assert result.ended is Ended.FAULT and result.failure is not None
    assert (result.failure.cause, result.failure.reason) == (Cause.MACHINERY, "the sandbox has ended")
    again = await sandbox.exec(["/bin/true"])
    assert again.failure is not None and again.failure.reason == "the sandbox is closed"
    assert (await sandbox.status()).state == "closed"


def test_a_helper_that_dies_takes_its_sandboxes_with_it_and_is_replaced() -> None:
    async def go() -> None:
        async with NamespaceProvider() as provider:
            if not NAMESPACES:
                await refused(provider)
                return
            first = await provider.create(SandboxSpec.model_validate(SMALL))
            running = asyncio.ensure_future(first.exec(["/bin/sleep", "20"]))
            while not any(process.name() == "sleep" for process in processes(provider.helper.pid)):
                await asyncio.sleep(0.01)
            assert provider.helper.pid is not None
            below = processes(provider.helper.pid)[1:]
            os.kill(provider.helper.pid, signal.SIGKILL)
            result = await running
            assert result.failure is not None and result.failure.cause is Cause.MACHINERY
            while any(process.is_running() for process in below):
                await asyncio.sleep(0.01)
            async with await provider.create(SandboxSpec.model_validate(SMALL)) as second:
                assert (await second.exec(["/bin/true"])).ok

    asyncio.run(go())


def test_waiting_for_a_processor_is_not_the_candidates_fault_but_sleeping_is() -> None:
    """Four busy programs share one processor: each waits for it most of the time, through no fault of its own."""
    processors = os.sched_getaffinity(0)
    spec = SandboxSpec.model_validate({**SMALL, "cpu_seconds": 10, "wall_seconds": 1.5})

    async def go() -> None:
        async with NamespaceProvider() as provider:
            if not NAMESPACES:
                await refused(provider)
                return
            boxes = [await provider.create(spec) for _ in range(4)]
            busy = await asyncio.gather(*(python(box, "while True: pass") for box in boxes))
            for result in busy:
                assert result.ended is Ended.FAULT and result.failure is not None, result
                assert result.failure.cause is Cause.MACHINERY and "too busy" in result.failure.reason
            selfish = "import os\nfor _ in range(7):\n    if not os.fork(): break\nwhile True: pass"
            modest = "import os\nos.nice(5)\nwhile True: pass"
            mixed = await asyncio.gather(
                python(boxes[0], "import time; time.sleep(9)"), python(boxes[1], selfish), python(boxes[2], modest)
            )
            for result in mixed:
                assert result.ended is Ended.WALL_LIMIT and result.failure is not None
                assert result.failure.cause is Cause.CANDIDATE
            for box in boxes:
                await box.close()

    os.sched_setaffinity(0, {min(processors)})
    try:
        asyncio.run(go())
    finally:
        os.sched_setaffinity(0, processors)


_FACTS = {
    "failed": None, "status": 9, "stopped": None, "wall": 1.0, "cpu": 1.0, "memory": 1, "out_of_memory": None,
    "waited": None, "stdout": [0, 0], "stderr": [0, 0],
}  # fmt: skip
_LIMITS = {"memory": 64 << 20, "cpu_seconds": 1.0, "wall_seconds": 4.0}


@pytest.mark.parametrize(
    ("facts", "ended", "cause"),
    [
        ({}, Ended.SIGNALLED, Cause.CANDIDATE),
        ({"out_of_memory": "machine"}, Ended.FAULT, Cause.MACHINERY),
        ({"out_of_memory": "sandbox"}, Ended.MEMORY_LIMIT, Cause.CANDIDATE),
        (
            {"status": 137 << 8, "out_of_memory": "machine"},
            Ended.FAULT,
            Cause.MACHINERY,
        ),  # a shell whose child was killed
        ({"status": 137 << 8, "out_of_memory": "sandbox"}, Ended.MEMORY_LIMIT, Cause.CANDIDATE),
        ({"status": 24}, Ended.CPU_LIMIT, Cause.CANDIDATE),
        ({"stopped": "wall", "waited": 1.9}, Ended.WALL_LIMIT, Cause.CANDIDATE),
        ({"stopped": "wall", "waited": 2.1}, Ended.FAULT, Cause.MACHINERY),
        ({"stopped": "cpu", "waited": 2.1}, Ended.CPU_LIMIT, Cause.CANDIDATE),
        ({"stopped": "memory", "out_of_memory": "machine"}, Ended.MEMORY_LIMIT, Cause.CANDIDATE),
        ({"status": 0, "out_of_memory": "machine"}, Ended.EXITED, None),
    ],
)
def test_blame_follows_from_the_facts(facts: dict, ended: Ended, cause: Cause | None) -> None:
    result = judge({**_FACTS, **facts}, b"", _LIMITS, "python3")
    assert result.ended is ended
    assert (result.failure.cause if result.failure else None) is cause


def test_a_control_group_gets_the_limits_and_the_members(tmp_path: Path) -> None:
    """Files of the same names stand in for the kernel's: what is written is checked, not what comes of it."""
    own = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), "/")
    assert cgroups.home(str(tmp_path)) is None
    group = Path(f"{tmp_path}{own}")
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.procs").touch()
    (group / "cgroup.subtree_control").write_text("cpu memory\n")
    assert cgroups.home(str(tmp_path)) is None  # without pids, it is no place
    (group / "cgroup.subtree_control").write_text("cpu memory pids\n")
    home = cgroups.home(str(tmp_path))
    assert home is not None and home == group

    made = home / "box"
    real = Path.mkdir

    def mkdir(path: Path, *arguments: object, **options: object) -> None:
        real(path)
        for name in ("cgroup.procs", "memory.max", "memory.swap.max", "pids.max"):
            (path / name).touch()
        (path / "memory.events").write_text("low 0\noom 2\noom_kill 3\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", mkdir)
        cgroup = cgroups.create(made, memory=1234, processes=5)
    cgroup.enter()
    assert [(made / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cgroup.procs")] == [
        "1234", "0", "5", "0",
    ]  # fmt: skip
    assert cgroup.out_of_memory() == 3
    for fd in (cgroup.members, cgroup.events):
        os.close(fd)
