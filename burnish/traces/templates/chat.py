"""Token-exact chat rendering over a tokenizer's own template: prompts, extensions, demonstrations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from burnish.errors import InputError
from burnish.traces.templates.examine import examine, shows_role, turn_stop
from burnish.traces.templates.finding import Finding, TurnEnd
from burnish.traces.templates.forms import THINKING_KEYS
from burnish.traces.templates.labels import label, turn_roles
from burnish.traces.templates.official import (
    Message,
    OfficialTemplate,
    Tokenizer,
    Tool,
    common_prefix,
    common_suffix,
)  # fmt: skip
from burnish.traces.templates.rendered import Extension, Rendered
from burnish.traces.trace import DEMONSTRATION, Role


class ChatFormat:
    """A tokenizer's chat template, examined. Make one with `ChatFormat.examine` or `chat_format`."""

    def __init__(self, official: OfficialTemplate, finding: Finding) -> None:
        self.official = official
        self.finding = finding
        self._shown = {"system": True, "user": True, "assistant": True}

    @classmethod
    def examine(
        cls,
        tokenizer: Tokenizer,
        *,
        template: str | None = None,
        stop_ids: Iterable[int] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> ChatFormat:
        """Examine the tokenizer's template, or the given one.

        `stop_ids` are further stop tokens (the generation config's eos_token_id); `variables` go to the template
        (enable_thinking, ...). Raises InputError when there is no template or it cannot render plain text messages.
        """
        if template is None and not tokenizer.chat_template:
            raise InputError(
                "the tokenizer has no chat template: set template: plain for a base model (prompts are raw text), "
                "or template: path/to/template.jinja"
            )
        official = OfficialTemplate(tokenizer, template, variables)
        return cls(official, examine(official, stop_ids))

    @property
    def stop_ids(self) -> frozenset[int]:
        """The stop class: sampling stops at any of these, and the token it stopped at is trained."""
        return self.finding.stop_ids

    def prompt(self, messages: Sequence[Message], tools: Iterable[Tool] | None = None) -> Rendered:
        """The tokens to sample an assistant's turn from, all context. Raises InputError when a message is refused."""
        tools = _listed(tools)
        self._check(messages, tools)
        return self._labelled(messages, tools, prompt=True)

    def extend(
        self,
        messages: Sequence[Message],
        path: Sequence[int],
        new: Sequence[Message],
        tools: Iterable[Tool] | None = None,
    ) -> Extension:
        """What to append to `path` so that the model answers `new`.

        `path` are the ids the engine saw, sampled ones included; they are never re-encoded. `messages` is the same
        conversation as messages, ending with the assistant's turn as it was understood (`assistant_message` gives
        the plain reading). What is missing of the turn's closing scaffold is added. When the template edits what
        `path` holds, the extension is a new segment that branches at the longest prefix that is still valid.
        """
        tools = _listed(tools)
        if not messages or messages[-1].get("role") != "assistant":
            raise ValueError("the conversation to extend must end with the assistant's turn that was sampled")
        whole = [*messages, *new]
        self._check(whole, tools)
        path = list(path)
        target = self._labelled(whole, tools, prompt=True)
        if target.tokens[: len(path)] == path:
            return Extension(len(path), target[len(path) :], new_segment=False)
        resume = self._bridge(messages, new, path, tools, target.tokens)
        if resume is not None:
            return Extension(len(path), target[resume:], new_segment=False)
        keep = common_prefix(path, target.tokens)
        return Extension(keep, target[keep:], new_segment=True)

    def demonstration(self, messages: Sequence[Message], tools: Iterable[Tool] | None = None) -> list[Rendered]:
        """A whole conversation with its assistant turns as demonstrations, stop tokens included.

        One rendering when the template preserves prefixes; otherwise one per segment, each turn trained once, in
        the context in which it would have been sampled. Raises InputError when there is no assistant turn.
        """
        tools = _listed(tools)
        self._check(messages, tools)
        turns = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
        if not turns:
            raise InputError("a demonstration needs at least one message of role assistant: there is nothing to train")
        segments: list[Rendered] = []
        current, official, tail = Rendered(), [], Rendered()
        for index in turns:
            context, turn, tail_of_turn, official_of_turn = self._turn(messages, index, tools)
            if current and context.tokens[: len(official)] == official:
                current = current + context[len(official) :] + turn
            else:
                if current:
                    segments.append(current + tail)
                current = context + turn
            tail, official = tail_of_turn, official_of_turn
        return [*segments, current + tail]

    def assistant_message(self, sampled: Sequence[int]) -> dict[str, Any]:
        """The sampled ids as a message: their text, without the stop token."""
        ids = list(sampled)
        while ids and ids[-1] in self.stop_ids:
            ids.pop()
        return {"role": "assistant", "content": self.official.tokenizer.decode(ids, skip_special_tokens=False)}

    # ------------------------------------------------------------ inside

    def _labelled(self, messages: Sequence[Message], tools: list[Tool] | None, *, prompt: bool) -> Rendered:
        ids = self.official.ids(messages, tools, prompt=prompt)
        return label(self.official, messages, tools, ids, prompt=prompt)

    def _end(self, message: Message) -> TurnEnd:
        return self.finding.call_end if message.get("tool_calls") else self.finding.answer_end

    def _turn(
        self, messages: Sequence[Message], index: int, tools: list[Tool] | None
    ) -> tuple[Rendered, Rendered, Rendered, list[int]]:
        """Of the assistant's turn `messages[index]`: context, trained tokens, trailing scaffold, official tokens.

        The last are the official render up to where the turn is closed, to be found again in the render of the next
        turn. They differ from context and trained tokens only when a token spans the edge between the two.
        """
        calls = bool(messages[index].get("tool_calls"))
        before = self._labelled(messages[:index], tools, prompt=True) if index else Rendered()
        done = self._labelled(messages[: index + 1], tools, prompt=False)
        start = common_prefix(before.tokens, done.tokens)
        end = self._end(messages[index])
        stop = turn_stop(done.tokens, start, end, self.stop_ids)
        last = len(done) if stop is None else stop + 1
        context, official = done[:start], done.tokens[:last]
        body, roles = done.tokens[start:last], self._turn_roles(done, start, last, calls)
        if start < len(before) and index and self._begins(messages[: index + 1], tools):
            # A token spans the edge. The engine would be given the prompt's own tokens, so these are kept.
            opening = self.official.text(messages[:index], tools, prompt=True)
            rest = self.official.encode(self.official.text(messages[: index + 1], tools)[len(opening) :])
            context, body = before, rest[: len(rest) - (len(done) - last)]
            roles = [Role.ACTION if calls else Role.ANSWER] * len(body)
        if stop is None and end.stop is not None:
            body, roles = [*body, end.stop], [*roles, Role.ACTION if calls else Role.ANSWER]
            official = [*official, end.stop]
        return context, Rendered(body, [DEMONSTRATION] * len(body), roles), done[last:], official

    def _turn_roles(self, done: Rendered, start: int, last: int, calls: bool) -> list[Role]:
        return turn_roles(done, start, last, calls=calls, thought_closing=self.finding.thought_closing)

    def _begins(self, messages: Sequence[Message], tools: list[Tool] | None) -> bool:
        """Whether the last turn, finished, begins with the generation prompt (a token may span the edge)."""
        return self.official.text(messages, tools).startswith(self.official.text(messages[:-1], tools, prompt=True))

    def _bridge(
        self,
        messages: Sequence[Message],
        new: Sequence[Message],
        path: list[int],
        tools: list[Tool] | None,
        target: list[int],
    ) -> int | None:
        """Where in `target` the continuation of `path` starts when history is unedited; None when it is edited.

        Reached when the sampled ids are not what the template would make of the message: they do not re-encode to
        themselves, or whitespace or JSON spacing differ. The path stays as sampled.
        """
        opening = self.official.ids(messages[:-1], tools, prompt=True)
        sampled = path[common_prefix(path, opening) :]
        closed = bool(path) and path[-1] in self.stop_ids
        if self.finding.thinking == "dropped at once" and self._thinks(messages[-1], sampled):
            return None
        done = self.official.ids(messages, tools)
        start = common_prefix(done, opening)
        if start == len(opening) or self._begins(messages, tools):
            stop = turn_stop(done, start, self._end(messages[-1]), self.stop_ids)
            until = len(done) if stop is None else stop + 1
            if target[:until] == done[:until]:
                if stop is not None:
                    return until if closed else stop
                return until + 1 if closed and target[until : until + 1] == path[-1:] else until
        if self._thinks(messages[-1], sampled) or messages[-1].get("tool_calls"):
            return None
        return self._bridge_by_probe(messages, new, tools, opening, target, closed)

    def _bridge_by_probe(
        self,
        messages: Sequence[Message],
        new: Sequence[Message],
        tools: list[Tool] | None,
        opening: list[int],
        target: list[int],
        closed: bool,
    ) -> int | None:
        """The same for a template that renders a last turn unlike an earlier one (an empty thought put in front).

        Two renders with other answers show what surrounds an answer once `new` follows it.
        """
        first, second = (
            self.official.ids([*messages[:-1], {**messages[-1], "content": word}, *new], tools, prompt=True)
            for word in ("One", "Two")
        )
        if common_prefix(first, second) != len(opening) or first[: len(opening)] != opening:
            return None
        after = target[len(target) - min(common_suffix(first, second), common_suffix(first, target)) :]
        stop = self.finding.answer_end.stop
        if stop not in after:
            return None
        place = len(target) - len(after) + after.index(stop)
        return place + 1 if closed else place

    def _thinks(self, message: Message, sampled: Sequence[int]) -> bool:
        """Whether the turn holds thinking, by the message or by the sampled text."""
        if any(message.get(key) for key in THINKING_KEYS):
            return True
        return "</think>" in str(message.get("content")) or "</think>" in str(self.official.tokenizer.decode(sampled))

    def _check(self, messages: Sequence[Message], tools: list[Tool] | None) -> None:
        """Refuse what the template would leave out silently. Raises InputError naming the message."""
        finding, official = self.finding, self.official
        if tools and not finding.tools_shown:
            raise InputError("this chat template leaves out the tools' descriptions: put them into a message's text")
        for index, message in enumerate(messages):
            role = message.get("role")
            if not isinstance(role, str):
                raise InputError(f"message {index} has no role: each message needs role and content")
            if message.get("tool_calls") and finding.tool_calls != "rendered":
                raise InputError(
                    f"message {index} has tool calls, which this chat template has {finding.tool_calls}: write them "
                    "as text in content, or give a template that renders them"
                )
            if message.get("tool_calls") and message.get("content") and not finding.text_beside_calls:
                raise InputError(f"message {index} has text beside tool calls, and the chat template drops one of them")
            thought = next((key for key in THINKING_KEYS if message.get(key)), None)
            if role == "assistant" and thought and official.forms.thinking_key is None:
                raise InputError(
                    f"message {index} has {thought}, which this chat template leaves out: put the thinking into "
                    "content, in the model's own markup"
                )
            if role == "system" and "system messages" in finding.refused:
                raise InputError(f"message {index} has role system, which this chat template refuses or leaves out")
            if role not in self._shown:
                self._shown[role] = shows_role(official, role)
            if not self._shown[role]:
                raise InputError(
                    f"message {index} has role {role}, which this chat template leaves out: use one that it knows, "
                    "or give another template"
                )


def _listed(tools: Iterable[Tool] | None) -> list[Tool] | None:
    return None if tools is None else list(tools)
