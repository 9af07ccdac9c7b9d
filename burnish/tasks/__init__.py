"""Tasks: something to attempt, where it comes from, and generated families with exact answers.

Importing the room is quick, since every recipe and every key that a shell completes goes through it: the names below
are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnish.tasks.build import build_tasks
    from burnish.tasks.families.spec import ArithmeticSpec, ProgramsSpec, RecordsSpec
    from burnish.tasks.spec import DataSpec
    from burnish.tasks.task import Message, Task

__all__ = ["ArithmeticSpec", "DataSpec", "Message", "ProgramsSpec", "RecordsSpec", "Task", "build_tasks"]

_HOMES = {
    "ArithmeticSpec": "families.spec", "ProgramsSpec": "families.spec", "RecordsSpec": "families.spec",
    "DataSpec": "spec", "Message": "task", "Task": "task", "build_tasks": "build",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
