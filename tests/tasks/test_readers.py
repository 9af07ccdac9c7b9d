"""Rows of a file: read as written, or refused with file, line and fix."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.tasks import DataSpec, Task, build_tasks

USER = {"role": "user", "content": "What is 2 + 2?"}
ASSISTANT = {"role": "assistant", "content": "4"}


def _file(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "rows.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def _read(path: Path, demonstrations: bool = False, seed: int = 0, **options: Any) -> list[Task]:
    return build_tasks(
        DataSpec.model_validate({"path": str(path), **options}), seed=seed, demonstrations=demonstrations
    )


def test_a_prompt_text_becomes_a_user_message_and_the_row_its_columns(tmp_path: Path) -> None:
    row = {"prompt": "What is 2 + 2?", "answer": 4, "level": "é"}
    [task] = _read(_file(tmp_path, row, ""))
    assert task.messages == (USER,) and task.answer == "4" and task.columns == row


def test_text_style_keeps_the_prompt_as_it_stands(tmp_path: Path) -> None:
    [task] = _read(_file(tmp_path, {"prompt": " 2+2= "}), style="text")
    assert task.prompt == " 2+2= " and task.messages is None and task.answer is None


def test_a_prompt_may_be_messages_and_takes_the_system_message(tmp_path: Path) -> None:
    [task] = _read(_file(tmp_path, {"prompt": [USER]}), system="Be brief.")
    assert task.messages == ({"role": "system", "content": "Be brief."}, USER)


def test_a_template_makes_the_prompt_of_columns(tmp_path: Path) -> None:
    path = _file(tmp_path, {"question": "2+2", "n": 3, "solution": 1.5})
    [task] = _read(path, template="{{Q}}: {question} x{n}", answer="solution", style="text")
    assert task.prompt == "{Q}: 2+2 x3" and task.answer == "1.5"


def test_demonstrations_from_prompt_and_completion(tmp_path: Path) -> None:
    path = _file(tmp_path, {"prompt": "Hi", "completion": "Hello"}, {"prompt": [USER], "completion": [ASSISTANT]})
    first, second = _read(path, demonstrations=True)
    assert first.demonstration == ({"role": "assistant", "content": "Hello"},)
    assert second.messages == (USER,) and second.demonstration == (ASSISTANT,)
    [text] = _read(_file(tmp_path, {"prompt": "Hi", "completion": " there"}), demonstrations=True, style="text")
    assert text.demonstration == " there"


def test_demonstrations_from_a_conversation_start_at_its_first_assistant_message(tmp_path: Path) -> None:
    [task] = _read(_file(tmp_path, {"messages": [USER, ASSISTANT, USER, ASSISTANT]}), demonstrations=True)
    assert task.messages == (USER,) and task.demonstration == (ASSISTANT, USER, ASSISTANT)


def test_tool_calls_are_let_through(tmp_path: Path) -> None:
    call = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}
    tool = {"role": "tool", "name": "f", "content": "4"}
    [task] = _read(_file(tmp_path, {"messages": [USER, call, tool, ASSISTANT]}), demonstrations=True)
    assert task.demonstration == (call, tool, ASSISTANT)


def test_limit_and_shuffle_follow_the_seed(tmp_path: Path) -> None:
    path = _file(tmp_path, *({"prompt": str(i)} for i in range(50)))
    plain, one, two = _read(path, limit=20), _read(path, shuffle=True, seed=1), _read(path, shuffle=True, seed=2)
    assert [t.text for t in plain] == [str(i) for i in range(20)]
    assert one == _read(path, shuffle=True, seed=1) and one != two and set(one) == set(two)


def test_repeated_rows_are_counted_warned_of_once_and_told_apart(tmp_path: Path) -> None:
    path = _file(tmp_path, {"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}, {"prompt": "a"})
    with pytest.warns(
        UserWarning, match=r"rows\.jsonl: 2 of 4 rows repeat an earlier row \(the first on line 3\)"
    ) as seen:
        tasks = _read(path)
    assert len(seen) == 1 and len({t.id for t in tasks}) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _read(_file(tmp_path, {"prompt": "a"}, {"prompt": "b"}))


@pytest.mark.parametrize(
    ("bad", "options", "message"),
    [
        ('{"prompt": "a",}', {}, "malformed JSON at column"),
        ('{"prompt": "a"', {}, "each line must be one object"),
        ("3", {}, "this is a number"),
        ('{"prompt": NaN}', {}, "NaN is not JSON"),
        ('{"prompt": "\\ud800"}', {}, "half a surrogate pair"),
        ({"promt": "a"}, {}, r"no column 'prompt' \(data.prompt\); did you mean 'promt'\?"),
        ({"text": "a"}, {}, r"no column 'prompt' .*there are: text"),
        ({"prompt": 3}, {}, "'prompt' must be a text or a list of messages, not a number"),
        ({"prompt": None}, {}, "not null"),
        ({"prompt": "  "}, {}, "'prompt' is empty"),
        ({"prompt": []}, {}, "'prompt' is an empty list"),
        ({"prompt": ["a"]}, {}, r"prompt\[0\] must be an object"),
        ({"prompt": [{"role": "human", "content": "a"}]}, {}, "unknown role 'human'"),
        ({"prompt": [{"from": "human", "value": "a"}]}, {}, "has no 'role'; its keys: from, value"),
        ({"prompt": [{"role": "user", "content": [{"type": "text"}]}]}, {}, "list of parts"),
        ({"prompt": [{"role": "user", "content": 3}]}, {}, "content must be a string, not a number"),
        ({"prompt": [USER, ASSISTANT]}, {}, "ends with an assistant message"),
        ({"prompt": [USER]}, {"style": "text"}, "use `style: chat`"),
        ({"prompt": [{"role": "system", "content": "s"}, USER]}, {"system": "t"}, "would shadow"),
        ({"prompt": "a", "answer": None}, {}, "'answer' must be a text or a number, not null"),
        ({"prompt": "a", "answer": True}, {}, "not true or false"),
        ({"prompt": "a", "answer": " "}, {}, "'answer' is empty"),
        ({"prompt": "a", "questoin": "1"}, {"answer": "question"}, "did you mean 'questoin'"),
        ({"prompt": "a"}, {"messages": "dialog"}, r"no column 'dialog' \(data.messages\)"),
        ({"question": "a"}, {"template": "{questoin}"}, r"no column 'questoin' .*did you mean 'question'"),
        ({"question": "a"}, {"template": "{question"}, "write {{ for a brace"),
        ({"question": "a"}, {"template": "{question:>3}"}, "without a format"),
        ({"question": ""}, {"template": "{question}"}, "of this row is empty"),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_the_fix(tmp_path: Path, bad: Any, options: dict, message: str) -> None:
    path = _file(tmp_path, {"prompt": "a", "question": "a", "answer": "1"}, bad)
    with pytest.raises(InputError, match=message) as error:
        _read(path, **options)
    assert str(error.value).startswith(f"{path}, line ")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"prompt": "a"}, r"no column 'completion' \(data.completion\)"),
        ({"prompt": "a", "completion": ""}, "nothing to imitate"),
        ({"prompt": "a", "completion": 3}, "not a number"),
        ({"prompt": "a", "completion": [USER]}, "must start with an assistant message, not user"),
        ({"messages": [USER]}, "holds no assistant message"),
        ({"messages": [ASSISTANT]}, "starts with the assistant"),
        ({"messages": "a"}, "'messages' must be a list of messages, not a string"),
    ],
)
def test_a_bad_demonstration_is_named_with_its_line_and_the_fix(tmp_path: Path, bad: Any, message: str) -> None:
    path = _file(tmp_path, {"prompt": "a", "completion": "b"}, bad)
    with pytest.raises(InputError, match=message) as error:
        _read(path, demonstrations=True)
    assert str(error.value).startswith(f"{path}, line 2: ")


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    _file(tmp_path, {"prompt": "a"})
    with pytest.raises(InputError, match=r"row\.jsonl: no such file; did you mean 'rows\.jsonl'\?"):
        _read(tmp_path / "row.jsonl")
    with pytest.raises(InputError, match="is a folder"):
        _read(tmp_path)


def test_files_that_are_not_rows_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n \n")
    with pytest.raises(InputError, match="the file has no rows"):
        _read(empty)
    other = tmp_path / "rows.csv"
    other.write_text("prompt\na")
    with pytest.raises(InputError, match=r"rows are read from JSON \(.jsonl, .json, .ndjson\), from Parquet"):
        _read(other)
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"prompt": "a"}\n{"prompt": "\xe9"}\n')
    with pytest.raises(InputError, match=r"line 2: byte 13 is not UTF-8"):
        _read(latin)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\n')
    assert _read(path)[0].text == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of `path`"),
        ({"path": "a.jsonl", "family": "arithmetic"}, "exactly one of `path`"),
        ({"family": "arithmetic", "limit": 3}, "limit: only for rows of a file"),
        ({"path": "a.jsonl", "seed": 3}, "seed is unused"),
        ({"path": "a.jsonl", "prompt": "q", "template": "{q}"}, "given twice"),
        ({"path": "a.jsonl", "style": "text", "system": "s"}, "needs `style: chat`"),
        ({"path": "a.jsonl", "colour": "red"}, "colour"),
        ({"family": "aritmetic"}, "arithmetic"),
    ],
)
def test_unused_and_shadowed_keys_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataSpec.model_validate(options)
