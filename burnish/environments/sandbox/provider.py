"""What a provider of sandboxes offers: the protocol that verifiers and environments are written against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from burnish.environments.sandbox.results import ExecResult, SandboxStatus
from burnish.environments.sandbox.spec import Demand, SandboxSpec


class Sandbox(Protocol):
    """A place to run programs in. One execution at a time; files stay from one to the next, processes do not.

    Paths of files are relative to /work, the working directory of every program, unless they are absolute.
    """

    spec: SandboxSpec

    async def exec(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        wall_seconds: float | None = None,
        output_bytes: int | None = None,
        env: Mapping[str, str] | None = None,
        verifying: bool = False,
    ) -> ExecResult:
        """Run a program to its end, then kill whatever it has left running.

        `wall_seconds` and `output_bytes` stand in for those of the spec, `env` adds to it. With `verifying` the hidden
        files are there, under /hidden; otherwise they are nowhere in the sandbox. Never raises for what happened
        inside or to the machinery: the result says so. Raises InputError for a command with a nul byte.
        """
        ...

    async def upload(self, path: str, content: bytes, *, hidden: bool = False, executable: bool = False) -> None:
        """Write a file. With `hidden`, `path` is relative to /hidden. Raises SandboxError."""
        ...

    async def download(self, path: str, *, most: int = 16 << 20) -> bytes:
        """Read a plain file of at most `most` bytes. Raises SandboxError: it is not there, too large, a link."""
        ...

    async def status(self) -> SandboxStatus:
        """What it is doing, and what is used of its disk."""
        ...

    async def close(self) -> None:
        """End it: when this returns, its processes, files and mounts are gone."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Provider(Protocol):
    """Makes sandboxes."""

    name: str

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox. Raises SandboxError when none can be made, InputError for a demand that is not kept."""
        ...

    async def capabilities(self) -> Mapping[Demand, bool]:
        """What holds here, as measured by trying it."""
        ...

    async def close(self) -> None:
        """End every sandbox of this provider."""
        ...
