"""What holds of each of the families modular, countdown, knights and symbols. Each has tests of its own beside this."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.tasks import DataSpec, Task, build_tasks
from tests.feedback.judging import rewards

CHECKS: dict[str, Any] = {
    "modular": {"kind": "claims", "credit": "all"},
    "countdown": "expression",
    "knights": {"kind": "claims", "credit": "all"},
    "symbols": "exact",
}
LEVELS = {"modular": [1, 2, 3, 4], "countdown": [1, 2, 3, 4], "knights": [2, 3, 4], "symbols": [1, 2, 3, 4]}
FAMILIES = tuple(CHECKS)


def tasks_of(kind: str, seed: int = 0, style: str = "chat", demonstrations: bool = False, **options: Any) -> list[Task]:
    spec = DataSpec.model_validate({"family": {"kind": kind, **options}, "style": style, "seed": seed})
    return build_tasks(spec, demonstrations=demonstrations)


@pytest.mark.parametrize("wording", ["full", "short"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_verifier_pays_every_demonstration_and_no_other_items_answer(kind: str, wording: str) -> None:
    for level in LEVELS[kind]:
        tasks = tasks_of(kind, 3, levels=[level], count=40, wording=wording, demonstrations=True)
        for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
            assert task.demonstration == ({"role": "assistant", "content": task.answer},)
            assert task.difficulty == level
            right, neighbour = rewards(CHECKS[kind], task.columns, [str(task.answer), str(other.answer)])
            assert right == 1.0
            assert neighbour == float(task.answer == other.answer)


def content(task: Task) -> str:
    """What decides the split, from what the task says."""
    match task.domain:
        case "countdown":
            return json.dumps([sorted(task.columns["numbers"]), task.columns["target"]])
        case "knights":
            return json.dumps([task.columns["claims"], task.columns["prompt"]])
        case _:
            return str(task.columns["prompt"])


@pytest.mark.parametrize("kind", FAMILIES)
def test_no_item_is_trained_on_and_held_out_whatever_the_seed_and_the_level(kind: str) -> None:
    levels = LEVELS[kind][:2]
    train = [t for s in (0, 1) for t in tasks_of(kind, s, levels=levels, count=800, split="train", wording="short")]
    held = [
        t for s in (0, 2) for t in tasks_of(kind, s, levels=levels[::-1], count=300, split="heldout", wording="short")
    ]
    assert len({content(t) for t in train}) > 900 and len({content(t) for t in held}) > 300
    assert not {content(t) for t in train} & {content(t) for t in held}


@pytest.mark.parametrize("kind", FAMILIES)
def test_items_are_distinct_repeat_and_a_larger_count_only_appends(kind: str) -> None:
    levels = LEVELS[kind][:2]
    tasks = tasks_of(kind, 5, levels=levels, count=300, wording="short")
    assert len({content(task) for task in tasks}) == 300
    again, another = (tasks_of(kind, seed, levels=levels, count=50, wording="short") for seed in (5, 6))
    assert tasks[:50] == again != another
    assert [task.columns["level"] for task in tasks[:4]] == levels * 2


@pytest.mark.parametrize("kind", FAMILIES)
def test_both_wordings_ask_for_the_same_items(kind: str) -> None:
    full, short = (tasks_of(kind, 1, levels=LEVELS[kind][:1], count=30, wording=w) for w in ("full", "short"))
    for one, other in zip(full, short, strict=True):
        assert len(other.text) < 50 < len(one.text)
        if kind == "knights":
            assert len(one.columns["claims"]) == len(other.columns["claims"])
        else:
            assert one.answer == other.answer


@pytest.mark.parametrize("kind", FAMILIES)
def test_text_prompts_and_examples(kind: str) -> None:
    level = LEVELS[kind][0]
    [plain] = tasks_of(kind, 1, "text", True, levels=[level], count=1, wording="short")
    assert plain.messages is None and plain.prompt == f"{plain.columns['prompt']}\n"
    assert plain.demonstration == plain.answer
    [shown] = tasks_of(kind, 1, levels=[level], count=1, wording="short", examples=2)
    assert shown.messages is not None and [m["role"] for m in shown.messages] == ["user", "assistant"] * 2 + ["user"]
    assert shown.messages[-1]["content"] == plain.columns["prompt"]


@pytest.mark.parametrize(
    ("kind", "levels", "split"),
    [("countdown", [1], "train"), ("knights", [1], "train"), ("knights", [1], "heldout")],
)
def test_a_count_beyond_the_items_there_are_is_refused(kind: str, levels: list[int], split: str) -> None:
    with pytest.raises(InputError, match=f"the {split} split of {kind} has hardly more than .*level 1 is used up"):
        tasks_of(kind, levels=levels, count=10_000, split=split)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("modular", {"moduli": [7, 7]}, "moduli names the same one twice"),
        ("modular", {"moduli": [1]}, "moduli run from 2 to 99"),
        ("modular", {"moduli": [100]}, "moduli run from 2 to 99"),
        ("modular", {"moduli": []}, "moduli"),
        ("symbols", {"tasks": ["sort", "sort"]}, "tasks names the same one twice"),
        ("symbols", {"tasks": ["shuffle"]}, "tasks"),
        ("countdown", {"levels": [5]}, "levels run from 1 to 4"),
        ("knights", {"tasks": ["sort"]}, "tasks"),
    ],
)
def test_wrong_options_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tasks_of(kind, **options)
