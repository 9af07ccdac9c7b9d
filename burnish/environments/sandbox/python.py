"""One call for one execution: what verifiers use."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping, Sequence

from burnish.environments.sandbox.namespace import NamespaceProvider
from burnish.environments.sandbox.provider import Provider
from burnish.environments.sandbox.results import Cause, ExecResult, SandboxError, fault
from burnish.environments.sandbox.spec import SandboxSpec

_lock = threading.Lock()
_default: NamespaceProvider | None = None


def default_provider() -> NamespaceProvider:
    """The provider that this process shares; it ends with the process."""
    global _default
    with _lock:
        if _default is None:
            _default = NamespaceProvider()
            atexit.register(_default.helper.close)
        return _default


async def run_python(
    files: Mapping[str, str | bytes],
    command: Sequence[str],
    limits: SandboxSpec | None = None,
    *,
    stdin: str | bytes = b"",
    hidden: Mapping[str, str | bytes] | None = None,
    provider: Provider | None = None,
) -> ExecResult:
    """Run a program in a new sandbox, with the candidate's `files` in its working directory, and tear it down.

    `command` is the program and its arguments; `python3` is the Python that Burnish runs under. `hidden` files lie
    under /hidden: any code that the command imports or starts can read them, so keep the answers out of the process
    that runs the candidate's code (docs/sandbox.md). The result says who caused a failure; a SandboxError never gets
    out of here. Raises InputError for a command with a nul byte or a demand that is not kept.
    """
    spec = limits or SandboxSpec()
    contents = {path: _bytes(content) for path, content in files.items()}
    size = sum(len(content) for content in contents.values())
    if size > spec.disk:
        return fault(f"the files have {size} bytes, more than the disk of {int(spec.disk)}", Cause.CANDIDATE)
    try:
        async with await (provider or default_provider()).create(spec) as sandbox:
            for path, content in contents.items():
                await sandbox.upload(path, content)
            for path, content in (hidden or {}).items():
                await sandbox.upload(path, _bytes(content), hidden=True)
            return await sandbox.exec(command, stdin=_bytes(stdin), verifying=bool(hidden))
    except SandboxError as error:
        return fault(str(error), error.cause)


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
