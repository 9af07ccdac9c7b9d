"""Rows that a format cannot read, by kind and with the fix; and keys that no format has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from burnish.tasks import DataSpec
from tests.tasks.test_formats import assistant, read, user

TOOL = {"name": "f", "parameters": {}}
CALL = {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]}


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ({"prompt": 3, "completion": "a"}, "type", "not a number"),
        ({"messages": []}, "empty", "empty list"),
        ({"messages": [user("a"), assistant("")]}, "empty", "nothing in it"),
        ({"messages": [user("a"), {"role": "robot", "content": "b"}, assistant("c")]}, "role", "unknown role 'robot'"),
        ({"messages": [assistant("a")]}, "prompt", "starts with the assistant"),
        ({"messages": [user("a"), {**assistant("b"), "train": False}]}, "assistant", "must not be trained"),
        ({"messages": [user("a"), {**assistant("b"), "weight": 0}]}, "assistant", "must not be trained"),
        ({"messages": [user("a"), {**user("b"), "tool_calls": [{"name": "f"}]}, assistant("c")]}, "tool",
         "only the assistant calls tools"),
        ({"messages": [user("a"), CALL], "tools": [{**TOOL, "name": "g"}]}, "tool", "a call of tool 'f'"),
        ({"messages": [user("a"), CALL], "tools": [TOOL, TOOL]}, "tool", "describes one tool twice"),
        ({"messages": [user("a"), CALL], "tools": ["f"]}, "tool", r"tools\[0\] is no tool"),
        ({"messages": [user("a"), CALL], "tools": "[{"}, "tool", "text that is not JSON"),
        ({"messages": [user("a"), CALL], "tools": 3}, "tool", "must be a list of tools"),
        ({"messages": [user("a"), {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[1]"}]}]}, "tool",
         "must be an object of names and values"),
        ({"messages": [user("a"), {"role": "assistant", "tool_calls": [{"arguments": {}}]}]}, "tool", "no tool call"),
        ({"messages": [user("a"), {"role": "assistant", "tool_calls": {"name": "f"}}]}, "tool", "a list of calls"),
        ({"conversations": [{"from": "narrator", "value": "a"}, {"from": "gpt", "value": "b"}]}, "role", "'narrator'"),
        ({"conversations": [{"from": "human", "value": 3}, {"from": "gpt", "value": "b"}]}, "type", "must be a string"),
        ({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "f()"}]}, "tool",
         "a tool call that is not JSON"),
        ({"conversations": [{"text": "a"}]}, "type", "neither from and value nor role and content"),
        ({"prompt": "a", "chosen": "b", "rejected": "b"}, "preference", "are the same"),
        ({"prompt": "a", "chosen": "b", "rejected": ""}, "empty", "'rejected' is empty"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "margin": -1}, "preference", "the margin is -1"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "margin": "1"}, "type", "'margin' must be a number"),
        ({"prompt": "a", "chosen": "b", "rejected": [assistant("c")]}, None, ""),
        ({"chosen": "b", "rejected": "c"}, "prompt", "begin with no common words"),
        ({"chosen": "b", "rejected": ["c", "d"]}, "prompt", "need a column with the prompt"),
        ({"chosen": [user("a"), assistant("b")], "rejected": [user("z"), assistant("b")]}, "prompt",
         "the same messages"),
        ({"prompt": "other", "chosen": [user("a"), assistant("b")], "rejected": [user("a"), assistant("c")]}, "prompt",
         "another prompt than the one given"),
        ({"chosen": "b c", "rejected": [user("a"), assistant("b")]}, "type", "must both be texts or both be lists"),
        ({"prompt": "a", "completions": ["x", "y"], "scores": [1]}, "type", "2 answers and 1 scores"),
        ({"prompt": "a", "completions": ["x", "y"], "scores": [1, 1]}, "preference", "ranked alike"),
        ({"prompt": "a", "completions": ["x"], "scores": [1]}, "preference", "one answer alone"),
        ({"instruction": "a", "output": "b", "history": ["c"]}, "type", "a list of pairs"),
        ({"instruction": " ", "output": "b"}, "empty", "'instruction' is empty"),
        ({"instruction": "a", "output": None}, "column", "no column 'prompt'"),
        ({"prompt": [{"role": "system", "content": "s"}, user("a")], "system": "t"}, "type", "two system messages"),
    ],
)  # fmt: skip
def test_a_bad_row_is_reported_with_its_kind_and_the_fix(
    tmp_path: Path, row: dict, kind: str | None, message: str
) -> None:
    reading = read(tmp_path, row)
    if kind is None:
        assert reading.faults == []
        return
    [fault] = reading.faults
    assert fault.kind == kind and re.search(message, fault.text) and str(fault.place).endswith("rows.jsonl, line 1")


def test_what_needs_messages_is_refused_in_the_text_style(tmp_path: Path) -> None:
    for row, message in (
        ({"messages": [user("a"), assistant("b")]}, "data.style is text"),
        ({"prompt": "a", "system": "s"}, "a system message, and a text has no place"),
        ({"instruction": "a", "output": "b", "history": [["c", "d"]]}, "need `style: chat`"),
        ({"prompt": "a", "tools": [TOOL]}, "tools, and a text has no place"),
    ):
        [fault] = read(tmp_path, row, style="text").faults
        assert message in fault.text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"format": "alpca"}, "alpaca"),
        ({"format": "alpaca", "completion": "reply"}, "format alpaca does not have a column 'completion'"),
        ({"columns": {"instructon": "q"}}, "no format has a column 'instructon'; did you mean 'instruction'"),
        ({"columns": {"instruction": "q", "conversations": "c"}}, "no format has all of conversations, instruction"),
        ({"columns": {"prompt": "q"}}, "a key of its own, data.prompt"),
        ({"format": "alpaca", "columns": {"question": "q"}}, "format alpaca does not have a column 'question'"),
        ({"name": "main"}, "name: only with `hub`"),
        ({"revision": "main"}, "revision: only with `hub`"),
        ({"hub": "a/b"}, "exactly one of `path`"),
    ],
)  # fmt: skip
def test_keys_that_no_format_has_are_refused(keys: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataSpec.model_validate({"path": "rows.jsonl", **keys})
