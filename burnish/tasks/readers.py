"""Tasks from a JSONL file: one row a line, every row checked, every error naming file, line and fix."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from burnish.errors import InputError, note
from burnish.randomness import counter_generator, stable_hash
from burnish.tasks.messages import checked_messages, kind_of, split_conversation
from burnish.tasks.spec import ANSWER, MESSAGES, PROMPT, DataSpec
from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Message, Task

Row = dict[str, Any]

_SHUFFLE = stable_hash("burnish.tasks.readers/shuffle")


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Line number (from 1) and object of each line that is not blank.

    Raises InputError on a missing or empty file, and on a line that is not one JSON object in UTF-8.
    """
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.json*")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, near) if near else "check data.path"
        raise InputError(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}; {hint}")
    if path.suffix not in (".jsonl", ".json", ".ndjson"):
        raise InputError(f"{path}: only JSONL is read (one JSON object a line, named .jsonl); convert the file")
    found = False
    with path.open("rb") as file:
        for line, raw in enumerate(file, 1):
            text = _decoded(path, line, raw).strip()
            if text:
                found = True
                yield line, _parsed(path, line, text)
    if not found:
        raise InputError(f"{path}: the file has no rows; write one JSON object a line")


def _decoded(path: Path, line: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {line}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None


def _parsed(path: Path, line: int, text: str) -> Row:
    try:
        row = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        if line == 1 and text.startswith("["):
            raise InputError(f"{path}, line 1: a JSON array; write one object a line instead (`jq -c '.[]'`)") from None
        raise InputError(
            f"{path}, line {line}: malformed JSON at column {error.colno} ({error.msg}); each line must be one object"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}, line {line}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}, line {line}: the row is nested too deeply to read") from None
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {line}: each line must be one JSON object, this is {kind_of(row)}")
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"{path}, line {line}: half a surrogate pair (a \\ud8.. escape) is not text; mend it"
        ) from None
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write null or a number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # Python reads 1e400 so
        raise ValueError(f"{text} is too large a number")
    return number


def read_tasks(spec: DataSpec, path: Path, *, seed: int, demonstrations: bool = False) -> list[Task]:
    """The tasks of a file, each with its row as columns.

    With `demonstrations` every row must also hold what to imitate: the completion column after a prompt, or a
    conversation with an assistant message. Repeated rows are kept, with ids of their own, and warned of once.

    Raises InputError naming file, line and fix.
    """
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    first_repeat = 0
    for line, row in read_rows(path):
        try:
            task = _task(spec, row, demonstrations)
        except ValueError as error:
            raise InputError(f"{path}, line {line}: {error}") from None
        times = seen[task.id] = seen.get(task.id, 0) + 1
        if times > 1:
            first_repeat = first_repeat or line
            task = replace(task, id=f"{task.id}-{times}")
        tasks.append(task)
    if first_repeat:
        note(
            f"{path}: {len(tasks) - len(seen)} of {len(tasks)} rows repeat an earlier row (the first on line "
            f"{first_repeat}); all are kept"
        )
    if spec.shuffle:
        tasks = [tasks[i] for i in counter_generator(seed, _SHUFFLE).permutation(len(tasks))]
    return tasks[: spec.limit]


def _task(spec: DataSpec, row: Row, demonstrations: bool) -> Task:
    """One row as a task. Raises ValueError with what is wrong and the fix."""
    shown: tuple[Message, ...] | str | None = None
    if _is_conversation(spec, row):
        column = spec.messages or MESSAGES
        messages = checked_messages(_value(row, column, "messages"), column)
        if demonstrations:
            messages, shown = split_conversation(messages, column)
        prompt: tuple[Message, ...] | str = messages
    else:
        prompt = _prompt(spec, row)
        if demonstrations:
            shown = _completion(spec, row, chat=spec.style == "chat")
    if isinstance(prompt, str) and spec.style == "chat":
        prompt = ({"role": "user", "content": prompt},)
    if isinstance(prompt, str):
        return Task(prompt=prompt, answer=_answer(spec, row), demonstration=shown, columns=row)
    if spec.style == "text":
        raise ValueError("the prompt is a list of messages, but data.style is text; use `style: chat`")
    if not demonstrations and prompt[-1]["role"] == "assistant":
        raise ValueError(
            "the prompt ends with an assistant message; remove it, or train on it with a supervised method"
        )
    return Task(messages=_with_system(spec, prompt), answer=_answer(spec, row), demonstration=shown, columns=row)


def _is_conversation(spec: DataSpec, row: Row) -> bool:
    if spec.template is not None or spec.prompt is not None:
        return False
    return spec.messages is not None or (PROMPT not in row and MESSAGES in row)


def _value(row: Row, column: str, key: str) -> Any:
    if column not in row:
        raise ValueError(f"no column {column!r} (data.{key}); {did_you_mean(column, row)}")
    return row[column]


def _prompt(spec: DataSpec, row: Row) -> tuple[Message, ...] | str:
    if spec.template is not None:
        text = fill(spec.template, row)
        if not text.strip():
            raise ValueError("the prompt that data.template makes of this row is empty")
        return text
    column = spec.prompt or PROMPT
    value = _value(row, column, "prompt")
    if isinstance(value, list):
        return checked_messages(value, column)
    if not isinstance(value, str):
        raise ValueError(f"{column!r} must be a text or a list of messages, not {kind_of(value)}")
    if not value.strip():
        raise ValueError(f"{column!r} is empty: remove the row or write its prompt")
    return value


def _completion(spec: DataSpec, row: Row, *, chat: bool) -> tuple[Message, ...] | str:
    value = _value(row, spec.completion, "completion")
    if isinstance(value, list):
        messages = checked_messages(value, spec.completion)
        if messages[0]["role"] != "assistant":
            raise ValueError(f"{spec.completion!r} must start with an assistant message, not {messages[0]['role']}")
        return messages
    if not isinstance(value, str):
        raise ValueError(f"{spec.completion!r} must be a text or a list of messages, not {kind_of(value)}")
    if not value:
        raise ValueError(f"{spec.completion!r} is empty: there is nothing to imitate; remove the row")
    return ({"role": "assistant", "content": value},) if chat else value


def _answer(spec: DataSpec, row: Row) -> str | None:
    if spec.answer is None or (spec.answer not in row and spec.answer == ANSWER):
        return None
    value = _value(row, spec.answer, "answer")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(
            f"{spec.answer!r} must be a text or a number, not {kind_of(value)}; name another column in data.answer, "
            "or write `answer: null` when the rows have none"
        )
    if isinstance(value, str) and not value.strip():
        raise ValueError(f"{spec.answer!r} is empty: remove the row or write its answer")
    return value if isinstance(value, str) else json.dumps(value)


def _with_system(spec: DataSpec, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if spec.system is None:
        return messages
    if messages[0]["role"] in ("system", "developer"):
        raise ValueError("the row has a system message of its own, which data.system would shadow; remove one of them")
    return ({"role": "system", "content": spec.system}, *messages)


def fill(template: str, row: Row) -> str:
    """A template such as "{question} = ?" with the row's columns put in ("{{" stands for a brace).

    Raises ValueError when it names a column that is not there, or is not a template.
    """
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"data.template {template!r}: {error}; write {{{{ for a brace") from None
    text = []
    for literal, name, layout, conversion in parts:
        text.append(literal)
        if name is None:
            continue
        if layout or conversion:
            raise ValueError(f"data.template: write {{{name}}} without a format; columns are put in as they are")
        value = _value(row, name, "template")
        text.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return "".join(text)
