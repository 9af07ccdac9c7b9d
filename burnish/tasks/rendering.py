"""A task in a model's format: the tokens of its prompt, and of what others wrote after it."""

from __future__ import annotations

from typing import Any

from burnish.errors import InputError
from burnish.tasks.answers import Shown
from burnish.tasks.task import Task
from burnish.traces.templates import Format, Rendered


def prompt_of(format: Format, task: Task) -> Rendered:
    """The tokens to answer. Raises InputError, naming the row, when the format refuses the messages or the tools."""
    try:
        return format.prompt(task.prompt if task.messages is None else list(task.messages), task.tools)
    except InputError as error:
        raise InputError(f"{task.named}: {error}") from error


def shown_after(format: Format, task: Task, shown: Shown) -> list[Rendered]:
    """The prompt with an answer that somebody wrote, as demonstrations: one rendering, or one for each segment.

    Raises InputError, naming the row, when the format refuses it.
    """
    try:
        return format.demonstration(conversation_of(task, shown), task.tools)
    except InputError as error:
        raise InputError(f"{task.named}: {error}") from error


def conversation_of(task: Task, shown: Shown) -> list[dict[str, Any]]:
    """The messages of a task and of an answer to it; a prompt text is the user's."""
    if isinstance(shown, str):
        return [{"role": "user", "content": task.prompt}, {"role": "assistant", "content": shown}]
    return [*(task.messages or ()), *shown]
