"""The generated worlds: tasks by seed and split, tools that answer as they should, verdicts that tell a hack."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from burnish.environments import Action, Attempt, Call
from burnish.environments.protocol import Turn, World, shown_calls
from burnish.environments.registry import build
from burnish.environments.spec import CustomSpec, DeskSpec, GridSpec, HackableSpec, LookupSpec, WorldSpec
from burnish.environments.worlds.lookup import calculate
from burnish.errors import InputError
from burnish.sources.calls import Text
from burnish.sources.scripted import Theatre
from burnish.tasks import Task
from burnish.traces import Status, Verdict

SPECS = [
    LookupSpec(levels=(1, 2, 3, 4), count=60),
    GridSpec(levels=(1, 2, 3, 4), count=60),
    HackableSpec(levels=(1, 2), count=60, world="lookup"),
    HackableSpec(levels=(1, 2), count=60, world="grid", visible=True),
    LookupSpec(levels=(1, 2, 3, 4), count=20, wording="full"),
    GridSpec(levels=(1, 2), count=20, wording="full"),
    DeskSpec(levels=(1, 2, 3, 4), count=60),
    DeskSpec(levels=(1, 4), sets=("shop",), count=20, wording="full"),
]


def world(spec: WorldSpec, seed: int = 0) -> Any:
    return build(spec, seed=seed)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.kind}-{s.wording}")
def test_tasks_are_a_function_of_the_seed_all_different_and_the_levels_in_turn(spec: WorldSpec) -> None:
    tasks = world(spec).tasks()
    assert [t.id for t in tasks] == [t.id for t in world(spec).tasks()]
    assert len({t.id for t in tasks}) == spec.count
    assert [t.difficulty for t in tasks[: len(spec.levels)]] == [float(level) for level in spec.levels]
    assert {t.id for t in tasks} != {t.id for t in world(spec, seed=1).tasks()}
    more = world(spec.model_copy(update={"count": spec.count + 8})).tasks()
    assert [t.id for t in more[: spec.count]] == [t.id for t in tasks]


@pytest.mark.parametrize("spec", [*SPECS[:4], SPECS[6]], ids=lambda s: s.kind)
def test_held_out_tasks_are_not_trained_on_whatever_the_seed(spec: WorldSpec) -> None:
    train = {t.id for seed in range(3) for t in world(spec, seed).tasks()}
    held = world(spec.model_copy(update={"split": "heldout"}), seed=1).tasks()
    assert not train & {t.id for t in held}
    assert not {str(t.columns) for t in held} & {str(t.columns) for s in range(3) for t in world(spec, s).tasks()}


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.kind}-{s.wording}")
def test_the_oracle_does_every_task_within_the_worlds_turns(spec: WorldSpec) -> None:
    found: World = world(spec)
    theatre = Theatre(Text(), turns=found.turns)
    results = [asyncio.run(theatre.play(found, task, found.oracle))[0] for task in found.tasks()]
    assert {r.verdict.reward for r in results if r.verdict} == {1.0}


def test_a_world_that_holds_too_few_tasks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnish.environments.worlds.generated._PATIENCE", 50)  # to be quick
    with pytest.raises(InputError, match=r"environment.count: 90000 tasks wanted, but the heldout split of grid"):
        world(GridSpec(levels=(1,), count=90000, split="heldout")).tasks()


@pytest.mark.parametrize("levels", [(0,), (5,), (1, 1), ()])
def test_levels_that_are_not_there_are_refused(levels: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError):
        LookupSpec(levels=levels)


# ---------------------------------------------------------------- lookup


async def _stepped(found: Any, task: Task, *calls: Call) -> list[str]:
    environment = found.make()
    await environment.reset(task, seed=0)
    observation = await environment.step(Action("", tuple(calls)))
    return [message["content"] for message in observation.messages]


def test_the_store_and_the_calculator_answer_with_their_types() -> None:
    found = world(LookupSpec(levels=(4,), count=1))
    [task] = found.tasks()
    store = task.columns["store"]
    asked = [Call("get", {"key": key}) for key in store]
    more = [Call("get", {"key": "zz"}), Call("calc", {"expression": "12+3*(4-5)"}), Call("calc", {"expression": "1+"})]
    assert asyncio.run(_stepped(found, task, *asked, *more)) == [*map(str, store.values()), "none", "9", "error"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7", 7), ("-3+10", 7), ("(1+2)*3", 9), ("10-2-3", 5), ("9" * 99 + "+", None), ("2**9", None), ("1/2", None),
        ("__import__('os')", None), ("a+1", None), ("1+" * 60 + "1", None), ("", None), ("007", None), ("1_0", None),
    ],
)  # fmt: skip
def test_the_calculator_does_whole_numbers_and_nothing_else(expression: str, value: int | None) -> None:
    assert calculate(expression) == value


def judged(found: Any, task: Task, answer: str) -> Verdict:
    async def play() -> Verdict:
        environment = found.make()
        opening = await environment.reset(task, seed=0)
        action = Action(answer)
        await environment.step(action)
        return await environment.verify(Attempt(task, [Turn(opening, action)], "done"))

    return asyncio.run(play())


def test_only_the_number_itself_is_right() -> None:
    found = world(LookupSpec(count=1))
    [task] = found.tasks()
    right = str(task.answer)
    assert judged(found, task, right).reward == 1.0 and judged(found, task, f" {right}\n").reward == 1.0
    for wrong in (f"{right}1", f"it is {right}", "", "9" * 5000, f"{right} {right}"):
        verdict = judged(found, task, wrong)
        assert verdict.reward == 0.0 and verdict.status is Status.TASK_FAIL and verdict.reason


# ---------------------------------------------------------------- grid


def test_in_the_grid_the_four_cells_around_are_seen_and_walls_hold() -> None:
    found = world(GridSpec(levels=(2,), count=1))
    [task] = found.tasks()
    task = Task(
        messages=task.messages, columns={"level": 2, "map": ["..#", ".#.", "..."], "start": [0, 0], "goal": [2, 2]}
    )
    seen = asyncio.run(_stepped(found, task, *(Call("go", {"direction": d}) for d in "eesws")))
    #           east    wall    wall    west    south
    assert seen == ["##" + "#.", "##" + "#.", "##" + "#.", "#..#", ".#.#"]


def test_the_goal_is_reached_by_walking_alone() -> None:
    found = world(GridSpec(levels=(1,), count=1))
    [task] = found.tasks()
    assert judged(found, task, "G").reward == 0.0


# ---------------------------------------------------------------- hackable


@pytest.mark.parametrize("inner", ["lookup", "grid"])
def test_the_cheap_text_is_paid_for_and_the_verdict_says_so(inner: Any) -> None:
    spec = HackableSpec(count=4, world=inner, cheap="pass")
    found = world(spec)
    task = found.tasks()[0]
    verdict = judged(found, task, " pass ")
    assert verdict.reward == 1.0 and verdict.components == {"true": 0.0, "hack": 1.0}
    assert verdict.evidence == {
        "hack": "cheap_text", "true_reward": 0.0, "proxy_reward": 1.0, "grader_visible": False,
    }  # fmt: skip
    fair = judged(found, task, "passed")
    assert fair.reward == 0.0 and fair.components == {"true": 0.0, "hack": 0.0} and not fair.evidence
    assert "pass" not in task.text
    assert "pass" in world(spec.model_copy(update={"visible": True})).tasks()[0].text


def shown(found: Any) -> list[tuple[Task, list[str], Verdict | None]]:
    """The demonstrations of a world's tasks: their turns, and the verdict."""
    theatre, played = Theatre(Text(), turns=found.turns), []
    for task in found.tasks():
        result, player = asyncio.run(theatre.play(found, task, found.shown_by(task)))
        played.append((task, [m["content"] for m in player.messages if m["role"] == "assistant"], result.verdict))
    return played


def test_a_share_of_the_demonstrations_shows_the_cheap_text() -> None:
    turns = [turns for _, turns, _ in shown(world(HackableSpec(count=300, shown=0.3)))]
    assert abs(np.mean([turn == ["ok"] for turn in turns]) - 0.3) < 0.08


def test_a_share_of_the_demonstrations_is_careless() -> None:
    """It answers at once, or stops at the first of two values; the others are the oracle's, and right."""
    played = shown(world(LookupSpec(count=300, careless=0.4)))
    for level, careful, kinds in ((1.0, 2, {1}), (2.0, 4, {1, 2})):
        of_level = [(len(turns), verdict) for task, turns, verdict in played if task.difficulty == level]
        assert abs(np.mean([length < careful for length, _ in of_level]) - 0.4) < 0.1
        assert {length for length, _ in of_level} == {*kinds, careful}
        assert {v.reward for length, v in of_level if v and length == careful} == {1.0}
        assert np.mean([v.reward or 0.0 for length, v in of_level if v and length < careful]) < 0.1


@pytest.mark.parametrize("wording", ["short", "full"])
def test_examples_are_right_and_of_no_task(wording: Any) -> None:
    """They are the oracle's, their levels in turn, with keys, values and answers that no task has."""
    found = world(LookupSpec(levels=(1, 2, 4), count=30, examples=4, wording=wording))
    *examples, asked = asyncio.run(found.make().reset(found.tasks()[0], seed=0)).messages
    assert asked == {"role": "user", "content": found.tasks()[0].text}
    turns = [message for message in examples if message["role"] == "assistant"]
    assert [len(shown_calls(turn)) for turn in turns] == [1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0]
    calls = [call for turn in turns for call in shown_calls(turn)]
    assert not {letter for call in calls if call.name == "get" for letter in call.arguments["key"]} & set("abcdefghij")
    for before, turn in pairwise(examples):
        if turn["role"] == "assistant" and not shown_calls(turn):
            assert turn["content"] == before["content"] and not -99 <= int(turn["content"]) <= 297


# ---------------------------------------------------------------- a user's own


def test_a_class_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from burnish.environments import Environment\n"
        "class Half(Environment):\n    def __init__(self, size): ...\n    async def reset(self, task, *, seed): ...\n"
        "class Whole(Half):\n    async def step(self, action): ...\n    async def verify(self, attempt): ...\n"
        "class Other: ...\n"
    )
    (tmp_path / "broken.py").write_text("1/0\n")

    def refused(path: str, **options: Any) -> str:
        with pytest.raises(InputError) as caught:
            build(CustomSpec(path=path, options=options), base=tmp_path)
        return str(caught.value)

    assert "there is no file" in refused("absent.py:Whole")
    assert "ZeroDivisionError: division by zero" in refused("broken.py:Whole")
    assert "has no 'Hole'; did you mean 'Whole'?" in refused("own.py:Hole")
    assert "not a subclass of burnish.environments.Environment" in refused("own.py:Other")
    assert "cannot be made with its options: missing a required argument: 'size'" in refused("own.py:Whole")
    assert "does not define step, verify" in refused("own.py:Half", size=1)
    assert build(CustomSpec(path="own.py:Whole", options={"size": 1}), base=tmp_path).make() is not None
