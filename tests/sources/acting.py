"""What tests of attempts share: a sampler that reads its turns from a script, environments that fail, a stage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from burnish.environments import Action, Attempt, Environment, Observation, passed, result, said, tool
from burnish.environments.protocol import Family
from burnish.ledger import Ledger
from burnish.models.nursery import character_tokenizer
from burnish.outside import Outside
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sources.calls import syntax_of, tool_role
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.spec import EpisodesSpec
from burnish.sources.speech import Setting
from burnish.tasks import Task
from burnish.traces import Group, Verdict
from burnish.traces.templates import Format, chat_format

TOKENIZER = character_tokenizer()
FORMAT = chat_format(TOKENIZER)

Script = Callable[[str, int, int], str]
"""The text of a turn, given everything before it, the sample number and how many turns there were."""


class ScriptedSampler:
    """A sampler whose turns are told by a script. It remembers what it was asked, and checks that sessions go on."""

    name = "policy"
    version = 3

    def __init__(self, script: Script, tokenizer: Any = TOKENIZER, sessions: bool = True) -> None:
        self.script, self.tokenizer, self.sessions = script, tokenizer, sessions
        self.keeps: list[bool] = []
        self.seen: list[list[int]] = []
        """Every whole sequence of ids, prompt and completion, in the order in which they ended."""
        self.asked: list[dict[str, Any]] = []
        self.open = 0
        self.now = 0
        self.most = 0

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
        keep: bool = True,
    ) -> list[Completion]:
        self.keeps.append(keep)
        turns = 0 if self.sessions else list(prompt).count(self.tokenizer.eos_token_id)
        return await self._turn(list(prompt), turns, params, n, seed, task, sample)

    async def extend(
        self,
        session: Any,
        tokens: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
    ) -> list[Completion]:
        ids, turns = session
        return await self._turn([*ids, *tokens], turns, params, n, seed, task, sample)

    async def _turn(
        self, before: list[int], turns: int, params: SamplingParams, n: int, seed: int, task: int, sample: int
    ) -> list[Completion]:
        self.now += n
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= n
        found = []
        for number in range(sample, sample + n):
            self.asked.append(
                {"before": before, "number": number, "seed": seed, "task": task, "most": params.max_tokens}
            )
            text = self.script(self.tokenizer.decode(before), number, turns)
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"][: params.max_tokens]
            stopped = len(ids) < params.max_tokens
            ids = [*ids, self.tokenizer.eos_token_id] if stopped else ids
            self.seen.append([*before, *ids])
            self.open += self.sessions
            found.append(Completion(
                np.array(ids, np.int32), np.full(len(ids), -0.5, np.float32), np.full(len(ids), self.version, np.int32),
                "stop" if stopped else "length", session=([*before, *ids], turns + 1) if self.sessions else None,
                prefilled=len(before) if number == sample else 0, flops=1,
            ))  # fmt: skip
        return found

    def publish(self, version: int, weights: Any = None) -> None: ...
    def cancel(self, task: int) -> None: ...

    def release(self, session: Any) -> None:
        self.open -= 1


def answers(*turns: str) -> Script:
    """Every attempt says the same, the last turn again and again."""
    return lambda before, number, turn: turns[min(turn, len(turns) - 1)]


class Echo(Environment):
    """Asks for a word to be passed through a tool, which says it backwards; right is the word backwards.

    `fault` is a method that fails in `how` (raise, hang, block, nonsense), for attempts of the numbers in `seeds`.
    """

    fault = ""
    how = "raise"
    made: ClassVar[list[Echo]] = []
    failing: Callable[[Echo], bool] = staticmethod(lambda echo: True)

    def __init__(self) -> None:
        self.word = ""
        self.steps = 0
        self.closed = 0
        type(self).made.append(self)

    async def _maybe(self, method: str) -> Any:
        if self.fault != method or not type(self).failing(self):
            return None
        match self.how:
            case "raise":
                raise ZeroDivisionError(f"{method} is broken")
            case "hang":
                await asyncio.sleep(3600)
            case "block":
                time.sleep(3600)
        return "nonsense"

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.word = task.columns["word"]
        tools = tool("flip", word=str), tool("add", a=int, b=int)
        return await self._maybe("reset") or said(self.word, *tools, state_key="start")

    async def step(self, action: Action) -> Observation:
        self.steps += 1
        wrong = await self._maybe("step")
        if wrong:
            return wrong
        if not action.calls:
            return Observation(done=True)
        found = tuple(result(c, str(c.arguments.get("word", c.arguments.get("a")))[::-1]) for c in action.calls)
        return Observation(found, state_key=f"flipped {self.steps}")

    async def verify(self, attempt: Attempt) -> Verdict:
        return await self._maybe("verify") or passed(attempt.answer == self.word[::-1])

    async def snapshot(self) -> Environment:
        wrong = await self._maybe("snapshot")
        if wrong:
            return wrong
        twin = type(self)()
        twin.word, twin.steps = self.word, self.steps
        return twin

    async def close(self) -> None:
        self.closed += 1
        await self._maybe("close")


class PureEcho(Echo):
    """The same, in the run's own thread."""

    pure = True


def echo(pure: bool = False, **settings: Any) -> type[Echo]:
    """A class of its own with these settings."""
    return cast("type[Echo]", type("Echoing", (PureEcho if pure else Echo,), {"made": [], **settings}))


class Words:
    """A family of words to flip."""

    name, turns = "words", 4

    def __init__(self, cls: type[Echo], count: int = 3) -> None:
        self.cls, self.count = cls, count

    def tasks(self) -> list[Task]:
        words = ["abc", "de", "fgh", "ij", "klm"][: self.count]
        return [Task(messages=({"role": "user", "content": w},), columns={"word": w}, answer=w[::-1]) for w in words]

    @property
    def pure(self) -> bool:
        return self.cls.pure

    def make(self) -> Environment:
        return self.cls()


def stage_for(
    family: Family,
    sampler: Any,
    episodes: EpisodesSpec | None = None,
    *,
    max_tokens: int = 24,
    refills: int = 0,
    outside: Outside | None = None,
    form: Format = FORMAT,
    tokenizer: Any = TOKENIZER,
    context_length: int | None = None,
    calls: Any = "auto",
) -> Stage:
    """A stage with a nursery model's format."""
    context = Context(sampler, form, SamplingParams(max_tokens, stop_ids=form.stop_ids), 11, Ledger())

    def decode(ids: Sequence[int]) -> str:
        kept = list(ids)
        while kept and kept[-1] in form.stop_ids:
            kept.pop()
        return tokenizer.decode(kept, skip_special_tokens=True)

    setting = Setting(context, decode, tool_role(form), context_length)
    return Stage.of(
        family,
        episodes or EpisodesSpec(call_seconds=20),
        setting,
        syntax_of(calls, form),
        refills=refills,
        outside=outside,
    )


def transcript(group: Group, member: int = 0, tokenizer: Any = TOKENIZER) -> str:
    """What the engine saw of a member, as text."""
    span = group.members[member]
    return tokenizer.decode(span.trace.tokens(span.leaf))
