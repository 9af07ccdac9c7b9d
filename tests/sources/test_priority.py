"""Tasks that are failed are drawn more often, in the proportions that are promised."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.sources.order import Order, build_order
from burnish.sources.priority import PriorityOrder
from burnish.sources.source import build
from burnish.sources.spec import DemonstrationsSpec
from burnish.tasks import Task
from burnish.traces.templates import chat_format
from tests.sources.test_order import group, spec, tasks
from tests.tiny import tiny_tokenizer

RATES = {"0/0": 1.0, "0/1": 0.8, "0/2": 0.5, "0/3": 0.0}


def prioritised(order: Order) -> PriorityOrder:
    assert isinstance(order, PriorityOrder)
    return order


def step_of(order: PriorityOrder, step: int) -> list[str]:
    """One step, whose samples always come out at these rates."""
    names = []
    for task, number in order.at(step):
        name = task.prompt or ""
        passed = round(10 * RATES[name])
        order.saw(task, number, group([1.0] * passed + [0.0] * (10 - passed)))
        names.append(name)
    return names


def test_the_chance_of_a_task_is_proportional_to_its_failures() -> None:
    """One task a step: 1,500 draws against max(0.1, 1 - s) / sum, within five standard deviations."""
    order = prioritised(build_order(tasks([4]), 1, 0, spec(priority={"floor": 0.1, "memory": 0.0})))
    step = 0
    while len(order.state()["rates"]) < 4:
        step_of(order, step)
        step += 1
    drawn = Counter(name for n in range(1500) for name in step_of(order, step + n))
    weights = {name: max(0.1, 1 - rate) for name, rate in RATES.items()}
    for name, weight in weights.items():
        chance = weight / sum(weights.values())
        assert abs(drawn[name] - 1500 * chance) < 5 * np.sqrt(1500 * chance * (1 - chance)), name


def test_no_task_is_drawn_twice_in_a_step_and_none_twice_with_one_number() -> None:
    order = prioritised(build_order(tasks([4]), 3, 0, spec(priority={})))
    pairs = []
    for step in range(30):
        chosen = order.at(step)
        assert len({task.id for task, _ in chosen}) == 3
        pairs += [(task.id, number) for task, number in chosen]
    assert len(set(pairs)) == len(pairs)


def test_a_rate_is_a_running_mean_of_the_samples_that_passed() -> None:
    order = prioritised(build_order(tasks([1]), 1, 0, spec(priority={"memory": 0.75, "passing": 2.0})))
    for rewards in ([2.0, 3.0, 1.0, None], [0.0, 0.0], [None, None]):
        ((task, number),) = order.at(0)
        order.saw(task, number, group(rewards))
    (rate,) = order.state()["rates"].values()
    assert rate == pytest.approx(0.75 * (2 / 3) + 0.25 * 0.0)  # the first counts whole, one without rewards not at all


@pytest.mark.parametrize("stop", [1, 7, 19])
def test_a_resumed_order_draws_what_one_never_stopped_draws(stop: int) -> None:
    data = spec(priority={}, curriculum={"column": "level", "stages": [{"high": 3}, {"start": 9, "low": 1}]})
    whole = prioritised(build_order(tasks([4]), 2, 5, data))
    everything = [step_of(whole, step) for step in range(20)]
    order = prioritised(build_order(tasks([4]), 2, 5, data))
    for step in range(stop):
        step_of(order, step)
    again = prioritised(build_order(tasks([4]), 2, 5, data))
    again.load(json.loads(json.dumps(order.state())))
    assert [step_of(again, step) for step in range(stop, 20)] == everything[stop:]
    other = prioritised(build_order(tasks([4]), 2, 6, data))
    assert [step_of(other, step) for step in range(20)] != everything


def test_demonstrations_and_measured_windows_have_no_priority() -> None:
    shown = [Task(prompt="a", demonstration="b") for _ in range(4)]
    with pytest.raises(InputError, match="data.priority: demonstrations are not sampled"):
        build(DemonstrationsSpec(prompts_per_step=1), shown, context=None, format=chat_format(tiny_tokenizer()), seed=0,
              data=spec(priority={}))  # fmt: skip
    with pytest.raises(ValueError, match="priority: unused beside a window that is measured"):
        spec(priority={}, window={"low": 0.5})
    assert spec(priority={}, window={"low": 0.5, "column": "rate"}).priority is not None
