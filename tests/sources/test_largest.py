"""The largest steps of a source are found without running it."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.sampling import LocalEngine, SamplingParams
from burnish.sources.context import Context
from burnish.sources.largest import largest_steps
from burnish.sources.source import Demonstrations, Source, build
from burnish.sources.spec import DemonstrationsSpec, RolloutsSpec
from burnish.tasks import Task
from burnish.traces import Group
from burnish.traces.templates import chat_format
from tests.tiny import tiny_model, tiny_tokenizer

FORMAT = chat_format(tiny_tokenizer())


def tokens(groups: list[Group]) -> int:
    return sum(len(node) for group in groups for trace in group.traces for node in trace.nodes)


def asked(text: str, answer: str | None = None) -> Task:
    shown = None if answer is None else ({"role": "assistant", "content": answer},)
    return Task(messages=({"role": "user", "content": text},), demonstration=shown)


def demonstrations(count: int, per_step: int, long: int) -> Demonstrations:
    """A source of short demonstrations, the one at `long` a long one."""
    tasks = [asked(f"row {i}", "x" * (200 if i == long else 10)) for i in range(count)]
    source = build(DemonstrationsSpec(prompts_per_step=per_step), tasks, context=None, format=FORMAT, seed=0)
    assert isinstance(source, Demonstrations)
    return source


@pytest.mark.parametrize("long", range(6))
def test_the_step_with_the_longest_demonstration_is_found(long: int) -> None:
    source = demonstrations(6, 2, long)
    found = largest_steps(source, 3, budget=4096, context_length=None)
    largest = max(found, key=tokens)
    assert len(largest) == 2 and tokens(largest) > 200
    assert any(len(trace.nodes[-1]) > 200 for group in largest for trace in group.traces)


def test_steps_that_are_never_reached_do_not_count() -> None:
    source = demonstrations(6, 2, long=0)
    reached = [task.text for task, _ in source.order.at(0)]
    found = largest_steps(source, 1, budget=4096, context_length=None)
    assert (max(tokens(groups) for groups in found) > 200) == ("row 0" in reached)


def test_a_run_too_long_to_look_through_is_taken_at_its_worst() -> None:
    source = demonstrations(6, 2, long=4)
    found = largest_steps(source, 1_000_000_000, budget=4096, context_length=None)
    assert len(found) == 1 and tokens(found[0]) > 200


def rollouts(max_tokens: int, samples: int, prompts: int = 3) -> Source:
    engine = LocalEngine(tiny_model("llama"))
    context = Context(engine, FORMAT, SamplingParams(max_tokens), 0)
    tasks = [asked("ab" * (i + 1)) for i in range(prompts)]
    spec = RolloutsSpec(prompts_per_step=prompts, samples_per_prompt=samples)
    return build(spec, tasks, context=context, format=FORMAT, seed=0)


def test_answers_are_as_long_as_they_may_get_and_fit_the_context() -> None:
    [step, *_] = largest_steps(rollouts(max_tokens=50, samples=4), 1, budget=4096, context_length=None)
    for group in step:
        assert [len(member.trace.nodes[member.leaf]) for member in group.members] == [50] * 4
    [step, *_] = largest_steps(rollouts(max_tokens=50, samples=4), 1, budget=4096, context_length=60)
    for group in step:
        trace = group.members[0].trace
        assert len(trace.nodes[0]) + len(trace.nodes[1]) == 60


def test_a_step_of_many_micro_batches_is_cut_short() -> None:
    [step, *_] = largest_steps(rollouts(max_tokens=50, samples=1000, prompts=8), 1, budget=100, context_length=None)
    assert 400 < tokens(step) < 1500


def test_another_kind_of_source_is_not_guessed_at() -> None:
    assert largest_steps(object(), 3, budget=100, context_length=None) == []  # type: ignore[arg-type]


def test_looking_changes_nothing() -> None:
    source = demonstrations(6, 2, long=1)
    before = [[task.id for task, _ in source.order.at(step)] for step in range(6)]
    largest_steps(source, 6, budget=10, context_length=None)
    after = [[task.id for task, _ in source.order.at(step)] for step in range(6)]
    assert np.array_equal(before, after)
