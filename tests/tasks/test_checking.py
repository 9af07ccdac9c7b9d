"""The report on rows: each kind of mistake with a model's format, and what a run refuses or leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from burnish.errors import InputError, Note
from burnish.models.nursery import character_tokenizer
from burnish.tasks import DataSpec, Task
from burnish.tasks.checking import Room, fitting
from burnish.tasks.faults import WARNINGS
from burnish.tasks.formats.reader import Want
from burnish.tasks.readers import read_origin
from burnish.tasks.report import DataReport, described, report_on
from burnish.tasks.training import TrainingDataSpec
from burnish.traces.templates import Format, chat_format
from tests.tiny import CHATML, tiny_tokenizer

USER = {"role": "user", "content": "a"}
ASSISTANT = {"role": "assistant", "content": "b"}
ROOM = Room(40, "the context of the model")


def check(
    tmp_path: Path, *rows: dict[str, Any], format: Format | None = None, room: Room | None = None, **keys: Any
) -> DataReport:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    want: Want | None = keys.pop("want", None)
    spec = DataSpec.model_validate({"path": str(path), **keys})
    return report_on(read_origin(spec, want=want), format=format, room=room)


def kinds(report: DataReport) -> dict[str, list[int]]:
    return {kind: [getattr(f.place, "number", 0) for f in faults] for kind, faults in report.by_kind.items()}


def chatml(template: str = CHATML) -> Format:
    tokenizer = tiny_tokenizer(260)
    tokenizer.chat_template = template
    return chat_format(tokenizer)


def merging() -> PreTrainedTokenizerFast:
    """Characters, and one token for `=4`, which spans the edge of prompt and answer."""
    vocabulary = {letter: i for i, letter in enumerate(["<eos>", "2", "+", "=", "4", "5", "=4"])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[("=", "4")]))
    core.add_special_tokens([AddedToken("<eos>", special=True, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<eos>")


# ---------------------------------------------------------------- the report


def test_rows_without_fault_are_counted_and_nothing_else_is_said(tmp_path: Path) -> None:
    report = check(tmp_path, {"messages": [USER, ASSISTANT]}, {"messages": [USER, {**ASSISTANT, "content": "c"}]},
                   format=chatml(), room=Room(100, "max_tokens"))  # fmt: skip
    assert (report.errors, report.warnings, kinds(report)) == (0, 0, {})
    lines = report.text().splitlines()
    assert lines[0].endswith(
        "rows.jsonl: 2 rows; format messages, told by the columns messages; read for demonstrations"
    )
    assert lines[1].startswith("rendered with the model's format; max_tokens: 100 tokens. Prefix-preserving")
    assert lines[2] == "2 rows can be used, 0 cannot; 0 with a warning"


def test_each_kind_is_counted_with_its_first_rows(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"prompt": "a", "completion": "b"}]
    rows += [{"prompt": "a", "completion": ""}] * 4 + [{"prompt": "a", "completion": 3}, {"prompt": "x"}]
    report = check(tmp_path, *rows)
    assert kinds(report) == {"column": [7], "type": [6], "empty": [2, 3, 4, 5]} and report.errors == 6
    text = report.text(shown=2)
    assert "error (empty), 4 rows: an empty text or list" in text and "line 2: 'completion' is empty" in text
    assert (
        "line 4" not in text and "and 2 more" in text and text.endswith("1 row can be used, 6 cannot; 0 with a warning")
    )
    summary = json.loads(json.dumps(report.summary(shown=1)))
    assert summary["errors"] == 6 and summary["kinds"]["empty"]["count"] == 4
    [first] = summary["kinds"]["empty"]["first"]
    assert first["row"].endswith("rows.jsonl, line 2") and summary["kinds"]["empty"]["severity"] == "error"


def test_duplicates_are_told_apart_from_near_ones_and_are_no_errors(tmp_path: Path) -> None:
    rows = [
        {"prompt": "What is it?", "answer": "a"}, {"prompt": "What is it?", "answer": "a"},
        {"prompt": "what  is\nIT?", "answer": "A"}, {"prompt": "What is it?", "answer": "b"},
        {"prompt": "１２", "answer": "5"}, {"prompt": "12", "answer": "5"},
    ]  # fmt: skip
    report = check(tmp_path, *rows)
    assert kinds(report) == {"duplicate": [2], "near-duplicate": [3, 6]}
    assert (report.errors, report.warnings, len(report.tasks)) == (0, 3, 6)
    assert "the same as" in report.by_kind["duplicate"][0].text and "line 1" in report.by_kind["duplicate"][0].text


def test_preferences_and_labels_that_differ_are_no_duplicates(tmp_path: Path) -> None:
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    assert kinds(check(tmp_path, pair, {**pair, "rejected": "d"}, {**pair, "chosen": "c", "rejected": "b"})) == {}
    one = {"prompt": "a", "completion": "b", "label": True}
    assert kinds(check(tmp_path, one, {**one, "label": False})) == {}


# ---------------------------------------------------------------- with a model's format


def test_too_long_rows_are_held_against_the_context(tmp_path: Path) -> None:
    rows = [
        {"prompt": "a", "completion": "b"}, {"prompt": "a" * 80, "completion": "b"},
        {"prompt": "a", "completion": "b" * 80},
    ]  # fmt: skip
    report = check(tmp_path, *rows, format=chatml(), room=ROOM)
    assert kinds(report) == {"long": [2, 3]} and report.errors == 2 and len(report.tasks) == 1
    prompt, answer = (fault.text for fault in report.by_kind["long"])
    assert "the context of the model is 40, so there is no room for an answer" in prompt
    assert "prompt and answer have" in answer and "shorten or remove the row" in answer


def test_both_answers_of_a_preference_are_held_against_the_context(tmp_path: Path) -> None:
    pair = {"prompt": "a", "chosen": "b", "rejected": "c" * 80}
    assert kinds(check(tmp_path, pair, format=chatml(), room=ROOM)) == {"long": [1]}


def test_a_token_that_spans_the_edge_is_a_warning(tmp_path: Path) -> None:
    form = chat_format(merging(), "plain")
    rows = [{"prompt": "2+2=", "completion": "4"}, {"prompt": "2+2=", "completion": "5"}]
    report = check(tmp_path, *rows, format=form, style="text")
    assert kinds(report) == {"edge": [1]} and report.errors == 0 and report.warnings == 1
    assert "a token spans its beginning, token 3 of the whole" in report.by_kind["edge"][0].text


def test_a_token_that_spans_the_edge_of_a_chat_is_a_warning(tmp_path: Path) -> None:
    tokenizer = merging()
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}<eos>{% endif %}{% endfor %}"
    )
    rows = [{"prompt": "2+2=", "completion": "4"}, {"prompt": "2+2=", "completion": "5"}]
    assert kinds(check(tmp_path, *rows, format=chat_format(tokenizer))) == {"edge": [1]}


def test_an_answer_that_the_template_opens_otherwise_than_its_prompt_is_an_error(tmp_path: Path) -> None:
    """The template's own opening of this one row's turn is never sampled."""
    template = CHATML.replace("message['role'] +", "('oracle' if 'magic' in message['content'] else message['role']) +")
    rows = [{"prompt": "a", "completion": "b"}, {"prompt": "a", "completion": "magic"}]
    report = check(tmp_path, *rows, format=chatml(template))
    assert kinds(report) == {"render": [2]} and report.errors == 1 and len(report.tasks) == 1
    everywhere = CHATML.replace("<|im_start|>assistant\\n'", "<|im_start|>assistant\\n<think>'")
    report = check(tmp_path, *rows, format=chatml(everywhere))
    assert kinds(report) == {"start": [1, 2]} and report.errors == 0


def test_a_template_that_edits_history_is_told(tmp_path: Path) -> None:
    template = CHATML.replace(
        "message['content']", "(message['content'] if loop.last else message['content'].split('</think>')[-1])"
    )
    think = {"role": "assistant", "content": "<think>x</think>b"}
    report = check(tmp_path, {"messages": [USER, think, USER, ASSISTANT]}, format=chatml(template))
    assert kinds(report) == {"segments": [1]} and report.errors == 0
    assert "2 sequences" in report.by_kind["segments"][0].text


def test_messages_that_a_template_refuses_are_reported(tmp_path: Path) -> None:
    system = {"role": "system", "content": "s"}
    template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + CHATML
    rows = [{"messages": [USER, ASSISTANT]}, {"messages": [system, USER, ASSISTANT]}]
    report = check(tmp_path, *rows, format=chatml(template))
    assert kinds(report) == {"template": [2]}
    assert report.by_kind["template"][0].text.startswith("message 0 has role system")
    call = {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]}
    report = check(tmp_path, {"messages": [USER, call], "tools": [{"name": "f", "parameters": {}}]}, format=chatml())
    assert kinds(report) == {"template": [1]} and "tools" in report.by_kind["template"][0].text


def test_the_nursery_models_format_takes_prompts_and_demonstrations(tmp_path: Path) -> None:
    rows = [{"prompt": "1+2=", "completion": "3"}, {"prompt": "2+2=", "completion": "4"}]
    form = chat_format(character_tokenizer())
    assert kinds(check(tmp_path, *rows, format=form, room=ROOM)) == {}
    assert kinds(check(tmp_path, *rows, format=form, room=Room(7, "max_tokens"), want="prompts")) == {}
    assert kinds(check(tmp_path, *rows, format=form, room=Room(6, "max_tokens"), want="prompts")) == {"long": [1, 2]}


# ---------------------------------------------------------------- before a run


def tasks(tmp_path: Path, *rows: dict[str, Any], **keys: Any) -> list[Task]:
    return check(tmp_path, *rows, **keys).tasks


LONG = [
    {"prompt": "a", "completion": "b"},
    {"prompt": "c", "completion": "d" * 99},
    {"prompt": "e" * 99, "completion": "f"},
]


def test_a_run_refuses_rows_that_do_not_fit_by_name(tmp_path: Path) -> None:
    spec = TrainingDataSpec(path="rows.jsonl")
    with pytest.raises(InputError) as error:
        fitting(tasks(tmp_path, *LONG), chatml(), ROOM, spec)
    lines = str(error.value).splitlines()
    assert [line.partition(": ")[0].rpartition(", ")[2] for line in lines] == ["line 2", "line 3"]
    assert len(fitting(tasks(tmp_path, LONG[0]), chatml(), ROOM, spec)) == 1


def test_a_run_may_leave_them_out_and_says_so(tmp_path: Path) -> None:
    spec = TrainingDataSpec(path="rows.jsonl", on_bad_row="skip")
    with pytest.warns(Note, match=r"2 of 3 rows do not fit the model and are left out .*2 long \(first .*line 2\)"):
        kept = fitting(tasks(tmp_path, *LONG), chatml(), ROOM, spec)
    assert [task.text for task in kept] == ["a"]
    with pytest.raises(InputError, match="none of the 1 rows fits the model: 1 long"):
        fitting(tasks(tmp_path, LONG[1]), chatml(), ROOM, spec)


def test_a_run_refuses_every_row_of_a_shape_that_the_template_refuses(tmp_path: Path) -> None:
    rows = [{"messages": [USER, ASSISTANT]}] + [
        {"messages": [{"role": "tool", "content": f"t{i}"}, ASSISTANT]} for i in range(2)
    ]
    template = CHATML.replace(
        "{% for message", "{% if messages[0].role == 'tool' %}{{ raise_exception('no') }}{% endif %}{% for message"
    )
    with pytest.raises(InputError, match=r"line 2: .*\n.*line 3: "):
        fitting(tasks(tmp_path, *rows), chatml(template), Room(None, ""), TrainingDataSpec(path="rows.jsonl"))


# ---------------------------------------------------------------- for people


def test_a_task_is_described_with_what_others_wrote(tmp_path: Path) -> None:
    [pair] = tasks(tmp_path, {"prompt": "a", "chosen": "b", "rejected": ["c", "d"]})
    assert described(pair) == "prompt: a\nchosen: b\nbetween: c\nrejected: d"
    [bad] = tasks(tmp_path, {"prompt": "a", "completion": "b", "label": False})
    assert described(bad) == "prompt: a\nbad answer: b"
    call = {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}
    [tool] = tasks(tmp_path, {"messages": [USER, call], "tools": [{"name": "f", "parameters": {}}], "answer": 3})
    assert described(tool) == 'prompt: a\ntools: f\nanswer: 3\ndemonstration: assistant:  [calls f({"x": 1})]'


def test_warnings_are_those_kinds_in_which_a_row_is_used() -> None:
    assert sorted(WARNINGS) == ["duplicate", "edge", "near-duplicate", "segments", "start"]
