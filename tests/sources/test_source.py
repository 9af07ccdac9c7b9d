"""Which tasks a step takes, and how demonstrations become groups."""

from __future__ import annotations

import asyncio

import pytest

from burnish.errors import InputError
from burnish.sources.source import TaskOrder, build
from burnish.sources.spec import DemonstrationsSpec, RolloutsSpec
from burnish.tasks import Task
from burnish.traces import AuthorKind, Group
from burnish.traces.templates import chat_format
from tests.tiny import tiny_tokenizer


def tasks(count: int, demonstrations: bool = True) -> list[Task]:
    return [
        Task(
            messages=({"role": "user", "content": f"say {i}"},),
            demonstration=({"role": "assistant", "content": f"{i}!"},) if demonstrations else None,
        )
        for i in range(count)
    ]


def test_every_epoch_takes_every_task_once_in_another_order() -> None:
    order = TaskOrder(tasks(5), per_step=2, seed=0)
    taken = [pair for step in range(5) for pair in order.at(step)]
    first, second = taken[:5], taken[5:]
    assert {t.id for t, _ in first} == {t.id for t, _ in second} and len({t.id for t, _ in first}) == 5
    assert [e for _, e in taken] == [0] * 5 + [1] * 5
    assert [t.id for t, _ in first] != [t.id for t, _ in second]


def test_the_order_is_a_function_of_seed_and_step() -> None:
    whole = [TaskOrder(tasks(7), 3, seed=4).at(step) for step in range(6)]
    assert TaskOrder(tasks(7), 3, seed=4).at(5) == whole[5]
    assert TaskOrder(tasks(7), 3, seed=5).at(0) != whole[0]


def test_demonstrations_are_rendered_token_exactly_with_the_stop_token_trained() -> None:
    tokenizer = tiny_tokenizer()
    source = build(
        DemonstrationsSpec(prompts_per_step=2), tasks(2), context=None, format=chat_format(tokenizer), seed=0
    )

    async def collect() -> list[Group]:
        return [group async for group in source.groups(0)]

    groups = asyncio.run(collect())
    for group in groups:
        [member] = group.members
        trace = member.trace
        ids = trace.tokens(member.leaf).tolist()
        shown = [
            token
            for node in trace.nodes
            for token, author in zip(node.tokens.tolist(), node.authors, strict=True)
            if trace.authors[author].kind is AuthorKind.DEMONSTRATION
        ]
        assert shown[-1] == tokenizer.eos_token_id
        text = tokenizer.decode(shown[:-1])
        assert text in ("0!", "1!")
        official = tokenizer.apply_chat_template(
            [{"role": "user", "content": f"say {text[0]}"}, {"role": "assistant", "content": text}], tokenize=True
        )["input_ids"]
        assert ids == official[: len(ids)]


def test_a_source_that_cannot_work_is_refused() -> None:
    form = chat_format(tiny_tokenizer())
    with pytest.raises(InputError, match="2 tasks have no demonstration"):
        build(DemonstrationsSpec(prompts_per_step=1), tasks(2, False), context=None, format=form, seed=0)
    with pytest.raises(InputError, match="rollouts need a sampler"):
        build(RolloutsSpec(prompts_per_step=1, samples_per_prompt=2), tasks(2), context=None, format=form, seed=0)
    with pytest.raises(InputError, match="nothing to train on"):
        TaskOrder([], 1, 0)
