"""What a sandbox allows, and what its task insists on. No torch here."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ByteSize, ConfigDict, Field, PlainSerializer, field_validator

Demand = Literal[
    "namespaces", "files", "hidden_files", "network", "privileges", "system_calls", "memory", "memory_together",
    "memory_kernel", "processes", "cpu", "wall", "disk", "output", "leftovers",
]  # fmt: skip
"""Something that a sandbox keeps, by the name that `burnish env probe` measures it under (docs/sandbox.md)."""

DEMANDS: tuple[Demand, ...] = get_args(Demand)

Size = Annotated[ByteSize, PlainSerializer(int)]
_OURS = ("/work", "/dev", "/proc", "/hidden", "/old", "/data", "/empty", "/usr", "/bin", "/sbin", "/lib", "/lib64")
_NEVER = ("/", "/proc", "/sys", "/dev")


class SandboxSpec(BaseModel):
    """Limits of one sandbox. Sizes are bytes, or text such as `64MiB`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Size = Field(
        default=ByteSize(256 << 20), ge=32 << 20, description="bytes of memory, for each process and for all together"
    )
    address_space: Size | None = Field(
        default=None,
        ge=32 << 20,
        description="bytes a process may reserve; absent: as `memory`. Node, Java, Go reserve much more than they use",
    )
    processes: int = Field(default=16, ge=1, le=4096, description="processes and threads at a time")
    disk: Size = Field(
        default=ByteSize(64 << 20), ge=1 << 20, description="bytes of files (kept in memory, on top of it)"
    )
    files: int = Field(default=4096, ge=16, description="files and directories")
    open_files: int = Field(default=64, ge=16, le=1024, description="open files of a process")
    cpu_seconds: float = Field(
        default=10.0,
        gt=0,
        allow_inf_nan=False,
        description="processor seconds of one execution, all processes together",
    )
    wall_seconds: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="seconds of one execution by the clock; more than cpu_seconds",
    )
    output_bytes: Size = Field(
        default=ByteSize(1 << 20),
        ge=0,
        le=256 << 20,
        description="bytes kept of stdout, and of stderr; the rest is counted",
    )
    network: Literal["none", "loopback"] = Field(
        default="none", description="none: not even itself; loopback: its own processes at 127.0.0.1"
    )
    env: dict[str, str] = Field(default={}, description="environment variables, besides those that every sandbox has")
    read_only: dict[str, str] = Field(
        default={}, description="{path inside: path outside} of files and directories to show, read-only"
    )
    packages: bool = Field(
        default=False,
        description="show the installed packages of the Python that Burnish runs under, Burnish's included",
    )
    demands: tuple[Demand, ...] = Field(
        default=(), description="what the machine must be measured to keep; otherwise the sandbox is refused"
    )

    @field_validator("env")
    @classmethod
    def _env(cls, values: dict[str, str]) -> dict[str, str]:
        for name, value in values.items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(
                    f"{name!r} cannot be an environment variable: no '=' in its name, no nul byte in its value"
                )
        return values

    @field_validator("read_only")
    @classmethod
    def _read_only(cls, values: dict[str, str]) -> dict[str, str]:
        for inside, outside in values.items():
            if not (inside.startswith("/") and outside.startswith("/")):
                raise ValueError(f"{inside}: {outside}: give absolute paths, the one inside first")
            if (
                posixpath.normpath(inside) != inside
                or inside == "/"
                or inside.startswith(tuple(o + "/" for o in _OURS))
            ):
                raise ValueError(f"{inside}: choose a plain path outside of {', '.join(_OURS)}")
            if inside in _OURS or posixpath.normpath(outside) in _NEVER:
                raise ValueError(
                    f"{inside}: {outside}: these are the sandbox's own, or more than a candidate should see"
                )
        return values
