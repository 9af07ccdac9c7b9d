"""A conversation of one attempt in tokens: what the engine saw, and how it becomes nodes of a trace.

Sampled ids are kept as they were sampled; what an environment says is appended by the format, token-exactly, and its
tokens have the environment as their author (promises E6 and E7). Nothing is prefilled twice: the engine's session goes
on. Where a template edits what came before, a new segment begins, which is a branch of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from burnish.environments.answers import EnvironmentFault
from burnish.environments.protocol import Action, Observation
from burnish.errors import InputError
from burnish.randomness import counter_hash, stable_hash
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sources.calls import Calls
from burnish.sources.context import Context
from burnish.tasks import Task
from burnish.tasks.task import Message
from burnish.traces import ENVIRONMENT, Author, Role, Span, Trace
from burnish.traces.templates import Extension, Rendered, add_extension, add_rendered

_SEGMENT = stable_hash("burnish.sources.speech/segment")
_BRANCH = stable_hash("burnish.sources.speech/branch")


class RefusedError(InputError):
    """The format refuses the messages that an attempt begins with."""


@dataclass(frozen=True)
class Setting:
    """What all attempts of a source share on the side of the tokens."""

    context: Context
    decode: Callable[[Sequence[int]], str]
    """Text of sampled ids, without the stop token and special tokens."""
    tool_role: str = "tool"
    context_length: int | None = None

    def told(self, message: Message) -> Message:
        """A message in the role in which the template shows it."""
        return {**message, "role": self.tool_role} if message["role"] == "tool" else dict(message)


@dataclass(frozen=True, eq=False)
class Uttered:
    """A sampled turn; `state_key` names the state that it was taken in."""

    completion: Completion
    temperature: float
    role: Role
    state_key: str | None


Piece = Rendered | Extension | Uttered
"""What a path is made of, in order: the prompt; then turns, with extensions between them."""


@dataclass
class Speech:
    """A model's side of one attempt. `number` is the sample number its random draws go by."""

    setting: Setting
    task: int
    number: int
    calls: Calls
    messages: list[Message]
    path: list[int]
    pieces: list[Piece]
    extensions: dict[Any, Extension] = field(default_factory=dict)
    """Extensions made so far in the attempts of a task, by path and messages: many attempts begin alike."""
    said: Sequence[int] = ()
    """The last turn."""
    sampled: int = 0
    segment: int = 0
    session: Any = None

    @classmethod
    def opened(
        cls,
        setting: Setting,
        task: Task,
        number: int,
        calls: Calls,
        opening: Observation,
        extensions: dict[Any, Extension],
    ) -> Speech:
        """An attempt that begins with a reset's observation.

        Raises RefusedError when the format refuses it, InputError when it fills the model's context.
        """
        messages = [setting.told(message) for message in calls.opening(opening.messages)]
        try:
            prompt = setting.context.format.prompt(messages, calls.for_template)
        except InputError as error:
            raise RefusedError(f"{task.named}: {error}") from error
        limit = setting.context_length
        if limit is not None and len(prompt) >= limit:
            raise InputError(
                f"{task.named}: an attempt begins with {len(prompt)} tokens, but the context of the model is {limit}: "
                f"{str(messages[-1]['content'])[:60]!r}..."
            )
        return cls(setting, task.number, number, calls, messages, list(prompt.tokens), [prompt], extensions)

    def take(self, completion: Completion, state_key: str | None) -> Action:
        """A sampled turn becomes part of the attempt; what it says."""
        context = self.setting.context
        ids = completion.tokens.tolist()
        action = self.calls.read(lambda: self._message(ids)["content"], self.setting.decode(ids))
        role = Role.ACTION if action.calls or action.wrong else Role.ANSWER
        temperature = 0.0 if completion.greedy else context.params.temperature
        self.pieces.append(Uttered(completion, temperature, role, state_key))
        self.path += ids
        self.said = ids
        self.sampled += len(ids)
        self.release()
        self.session = completion.session
        return action

    def _message(self, ids: Sequence[int]) -> Message:
        """A turn as a message, its special tokens included."""
        return dict(self.setting.context.format.assistant_message(ids))

    def hear(self, messages: Sequence[Message]) -> bool:
        """Append what the model is told next; False when its context is full then.

        Raises EnvironmentFault where the format refuses what the environment said.
        """
        self.messages.append(self._message(self.said))
        new = [self.setting.told(message) for message in messages]
        extension = self._extension(new)
        length = extension.keep + len(extension.added)
        self.messages += new
        limit = self.setting.context_length
        if limit is not None and length >= limit:
            return False
        self.path = [*self.path[: extension.keep], *extension.added.tokens]
        self.pieces.append(extension)
        if extension.new_segment:
            self.segment += 1
            self.release()
        return True

    def _extension(self, new: list[Message]) -> Extension:
        key = tuple(self.path), tuple((m["role"], m["content"]) for m in new)
        if key not in self.extensions:
            form = self.setting.context.format
            try:
                found = form.extend(self.messages, self.path, new, self.calls.for_template)
            except InputError as error:
                raise EnvironmentFault("step", f"gave messages that a model cannot be told: {error}") from error
            self.extensions[key] = replace(found, added=_observed(found))
        return self.extensions[key]

    async def begin(self, params: SamplingParams, n: int, *, keep: bool = True) -> list[Completion]:
        """The first turns of n attempts, whose numbers follow each other from this one's. `keep`: others may follow."""
        context = self.setting.context
        with context.ledger.timed(context.role):
            found = await context.sampler.sample(
                self.path, params, n=n, seed=context.seed, task=self.task, sample=self.number, keep=keep
            )
        count_turn(context, found)
        return found

    def copied(self, number: int) -> Speech:
        """A speech of another number that has said the same."""
        return replace(
            self,
            number=number,
            messages=list(self.messages),
            path=list(self.path),
            pieces=list(self.pieces),
            session=None,
        )

    async def turn(self, params: SamplingParams, ways: int = 1) -> list[Completion]:
        """Sample the next turn; several ways of it draw by numbers of their own."""
        context = self.setting.context
        seed = context.seed if not self.segment else int(counter_hash(_SEGMENT, context.seed, self.segment))
        sample = self.number if ways == 1 else branch_number(self.number, len(self.pieces), 0)
        where: dict[str, Any] = {"n": ways, "seed": seed, "task": self.task, "sample": sample}
        with context.ledger.timed(context.role):
            if self.session is not None:
                added = self.pieces[-1]
                assert isinstance(added, Extension)
                found = await context.sampler.extend(self.session, added.added.tokens, params, **where)
            else:
                found = await context.sampler.sample(self.path, params, **where)
        count_turn(context, found)
        return found

    def branched(self, ways: int) -> list[Speech]:
        """The speeches of the ways that the next turn is sampled in, each with a number of its own."""
        return [self.copied(branch_number(self.number, len(self.pieces), way)) for way in range(ways)]

    def release(self) -> None:
        """Give the engine's session up."""
        if self.session is not None:
            self.setting.context.sampler.release(self.session)
            self.session = None


def branch_number(number: int, place: int, way: int) -> int:
    """The sample number of a branch: 64 bits that no other attempt has."""
    return (int(counter_hash(_BRANCH, number, place)) + way) % (1 << 64)


def count_turn(context: Context, completions: Sequence[Completion]) -> None:
    """Count the tokens of turns, not as new samples."""
    role, ledger = context.role, context.ledger
    ledger.add(role, "sampled_tokens", sum(len(completion.tokens) for completion in completions))
    for completion in completions:
        if completion.prefilled is not None:
            ledger.add(role, "prefilled_tokens", completion.prefilled)
        if completion.flops is not None:
            ledger.add(role, "flops", completion.flops)


def _observed(extension: Extension) -> Rendered:
    """What an extension adds, with the environment as the author of what it said, whatever role its message had.

    That is what follows the last turn of the model: in a new segment, history is rendered before it.
    """
    added = extension.added
    last = max((i for i, role in enumerate(added.roles) if role in _OWN), default=-1)
    if extension.new_segment and last < 0:  # rendered without roles, so what is history cannot be told apart
        return added
    authors: list[Author] = list(added.authors)
    roles = list(added.roles)
    for place in range(last + 1, len(added)):
        if roles[place] is not Role.SCAFFOLD:
            authors[place], roles[place] = ENVIRONMENT, Role.OBSERVATION
    return Rendered(added.tokens, authors, roles)


_OWN = (Role.ANSWER, Role.ACTION, Role.THOUGHT)


# ---------------------------------------------------------------- nodes


@dataclass
class Written:
    """Attempts written into a trace: each piece that several attempts share stands there once."""

    trace: Trace
    model: str
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)
    _prompts: dict[tuple[int, ...], int] = field(default_factory=dict)
    _pieces: list[Piece] = field(default_factory=list)

    def add(self, pieces: Sequence[Piece]) -> tuple[int, list[int]]:
        """Write an attempt: its last node, and the last nodes of segments that ended before."""
        leaf, ended = -1, []
        for piece in pieces:
            if isinstance(piece, Extension) and piece.new_segment:
                ended.append(leaf)
            leaf = self._node(leaf, piece)
        return leaf, ended

    def _node(self, parent: int, piece: Piece) -> int:
        if isinstance(piece, Rendered):
            tokens = tuple(piece.tokens)
            if tokens not in self._prompts:
                self._prompts[tokens] = add_rendered(self.trace, -1, piece)
            return self._prompts[tokens]
        key = parent, id(piece)
        if key not in self._nodes:
            self._pieces.append(piece)  # so that no other gets its id
            is_turn = isinstance(piece, Uttered)
            self._nodes[key] = self._turn(parent, piece) if is_turn else add_extension(self.trace, parent, piece)
        return self._nodes[key]

    def _turn(self, parent: int, piece: Uttered) -> int:
        completion = piece.completion
        authors = [Author.model(self.model, int(v)) for v in completion.versions]
        leaf = self.trace.add(
            parent, completion.tokens, authors, piece.role, completion.logprobs, support=completion.support,
            meta={"finish": completion.finish, "temperature": piece.temperature},
        )  # fmt: skip
        start = sum(len(self.trace.nodes[node]) for node in self.trace.path(parent))
        self.trace.spans.append(Span(self.trace, leaf, "turn", start, state_key=piece.state_key))
        return leaf
