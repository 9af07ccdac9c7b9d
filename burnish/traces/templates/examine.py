"""Examining a chat template: it is rendered on small probe conversations and the tokens are compared."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable, Sequence
from typing import Any

from burnish.errors import InputError
from burnish.traces.templates.finding import Finding, Thinking, ToolCalls, TurnEnd
from burnish.traces.templates.forms import THINKING_KEYS, Forms
from burnish.traces.templates.official import Message, OfficialTemplate, common_prefix, common_suffix

USER: Message = {"role": "user", "content": "Hello there"}
NEXT: Message = {"role": "user", "content": "And then"}
SYSTEM: Message = {"role": "system", "content": "Sysword"}
RESULT: Message = {"role": "tool", "name": "probe_tool", "tool_call_id": "abcdefghi", "content": "Outcome"}


def answer(text: str = "Indeed", **more: Any) -> Message:
    """A probe answer."""
    return {"role": "assistant", "content": text, **more}


def call(word: str = "Sentinel", content: str | None = None) -> Message:
    """A probe tool call."""
    function = {"name": "probe_tool", "arguments": {"word": word}}
    return answer(content or "", tool_calls=[{"type": "function", "id": "abcdefghi", "function": function}])


def examine(official: OfficialTemplate, stop_ids: Iterable[int] = ()) -> Finding:
    """Examine the template and set `official.forms`. `stop_ids` are further stop tokens, a generation config's.

    Raises InputError for a template that cannot render a question, or leaves its text out.
    """
    _find_content_form(official)
    tool_calls = _find_tool_form(official)
    thinking, thoughtful = _find_thinking(official)
    answer_end, appended = _answer_end(official)
    call_end = _call_end(official, answer_end) if tool_calls == "rendered" else answer_end
    eos = official.tokenizer.eos_token_id
    stops = {answer_end.stop, call_end.stop, eos, *stop_ids} - {None}
    stop_ids = frozenset(int(stop) for stop in stops if stop is not None)
    return Finding(
        forms=official.forms,
        answer_end=answer_end,
        call_end=call_end,
        stop_ids=stop_ids,
        stop_tokens=tuple(str(official.tokenizer.convert_ids_to_tokens(stop)) for stop in sorted(stop_ids)),
        breaks=_breaks(official, stop_ids, answer_end, call_end, thoughtful, thinking, tool_calls),
        thinking=thinking,
        thought_closing=_thought_closing(official, thoughtful),
        trims=_trims(official, tool_calls),
        system_added=_system_added(official),
        system_in_user=_system_in_user(official),
        refused=_refused(official, tool_calls),
        dates=_dates(official),
        tool_calls=tool_calls,
        tools_shown=_tools_shown(official),
        text_beside_calls=tool_calls == "rendered"
        and _says(official, [USER, call(content="Besides")], "Besides", "Sentinel"),
        prompt_differs=not _starts(official, [USER], answer()),
        stop_appended=appended,
    )


def _text(official: OfficialTemplate, messages: Sequence[Message], *, prompt: bool = False) -> str | None:
    try:
        return official.text(messages, prompt=prompt)
    except InputError:
        return None


def _says(official: OfficialTemplate, messages: Sequence[Message], *words: str, prompt: bool = False) -> bool:
    text = _text(official, messages, prompt=prompt)
    return text is not None and all(word in text for word in words)


# ---------------------------------------------------------------- the forms of messages


def _find_content_form(official: OfficialTemplate) -> None:
    official.text([USER], prompt=True)  # a template that refuses a plain question says so itself
    for parts in (False, True):
        official.forms = Forms(content_as_parts=parts)
        if _says(official, [USER], "Hello there", prompt=True) and _says(official, [USER, answer()], "Indeed"):
            return
    raise InputError("the chat template leaves out the text of the messages: it is not one for conversations in text")


def _find_tool_form(official: OfficialTemplate) -> ToolCalls:
    plain, refused = official.forms, True
    for as_text in (False, True):
        for content in ("empty", "none"):
            official.forms = dataclasses.replace(plain, arguments_as_text=as_text, call_content=content)
            text = _text(official, [USER, call()])
            refused = refused and text is None
            if text is not None and '"Sentinel' in text.replace("'", '"') and '\\"Sentinel' not in text:
                return "rendered"
            if text is not None and "Sentinel" in text and "probe_tool" in text and '\\"' not in text:
                return "rendered"
    official.forms = plain
    return "refused" if refused else "dropped"


def _tools_shown(official: OfficialTemplate) -> bool:
    parameters = {"type": "object", "properties": {"word": {"type": "string", "description": "A word."}}}
    function = {"name": "probe_tool", "description": "A probe.", "parameters": parameters}
    try:
        return "probe_tool" in official.text([USER], [{"type": "function", "function": function}], prompt=True)
    except InputError:
        return False


def _find_thinking(official: OfficialTemplate) -> tuple[Thinking, Message]:
    thoughtful = answer("<think>\nPondering\n</think>\n\nIndeed")
    for key in THINKING_KEYS:
        if _says(official, [USER, answer(**{key: "Pondering"})], "Pondering"):
            official.forms = dataclasses.replace(official.forms, thinking_key=key)
            thoughtful = answer(**{key: "Pondering"})
            break
    if not _says(official, [USER, thoughtful], "Pondering"):
        return "dropped at once", thoughtful
    if not _says(official, [USER, thoughtful, NEXT], "Pondering", prompt=True):
        return "dropped later", thoughtful
    return "kept", thoughtful


def _thought_closing(official: OfficialTemplate, thoughtful: Message) -> tuple[int, ...]:
    text = official.text([USER, thoughtful])
    if "Pondering" not in text:
        return ()
    between = text[text.rindex("Pondering") + len("Pondering") : text.rindex("Indeed")]
    return tuple(official.encode(between))


# ---------------------------------------------------------------- the end of a turn


def _answer_end(official: OfficialTemplate) -> tuple[TurnEnd, bool]:
    """The end of a plain answer, and whether the render of a last turn lacks it."""
    final = _after(official, [[USER, answer("One")], [USER, answer("Two")]], prompt=False)
    later = _after(official, [[USER, answer("One"), NEXT], [USER, answer("Two"), NEXT]], prompt=True)
    shared = final[: common_prefix(final, later)]
    for tokens in (shared, final):
        special = [token for token in tokens if token in official.special_ids]
        if special:
            return TurnEnd(special[-1], tuple(final)), False
    if later and later[0] in official.special_ids:  # the header of the next turn is what ends a turn
        return TurnEnd(later[0], tuple(final)), True
    return TurnEnd(official.tokenizer.eos_token_id, tuple(final)), True


def _call_end(official: OfficialTemplate, answer_end: TurnEnd) -> TurnEnd:
    """The end of a turn that is a tool call. Some families end it with a token of its own."""
    final = _after(official, [[USER, call("One")], [USER, call("Two")]], prompt=False)
    try:
        later = _after(official, [[USER, call("One"), RESULT], [USER, call("Two"), RESULT]], prompt=True)
    except InputError:  # calls are rendered but their results refused
        later = final
    shared = final[: common_prefix(final, later)]
    special = [token for token in shared if token in official.special_ids]
    if answer_end.stop in special:
        return TurnEnd(answer_end.stop, tuple(final))
    if special:
        return TurnEnd(special[-1], tuple(final))
    following = later[len(shared) :]
    stop = following[0] if following and following[0] in official.special_ids else answer_end.stop
    return TurnEnd(stop, tuple(final))


def _after(official: OfficialTemplate, pair: Sequence[Sequence[Message]], *, prompt: bool) -> list[int]:
    """The tokens after the part in which two renders differ."""
    one, two = (official.ids(messages, prompt=prompt) for messages in pair)
    count = common_suffix(one, two)
    return one[len(one) - count :]


def turn_stop(ids: Sequence[int], start: int, end: TurnEnd, stop_ids: frozenset[int]) -> int | None:
    """Where the stop token of the turn `ids[start:]` is, the turn being the render's last; None when it has none."""
    closing = list(end.closing)
    if closing and end.stop in closing and list(ids[-len(closing) :]) == closing and len(ids) - len(closing) >= start:
        return len(ids) - len(closing) + len(closing) - 1 - closing[::-1].index(end.stop)
    found = [index for index in range(start, len(ids)) if ids[index] in stop_ids]
    return found[-1] if found else None


# ---------------------------------------------------------------- what happens to history


def _breaks(
    official: OfficialTemplate,
    stop_ids: frozenset[int],
    answer_end: TurnEnd,
    call_end: TurnEnd,
    thoughtful: Message,
    thinking: Thinking,
    tool_calls: ToolCalls,
) -> tuple[str, ...]:
    kinds = {"plain turns": [USER, answer(), NEXT], "turns with thinking": [USER, thoughtful, NEXT]}
    if tool_calls == "rendered" and _text(official, [USER, call(), RESULT], prompt=True) is not None:
        kinds["tool turns"] = [USER, call(), RESULT]
        kinds["turns after tools"] = [USER, call(), RESULT, answer(), NEXT]
    broken = []
    for kind, messages in kinds.items():
        kept = True
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            end = call_end if "tool_calls" in message else answer_end
            turn = official.ids(messages[: index + 1])
            start = common_prefix(turn, official.ids(messages[:index], prompt=True))
            stop = turn_stop(turn, start, end, stop_ids)
            turn = turn if stop is None else turn[: stop + 1]
            kept = kept and official.ids(messages, prompt=True)[: len(turn)] == turn
        if not kept or (kind == "turns with thinking" and thinking == "dropped at once"):
            broken.append(kind)
    return tuple(broken)


def _starts(official: OfficialTemplate, before: Sequence[Message], turn: Message) -> bool:
    return official.text([*before, turn]).startswith(official.text(before, prompt=True))


def _trims(official: OfficialTemplate, tool_calls: ToolCalls) -> tuple[str, ...]:
    trimmed = []
    for role in ("system", "user", "assistant", "tool"):
        for edge in ("\n", " ", "\t\n "):
            padded = f"{edge}Edge{edge}"
            before = {"system": [], "user": [], "assistant": [USER], "tool": [USER, call()]}[role]
            after = [USER] if role == "system" else []
            message = {**RESULT, "content": padded} if role == "tool" else {"role": role, "content": padded}
            text = _text(official, [*before, message, *after])
            if text is None or "Edge" not in text or (role == "tool" and tool_calls != "rendered"):
                continue
            if padded not in text and json.dumps(padded)[1:-1] not in text and role not in trimmed:
                trimmed.append(role)
    return tuple(trimmed)


def _system_added(official: OfficialTemplate) -> str:
    """Text that stands before the first user turn's header when no system message is given."""
    first = official.ids([USER])
    second = official.ids([USER, answer(), USER])
    words = official.encode("Hello there")
    one, two = _before(first, words), _before(second, words, last=True)
    preface = one[: len(one) - common_suffix(one, two)]
    return str(official.tokenizer.decode([t for t in preface if t not in official.special_ids])).strip()


def _before(ids: Sequence[int], words: Sequence[int], *, last: bool = False) -> list[int]:
    """The tokens before the first (or last) place of `words`; a merge at the edge may hide its first token."""
    core = list(words[1:]) or list(words)
    places = [i for i in range(len(ids) - len(core) + 1) if list(ids[i : i + len(core)]) == core]
    place = places[-1 if last else 0] if places else 0
    return list(ids[: max(0, place - 1)])


def _system_in_user(official: OfficialTemplate) -> bool:
    text = _text(official, [SYSTEM, USER])
    if text is None or "Sysword" not in text or text.index("Sysword") > text.index("Hello there"):
        return False
    between = official.encode(text[text.index("Sysword") : text.index("Hello there")])
    return not any(token in official.special_ids for token in between)


def _refused(official: OfficialTemplate, tool_calls: ToolCalls) -> tuple[str, ...]:
    refused = []
    if not _says(official, [SYSTEM, USER], "Sysword"):
        refused.append("system messages")
    if tool_calls == "rendered" and not _says(official, [USER, call(), RESULT], "Outcome", prompt=True):
        refused.append("tool results")
    if tool_calls == "rendered" and not _says(official, [USER, call(), RESULT, answer()], "Outcome", "Indeed"):
        refused.append("answers after tool results")
    if not _says(official, [USER, NEXT], "Hello there", "And then"):
        refused.append("two user turns in a row")
    return tuple(refused)


def shows_role(official: OfficialTemplate, role: str) -> bool:
    """Whether a message of this role reaches the render; many templates leave out roles that they do not know."""
    message = {**RESULT, "role": role}
    places = [[USER, answer(), message], [message, USER], [USER, call(), message]]
    return any(_says(official, messages, "Outcome", prompt=True) for messages in places)


def _dates(official: OfficialTemplate) -> bool:
    today, texts = official.today, []
    try:
        for year in (1999, 2031):
            official.today = datetime.datetime(year, 2, 3)
            texts.append(official.text([USER], prompt=True))
    finally:
        official.today = today
    return texts[0] != texts[1]
