"""How a model writes tool calls, and how its tools are shown to it.

Two forms are read. `hermes` is what the templates of the Hermes and Qwen families write: a JSON object, or
<function=...>, between <tool_call> and </tool_call>. `text` is for models whose template knows no tools, the nursery's
above all (burnish/sources/written.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from burnish.environments.answers import sayable
from burnish.environments.protocol import Action, Call, Move, Tool, WrongCall, shown_calls
from burnish.environments.spec import CallForm
from burnish.errors import BurnishError, InputError
from burnish.feedback.checks.calls import Call as FoundCall
from burnish.feedback.checks.calls import WrongCallError, found_calls, refuse_impossible
from burnish.feedback.checks.final import after_thoughts
from burnish.sources.tools import Schema, schemas_of
from burnish.sources.written import Text
from burnish.tasks.task import Message
from burnish.traces.templates import ChatFormat, Format

PATIENCE = 1.0
"""Seconds that a pattern of a tool may be tried on an argument: a model can write one that it takes hours for."""
_DEEPEST = 64
"""How deep arguments may be nested: far from where the things that they are handed on to reach Python's limit."""


class Syntax(Protocol):
    """A form of tool calls."""

    name: str

    def found(self, text: str, schemas: Mapping[str, Schema]) -> list[FoundCall]:
        """The calls of a turn. Raises WrongCallError."""
        ...

    def write(self, call: Call, schemas: Mapping[str, Schema]) -> str:
        """A call as a model would write it."""
        ...

    def description(self, tools: Sequence[Tool]) -> str:
        """The tools in words, for a template that does not show them."""
        ...


class Hermes:
    """See the module."""

    name = "hermes"

    def found(self, text: str, schemas: Mapping[str, Schema]) -> list[FoundCall]:
        """See `Syntax.found`."""
        return found_calls(text, schemas) if "<tool_call>" in text else []

    def write(self, call: Call, schemas: Mapping[str, Schema]) -> str:
        """See `Syntax.write`."""
        inside = json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)
        return f"<tool_call>\n{inside}\n</tool_call>"

    def description(self, tools: Sequence[Tool]) -> str:
        """See `Syntax.description`."""
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return (
            f"These tools can be called:\n<tools>\n{listed}\n</tools>\nTo call one, write a JSON object with its name "
            'and arguments: <tool_call>\n{"name": NAME, "arguments": ARGUMENTS}\n</tool_call>'
        )


class Silent:
    """Calls are not read: a turn is a text, whatever is in it. For answers that somebody else judges as they are."""

    name = "silent"

    def found(self, text: str, schemas: Mapping[str, Schema]) -> list[FoundCall]:
        """See `Syntax.found`."""
        return []

    def write(self, call: Call, schemas: Mapping[str, Schema]) -> str:
        """See `Syntax.write`."""
        raise InputError("tools cannot be called here")

    def description(self, tools: Sequence[Tool]) -> str:
        """See `Syntax.description`."""
        return ""


class Calls:
    """The calls of one attempt: a form, the tools there are, and whether the template shows them by itself.

    Raises EnvironmentFault ("reset") for tools whose description cannot be read.
    """

    def __init__(self, syntax: Syntax, tools: Sequence[Tool], shown: bool) -> None:
        self.syntax, self.tools, self.shown = syntax, list(tools), shown
        self.schemas = {} if isinstance(syntax, Silent) else schemas_of(self.tools)

    @property
    def for_template(self) -> list[Tool] | None:
        """The tools to hand to the template."""
        return self.tools if self.tools and self.shown else None

    def opening(self, messages: Sequence[Message]) -> list[Message]:
        """The first messages as text: calls of examples as a model would write them, and the tools described, where the
        template does not show them.
        """
        messages = [self._example(message) for message in messages]
        words = "" if self.shown or not self.tools else self.syntax.description(self.tools)
        if not words:
            return messages
        if messages and messages[0]["role"] == "system":
            messages[0]["content"] = f"{messages[0]['content']}\n{words}"
            return messages
        return [{"role": "system", "content": words}, *messages]

    def _example(self, message: Message) -> Message:
        calls = shown_calls(message)
        if not calls:
            return dict(message)
        text = "\n".join(self.syntax.write(call, self.schemas) for call in calls)
        return {"role": message["role"], "content": text}

    def read(self, written: Callable[[], str], text: str) -> Action:
        """A turn of the model, understood. `written` gives it as it stands, `text` is without special tokens.

        What is wrong with its calls takes their place: then none of them is made.
        """
        if not self.tools or isinstance(self.syntax, Silent):
            return Action(text)
        return self._checked(text, lambda: self.syntax.found(after_thoughts(written(), "</think>"), self.schemas))

    def made(self, call: Call) -> Action:
        """A scripted call as it is, whether or not the form can express it, checked as a model's is."""
        found = FoundCall(call.name, dict(call.arguments))
        return self._checked(f"{call.name}({json.dumps(found.arguments, default=str)})", lambda: [found])

    def _checked(self, text: str, found: Callable[[], list[FoundCall]]) -> Action:
        try:
            calls = found()
            if any(_too_deep(call.arguments) for call in calls):
                raise RecursionError
            refuse_impossible(calls, self.schemas, PATIENCE)
        except WrongCallError as error:
            return Action(text, wrong=(WrongCall(error.kind, error.reason),))
        except RecursionError:
            return Action(text, wrong=(WrongCall("too_deep", "the arguments are nested too deeply"),))
        except TimeoutError:
            reason = "checking the arguments against a pattern takes too long"
            return Action(text, wrong=(WrongCall("time_limit", reason),))
        except Exception as error:
            if isinstance(error, (BurnishError, ImportError)):
                raise
            # The schemas were tried when the tools were offered: it is for these values that a library raises.
            reason = f"the arguments cannot be checked: {type(error).__name__}"
            return Action(text, wrong=(WrongCall("unreadable", reason),))
        return Action(text, tuple(Call(call.name, call.arguments) for call in calls))

    def write(self, move: Move) -> str:
        """A scripted move as a model would write it."""
        return move if isinstance(move, str) else self.syntax.write(move, self.schemas)

    def complaint(self, action: Action) -> list[Message]:
        """What a model is told whose calls cannot be made."""
        words = "; ".join(f"error: {wrong.kind}: {wrong.reason}" for wrong in action.wrong)
        return [{"role": "tool", "name": "error", "content": sayable(words)}]


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        nested = [each for each in level if isinstance(each, (dict, list))]
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    return bool(level)


def syntax_of(form: CallForm, format: Format) -> tuple[Syntax, bool]:
    """The form of calls for a format, and whether its template shows tools in that form by itself.

    Raises InputError for `auto` where the template writes calls in a form that is not read.
    """
    rendered = isinstance(format, ChatFormat) and format.finding.tool_calls == "rendered"
    own = isinstance(format, ChatFormat) and rendered and "<tool_call>" in _probe(format)
    if form == "hermes" or (form == "auto" and own):
        return Hermes(), own and format.finding.tools_shown
    if form == "text" or not rendered:
        return Text(), False
    raise InputError(
        "environment.calls: the chat template writes tool calls in a form that is not read here (only <tool_call> is); "
        "set it to hermes or text, and the tools are described in the system message in that form"
    )


def tool_role(format: Format) -> str:
    """The role in which a model is told a tool's answer: tool, or user where the template does not show that."""
    if not isinstance(format, ChatFormat):
        return "tool"
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        text = format.official.text([*messages, {"role": "tool", "name": "c", "content": "Outcome"}], prompt=True)
    except InputError:
        return "user"
    return "tool" if "Outcome" in text else "user"


def _probe(format: ChatFormat) -> str:
    """A tool call as the template writes it."""
    call = {"type": "function", "id": "abcdefghi", "function": {"name": "probe", "arguments": {"word": "a"}}}
    user, asked = {"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [call]}
    return format.official.text([user, asked])
