"""Episodes over the engine: the same bits whoever is in flight, and one answer as the simplest case of an attempt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnish.running.assemble as assembling
from burnish import train
from burnish.environments import Action, Attempt, Environment, Observation, passed, said
from burnish.feedback.build import build as build_feedback
from burnish.feedback.spec import FeedbackSpec
from burnish.ledger import Ledger
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import QuietProgress
from burnish.sampling import LocalEngine, SamplingParams
from burnish.sources.context import Context
from burnish.sources.episodes import Episodes, Stage, attempts
from burnish.sources.judged import single_turns
from burnish.sources.source import TaskOrder
from burnish.sources.spec import BranchSpec, EpisodesSpec, RolloutsSpec
from burnish.sources.speech import Setting
from burnish.tasks import Task
from burnish.traces import Group, Verdict
from burnish.traces.templates import chat_format
from tests.sources.acting import stage_for
from tests.tiny import tiny_model, tiny_network, tiny_tokenizer

FORMAT = chat_format(tiny_tokenizer())


class Chatter(Environment):
    """Answers each turn with its length, and is done after three."""

    pure = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.turns = 0
        return said(task.columns["word"])

    async def step(self, action: Action) -> Observation:
        self.turns += 1
        return Observation(({"role": "tool", "content": str(len(action.text))},), done=self.turns == 3)

    async def verify(self, attempt: Attempt) -> Verdict:
        return passed(len(attempt.turns[-1].action.text) % 2 == 0)


class Slow(Chatter):
    """The same, in a thread of its own."""

    pure = False


class Talks:
    name, turns = "talks", 8

    def __init__(self, cls: type[Environment], count: int = 4) -> None:
        self.cls, self.pure, self.count = cls, cls.pure, count

    def tasks(self) -> list[Task]:
        return [Task(prompt=f"w{i}" * (i + 1), columns={"word": f"w{i}" * (i + 1)}) for i in range(self.count)]

    def make(self) -> Environment:
        return self.cls()


def bits(group: Group) -> list[Any]:
    """Everything of a group that could differ."""
    return [
        (
            [node.tokens.tolist() for node in map(m.trace.nodes.__getitem__, m.trace.path(m.leaf))],
            [node.logprobs.tobytes() for node in map(m.trace.nodes.__getitem__, m.trace.path(m.leaf))],
            m.verdict,
        )
        for m in group.members
    ]


def played(rows: int, episodes: EpisodesSpec, cls: type[Environment] = Chatter) -> list[Any]:
    engine = LocalEngine(tiny_model("llama"), max_rows=rows, deterministic=True)
    stage = stage_for(Talks(cls), engine, episodes, max_tokens=5, form=FORMAT, tokenizer=tiny_tokenizer())
    source = Episodes(RolloutsSpec(prompts_per_step=4, samples_per_prompt=3), Talks(cls).tasks(), stage)

    async def collect() -> list[Group]:
        return [group async for group in source.groups(0)]

    return [bits(group) for group in asyncio.run(collect())]


def test_the_bits_of_an_attempt_do_not_depend_on_who_is_in_flight() -> None:
    whole = played(64, EpisodesSpec())
    assert all(len(tokens) == 6 for group in whole for tokens, _, _ in group)  # a prompt, three turns, two answers
    assert played(2, EpisodesSpec()) == whole
    assert played(64, EpisodesSpec(live=3)) == whole
    assert played(64, EpisodesSpec(), Slow) == whole
    engine = LocalEngine(tiny_model("llama"), deterministic=True)
    stage = stage_for(Talks(Chatter), engine, max_tokens=5, form=FORMAT, tokenizer=tiny_tokenizer())
    task = TaskOrder(Talks(Chatter).tasks(), 4, 11).at(0)[2][0]
    assert bits(asyncio.run(attempts(stage, task, 3))) == whole[2]  # with nobody else about


def test_branches_draw_by_numbers_of_their_own_and_share_what_came_before() -> None:
    branched = played(64, EpisodesSpec(branch=BranchSpec(turn=1, ways=3)))
    assert branched == played(2, EpisodesSpec(branch=BranchSpec(turn=1, ways=3)))
    whole = played(64, EpisodesSpec())
    for group, plain in zip(branched, whole, strict=True):
        assert len(group) == 9
        for first in range(3):
            ways = group[3 * first : 3 * first + 3]
            assert {json.dumps(tokens[:3]) for tokens, _, _ in ways} == {json.dumps(plain[first][0][:3])}
            assert len({json.dumps(tokens) for tokens, _, _ in ways}) > 1


def test_sessions_spare_a_second_prefill() -> None:
    engine = LocalEngine(tiny_model("llama"))
    stage = stage_for(Talks(Chatter), engine, max_tokens=5, form=FORMAT, tokenizer=tiny_tokenizer())
    group = asyncio.run(attempts(stage, Talks(Chatter).tasks()[0], 2))
    context = stage.setting.context
    trace = group.members[0].trace
    fresh = sum(int(np.isnan(node.logprobs).sum()) for node in trace.nodes)
    again = 2 * 2  # the last token of a turn was sampled and never fed
    assert context.ledger.total("policy", "prefilled_tokens") == fresh + again
    plain = Task(messages=({"role": "user", "content": "w"},))
    asyncio.run(stage.setting.context.sample(plain, 2))  # what the engine keeps for itself
    held = engine.metrics()["kv_bytes"]
    asyncio.run(attempts(stage, Talks(Chatter).tasks()[0], 2))
    assert engine.metrics()["kv_bytes"] == held  # every session was released


# ---------------------------------------------------------------- one answer


class Rollouts:
    """One answer a sample, in the shortest way, judged when all are there: what the episodes must come to."""

    def __init__(self, spec: RolloutsSpec, tasks: Sequence[Task], context: Context) -> None:
        self.spec, self.context = spec, context
        self.order = TaskOrder(tasks, spec.prompts_per_step, context.seed)

    async def groups(self, step: int) -> AsyncIterator[Group]:
        n = self.spec.samples_per_prompt
        running = [
            asyncio.ensure_future(self.context.sample(task, n, first=taken * n)) for task, taken in self.order.at(step)
        ]
        for group in running:
            yield await group

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None: ...


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_run_of_single_answers_gives_the_bits_of_plain_rollouts(
    deterministic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_network("llama").save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "rewards.py").write_text(
        "def dense(completions, **columns): return [c.count('e') for c in completions]\n"
    )
    values = {
        "method": "grpo", "steps": 3, "prompts_per_step": 3, "samples_per_prompt": 4, "threads": 1, "seed": 5,
        "deterministic": deterministic, "model": {"path": str(tmp_path / "model"), "dtype": "float32"},
        "data": {"family": {"kind": "arithmetic", "count": 6}}, "sampling": {"max_tokens": 6},
        "rewards": [{"kind": "function", "function": f"{tmp_path / 'rewards.py'}:dense"}, {"kind": "format"}],
        "optimizer": {"lr": 1e-3},
    }  # fmt: skip
    train(recipe_from_mapping(values), out=tmp_path / "episodes", progress=QuietProgress())
    monkeypatch.setattr(
        assembling, "build_source", lambda spec, tasks, *, context, **more: Rollouts(spec, tasks, context)
    )
    train(recipe_from_mapping(values), out=tmp_path / "rollouts", progress=QuietProgress())
    found = [_left(tmp_path / name) for name in ("episodes", "rollouts")]
    assert found[0] == found[1]


def _left(run: Path) -> tuple[list[dict[str, Any]], bytes]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    metrics = [{k: v for k, v in record.items() if "timing/" not in k} for record in records]
    return metrics, (run / "final" / "model.safetensors").read_bytes()


def single_stage(rewards: list[dict[str, Any]], refills: int = 0) -> Stage:
    engine = LocalEngine(tiny_model("llama"))
    ledger = Ledger()
    feedback = build_feedback(FeedbackSpec.model_validate({"rewards": rewards}), ledger=ledger)
    context = Context(engine, FORMAT, SamplingParams(5, stop_ids=FORMAT.stop_ids), 0, ledger)
    return single_turns(feedback, Setting(context, tiny_tokenizer().decode), refills)


def test_a_reward_sees_the_answers_of_a_prompt_together_and_what_fails_is_sampled_anew() -> None:
    seen: list[list[str]] = []

    def reward(completions: list[str], **columns: Any) -> list[float]:
        seen.append(completions)
        if len(seen) == 1:
            raise OSError("down for a moment")
        return [float(len(seen))] * len(completions)

    stage = single_stage([{"kind": "function", "function": reward}], refills=2)
    group = asyncio.run(attempts(stage, Task(prompt="say", columns={"prompt": "say"}), 3))
    assert [len(texts) for texts in seen] == [3, 3] and seen[0] != seen[1]
    assert [m.verdict.reward for m in group.members if m.verdict] == [None] * 3 + [2.0] * 3


def test_what_a_reward_refuses_to_judge_is_not_sampled_anew() -> None:
    calls = []

    def reward(completions: list[str], **columns: Any) -> list[None]:
        calls.append(1)
        return [None] * len(completions)

    stage = single_stage([{"kind": "function", "function": reward}], refills=2)
    group = asyncio.run(attempts(stage, Task(prompt="say", columns={}), 3))
    assert len(calls) == 1 and [m.verdict.reward for m in group.members if m.verdict] == [None] * 3
