"""Rows against a model's format: do they fit its context, does its template take them, are they trained as sampled."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from burnish.errors import InputError, note
from burnish.tasks.answers import Message, Shown
from burnish.tasks.faults import Fault, Kind, counted, refusal
from burnish.tasks.rendering import conversation_of, prompt_of, shown_after
from burnish.tasks.spec import DataSpec
from burnish.tasks.task import Task
from burnish.tasks.training import TrainingDataSpec
from burnish.traces.templates import ChatFormat, Format, PlainFormat, Rendered


@dataclass(frozen=True)
class Room:
    """How many tokens there are: `tokens` in a whole path, of which a prompt leaves room for one at least."""

    tokens: int | None
    what: str
    """Where the limit comes from, for messages: `the context of the model`."""


# ---------------------------------------------------------------- before a run


def unfit(tasks: Sequence[Task], format: Format, room: Room) -> list[Fault]:
    """The tasks that a run could not use: refused by the format, or longer than there is room.

    Quick enough for every run: a text is rendered when it may be too long (a token is a byte or more), and one task of
    each shape (roles, tool calls, tools) to see whether the format takes it; where it does not, all of that shape are.
    """
    faults: list[Fault] = []
    refused: dict[Any, bool] = {}
    for task in tasks:
        shape = _shape(task)
        if shape not in refused:
            refused[shape] = isinstance(_rendered(task, format), Fault)
        if refused[shape] or (room.tokens is not None and _bytes(task) >= room.tokens // 2):
            found = _rendered(task, format)
            faults += [found] if isinstance(found, Fault) else _too_long(task, found, room)
    return faults


def fitting(tasks: Sequence[Task], format: Format, room: Room, data: DataSpec) -> list[Task]:
    """The tasks that a run can use; with `on_bad_row: skip` the others are left out and told of.

    Raises InputError naming the rows otherwise, and when none is left.
    """
    parts = data.parts if isinstance(data, TrainingDataSpec) else (data,)
    faults = {fault.place: fault for fault in unfit(tasks, format, room)}
    refused = [faults[t.place or t.named] for t in tasks if (t.place or t.named) in faults and _refuses(parts[t.part])]
    if refused:
        raise InputError(refusal(refused))
    kept = [task for task in tasks if (task.place or task.named) not in faults]
    if not kept:
        raise InputError(f"none of the {len(tasks)} rows fits the model: {counted(faults.values())}")
    if faults:
        note(
            f"{len(tasks) - len(kept)} of {len(tasks)} rows do not fit the model and are left out (data.on_bad_row: "
            f"skip): {counted(faults.values())}"
        )
    return kept


def _refuses(part: DataSpec) -> bool:
    return part.on_bad_row == "error"


def _shape(task: Task) -> Any:
    return (
        task.tools is not None,
        *(
            tuple((m["role"], bool(m.get("tool_calls")), bool(m.get("content"))) for m in conversation_of(task, shown))
            for shown in task.shown or ((),)
        ),
    )


def _bytes(task: Task) -> int:
    """About the bytes of everything in a task's longest path."""
    prompt = task.prompt or str(task.messages)
    return len((prompt + str(task.tools or "")).encode()) + max((len(str(s).encode()) for s in task.shown), default=0)


def _rendered(task: Task, format: Format) -> list[Rendered] | Fault:
    """The prompt and every answer with it, or why the format refuses them."""
    try:
        prompt = prompt_of(format, task)
        return [prompt, *(each for shown in task.shown for each in shown_after(format, task, shown))]
    except InputError as error:
        return _fault(task, "template", str(error).removeprefix(f"{task.named}: "))


def _too_long(task: Task, rendered: Sequence[Rendered], room: Room) -> list[Fault]:
    if room.tokens is None:
        return []
    prompt, *whole = (len(each) for each in rendered)
    if prompt >= room.tokens:
        text = f"the prompt has {prompt} tokens, and {room.what} is {room.tokens}, so there is no room for an answer"
    elif max(whole, default=0) > room.tokens:
        text = f"prompt and answer have {max(whole)} tokens, and {room.what} is {room.tokens}"
    else:
        return []
    return [_fault(task, "long", f"{text}: shorten or remove the row ({task.text[:60]!r}...)")]


def _fault(task: Task, kind: Kind, text: str) -> Fault:
    return Fault(task.place or task.named, kind, text)


# ---------------------------------------------------------------- for a look


def findings(tasks: Iterable[Task], format: Format, room: Room) -> Iterator[Fault]:
    """Everything that is to be said of each task in this format, every one rendered."""
    for task in tasks:
        rendered = _rendered(task, format)
        if isinstance(rendered, Fault):
            yield rendered
            continue
        yield from _too_long(task, rendered, room)
        for shown in task.shown:
            yield from _joins(task, shown, format)


def _joins(task: Task, shown: Shown, format: Format) -> Iterator[Fault]:
    """Whether `render(prompt) + render(answer) == render(all)`, by tokens, at each of the assistant's turns."""
    messages = conversation_of(task, shown)
    segments = shown_after(format, task, shown)
    if len(segments) > 1:
        yield _fault(task, "segments", f"{len(segments)} sequences, since the template changes what came before a turn")
    first = len(messages) - (1 if isinstance(shown, str) else len(shown))
    for index in range(first, len(messages)):
        if messages[index]["role"] != "assistant":
            continue
        prompt, answer, whole = _turn(format, messages[: index + 1], task)
        if answer is None:
            kind: Kind = "start" if format.finding.prompt_differs else "render"
            yield _fault(task, kind, f"message {index}: the finished turn does not begin as the prompt ends")
        elif prompt + answer != whole:
            pairs = enumerate(zip(prompt + answer, whole, strict=False))
            edge = next((place for place, (own, other) in pairs if own != other), min(len(prompt + answer), len(whole)))
            yield _fault(task, "edge", f"message {index}: a token spans its beginning, token {edge} of the whole")


def _turn(format: Format, messages: list[dict[str, Any]], task: Task) -> tuple[list[int], list[int] | None, list[int]]:
    """Tokens of a last turn's prompt, of the turn by itself, and of both rendered in one.

    The second is None where the text of the whole does not begin with that of the prompt.
    """
    prompt = format.prompt(messages[:-1], task.tools).tokens
    if isinstance(format, ChatFormat):
        official = format.official
        before, text = official.text(messages[:-1], task.tools, prompt=True), official.text(messages, task.tools)
        rest = official.encode(text[len(before) :]) if text.startswith(before) else None
        return prompt, rest, official.ids(messages, task.tools)
    assert isinstance(format, PlainFormat)

    def encode(text: str) -> list[int]:
        return list(format.tokenizer(text, add_special_tokens=False)["input_ids"])

    before, answer = (str(message.get("content") or "") for message in messages[-2:])
    ends = [*encode(before), *encode(format.separator)]
    joined = encode(before + format.separator + answer)
    return prompt, encode(answer), [*prompt[: len(prompt) - len(ends)], *joined]


# ---------------------------------------------------------------- duplicates


def duplicates(tasks: Iterable[Task]) -> Iterator[Fault]:
    """Rows that are there before: the same in every column, or the same prompt, answers and tools once case, spaces and
    forms of letters (NFKC) are made alike."""
    exact: dict[str, Task] = {}
    alike: dict[str, Task] = {}
    for task in tasks:
        id, text = task.id.partition("-")[0], _normal(task)
        if id in exact:
            yield _fault(task, "duplicate", f"the same as {exact[id].named}")
        elif text in alike:
            yield _fault(
                task, "near-duplicate", f"but for case, spaces or forms of letters the same as {alike[text].named}"
            )
        exact.setdefault(id, task)
        alike.setdefault(text, task)


def _normal(task: Task) -> str:
    pieces = [task.prompt, *_texts(task.messages or ()), task.answer, task.judged and task.judged.good, task.tools]
    for shown in task.shown:
        pieces += [shown] if isinstance(shown, str) else _texts(shown)
    text = " ".join(str(piece) for piece in pieces)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _texts(messages: Iterable[Message]) -> list[str]:
    return [f"{m['role']}: {m.get('content') or ''} {m.get('tool_calls') or ''}" for m in messages]
