"""The tool_call verifier: calls read, refused by name, matched as a set, with credit as asked."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback.checks.matching import best_pairs
from burnish.feedback.workers.pool import Pool
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

WEATHER = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "units": {"enum": ["C", "F"]},
            "at": {"type": "object", "properties": {"lat": {"type": "number"}}},
        },
        "required": ["city"],
    },
}
STOP: dict[str, Any] = {"name": "stop", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": WEATHER}, STOP]
HALT: dict[str, Any] = {"name": "stop", "arguments": {}}
ROME = {"name": "weather", "arguments": {"city": "Rome", "days": 2}}


def row(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"tools": TOOLS, "calls": list(calls)}


def tagged(*calls: Any) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


@pytest.mark.parametrize(
    "text",
    [
        tagged(ROME),
        "Let me look.\n" + tagged(ROME),
        json.dumps(ROME),
        json.dumps([ROME]),
        "```json\n" + json.dumps(ROME) + "\n```",
        tagged({"type": "function", "function": ROME}),
        tagged({"name": "weather", "arguments": json.dumps(ROME["arguments"])}),
        tagged({"name": "weather", "parameters": {"days": 2, "city": "Rome"}}),
        "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
        "</function>\n</tool_call>",
        "<think>" + tagged(HALT) + "</think>" + tagged(ROME),
    ],
)
def test_a_call_is_read_in_the_forms_that_models_write(pool: Pool, text: str) -> None:
    assert rewards("tool_call", row(ROME), [text], pool) == [1.0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<tool_call>{"name": "weather", "arguments": {"city": }</tool_call>', "broken_json"),
        ("<tool_call>" + json.dumps(ROME), "broken_json"),
        (tagged(["weather"]), "broken_json"),
        (tagged({"arguments": {}}), "broken_json"),
        ('{"name": "weather"', "broken_json"),
        ("<tool_call><function=weather>Rome</function></tool_call>", "broken_json"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "too_deep"),
        (tagged({"name": "wether", "arguments": {"city": "Rome"}}), "unknown_tool"),
        (tagged({"name": "", "arguments": {}}), "unknown_tool"),
        (tagged({"name": "weather", "arguments": {"city": 7}}), "wrong_type"),
        (tagged({"name": "weather", "arguments": {"city": "Rome", "days": "2"}}), "wrong_type"),
        (tagged({"name": "weather", "arguments": {"city": "Rome", "units": "K"}}), "wrong_type"),
        (tagged({"name": "weather", "arguments": {"city": "Rome", "at": {"lat": "north"}}}), "wrong_type"),
        (tagged({"name": "weather", "arguments": ["Rome"]}), "wrong_type"),
        (tagged({"name": "weather", "arguments": '"Rome"'}), "wrong_type"),
        (tagged({"name": "weather", "arguments": {"days": 2}}), "missing_argument"),
        (tagged({"name": "weather", "arguments": {"city": "Rome", "when": "now"}}), "unexpected_argument"),
        (tagged(*[HALT] * 65), "too_many_calls"),
        ("It is warm in Rome.", "no_call"),
        ("", "no_call"),
    ],
)
def test_a_call_that_cannot_be_made_is_0_by_name_whatever_the_credit(pool: Pool, text: str, kind: str) -> None:
    generous = {"kind": "tool_call", "credit": "fraction", "name_share": 0.5, "argument_share": True}
    for spec in ("tool_call", generous):
        assert [(v.reward, v.evidence["kinds"]["tool_call"]) for v in judged(spec, row(ROME), [text], pool)] == [
            (0.0, kind)
        ]
    if kind not in ("no_call", "too_many_calls"):
        beside = tagged(ROME) + "\n" + text if "<tool_call>" in text else text
        assert rewards(generous, row(ROME, HALT), [beside], pool) == [0.0]  # a right call beside it does not help


def test_calls_are_matched_as_a_set_in_any_order(pool: Pool) -> None:
    paris = {"name": "weather", "arguments": {"city": "Paris"}}
    texts = [tagged(paris, ROME), tagged(ROME, paris), tagged(ROME), tagged(ROME, ROME), tagged(ROME, paris, HALT)]
    columns = row(ROME, paris)
    assert rewards("tool_call", columns, texts, pool) == [1.0, 1.0, 0.0, 0.0, 0.0]
    fraction = rewards({"kind": "tool_call", "credit": "fraction"}, columns, texts, pool)
    assert fraction == pytest.approx([1.0, 1.0, 1 / 2, 1 / 2, 2 / 3])
    f1 = rewards({"kind": "tool_call", "credit": "f1"}, columns, texts, pool)
    assert f1 == pytest.approx([1.0, 1.0, 2 / 3, 1 / 2, 4 / 5])


def test_no_call_is_right_when_none_is_expected(pool: Pool) -> None:
    assert rewards("tool_call", row(), ["I cannot do that.", tagged(HALT)], pool) == [1.0, 0.0]


def test_partial_credit_within_a_call(pool: Pool) -> None:
    texts = [
        tagged({"name": "weather", "arguments": {"city": "Rome", "days": 3}}),  # one of two
        tagged({"name": "weather", "arguments": {"city": "Rome", "days": 2, "units": "C"}}),  # two of three
        tagged({"name": "weather", "arguments": {"city": "Oslo"}}),  # none of two
        tagged(HALT),
    ]
    spec = {"kind": "tool_call", "credit": "fraction"}
    assert rewards(spec, row(ROME), texts, pool) == [0.0] * 4
    assert rewards({**spec, "name_share": 0.4}, row(ROME), texts, pool) == [0.4, 0.4, 0.4, 0.0]
    shares = rewards({**spec, "name_share": 0.4, "argument_share": True}, row(ROME), texts, pool)
    assert shares == pytest.approx([0.4 + 0.6 / 2, 0.4 + 0.6 * 2 / 3, 0.4, 0.0])
    assert rewards({"kind": "tool_call", "extra_arguments": True}, row(ROME), texts, pool) == [0.0, 1.0, 0.0, 0.0]


def test_alternatives_name_every_right_value_and_what_may_be_absent(pool: Pool) -> None:
    expected = {"name": "weather", "arguments": {"city": ["Rome", "Roma"], "days": [1, ""]}}
    texts = [
        tagged({"name": "weather", "arguments": arguments})
        for arguments in ({"city": "Roma"}, {"city": "Rome", "days": 1}, {"city": "Rome", "days": 2}, {"city": "Oslo"})
    ]
    assert rewards({"kind": "tool_call", "alternatives": True}, row(expected), texts, pool) == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("right", "given", "equal"),
    [(1, 1.0, True), (1, True, False), (0.1 + 0.2, 0.3, True), ("a", "A", False), ([1, 2], [2, 1], False)],
)
def test_arguments_are_equal_as_json(pool: Pool, right: Any, given: Any, equal: bool) -> None:
    columns = {"calls": [{"name": "f", "arguments": {"x": right}}]}
    text = tagged({"name": "f", "arguments": {"x": given}})
    assert rewards({"kind": "tool_call", "tools": None}, columns, [text], pool) == [float(equal)]


def test_a_matching_that_is_greedy_would_fail_a_right_set(pool: Pool) -> None:
    """The first expected call accepts both calls, the second only the one that comes first."""
    first = {"name": "f", "arguments": {"x": [1, 2]}}
    second = {"name": "f", "arguments": {"x": [1]}}
    text = tagged({"name": "f", "arguments": {"x": 1}}, {"name": "f", "arguments": {"x": 2}})
    columns = {"calls": [first, second]}
    assert rewards({"kind": "tool_call", "tools": None, "alternatives": True}, columns, [text], pool) == [1.0]


@given(
    st.integers(1, 4).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(0, 4), min_size=columns, max_size=columns), min_size=1, max_size=4
        )
    )
)
def test_the_best_pairs_are_those_of_an_exhaustive_search(worth: list[list[int]]) -> None:
    pairs = best_pairs(worth)
    rows, columns = len(worth), len(worth[0])
    assert len(pairs) == min(rows, columns) == len({r for r, _ in pairs}) == len({c for _, c in pairs})
    wide = worth if rows <= columns else [list(column) for column in zip(*worth, strict=True)]
    best = max(
        sum(row[place] for row, place in zip(wide, chosen, strict=True))
        for chosen in itertools.permutations(range(max(rows, columns)), len(wide))
    )
    assert sum(worth[r][c] for r, c in pairs) == best


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"calls": []}, "needs the descriptions of the tools in column 'tools', which is not there"),
        ({"tools": TOOLS}, "needs the expected calls in column 'calls', which is not there"),
        ({"tools": TOOLS, "calls": [{"arguments": {}}]}, "column 'calls' must hold a list of objects that have a name"),
        ({"tools": TOOLS, "calls": "{}"}, "column 'calls' must hold a list"),
        ({"tools": [1], "calls": []}, "column 'tools' must hold a list of objects that have a name"),
    ],
)
def test_rows_without_calls_or_tools_are_refused_before_the_run(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        feedback("tool_call").check([Task(prompt="p", columns=columns)])
    feedback("tool_call").check([Task(prompt="p", columns={"tools": json.dumps(TOOLS), "calls": "[]"})])


def test_a_tool_whose_schema_is_none_is_missing_and_not_0(pool: Pool) -> None:
    columns = {"tools": [{"name": "f", "parameters": {"type": "no such"}}], "calls": [{"name": "f", "arguments": {}}]}
    assert kinds("tool_call", columns, [tagged({"name": "f", "arguments": {}})], pool) == ["bad_key"]


UNDESCRIBED = {"kind": "tool_call", "tools": None}


def test_whole_numbers_are_compared_exactly_and_others_nearly(pool: Pool) -> None:
    def worth(expected: Any, given: Any) -> float | None:
        columns = {"calls": [{"name": "f", "arguments": {"x": expected}}]}
        return rewards(UNDESCRIBED, columns, [tagged({"name": "f", "arguments": {"x": given}})], pool)[0]

    assert worth(12345678, 12345690) == 0.0 and worth(1000000006, 1000000005) == 0.0
    assert worth(12345678, 12345678.0) == 1.0 and worth(10**400, 0.5) == 0.0
    assert worth(0.3, 0.1 + 0.2) == 1.0 and worth(0.0, 0.1 + 0.2 - 0.3) == 1.0 and worth(1.5, 1.50001) == 0.0


def test_half_a_surrogate_pair_is_no_text_and_a_whole_one_is(pool: Pool) -> None:
    columns = {"calls": [{"name": "f", "arguments": {"x": "\U0001f600"}}]}
    half, whole = (
        f'<tool_call>{{"name": "f", "arguments": {{"x": "{x}"}}}}</tool_call>' for x in ("\\ud83d", "\\ud83d\\ude00")
    )
    assert kinds(UNDESCRIBED, columns, [half, whole], pool) == ["broken_json", ""]


@pytest.mark.parametrize("text", ["[Note] no tool fits.", "{curly} text", 'Thus:\n```json\n{"x": 1}\n```', "[1, 2]"])
def test_what_names_no_tool_calls_none(text: str, pool: Pool) -> None:
    assert rewards("tool_call", row(), [text], pool) == [1.0]
    assert kinds("tool_call", row(ROME), [text], pool) == ["no_call"]


def test_a_bare_call_that_is_not_closed_is_a_broken_one(pool: Pool) -> None:
    assert kinds("tool_call", row(), ['{"name": "stop", "arguments": {'], pool) == ["broken_json"]


def test_expected_arguments_may_be_written_as_json_text(pool: Pool) -> None:
    columns = row({"type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome", "days": 2}'}})
    assert rewards("tool_call", columns, [tagged(ROME), tagged(HALT)], pool) == [1.0, 0.0]
    with pytest.raises(InputError, match="the arguments of an expected call are no JSON"):
        feedback("tool_call").check([Task(prompt="?", columns=row({"name": "stop", "arguments": "{"}))])


@pytest.mark.parametrize(
    ("schema", "written", "value"),
    [
        ({"type": ["string", "null"]}, "90210", "90210"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "90210", "90210"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "None", None),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"enum": [1, 2]}, "2", 2),
        ({"$ref": "#/$defs/zip"}, "90210", "90210"),
        ({"type": "string"}, "true", "true"),
        ({}, "true", True),
    ],
)
def test_a_value_written_out_is_what_its_schema_takes_it_for(schema: Any, written: str, value: Any, pool: Pool) -> None:
    parameters = {"type": "object", "properties": {"z": schema}, "$defs": {"zip": {"type": "string"}}}
    columns = {
        "tools": [{"name": "f", "parameters": parameters}], "calls": [{"name": "f", "arguments": {"z": value}}]
    }  # fmt: skip
    text = f"<tool_call>\n<function=f>\n<parameter=z>\n{written}\n</parameter>\n</function>\n</tool_call>"
    assert rewards("tool_call", columns, [text], pool) == [1.0]


IMPOSSIBLE = [
    ({"tools": [{"name": "f", "parameters": {"type": "objec"}}], "calls": []}, "no JSON Schema"),
    (
        {"tools": [{"name": "f", "parameters": {"properties": {"x": {"$ref": "#/no"}}}}], "calls": []},
        "refers to '#/no', which the schema does not hold",
    ),
    (row({"name": "absent", "arguments": {}}), "there is no tool 'absent'"),
    (row({"name": "weather", "arguments": {"city": 7}}), "7 is not of type 'string'"),
    (row({"name": "weather", "arguments": {}}), "'city' is a required property"),
]


@pytest.mark.parametrize(("columns", "words"), IMPOSSIBLE)
def test_a_row_by_which_nothing_could_be_right_is_refused_and_missing_for_all(
    columns: dict[str, Any], words: str, pool: Pool
) -> None:
    with pytest.raises(InputError, match=words):
        feedback("tool_call").check([Task(prompt="?", columns=columns)])
    assert kinds("tool_call", columns, ["hello", tagged(HALT), "<tool_call>{"], pool) == ["bad_key"] * 3


def test_expected_arguments_that_are_not_all_of_a_call_are_held_against_the_names_alone(pool: Pool) -> None:
    columns = row({"name": "weather", "arguments": {"days": [2, 3]}})
    spec = {"kind": "tool_call", "alternatives": True, "extra_arguments": True}
    assert rewards(spec, columns, [tagged(ROME)], pool) == [1.0]
