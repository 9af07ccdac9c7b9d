"""Every kind of reward: by its name alone, by its keys, and wrong ones refused with the right name."""

from __future__ import annotations

from typing import Any

import pytest

from burnish.errors import InputError
from burnish.feedback import FeedbackSpec, build
from burnish.feedback.build import POOLED
from burnish.feedback.spec import KINDS
from burnish.methods.registry import METHODS
from burnish.running.config import recipe_from_mapping
from burnish.running.keys import documented_keys
from burnish.running.schema import any_recipe_schema


def test_each_kind_is_a_recipe_by_its_name_alone() -> None:
    for kind in KINDS:
        if kind == "function":
            continue
        spec = FeedbackSpec.model_validate(kind)
        assert spec == FeedbackSpec.model_validate([{"kind": kind}]) == FeedbackSpec.model_validate({"kind": kind})
        assert spec == FeedbackSpec.model_validate(spec.model_dump(mode="json"))
        assert [reward.name for reward, _ in build(spec).rewards] == [kind]
    assert set(POOLED) < set(KINDS)


def test_concurrency_and_workers_may_stand_beside_the_kind() -> None:
    spec = FeedbackSpec.model_validate({"kind": "math", "workers": 3, "concurrency": 4, "weight": 2})
    assert (spec.workers, spec.concurrency, spec.rewards[0].weight) == (3, 4, 2.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "maths"}, "math"),
        (
            {"column": "x"},
            "a reward needs its kind: numeric, format, exact, math, json_schema, tool_call, instructions",
        ),
        ({"kind": "math", "read": "last"}, "read"),
        ({"kind": "math", "time_limit": 0}, "time_limit"),
        ({"kind": "math", "memory_limit": 1}, "memory_limit"),
        ({"kind": "exact", "time_limit": 1}, "time_limit"),
        ({"kind": "exact", "normalise": ["spaces"]}, "normalise"),
        ({"kind": "json_schema", "valid_share": 0.2}, "valid_share has no use without key"),
        ({"kind": "json_schema", "key": "k", "valid_share": 1.2}, "valid_share"),
        ({"kind": "tool_call", "name_share": 0.2}, "have no use with credit all"),
        ({"kind": "tool_call", "argument_share": True}, "have no use with credit all"),
        ({"kind": "choice", "pattern": "x"}, "pattern goes with rule pattern"),
        ({"kind": "choice", "rule": "pattern"}, "rule pattern needs one"),
        ({"kind": "choice", "rule": "pattern", "pattern": "("}, "no regular expression"),
        ({"kind": "math", "thoughts_end": ""}, "thoughts_end"),
        ({"kind": "math", "workers": 0}, "workers"),
    ],
)
def test_wrong_specs_are_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeedbackSpec.model_validate(spec)


def test_a_recipe_a_schema_and_a_message_know_every_kind() -> None:
    assert " | ".join(KINDS) in {key.type for key in documented_keys(METHODS["grpo"].recipe)}
    schema = str(any_recipe_schema())
    assert all(f"'{kind}'" in schema for kind in KINDS)
    keys = {"method": "grpo", "model": {"path": "nursery:arithmetic-S"}, "data": {"family": "arithmetic"}}
    recipe = recipe_from_mapping({**keys, "rewards": "math"})
    assert recipe.model_dump()["rewards"]["rewards"][0]["kind"] == "math"
    with pytest.raises(InputError, match=r"rewards.kind: given 'maths', did you mean 'math'"):
        recipe_from_mapping({**keys, "rewards": "maths"})
