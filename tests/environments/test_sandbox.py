"""The sandbox as its users see it: results, files, and what may be asked of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from burnish.environments.sandbox import Cause, Ended, NamespaceProvider, NamespaceSandbox, SandboxError, SandboxSpec
from burnish.errors import InputError
from tests.environments.sandboxed import in_sandbox, python

# What comes back


@in_sandbox()
async def test_a_program_gets_its_input_and_arguments_and_its_result_comes_back(sandbox: NamespaceSandbox) -> None:
    result = await python(
        sandbox,
        "import sys; print(len(sys.stdin.buffer.read()), sys.argv[1]); print('bad', file=sys.stderr); sys.exit(3)",
        "ünï",
        stdin=bytes(range(256)) * 4000,
    )
    assert (result.ended, result.exit_code, result.signal) == (Ended.EXITED, 3, None)
    assert result.stdout.text == "1024000 ünï\n" and result.stderr.text == "bad\n"
    assert not result.ok and result.failure is not None
    assert (result.failure.cause, result.failure.reason) == (Cause.CANDIDATE, "exit status 3")
    assert 0 < result.cpu_seconds < result.wall_seconds + 1 and 5 << 20 < result.peak_memory < 64 << 20


@in_sandbox()
async def test_a_program_that_reads_no_input_is_not_waited_for(sandbox: NamespaceSandbox) -> None:
    assert (await sandbox.exec(["/bin/true"], stdin=bytes(1_000_000))).ok


@in_sandbox()
async def test_death_by_a_signal_names_it(sandbox: NamespaceSandbox) -> None:
    result = await python(sandbox, "import ctypes; ctypes.string_at(0)")
    assert (result.ended, result.exit_code, result.signal) == (Ended.SIGNALLED, None, signal.SIGSEGV)
    assert result.failure is not None and result.failure.reason == "killed by SIGSEGV"


@in_sandbox()
async def test_the_shell_can_write_to_the_names_of_the_standard_streams(sandbox: NamespaceSandbox) -> None:
    result = await sandbox.exec(["/bin/sh", "-c", "cat /dev/stdin > /dev/stdout; echo bad > /dev/stderr"], stdin=b"in")
    assert result.ok and (result.stdout.text, result.stderr.text) == ("in", "bad\n")


@in_sandbox()
async def test_wrong_bytes_in_the_output_stay_bytes_and_become_marks_in_the_text(sandbox: NamespaceSandbox) -> None:
    result = await python(sandbox, "import sys; sys.stdout.buffer.write(bytes([255, 0, 65]))")
    assert result.stdout.data == b"\xff\0A" and result.stdout.text == "�\0A" and not result.stdout.cut


@in_sandbox(env={"MINE": "1", "OMP_NUM_THREADS": "2"})
async def test_variables_come_from_the_spec_and_the_call(sandbox: NamespaceSandbox) -> None:
    show = "import os; print(*(os.environ.get(k) for k in ('MINE', 'CALL', 'OMP_NUM_THREADS', 'HOME')), os.getcwd())"
    assert (await python(sandbox, show, env={"CALL": "x"})).stdout.text == "1 x 2 /work /work\n"
    assert (await python(sandbox, show)).stdout.text == "1 None 2 /work /work\n"


@in_sandbox()
async def test_the_python_is_ours_without_what_is_installed_for_it(sandbox: NamespaceSandbox) -> None:
    result = await python(
        sandbox, "import sys; print(sys.version)\ntry:\n    import pydantic\nexcept ImportError: print('none')"
    )
    assert result.stdout.text == f"{sys.version}\nnone\n"


@in_sandbox(packages=True, memory="512MiB", open_files=256)
async def test_installed_packages_are_there_when_asked_for(sandbox: NamespaceSandbox) -> None:
    result = await python(sandbox, "import numpy, sys; print(numpy.__version__, sys.prefix)")
    import numpy

    assert result.stdout.text == f"{numpy.__version__} {sys.prefix}\n", result


def test_files_of_the_machine_are_shown_when_asked_for_and_stay_read_only(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("shown")
    tmp_path.chmod(0o755)

    @in_sandbox(read_only={"/data-set": str(tmp_path), "/opt/one.txt": str(tmp_path / "data.txt")})
    async def check(sandbox: NamespaceSandbox) -> None:
        result = await sandbox.exec(
            ["/bin/sh", "-c", "cat /data-set/data.txt /opt/one.txt; echo x > /data-set/new || exit 7"]
        )
        assert (result.stdout.text, result.exit_code) == ("shownshown", 7)
        assert os.listdir(tmp_path) == ["data.txt"]

    check()


@in_sandbox(address_space="300MiB")
async def test_reserving_is_limited_apart_from_using(sandbox: NamespaceSandbox) -> None:
    reserve = "import mmap; mmap.mmap(-1, int(__import__('sys').argv[1]) << 20); print('reserved')"
    assert (await python(sandbox, reserve, "200")).stdout.text == "reserved\n"
    assert not (await python(sandbox, reserve, "400")).ok


@in_sandbox()
async def test_open_files_of_a_process_are_limited(sandbox: NamespaceSandbox) -> None:
    result = await python(sandbox, "import os, resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")
    assert result.stdout.text == "(64, 64)\n"


# Files


@in_sandbox()
async def test_files_stay_from_one_execution_to_the_next(sandbox: NamespaceSandbox) -> None:
    await sandbox.upload("deep/down/run.sh", b"#!/bin/sh\necho ran > /tmp/out", executable=True)
    await sandbox.upload("/tmp/absolute", b"x")
    assert (await sandbox.exec(["/work/deep/down/run.sh"])).ok
    assert await sandbox.download("/tmp/out") == b"ran\n" and await sandbox.download("/tmp/absolute") == b"x"
    await sandbox.upload("deep/down/run.sh", b"replaced")
    assert await sandbox.download("deep/down/run.sh") == b"replaced"
    status = await sandbox.status()
    assert (status.state, status.executions) == ("ready", 1)
    assert status.disk_bytes == 3 * 4096 and status.files is not None and 8 <= status.files <= 10


@in_sandbox()
async def test_a_file_that_does_not_fit_is_refused_before_a_candidate_can_be_blamed(sandbox: NamespaceSandbox) -> None:
    with pytest.raises(SandboxError, match="No space left") as caught:
        await sandbox.upload("large", bytes(5 << 20))
    assert caught.value.cause is Cause.MACHINERY
    assert (await sandbox.exec(["/bin/true"])).ok


@in_sandbox()
async def test_paths_that_make_no_sense_are_errors_of_the_caller(sandbox: NamespaceSandbox) -> None:
    for path in ("a\0b", ""):
        with pytest.raises(InputError):
            await sandbox.upload(path, b"")
    for path in ("../x", "/x", "."):
        with pytest.raises(InputError, match="stays in it"):
            await sandbox.upload(path, b"", hidden=True)
    with pytest.raises(InputError, match="nul byte"):
        await sandbox.exec(["python3", "-c", "a\0b"])
    with pytest.raises(InputError, match="needs a program"):
        await sandbox.exec([])


# Asking for what cannot be had


@pytest.mark.parametrize(
    "values",
    [
        {"memory": "1MiB"}, {"memory": "lots"}, {"disk": 0}, {"processes": 0}, {"cpu_seconds": 0},
        {"wall_seconds": float("inf")},
        {"network": "internet"}, {"env": {"A=B": "x"}}, {"env": {"A": "\0"}}, {"read_only": {"relative": "/usr"}},
        {"read_only": {"/all": "/"}}, {"read_only": {"/work/x": "/usr"}},
        {"read_only": {"/usr/x": "/opt"}}, {"read_only": {"/proc": "/proc"}},
        {"read_only": {"/a/../b": "/usr"}}, {"demands": ["magic"]}, {"memroy": 1},
    ],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(values: dict) -> None:
    with pytest.raises(ValidationError):
        SandboxSpec.model_validate(values)


def test_a_spec_reads_sizes_as_text_and_survives_json() -> None:
    spec = SandboxSpec.model_validate({"memory": "64MiB", "disk": 1 << 20})
    assert spec.memory == 64 << 20
    assert SandboxSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_path_that_cannot_be_shown_is_named(tmp_path: Path) -> None:
    async def go(path: str) -> None:
        async with NamespaceProvider() as provider:
            await provider.create(SandboxSpec(read_only={"/data-set": path}))

    with pytest.raises(InputError, match="/no/such/folder does not exist"):
        asyncio.run(go("/no/such/folder"))
    tmp_path.chmod(0o700)
    if os.geteuid() == 0:  # an ordinary user's candidates may read what the user may
        with pytest.raises(InputError, match=f"{tmp_path} is for its owner only"):
            asyncio.run(go(str(tmp_path)))
