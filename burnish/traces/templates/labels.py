"""Which rendered token belongs to which message: roles for whole renderings.

Private characters are put around the parts of the messages, the marked messages are rendered, and where they land
tells what each character of the official render is. This is trusted only when taking the marks out gives exactly
the official text; otherwise the roles are coarse. Token ids and the trained mask never depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from burnish.errors import InputError
from burnish.traces.templates.forms import THINKING_KEYS
from burnish.traces.templates.official import Message, OfficialTemplate, Tool, common_prefix
from burnish.traces.templates.rendered import Rendered
from burnish.traces.trace import CONTEXT, ENVIRONMENT, Author, Role

_FIRST_MARK = 0x100000  # a private-use plane; transformers itself uses the first characters of the other one
_MARKS = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + 0xFFFD)}]")
_INLINE_THOUGHT = re.compile(r"\A(\s*<think>)?(.*?)(</think>)", re.DOTALL)
_BY_ROLE = {"assistant": Role.ANSWER, "tool": Role.OBSERVATION, "ipython": Role.OBSERVATION}


class _Marker:
    """Puts a pair of marks around the non-blank core of texts and remembers what each pair means."""

    def __init__(self) -> None:
        self.meaning: list[Role] = []

    def around(self, text: str, role: Role) -> str:
        core = text.strip()
        if not core or 2 * len(self.meaning) + 1 > 0xFFFD:
            return text
        start = text.index(core)
        low = _FIRST_MARK + 2 * len(self.meaning)
        self.meaning.append(role)
        return f"{text[:start]}{chr(low)}{core}{chr(low + 1)}{text[start + len(core) :]}"

    def message(self, message: Message) -> dict[str, Any]:
        marked = dict(message)
        role = _BY_ROLE.get(str(message.get("role")), Role.PROMPT)
        for key in THINKING_KEYS:
            if isinstance(message.get(key), str):
                marked[key] = self.around(message[key], Role.THOUGHT)
        content = message.get("content")
        if isinstance(content, str):
            thought = _INLINE_THOUGHT.match(content) if role is Role.ANSWER else None
            if thought:
                opening, inner, closing = thought.group(1) or "", thought.group(2), thought.group(3)
                rest = content[thought.end() :]
                marked["content"] = opening + self.around(inner, Role.THOUGHT) + closing + self.around(rest, role)
            else:
                marked["content"] = self.around(content, role)
        if isinstance(message.get("tool_calls"), list):
            marked["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
        return marked

    def _call(self, call: Message) -> dict[str, Any]:
        function = dict(call["function"]) if "function" in call else dict(call)
        function["name"] = self.around(str(function["name"]), Role.ACTION)
        return {**call, "function": function} if "function" in call else function


def label(
    official: OfficialTemplate,
    messages: Sequence[Message],
    tools: Iterable[Tool] | None,
    ids: Sequence[int],
    *,
    prompt: bool,
) -> Rendered:
    """The official render's tokens `ids` with author and role: all of it context, tool results the environment's."""
    roles = _roles(official, messages, list(tools) if tools is not None else None, ids, prompt)
    authors: list[Author] = [ENVIRONMENT if role is Role.OBSERVATION else CONTEXT for role in roles]
    return Rendered(list(ids), authors, roles)


def turn_roles(
    labelled: Rendered, start: int, stop: int, *, calls: bool, thought_closing: Sequence[int] = ()
) -> list[Role]:
    """Roles of the tokens `start:stop` of an assistant's turn, its markup given to the part that it belongs to.

    Markup up to the end of the thinking is thought; from the end of the text on, a turn with tool calls is action.
    """
    roles = labelled.roles[start:stop]
    thought_end = 0
    if Role.THOUGHT in roles:
        thought_end = len(roles) - roles[::-1].index(Role.THOUGHT)
        following = next((r for r in roles[thought_end:] if r in (Role.ANSWER, Role.ACTION)), None)
        if following is Role.ANSWER:
            thought_end = roles.index(Role.ANSWER, thought_end)
        else:
            thought_end += common_prefix(labelled.tokens[start + thought_end : stop], thought_closing)
    last_answer = max((i for i, role in enumerate(roles) if role is Role.ANSWER), default=-1)
    filled = []
    for index in range(len(roles)):
        if index < thought_end:
            filled.append(Role.THOUGHT)
        else:
            filled.append(Role.ACTION if calls and index > last_answer else Role.ANSWER)
    return filled


def _roles(
    official: OfficialTemplate, messages: Sequence[Message], tools: list[Tool] | None, ids: Sequence[int], prompt: bool
) -> list[Role]:
    coarse = [Role.PROMPT] * len(ids)
    text = official.text(messages, tools, prompt=prompt)
    if _MARKS.search(text):  # the text itself holds such characters
        return coarse
    encoded = official.encode_with_offsets(text)
    if encoded is None or encoded[0] != list(ids):
        return coarse
    marker = _Marker()
    try:
        marked = official.text([marker.message(message) for message in messages], tools, prompt=prompt)
    except InputError:  # the template looks into the text (a tool's name, say) and no longer knows it
        return coarse
    if _MARKS.sub("", marked) != text:
        return coarse
    by_character = _by_character(marked, marker.meaning)
    return [_of(by_character[start:stop]) for start, stop in encoded[1]]


def _by_character(marked: str, meaning: list[Role]) -> list[Role]:
    roles: list[Role] = []
    current = Role.SCAFFOLD
    for character in marked:
        code = ord(character) - _FIRST_MARK
        if not 0 <= code <= 0xFFFD:
            roles.append(current)
        else:
            current = meaning[code // 2] if code % 2 == 0 else Role.SCAFFOLD
    return roles


def _of(roles: Sequence[Role]) -> Role:
    """The role of a token: that of its first character which is some message's, else scaffold."""
    return next((role for role in roles if role is not Role.SCAFFOLD), Role.SCAFFOLD)
