"""Every format reads its rows, is told by their columns, and docs/data.md shows one that is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from burnish.errors import InputError
from burnish.tasks import DataSpec, Task
from burnish.tasks.answers import Comparison
from burnish.tasks.faults import KINDS
from burnish.tasks.formats.layouts import LAYOUTS
from burnish.tasks.formats.reader import Want
from burnish.tasks.readers import Reading, read_origin
from burnish.tasks.spec import FormatName

DOCUMENT = (Path(__file__).parents[2] / "docs" / "data.md").read_text("utf-8")
EXAMPLES = re.findall(r"^\| `(\w+)` \| (.+?) \| `(\{.*\})` \|$", DOCUMENT, re.M)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def read(tmp_path: Path, *rows: dict[str, Any], want: Want | None = None, **keys: Any) -> Reading:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return read_origin(DataSpec.model_validate({"path": str(path), **keys}), want=want)


def task(tmp_path: Path, row: dict[str, Any], want: Want | None = None, **keys: Any) -> Task:
    reading = read(tmp_path, row, want=want, **keys)
    assert reading.faults == []
    return reading.tasks[0]


# ---------------------------------------------------------------- the document


@pytest.mark.parametrize(("name", "source", "row"), EXAMPLES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(EXAMPLES)])
def test_the_documents_example_of_a_format_is_told_and_read(tmp_path: Path, name: str, source: str, row: str) -> None:
    reading = read(tmp_path, json.loads(row))
    assert reading.faults == [] and reading.detected is not None
    assert reading.detected.layout.name == name and reading.told.startswith(f"format {name}, told by the columns ")
    [found] = reading.tasks
    named = read(tmp_path, json.loads(row), format=name)
    assert named.tasks == [found]
    shown = {"preferences": found.preference, "labels": found.judged, "demonstrations": found.demonstration}
    if reading.detected.want != "prompts":
        assert shown[reading.detected.want] is not None
    assert "12" in found.text or "sky" in found.text or "Light" in found.text


def test_the_document_has_every_format_and_every_kind_of_mistake() -> None:
    assert {name for name, _, _ in EXAMPLES} == set(LAYOUTS)
    assert ("auto", *LAYOUTS) == get_args(FormatName)
    kinds = re.findall(r"^\| `([\w-]+)` \| (.+) \| (?:error|warning) \|$", DOCUMENT, re.M)
    assert dict(kinds) == KINDS


# ---------------------------------------------------------------- what each becomes


def test_alpaca_joins_instruction_and_input_as_a_chat_and_has_its_own_prompt_as_text(tmp_path: Path) -> None:
    row = {"instruction": "Add.", "input": "1, 2", "output": "3", "text": "Below is ..."}
    chat = task(tmp_path, {**row, "system": "Be brief.", "history": [["Hi", "Hello"]]})
    assert chat.messages == (
        {"role": "system", "content": "Be brief."}, user("Hi"), assistant("Hello"), user("Add.\n1, 2"),
    )  # fmt: skip
    assert chat.demonstration == (assistant("3"),)
    text = task(tmp_path, row, style="text")
    assert text.prompt is not None and text.prompt.endswith("### Input:\n1, 2\n\n### Response:\n")
    assert text.demonstration == "3"
    bare = task(tmp_path, {"instruction": "Add.", "input": "", "output": "3"}, style="text")
    assert bare.prompt is not None and bare.prompt.endswith("### Instruction:\nAdd.\n\n### Response:\n")


def test_sharegpt_becomes_messages_with_tool_calls(tmp_path: Path) -> None:
    talk = [
        {"from": "system", "value": "Help."},
        {"from": "human", "value": "Light on!"},
        {"from": "function_call", "value": '{"name": "light", "arguments": {"on": true}}'},
        {"from": "observation", "value": "done"},
        {"from": "gpt", "value": "It is on."},
    ]
    found = task(tmp_path, {"conversations": talk, "tools": '[{"name": "light", "parameters": {"type": "object"}}]'})
    call = {"type": "function", "function": {"name": "light", "arguments": {"on": True}}}
    assert found.messages == ({"role": "system", "content": "Help."}, user("Light on!"))
    assert found.demonstration == (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done"},
        assistant("It is on."),
    )
    tool = {"type": "function", "function": {"name": "light", "parameters": {"type": "object"}}}
    assert found.tools == (tool,)
    renamed = {"messages": talk[1:2] + talk[4:]}
    reading = read(tmp_path, renamed)
    assert reading.detected is not None and reading.detected.layout.name == "sharegpt"
    assert reading.tasks[0].messages == (user("Light on!"),)


def test_a_preference_has_its_prompt_beside_or_within_the_answers(tmp_path: Path) -> None:
    beside = task(tmp_path, {"prompt": "The sky?", "chosen": "Blue.", "rejected": "Green.", "margin": 2})
    within = task(tmp_path, {"chosen": [user("The sky?"), assistant("Blue.")],
                             "rejected": [user("The sky?"), assistant("Green.")],
                             "score_chosen": 3.5, "score_rejected": 1.5})  # fmt: skip
    both = task(tmp_path, {"prompt": "The sky?", "chosen": [user("The sky?"), assistant("Blue.")],
                           "rejected": [user("The sky?"), assistant("Green.")]})  # fmt: skip
    human = task(tmp_path, {"chosen": "\n\nHuman: The sky?\n\nAssistant: Blue.",
                            "rejected": "\n\nHuman: The sky?\n\nAssistant: Green."})  # fmt: skip
    for found in (beside, within, both, human):
        assert found.messages == (user("The sky?"),) and found.preference is not None
        assert (found.preference.chosen, found.preference.rejected) == ((assistant("Blue."),), (assistant("Green."),))
    assert [t.preference and t.preference.margin for t in (beside, within, both)] == [2, 2, None]


@pytest.mark.parametrize(
    ("chosen", "rejected", "prompt", "answers"),
    [
        ("The sky is blue.", "The sky is green.", "The sky is", (" blue.", " green.")),
        ("It is black.", "It is blue.", "It is", (" black.", " blue.")),
        ("One two three", "One two", "One", (" two three", " two")),
    ],
)
def test_an_implicit_prompt_of_texts_ends_with_a_whole_word(
    tmp_path: Path, chosen: str, rejected: str, prompt: str, answers: tuple[str, str]
) -> None:
    found = task(tmp_path, {"chosen": chosen, "rejected": rejected}, style="text")
    assert found.prompt == prompt and found.preference is not None and found.preference.answers == answers


def test_a_conversation_of_several_turns_parts_where_the_answers_do(tmp_path: Path) -> None:
    shared = [user("a"), assistant("b"), user("c")]
    found = task(tmp_path, {"chosen": [*shared, assistant("d")], "rejected": [*shared, assistant("e"), user("f")]})
    assert found.messages == tuple(shared) and found.preference is not None
    assert found.preference.answers == ((assistant("d"),), (assistant("e"), user("f")))


def test_several_answers_are_ranked_with_margins_and_ties(tmp_path: Path) -> None:
    by_score = task(tmp_path, {"prompt": "a", "responses": ["x", "y", "z"], "ratings": [1, 3, 1]}, style="text")
    assert by_score.preference is not None and by_score.preference.answers == ("y", "x", "z")
    assert by_score.preference.comparisons == (
        Comparison(0, 1, 2.0), Comparison(0, 2, 2.0), Comparison(1, 2, 0.0, tie=True),
    )  # fmt: skip
    by_rank = task(tmp_path, {"prompt": "a", "completions": ["x", "y"], "ranks": [2, 1]}, style="text")
    assert by_rank.preference is not None and by_rank.preference.answers == ("y", "x")
    assert by_rank.preference.comparisons == (Comparison(0, 1),)
    worse = task(tmp_path, {"prompt": "a", "chosen": "x", "rejected": ["y", "z"]}, style="text")
    assert worse.preference is not None and worse.preference.answers == ("x", "y", "z")
    assert worse.preference.comparisons == (Comparison(0, 1), Comparison(0, 2))


@pytest.mark.parametrize("label", [True, False])
def test_an_unpaired_answer_has_its_label(tmp_path: Path, label: bool) -> None:
    found = task(tmp_path, {"prompt": [user("a")], "completion": [assistant("b")], "label": label})
    assert found.judged is not None and found.judged.good is label and found.judged.answer == (assistant("b"),)
    assert found.demonstration is None  # a bad answer is never something to imitate


def test_tools_and_answers_are_part_of_what_a_task_is(tmp_path: Path) -> None:
    row = {"messages": [user("a"), assistant("b")]}
    tool = {"name": "f", "parameters": {}}
    ids = {task(tmp_path, {**row, "tools": tools}).id for tools in (None, [tool], [{**tool, "name": "g"}])}
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    ids |= {task(tmp_path, pair).id, task(tmp_path, pair, want="prompts").id}
    assert len(ids) == 5


def test_columns_take_other_names_and_can_be_put_aside(tmp_path: Path) -> None:
    row = {"task": "Add.", "input": "1", "reply": "2", "system": "a system of units"}
    names = {"instruction": "task", "output": "reply"}
    found = task(tmp_path, row, columns={**names, "system": None, "input": None})
    assert found.messages == (user("Add."),) and found.demonstration == (assistant("2"),)
    assert task(tmp_path, row, columns=names).messages == (
        {"role": "system", "content": "a system of units"}, user("Add.\n1"),
    )  # fmt: skip
    chosen = task(tmp_path, {"prompt": "a", "chosen": "b", "rejected": "c"}, "demonstrations", completion="chosen")
    assert chosen.demonstration == (assistant("b"),)


# ---------------------------------------------------------------- telling a format


@pytest.mark.parametrize(
    ("row", "want", "message"),
    [
        ({"prompt": "a", "completion": "b", "instruction": "c", "output": "d"}, "demonstrations",
         r"jsonl, line 1: the columns fit several formats; .* prompt \(prompt, completion\), alpaca \(instruction"),
        ({"messages": [user("a"), assistant("b")], "conversations": [{"from": "human", "value": "c"}]}, "prompts",
         None),
        ({"prompt": "a", "messages": [user("b")]}, "prompts", r"data.format: prompt \(prompt\), messages \(messages\)"),
        ({"prompt": "a", "completion": "b", "label": False}, "demonstrations",
         "format unpaired, which holds nothing to imitate; to read them all the same, set data.format: prompt"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "demonstrations",
         "to imitate the better answers, set data.completion: chosen"),
        ({"instruction": "a", "output": "b"}, "preferences", "format alpaca, which holds no answers to compare"),
        ({"prompt": "a"}, "labels", "which holds no answers with a label"),
    ],
)  # fmt: skip
def test_an_ambiguous_row_lists_the_choices(tmp_path: Path, row: dict, want: Want, message: str | None) -> None:
    if message is None:  # one of the two makes no prompt for an answer, so the other is meant
        assert read(tmp_path, row, want=want).tasks[0].text == "c"
        return
    with pytest.raises(InputError, match=message):
        read(tmp_path, row, want=want)


def test_formats_that_make_the_same_prompt_are_not_ambiguous(tmp_path: Path) -> None:
    row = {"prompt": "a", "completion": "b", "instruction": "a", "output": "c"}
    assert task(tmp_path, row, want="prompts").text == "a"


def test_ultrafeedback_is_read_as_each_method_needs_it(tmp_path: Path) -> None:
    row = {
        "prompt": "Hi", "prompt_id": "x", "messages": [user("Hi"), assistant("Hello")],
        "chosen": [user("Hi"), assistant("Hello")], "rejected": [user("Hi"), assistant("Go")],
        "score_chosen": 8.0, "score_rejected": 2.0,
    }  # fmt: skip
    assert task(tmp_path, row, want="demonstrations").demonstration == (assistant("Hello"),)
    preference = task(tmp_path, row, want="preferences").preference
    assert preference is not None and preference.margin == 6
    assert task(tmp_path, row, want="prompts").messages == (user("Hi"),)
    with pytest.raises(InputError, match=r"name the one that is meant .*messages \(messages\), preference \(prompt"):
        read(tmp_path, row)


def test_names_that_mean_many_things_count_only_where_nothing_else_fits(tmp_path: Path) -> None:
    row = {"prompt": "a", "completion": "b", "question": "c", "answer": "d"}
    assert task(tmp_path, row, want="demonstrations").demonstration == (assistant("b"),)
    assert task(tmp_path, {"question": "c", "answer": "d"}, want="demonstrations").demonstration == (assistant("d"),)


def test_a_list_of_accepted_answers_is_no_ranking(tmp_path: Path) -> None:
    reading = read(tmp_path, {"prompt": "a", "answers": ["x", "y"]}, want="prompts")
    assert reading.told.startswith("format prompt") and reading.told.endswith("other columns: answers")


def test_the_first_row_that_fits_tells_and_the_others_are_counted(tmp_path: Path) -> None:
    rows = [{"x": 1}, {"prompt": "a"}, {"messages": [user("b")]}, {"prompt": "c"}]
    reading = read(tmp_path, *rows, want="prompts")
    assert [t.text for t in reading.tasks] == ["a", "b", "c"] and len(reading.faults) == 1
    told = "format prompt, told by the columns prompt; read for prompts; 1 rows have format messages; other columns: x"
    assert reading.told == told
    named = read(tmp_path, *rows, want="prompts", format="prompt")
    assert [str(f.place).rpartition(" ")[2] for f in named.faults] == ["1", "3"]
