"""How a model writes tool calls, and how its tools are shown to it.

Two forms are read. `hermes` is what the templates of the Hermes and Qwen families write: a JSON object, or
<function=...>, between <tool_call> and </tool_call>. `text` is for models whose template knows no tools, the nursery's
above all: the whole turn is `name(arguments)`, the arguments in the order of the tool's parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from burnish.environments.protocol import Action, Call, Move, Tool, WrongCall
from burnish.environments.spec import CallForm
from burnish.errors import InputError
from burnish.feedback.checks.calls import Call as FoundCall
from burnish.feedback.checks.calls import WrongCallError, described, found_calls, refuse_impossible
from burnish.feedback.checks.final import after_thoughts
from burnish.tasks.task import Message
from burnish.traces.templates import ChatFormat, Format

_WRITTEN = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_BEGUN = re.compile(r"\s*([A-Za-z_]\w*)\(")
_LONGEST_NUMBER = 40


class Syntax(Protocol):
    """A form of tool calls."""

    name: str

    def found(self, text: str, schemas: Mapping[str, Mapping[str, Any]]) -> list[FoundCall]:
        """The calls of a turn. Raises WrongCallError."""
        ...

    def write(self, call: Call, schemas: Mapping[str, Mapping[str, Any]]) -> str:
        """A call as a model would write it."""
        ...

    def description(self, tools: Sequence[Tool]) -> str:
        """The tools in words, for a template that does not show them."""
        ...


class Hermes:
    """See the module."""

    name = "hermes"

    def found(self, text: str, schemas: Mapping[str, Mapping[str, Any]]) -> list[FoundCall]:
        return found_calls(text, schemas) if "<tool_call>" in text else []

    def write(self, call: Call, schemas: Mapping[str, Mapping[str, Any]]) -> str:
        inside = json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)
        return f"<tool_call>\n{inside}\n</tool_call>"

    def description(self, tools: Sequence[Tool]) -> str:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return (
            f"These tools can be called:\n<tools>\n{listed}\n</tools>\nTo call one, write a JSON object with its name "
            'and arguments: <tool_call>\n{"name": NAME, "arguments": ARGUMENTS}\n</tool_call>'
        )


class Text:
    """See the module."""

    name = "text"

    def found(self, text: str, schemas: Mapping[str, Mapping[str, Any]]) -> list[FoundCall]:
        written = _WRITTEN.fullmatch(text)
        if written is not None:
            return [FoundCall(written[1], self._arguments(written[1], written[2], schemas.get(written[1])))]
        begun = _BEGUN.match(text)
        if begun is not None and begun[1] in schemas:
            raise WrongCallError("broken_call", f"the call of {begun[1]} is not closed")
        return []

    def _arguments(self, name: str, inside: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        parameters: Mapping[str, Any] = (schema or {}).get("properties", {})
        if not parameters:
            return {"": inside} if schema is not None and inside.strip() else {}
        parts = inside.split(",", len(parameters) - 1) if inside else []
        if len(parts) < len(parameters):
            raise WrongCallError("missing_argument", f"{name} takes {', '.join(parameters)}")
        return {
            key: _typed(part.strip(), parameters[key].get("type")) for key, part in zip(parameters, parts, strict=True)
        }

    def write(self, call: Call, schemas: Mapping[str, Mapping[str, Any]]) -> str:
        order = schemas.get(call.name, {}).get("properties", call.arguments)
        values = (call.arguments[key] for key in order if key in call.arguments)
        return f"{call.name}({','.join(v if isinstance(v, str) else json.dumps(v) for v in values)})"

    def description(self, tools: Sequence[Tool]) -> str:
        """A line for each tool that has a description; one without is taken to be known."""
        lines = []
        for function in (tool["function"] for tool in tools):
            if function.get("description"):
                names = ",".join(function["parameters"].get("properties", {}))
                lines.append(f"{function['name']}({names}): {function['description']}")
        return "\n".join(lines)


def _typed(written: str, kind: str | None) -> Any:
    """A written value in the type that the schema wants; as text where it is none, which the schema then refuses."""
    if kind == "string" or len(written) > _LONGEST_NUMBER:
        return written
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value


class Silent:
    """Calls are not read: a turn is a text, whatever is in it. For answers that somebody else judges as they are."""

    name = "silent"

    def found(self, text: str, schemas: Mapping[str, Mapping[str, Any]]) -> list[FoundCall]:
        return []

    def write(self, call: Call, schemas: Mapping[str, Mapping[str, Any]]) -> str:
        raise InputError("tools cannot be called here")

    def description(self, tools: Sequence[Tool]) -> str:
        return ""


class Calls:
    """The calls of one attempt: a form, the tools there are, and whether the template shows them by itself."""

    def __init__(self, syntax: Syntax, tools: Sequence[Tool], shown: bool) -> None:
        self.syntax, self.tools, self.shown = syntax, list(tools), shown
        self.schemas = {} if isinstance(syntax, Silent) else described(self.tools)

    @property
    def for_template(self) -> list[Tool] | None:
        """The tools to hand to the template."""
        return self.tools if self.tools and self.shown else None

    def opening(self, messages: Sequence[Message]) -> list[Message]:
        """The first messages with the tools described in them, where the template does not show them."""
        messages = [dict(message) for message in messages]
        words = "" if self.shown or not self.tools else self.syntax.description(self.tools)
        if not words:
            return messages
        if messages and messages[0]["role"] == "system":
            messages[0]["content"] = f"{messages[0]['content']}\n{words}"
            return messages
        return [{"role": "system", "content": words}, *messages]

    def read(self, written: Callable[[], str], text: str) -> Action:
        """A turn of the model, understood. `written` gives it as it stands, `text` is without special tokens.

        What is wrong with its calls takes their place: then none of them is made.
        """
        if not self.tools or isinstance(self.syntax, Silent):
            return Action(text)
        try:
            calls = self.syntax.found(after_thoughts(written(), "</think>"), self.schemas)
            refuse_impossible(calls, self.schemas)
        except WrongCallError as error:
            return Action(text, wrong=(WrongCall(error.kind, error.reason),))
        return Action(text, tuple(Call(call.name, call.arguments) for call in calls))

    def write(self, move: Move) -> str:
        """A scripted move as a model would write it."""
        return move if isinstance(move, str) else self.syntax.write(move, self.schemas)

    def complaint(self, action: Action) -> list[Message]:
        """What a model is told whose calls cannot be made."""
        words = "; ".join(f"error: {wrong.kind}: {wrong.reason}" for wrong in action.wrong)
        return [{"role": "tool", "name": "error", "content": words}]


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
