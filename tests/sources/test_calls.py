"""Tool calls: the text form, tools whose description is none, and calls on which a library fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from burnish.environments import Action, Attempt, Call, Environment, Observation, passed, result, said, tool
from burnish.environments.answers import EnvironmentFault
from burnish.environments.protocol import WrongCall
from burnish.sources.calls import Calls, Hermes, Text
from burnish.sources.episodes import attempts
from burnish.tasks import Task
from burnish.traces import Status, Verdict
from tests.sources.acting import ScriptedSampler, answers, stage_for


def described(parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get", "parameters": parameters}}


def an_object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


SEARCH = {
    "name": "search",
    "description": "Finds things.",
    "parameters": an_object(
        ("query",), query={"type": "string"}, limit={"type": "integer"}, tag={"type": ["string", "null"]}, kinds={}
    ),
}
TOOLS = [SEARCH, tool("add", a=int, b=int), tool("say", what=str), tool("look")]
CALLS = Calls(Text(), TOOLS, False)


# ---------------------------------------------------------------- the text form


@pytest.mark.parametrize(
    ("turn", "arguments"),
    [
        ("search(a b)", {"query": "a b"}),
        ("search(a,3)", {"query": "a", "limit": 3}),
        ('search("a, b", 3)', {"query": "a, b", "limit": 3}),
        ('search("a \\"b\\"")', {"query": 'a "b"'}),
        ('search("a" b)', {"query": '"a" b'}),
        ("search(a,,x)", {"query": "a", "tag": "x"}),
        ("search(a,,7)", {"query": "a", "tag": "7"}),
        ("search(a,,null)", {"query": "a", "tag": None}),
        ('search([a],,,["x, y", {"z": [1]}])', {"query": "[a]", "kinds": ["x, y", {"z": [1]}]}),
        ("search(a,,,x, y)", {"query": "a", "kinds": "x, y"}),
        ("say(a, b)", {"what": "a, b"}),
        ('say("a", b)', {"what": '"a", b'}),
        ('say("")', {"what": ""}),
        ("look()", {}),
    ],
)
def test_arguments_as_text(turn: str, arguments: dict[str, Any]) -> None:
    assert CALLS.read(lambda: turn, turn) == Action(turn, (Call(turn.split("(")[0], arguments),))


@pytest.mark.parametrize(
    ("turn", "kind", "reason"),
    [
        ("search()", "missing_argument", "search takes query, [limit], [tag], [kinds]"),
        ("search(a,many)", "wrong_type", "'many' is not of type 'integer'"),
        ("search(a, b,3)", "wrong_type", "'b' is not of type 'integer'"),
        ("add(1,2,3)", "wrong_type", "'2,3' is not of type 'integer'"),
        ("look(1)", "unexpected_argument", "look takes no arguments"),
        ("search(a,,," + "[" * 100 + "]" * 100 + ")", "too_deep", "nested too deeply"),
        ("search(a,,," + "[" * 100_000 + "]" * 100_000 + ")", "too_deep", "nested too deeply"),
    ],
)
def test_arguments_as_text_that_are_none(turn: str, kind: str, reason: str) -> None:
    [wrong] = CALLS.read(lambda: turn, turn).wrong
    assert wrong.kind == kind and reason in wrong.reason


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Call("search", {"query": "a, b", "limit": 3}), 'search("a, b",3)'),
        (Call("search", {"query": "a"}), "search(a)"),
        (Call("search", {"query": "", "kinds": [1, "b,c"]}), 'search("",,,[1, "b,c"])'),
        (Call("search", {"query": '"q"', "tag": "5"}), 'search("\\"q\\"",,5)'),
        (Call("search", {"query": " x ", "tag": None}), 'search(" x ",,null)'),
        (Call("search", {"query": "é)(", "kinds": "5"}), 'search(é)(,,,"5")'),
        (Call("say", {"what": "a, b"}), "say(a, b)"),
        (Call("add", {"a": 1, "b": 2}), "add(1,2)"),
    ],
)
def test_a_call_that_is_written_is_read_as_the_same(call: Call, text: str) -> None:
    assert CALLS.write(call) == text
    assert CALLS.read(lambda: text, text).calls == (call,)


def test_optional_arguments_are_told() -> None:
    assert Text().description(TOOLS) == "search(query,[limit],[tag],[kinds]): Finds things."


# ---------------------------------------------------------------- tools that are none


BAD_TOOLS = {
    "no schema": (
        described({"type": "objec"}),
        "'get' has parameters whose schema is of no use: no JSON Schema: 'objec' is not valid",
    ),
    "no name": ({"nme": "x"}, "is described by an object with a name"),
    "no object": ("get", "is described by an object with a name"),
    "parameters": (described("k"), "'get' has parameters that are no object"),
    "properties": (described({"type": "object", "properties": ["k"]}), r"\['k'\] is not of type 'object'"),
    "reference": (described(an_object(k={"$ref": "#/no"})), "refers to '#/no', which the schema does not hold"),
    "far away": (described(an_object(k={"$ref": "http://a/b"})), "refers to 'http://a/b'"),
    "pattern": (described(an_object(k={"pattern": "(["})), "is not a 'regex'"),
    "dialect": (described({"$schema": 5}), "cannot be read: AttributeError"),
    "endless": (described({"$ref": "#"}), "refers to itself without end"),
}


@pytest.mark.parametrize("name", BAD_TOOLS)
def test_a_tool_whose_description_is_none_costs_the_attempt_and_not_the_run(name: str) -> None:
    bad, words = BAD_TOOLS[name]

    class Offering(Environment):
        pure = True

        async def reset(self, task: Task, *, seed: int) -> Observation:
            return said("q", tool("good", word=str), bad)

        async def step(self, action: Action) -> Observation:
            return Observation(done=True)

        async def verify(self, attempt: Attempt) -> Verdict:
            return passed(True)

    with pytest.raises(EnvironmentFault, match=words):
        Calls(Hermes(), [bad], True)
    for verdict in judged(Offering, "get(a)"):
        assert verdict.status is Status.INFRA_ERROR and verdict.reason.startswith("environment.reset: a tool ")


def test_tools_that_refer_to_what_they_hold_are_taken() -> None:
    nested = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/n"}}}
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"q": {"type": "string"}},
        "properties": {"k": {"$ref": "#/definitions/q"}},
    }
    for schema in ({"$defs": {"n": nested}, "properties": {"k": {"$ref": "#/$defs/n"}}}, old, None, {}):
        assert list(Calls(Hermes(), [described(schema)], True).schemas) == ["get"]


@pytest.mark.parametrize(
    ("schema", "value", "kind"),
    [
        ({"multipleOf": 0.5}, "1" + "0" * 400, "unreadable"),  # no float holds it
        ({}, "[" * 900 + "]" * 900, "too_deep"),
    ],
)
def test_a_value_on_which_the_library_fails_is_told_to_the_model(schema: Any, value: str, kind: str) -> None:
    turn = f'<tool_call>{{"name": "get", "arguments": {{"k": {value}}}}}</tool_call>'
    [wrong] = Calls(Hermes(), [described(an_object(k=schema))], True).read(lambda: turn, turn).wrong
    assert wrong.kind == kind


def test_a_complaint_can_be_written() -> None:
    action = Action("", wrong=(WrongCall("unknown_tool", "there is no tool '\ud800'"),))
    [message] = CALLS.complaint(action)
    assert message["content"] == "error: unknown_tool: there is no tool '\ufffd'"


# ---------------------------------------------------------------- what a model cannot be told


def judged(cls: type[Environment], *turns: str, form: Any = None, tokenizer: Any = None) -> list[Verdict]:
    class Family:
        name, turns, pure = "f", 4, True

        def tasks(self) -> list[Task]:
            return []

        def make(self) -> Environment:
            return cls()

    more = {} if form is None else {"form": form, "tokenizer": tokenizer}
    sampler = ScriptedSampler(answers(*turns), *([] if tokenizer is None else [tokenizer]))
    stage = stage_for(Family(), sampler, max_tokens=200, refills=1, **more)
    group = asyncio.run(attempts(stage, Task(prompt="q"), 2))
    return [member.verdict for member in group.members if member.verdict is not None]


class Halves(Environment):
    """Says half a surrogate pair."""

    pure = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        return said("q", tool("get", k=str))

    async def step(self, action: Action) -> Observation:
        return Observation((result(action.calls[0], "\ud800"),)) if action.calls else Observation(done=True)

    async def verify(self, attempt: Attempt) -> Verdict:
        return passed(attempt.answer == "fin")


def test_half_a_surrogate_pair_in_an_observation_does_not_end_the_run() -> None:
    from tests.sources.qwenlike import FORMAT, TOKENIZER

    turn = '<tool_call>{"name": "get", "arguments": {"k": "a"}}</tool_call>'
    assert [v.reward for v in judged(Halves, turn, "fin", form=FORMAT, tokenizer=TOKENIZER)] == [1.0, 1.0]


@pytest.mark.parametrize("method", ["reset", "step"])
def test_messages_that_the_template_refuses_cost_the_attempt_and_not_the_run(method: str) -> None:
    from burnish.traces.templates import chat_format
    from tests.tiny import tiny_tokenizer

    tokenizer = tiny_tokenizer(260)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if 'boom' in m['content'] %}{{ raise_exception('no') }}{% endif %}"
        "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )

    class Refused(Halves):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return said("boom" if method == "reset" else "q")

        async def step(self, action: Action) -> Observation:
            return said("boom")

    found = judged(Refused, "fin", form=chat_format(tokenizer), tokenizer=tokenizer)
    assert len(found) == 4  # two, and two in their place
    for verdict in found:
        assert verdict.status is Status.INFRA_ERROR
        assert verdict.reason.startswith(f"environment.{method}: gave messages that a model cannot be told")


def test_an_argument_that_is_a_bomb_for_a_tools_pattern_is_the_models_fault_and_costs_seconds_at_most() -> None:
    parameters = {"type": "object", "properties": {"k": {"type": "string", "pattern": "^(a|aa)+$"}}}
    calls = Calls(Hermes(), [{"type": "function", "function": {"name": "f", "parameters": parameters}}], False)

    def kinds(argument: str) -> list[str]:
        text = f'<tool_call>{{"name": "f", "arguments": {{"k": "{argument}"}}}}</tool_call>'
        return [wrong.kind for wrong in calls.read(lambda: text, text).wrong]

    assert kinds("a" * 60 + "!") == ["time_limit"] and kinds("b") == ["wrong_type"] and kinds("aaa") == []
