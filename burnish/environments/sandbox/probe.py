"""What a provider's sandboxes keep on this machine, found out by trying it: `burnish env probe`."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from burnish.environments.sandbox import trials
from burnish.environments.sandbox.provider import Provider, Sandbox
from burnish.environments.sandbox.results import Cause, Ended, ExecResult, SandboxError
from burnish.environments.sandbox.spec import DEMANDS, Demand, SandboxSpec

SPEC = SandboxSpec.model_validate(
    {
        "memory": "64MiB",
        "disk": "4MiB",
        "files": 64,
        "processes": 8,
        "cpu_seconds": 0.4,
        "wall_seconds": 20,
        "output_bytes": 4096,
    }
)
"""Small limits: a sandbox that does not keep them does little harm."""

STARTS = 15


@dataclass(frozen=True)
class Row:
    """One thing that was tried: whether it holds, what was promised, what was seen."""

    name: Demand
    holds: bool
    promise: str
    seen: str


@dataclass(frozen=True)
class Starts:
    """Seconds from asking for a sandbox until /bin/true has run in it, over `count` sandboxes."""

    count: int
    median: float
    slowest: float


async def probe(provider: Provider) -> list[Row]:
    """Try every promise, in the order of DEMANDS. Nothing holds where no sandbox can be made; the rows say why."""
    try:
        async with await provider.create(SPEC) as sandbox:
            return [await _try(name, sandbox) for name in DEMANDS]
    except SandboxError as error:
        return [Row(name, False, _TRIALS[name][0], str(error)) for name in DEMANDS]


async def measure_starts(provider: Provider, count: int = STARTS) -> Starts | None:
    """How long sandboxes take to start, one after the other; None where none can be made."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        try:
            sandbox = await provider.create(SPEC)
        except SandboxError:
            return None
        async with sandbox:
            await sandbox.exec(["/bin/true"])
            seconds.append(time.perf_counter() - start)
    return Starts(count, statistics.median(seconds), max(seconds))


async def _try(name: Demand, sandbox: Sandbox) -> Row:
    promise, trial = _TRIALS[name]
    holds, seen = await trial(sandbox)
    return Row(name, holds, promise, seen)


async def _python(sandbox: Sandbox, code: str, *arguments: str, verifying: bool = False, **limits: float) -> ExecResult:
    wall = limits.get("wall_seconds")
    return await sandbox.exec(["python3", "-I", "-S", "-c", code, *arguments], verifying=verifying, wall_seconds=wall)


def _broken(result: ExecResult) -> tuple[bool, str] | None:
    """Not kept, as far as can be told: the trial itself did not work."""
    if result.ok or (
        result.failure is not None and result.failure.cause is Cause.CANDIDATE and result.ended is not Ended.EXITED
    ):
        return None
    reason = result.failure.reason if result.failure is not None else ""
    return False, f"{reason}: {result.stderr.text[-200:].strip()}"


async def _says(sandbox: Sandbox, code: str, *arguments: str) -> tuple[bool, str]:
    """A trial that prints what it managed to do; nothing is what should come out."""
    result = await _python(sandbox, code, *arguments)
    done = json.loads(result.stdout.text or "[]") if result.ok else []
    return _broken(result) or (not done, f"possible: {', '.join(done)}" if done else "each attempt failed")


async def _namespaces(sandbox: Sandbox) -> tuple[bool, str]:
    kinds = ("user", "mnt", "pid", "net", "ipc", "uts")
    result = await _python(sandbox, trials.NAMESPACES, *kinds)
    if not result.ok:
        return False, result.stderr.text[-200:]
    inside = dict(zip(kinds, result.stdout.text.split(), strict=True))
    shared = [kind for kind in kinds if inside[kind] == os.readlink(f"/proc/self/ns/{kind}")]
    return not shared, f"shared with the machine: {', '.join(shared)}" if shared else f"new: {', '.join(kinds)}"


async def _files(sandbox: Sandbox) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "secret")
        with open(path, "w", encoding="ascii") as file:
            file.write("secret")
        holds, seen = await _says(sandbox, trials.FILES, path)
        written = sorted(set(os.listdir(folder)) - {"secret"})
    return holds and not written, seen


async def _hidden(sandbox: Sandbox) -> tuple[bool, str]:
    token = secrets.token_hex(16)
    await sandbox.upload("probe/secret.txt", token.encode(), hidden=True)
    found = await _says(sandbox, trials.SEARCH, token[:16], token[16:])
    verifying = await _python(sandbox, "print(open('/hidden/probe/secret.txt').read())", verifying=True)
    seen = verifying.stdout.text.strip() == token
    return found[0] and seen, f"{found[1]}; a verifying execution {'reads' if seen else 'does not read'} them"


async def _network(sandbox: Sandbox) -> tuple[bool, str]:
    name = f"burnish-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        return await _says(sandbox, trials.NETWORK, str(server.getsockname()[1]), name)


async def _memory(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, trials.MEMORY, str(4 * SPEC.memory))
    return not result.ok, _how(result)


async def _together(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, trials.MEMORY_TOGETHER, str(SPEC.memory // 2))
    return result.ended is Ended.MEMORY_LIMIT, _how(result)


async def _kernel(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, trials.MEMORY_UNSEEN, str(SPEC.memory // 2))
    return result.ended is Ended.MEMORY_LIMIT, _how(result)


async def _processes(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, trials.PROCESSES, str(4 * SPEC.processes))
    count = int(result.stdout.text or 0)
    return 0 < count <= SPEC.processes, f"{count} of at most {SPEC.processes} at a time"


async def _cpu(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, trials.BUSY)
    return result.ended is Ended.CPU_LIMIT, f"{_how(result)}, after {result.cpu_seconds:.2f} s"


async def _wall(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, "import time; time.sleep(60)", wall_seconds=0.3)
    return result.ended is Ended.WALL_LIMIT, f"{_how(result)}, after {result.wall_seconds:.2f} s"


async def _disk(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, trials.DISK, str(4 * SPEC.disk), str(4 * SPEC.files))
    size, files = (int(part) for part in (result.stdout.text or "0 0").split())
    return 0 < size <= SPEC.disk and 0 < files <= SPEC.files, f"{size} bytes, {files} files"


async def _output(sandbox: Sandbox) -> tuple[bool, str]:
    result = await _python(sandbox, "import sys; sys.stdout.write('x' * 1000000); sys.stderr.write('y' * 1000000)")
    kept = [len(output.data) for output in (result.stdout, result.stderr)]
    holds = kept == [SPEC.output_bytes] * 2 and result.stdout.cut and result.stdout.total == 1000000
    return holds, f"{kept[0]} and {kept[1]} bytes kept of 1000000 each"


async def _leftovers(sandbox: Sandbox) -> tuple[bool, str]:
    await _python(sandbox, trials.DAEMON)
    await asyncio.sleep(0.05)
    return await _says(sandbox, trials.OTHERS)


async def _privileges(sandbox: Sandbox) -> tuple[bool, str]:
    return await _says(sandbox, trials.PRIVILEGES)


async def _calls(sandbox: Sandbox) -> tuple[bool, str]:
    return await _says(sandbox, trials.SYSTEM_CALLS)


def _how(result: ExecResult) -> str:
    return result.failure.reason if result.failure is not None else "nothing stopped it"


_TRIALS: dict[Demand, tuple[str, Callable[[Sandbox], Awaitable[tuple[bool, str]]]]] = {
    "namespaces": ("namespaces of its own for users, mounts, processes, network, IPC, host name", _namespaces),
    "files": ("the machine's files cannot be read or written", _files),
    "hidden_files": ("hidden files are there for the verifier only", _hidden),
    "network": ("no connection to anywhere, not even to this machine", _network),
    "privileges": ("no capabilities, and no way to get some", _privileges),
    "system_calls": ("calls that reach past the sandbox are refused", _calls),
    "memory": ("memory of a process is limited", _memory),
    "memory_together": ("memory of all processes together is limited, by watching", _together),
    "memory_kernel": ("memory is limited by the kernel, whatever hides it", _kernel),
    "processes": ("the number of processes is limited", _processes),
    "cpu": ("processor time of all processes together is limited", _cpu),
    "wall": ("time by the clock is limited", _wall),
    "disk": ("bytes and number of files are limited", _disk),
    "output": ("output that is kept is limited", _output),
    "leftovers": ("no process outlives its execution", _leftovers),
}  # fmt: skip
