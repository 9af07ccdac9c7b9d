"""The json_schema verifier: a mutation set for the form, fields for the content, every fault by name."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback.checks.applicable import made_strict, validator
from burnish.feedback.checks.jsons import BrokenJSON, leaves, loads
from burnish.feedback.checks.schemas import mismatch
from burnish.feedback.workers.pool import Pool
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "mood": {"enum": ["good", "bad"]},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
    },
    "required": ["name", "age"],
}
GOOD: dict[str, Any] = {"name": "Ada", "age": 36, "mood": "good", "tags": [{"id": 1}]}

MUTATIONS = [
    (json.dumps(GOOD), ""),
    (json.dumps(GOOD, indent=2) + "\n", ""),
    (json.dumps({"name": "Ada", "age": 36}), ""),
    (json.dumps({**GOOD, "more": 1}), ""),
    (json.dumps({"name": "Ada"}), "schema_mismatch"),
    (json.dumps({**GOOD, "age": "36"}), "schema_mismatch"),
    (json.dumps({**GOOD, "age": 36.5}), "schema_mismatch"),
    (json.dumps({**GOOD, "age": True}), "schema_mismatch"),
    (json.dumps({**GOOD, "age": -1}), "schema_mismatch"),
    (json.dumps({**GOOD, "mood": "fine"}), "schema_mismatch"),
    (json.dumps({**GOOD, "tags": [{"id": "x"}]}), "schema_mismatch"),
    (json.dumps([GOOD]), "schema_mismatch"),
    ("7", "schema_mismatch"),
    (json.dumps(GOOD) + " as you asked", "broken_json"),
    ("```json\n" + json.dumps(GOOD) + "\n```", "broken_json"),
    (json.dumps(GOOD)[:-1], "broken_json"),
    (str(GOOD), "broken_json"),
    ('{"name": "Ada", "age": NaN}', "broken_json"),
    ('{"name": "Ada", "age": 36, "age": 37}', "broken_json"),
    ('{"name": "A\0", "age": 36}', "broken_json"),
    ("", "no_answer"),
]


def test_each_mutation_of_a_good_answer_is_told_by_name(pool: Pool) -> None:
    texts, expected = zip(*MUTATIONS, strict=True)
    verdicts = judged("json_schema", {"schema": SCHEMA}, texts, pool)
    assert [v.evidence.get("kinds", {}).get("json_schema", "") for v in verdicts] == list(expected)
    assert [v.reward for v in verdicts] == [float(not name) for name in expected]
    assert "at $.tags[0].id: 'x' is not of type 'integer'" in verdicts[10].reason


def test_strict_requires_every_property_and_allows_no_other(pool: Pool) -> None:
    texts = [json.dumps(v) for v in (GOOD, {"name": "Ada", "age": 36}, {**GOOD, "more": 1}, {**GOOD, "tags": [{}]})]
    columns = {"schema": json.dumps(SCHEMA)}  # a schema may be given as text
    assert rewards({"kind": "json_schema", "strict": True}, columns, texts, pool) == [1.0, 0.0, 0.0, 0.0]
    assert rewards({"kind": "json_schema"}, columns, texts, pool) == [1.0, 1.0, 1.0, 1.0]


def test_strictness_leaves_alone_what_it_would_turn_round() -> None:
    part = {"properties": {"a": {"type": "integer"}}}
    for keyword in ("not", "if", "allOf"):
        schema = {keyword: [part] if keyword == "allOf" else part}
        assert made_strict(schema) == schema
    for keyword in ("anyOf", "oneOf", "items"):
        assert "required" in json.dumps(made_strict({keyword: [part]}))
    assert made_strict({"$defs": {"x": part}})["$defs"]["x"]["additionalProperties"] is False


def test_a_fenced_answer_is_read_from_its_last_block(pool: Pool) -> None:
    inside = json.dumps(GOOD)
    texts = [f"Here:\n```json\n{inside}\n```\nDone.", f"```\n{{}}\n```\n```\n{inside}\n```", inside, "```\n```"]
    spec = {"kind": "json_schema", "read": "fenced"}
    assert rewards(spec, {"schema": SCHEMA}, texts, pool) == [1.0, 1.0, 0.0, 0.0]
    assert kinds(spec, {"schema": SCHEMA}, texts, pool)[2:] == ["no_answer", "no_answer"]


def test_fields_are_compared_with_the_key(pool: Pool) -> None:
    columns = {"schema": {"type": "object"}, "expected": {"a": 1, "b": {"c": [1, 2], "d": None}}}
    answers = [
        {"a": 1.0, "b": {"c": [1, 2], "d": None}},  # 4 of 4
        {"a": 1, "b": {"c": [1, 3], "d": None}},  # 3 of 4
        {"a": True, "b": {"c": [2, 1], "d": ""}},  # none
        {"a": 1, "b": {"c": [1, 2], "d": None}, "more": 1},  # 4 of 5
    ]
    texts = [json.dumps(answer) for answer in answers]
    spec = {"kind": "json_schema", "key": "expected"}
    assert rewards(spec, columns, texts, pool) == [1.0, 0.875, 0.5, 0.9]
    assert rewards({**spec, "valid_share": 0.2}, columns, texts, pool) == pytest.approx([1.0, 0.8, 0.2, 0.84])
    assert kinds(spec, columns, texts, pool) == ["", "wrong", "wrong", "wrong"]


def test_what_an_answer_can_do_to_the_parser_is_scored_0_by_name(pool: Pool) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "n": {"multipleOf": 0.5}}}
    texts = {
        "[" * 100_000 + "]" * 100_000: "too_deep",
        '{"a":' * 100_000 + "1" + "}" * 100_000: "too_deep",
        '{"n": ' + "1" * 100_000 + "}": "number_too_large",
        '{"n": ' + "1" * 4_000 + "}": "number_too_large",  # no float can be made of it
        '{"n": 1e400}': "number_too_large",
        '"' + "x" * 10_000_000 + '"': "too_long",
        json.dumps({"a": "a" * 40 + "!"}): "time_limit",  # the schema's pattern is a bomb for this answer
        "[" * 900 + "]" * 900: "",  # deep and fine
    }
    verdicts = judged({"kind": "json_schema", "time_limit": 1.0}, {"schema": schema}, list(texts), pool)
    assert [v.evidence.get("kinds", {}).get("json_schema", "") for v in verdicts] == list(texts.values())
    assert [v.reward for v in verdicts] == [float(not name) for name in texts.values()]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"$ref": "#/$defs/absent"},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"a": {"minimum": "1"}}},
    ],
)
def test_a_schema_that_is_none_is_missing_and_not_0(pool: Pool, schema: dict[str, Any]) -> None:
    (verdict,) = judged("json_schema", {"schema": schema}, ["{}"], pool)
    assert verdict.reward is None and verdict.evidence["kinds"] == {"json_schema": "bad_key"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"Schema": {}}, "needs a JSON Schema in column 'schema', which is not there; did you mean 'Schema'"),
        ({"schema": [1]}, "an object or the JSON text of one, not"),
        ({"schema": "{broken"}, "an object or the JSON text of one, not '{broken'"),
        ({"schema": {}, "key": None}, "needs the expected value in column 'key', which is null"),
    ],
)
def test_rows_without_a_schema_are_refused_before_the_run(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        feedback({"kind": "json_schema", "key": "key"}).check([Task(prompt="p", columns=columns)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from([{}, {"type": "integer"}, {"type": ["string", "null"]}, {"enum": [0, "a"]}, {"minimum": 3}]),
    lambda inner: (
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "": b}}, inner, inner)
        | st.builds(lambda each: {"type": "array", "items": each}, inner)
    ),
    max_leaves=4,
)


@given(SCHEMAS, JSON)
def test_a_value_is_valid_exactly_when_jsonschema_says_so(schema: dict[str, Any], value: Any) -> None:
    ours = mismatch(validator(json.dumps(schema), False), loads(json.dumps(value))) == ""
    assert ours == jsonschema.Draft202012Validator(schema).is_valid(value)


@given(JSON)
def test_leaves_put_together_again_are_the_value(value: Any) -> None:
    assert loads(json.dumps(value)) == value
    for place, leaf in leaves(value).items():
        at = value
        for step in place:
            at = at[step]
        assert at == leaf and not (isinstance(leaf, (dict, list)) and leaf)


@given(st.text(st.sampled_from('{}[]",:truefalsn019.eE+- \\'), max_size=30))
def test_every_text_is_a_value_or_broken_by_name(text: str) -> None:
    try:
        expected: Any = json.loads(text)
    except ValueError:
        expected = BrokenJSON
    try:
        found = loads(text)
    except BrokenJSON as error:
        assert error.kind in ("broken_json", "number_too_large", "too_deep")
        found = BrokenJSON if expected is BrokenJSON or error.reason else expected
        assert expected is BrokenJSON or "NaN" in text or "twice" in error.reason or "too large" in error.reason
    else:
        assert found == expected


def test_an_expected_text_stays_one_where_the_schema_takes_it_so(pool: Pool) -> None:
    spec = {"kind": "json_schema", "key": "right"}
    assert rewards(spec, {"schema": {"type": "string"}, "right": "5"}, ['"5"'], pool) == [1.0]
    assert rewards(spec, {"schema": {"type": "integer"}, "right": "5"}, ["5"], pool) == [1.0]
    big = {"schema": {"type": "integer"}, "right": 10000001}
    assert rewards(spec, big, ["10000001", "10000002"], pool) == [1.0, 0.5]


ANY_OF = {"properties": {"a": {"type": "integer"}}, "anyOf": [{"properties": {"b": {"type": "integer"}}}]}


@pytest.mark.parametrize(
    ("columns", "strict", "words"),
    [
        ({"schema": {"properties": {"a": {"$ref": "#/no"}}}, "right": {}}, False, "refers to '#/no'"),
        ({"schema": {"properties": {"a": {"type": "integer"}}}, "right": {"a": "36"}}, False, "not satisfy the schema"),
        ({"schema": ANY_OF, "right": {"a": 1, "b": 2}}, True, "not satisfy the schema"),
    ],
)
def test_a_row_by_which_nothing_could_be_right_is_refused_and_missing_for_all(
    columns: dict[str, Any], strict: bool, words: str, pool: Pool
) -> None:
    spec = {"kind": "json_schema", "key": "right", "strict": strict}
    with pytest.raises(InputError, match=words):
        feedback(spec).check([Task(prompt="?", columns=columns)])
    assert kinds(spec, columns, ['{"a": 1}', '{"a": ', '{"b": 1}'], pool) == ["bad_key"] * 3


def test_references_that_hold_and_words_that_only_look_like_some_are_taken(pool: Pool) -> None:
    schema = {
        "$defs": {"n": {"type": "integer"}},
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"const": {"$ref": "#/no"}}},
    }
    assert rewards("json_schema", {"schema": schema}, ['{"a": 1}', '{"a": "1"}'], pool) == [1.0, 0.0]


def test_strict_reaches_into_pattern_properties() -> None:
    inner = made_strict({"patternProperties": {"^x": {"properties": {"a": {}}}}})["patternProperties"]["^x"]
    assert inner["required"] == ["a"] and inner["additionalProperties"] is False
