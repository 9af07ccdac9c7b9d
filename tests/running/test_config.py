"""Promise E10: one resolved configuration; what nothing reads is an error that suggests the right key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.methods.registry import DECLARED, METHODS
from burnish.running.config import (
    documented_keys,
    load_recipe,
    recipe_from_mapping,
    resolved_yaml,
)
from tests.running.written import GRPO, SFT, fails, load

ROOT = Path(__file__).parents[2]
SHIPPED = [
    path for path in sorted((ROOT / "recipes").rglob("*.yaml")) if not {"pipelines", "studies"} & set(path.parts)
]


# ---------------------------------------------------------------- resolved files load again


def _reloaded(recipe: Recipe, folder: Path) -> Recipe:
    return load(folder, resolved_yaml(recipe))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_shipped_recipe_resolves_to_a_file_that_loads_equal(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path)
    assert _reloaded(recipe, tmp_path) == recipe
    assert resolved_yaml(_reloaded(recipe, tmp_path)) == resolved_yaml(recipe)


def test_there_are_shipped_recipes() -> None:
    assert {path.name for path in SHIPPED} >= {"demo.yaml", "sft.yaml", "grpo.yaml"}


BASES: dict[str, dict[str, Any]] = {
    "sft": {"method": "sft", "model": {"path": "m"}, "data": {"path": "d.jsonl"}},
    "grpo": {"method": "grpo", "model": {"path": "m"}, "data": {"family": "arithmetic"}, "rewards": "numeric"},
}

NUMBERS = st.floats(min_value=1e-12, max_value=1e12)
SHARED_PARTS: dict[str, st.SearchStrategy[Any]] = {
    "seed": st.integers(0, 2**63),
    "optimizer": st.fixed_dictionaries(
        {},
        optional={
            "lr": NUMBERS,
            "clip_norm": st.none() | NUMBERS,
            "betas": st.tuples(st.floats(0, 1), st.floats(0, 1)).map(list),
            "schedule": st.sampled_from(["linear", "cosine"]),
            "warmup_steps": st.integers(0, 99),
        },
    ),
    "model": st.one_of(
        st.fixed_dictionaries({"path": st.text(min_size=1)}, optional={"template": st.text()}),
        st.fixed_dictionaries({"path": st.just("m"), "adapter": st.sampled_from([{}, {"rank": 2}, {"path": "a"}])}),
        st.fixed_dictionaries({"path": st.just("m"), "adapter": st.just({"targets": ["q_proj", "off", "1e5"]})}),
    ),
    "threads": st.none() | st.integers(1, 64),
    "evaluation": st.none()
    | st.fixed_dictionaries({"data": st.just({"family": {"split": "heldout"}}), "every": st.integers(0, 9)}),
}
OWN_PARTS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "sft": {
        "data": st.fixed_dictionaries(
            {"path": st.just("d.jsonl")},
            optional={
                "system": st.text(min_size=1),
                "answer": st.none(),
                "completion": st.text(),
                "template": st.sampled_from(["{no}", "no: {a}\n# {b}", "2024-01-01"]),
            },
        ),
    },
    "grpo": {
        "rewards": st.sampled_from(
            [
                "format",
                ["numeric", {"kind": "format", "weight": 0.1}],
                {"kind": "function", "function": "f.py:reward", "time_limit": 1e-5},
                {"kind": "function", "function": "f.py:reward", "concurrency": 3},
                {"rewards": [{"kind": "function", "function": "f:g", "name": "null"}], "concurrency": 1},
            ]
        ),
        "sampling": st.fixed_dictionaries(
            {},
            optional={"temperature": st.floats(1e-3, 1e3), "top_p": st.floats(1e-9, 1), "top_k": st.integers(2, 100)},
        ),
        "options": st.sampled_from(
            [
                {},
                {"kl": 1e-3, "kl_estimator": "k2"},
                {"reduction": "constant", "constant": 5},
                {"kl_estimator": "k3_ratio"},
            ]
        ),
    },
}


@pytest.mark.parametrize("method", DECLARED)
def test_every_recipe_that_loads_resolves_to_one_that_loads_equal(method: str, tmp_path: Path) -> None:
    """Whatever a recipe sets, every key written out is accepted again and means the same."""
    parts = {**SHARED_PARTS, **OWN_PARTS[method]}

    @settings(max_examples=40, deadline=None)
    @given(st.fixed_dictionaries({}, optional=parts))
    def check(changed: dict[str, Any]) -> None:
        recipe = recipe_from_mapping({**BASES[method], **changed})
        assert _reloaded(recipe, tmp_path) == recipe
        assert recipe_from_mapping(yaml.safe_load(resolved_yaml(recipe))) == recipe

    check()


def test_a_resolved_file_reads_the_rows_that_the_recipe_reads(tmp_path: Path) -> None:
    """A written-out default must not mean more than an absent key: a missing answer, a conversation."""
    from burnish.tasks import build_tasks

    (tmp_path / "rows.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
        '{"prompt": "c", "completion": "d"}\n'
    )
    recipe = load(tmp_path, SFT)
    first, second = (
        build_tasks(r.data, base=tmp_path, demonstrations=True) for r in (recipe, _reloaded(recipe, tmp_path))
    )
    assert first == second and len(first) == 2


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # misspelt and misplaced keys
        (GRPO + "optimzer: {lr: 1}", "recipe.yaml, line 6: there is no key optimzer; did you mean optimizer?"),
        (
            GRPO + "optimizer:\n  lrr: 1",
            "recipe.yaml, line 7: there is no key optimizer.lrr; did you mean optimizer.lr?",
        ),
        (GRPO + "lr: 1", "there is no key lr; did you mean optimizer.lr?"),
        (GRPO + "optimizer: {learning_rate: 1}", "here it is called optimizer.lr"),
        (GRPO + "temperature: 1", "or sampling.temperature or"),
        (
            GRPO.replace("kind: numeric", "kind: numeric, tolerence: 1"),
            "there is no key rewards.tolerence; did you mean",
        ),
        (
            GRPO.replace("{kind: numeric}", "[{kind: format, unit: 1}]"),
            "there is no key rewards.0.unit; rewards.0 has: weight, name, ",
        ),
        (
            GRPO.replace("kind: numeric", "kind: numeric, function: f"),
            "rewards.function belongs to kind function, and this is of kind numeric; remove it",
        ),
        (
            SFT + "samples_per_prompt: 8",
            "line 4: there is no key samples_per_prompt; it belongs to methods that sample (grpo); sft does not use it",
        ),
        (SFT + "options: {clip_high: 1}", "options.clip_high; it belongs to other methods (grpo); sft does not use it"),
        # methods
        ("method: sftt", "recipe.yaml, line 1: there is no method 'sftt'; did you mean 'sft'?"),
        ("model: {path: x}", "recipe.yaml: method is missing; add `method: NAME` (methods: sft, grpo,"),
        ("", "recipe.yaml is empty"),
        ("- sft", "recipe.yaml holds ['sft']; a recipe is a mapping"),
        # YAML
        (GRPO + "optimizer: {lr: 1", "recipe.yaml, line 6, column 18: not YAML"),
        (GRPO + "steps: 1\nsteps: 1", "recipe.yaml, line 7, column 1: steps is given twice, first on line 6"),
        (GRPO + "optimizer:\n  lr: 1\n  lr: 2", "line 8, column 3: optimizer.lr is given twice, first on line 7"),
        (GRPO + "on: 1", "the key true is not a name"),
        (GRPO + "a: &a [*a]", "an alias refers to the mapping or list it stands in"),
        (GRPO + "a: !!python/object:os.system {}", "not YAML"),
        # values
        (GRPO + "optimizer: {lr: fast}", "optimizer.lr: given 'fast'; it takes number or null > 0"),
        (GRPO + "optimizer: {lr: -1}", "optimizer.lr: given -1; it takes number or null > 0"),
        (GRPO + "optimizer: {lr: .nan}", "optimizer.lr: given nan"),
        (GRPO + "steps: many", "steps: given 'many'; it takes whole number >= 1"),
        (GRPO + "steps: true", "steps: given true; it takes a number"),
        (GRPO + "steps: 1.5", "steps: given 1.5; it takes whole number >= 1"),
        (GRPO + "optimizer: 3", "optimizer: given 3, but it has keys of its own"),
        (GRPO.replace("arithmetic", "arithmetc"), "data.family.kind: given 'arithmetc', did you mean 'arithmetic'?"),
        (GRPO.replace('"wheel:x"', "5"), "model.path: given 5, which YAML does not read as text: put it in quotes"),
        (GRPO.replace("kind: numeric", "kind: numerc"), "rewards.kind: given 'numerc', did you mean 'numeric'?"),
        (GRPO.replace("kind: numeric", "column: a"), "a reward needs its kind"),
        (GRPO.replace("{kind: numeric}", "[{column: a}]"), "rewards.0: kind is missing; choose one of numeric"),
        (GRPO.replace("{kind: numeric}", "[]"), "rewards: given []"),
        # missing
        ("method: sft\nmodel: {path: x}", "recipe.yaml: data is missing (the tasks it is trained on); add it"),
        ("method: sft\nmodel: {}\ndata: {path: x}", "line 2: model.path is missing"),
        # set but unused, or shadowed
        (GRPO + "options: {kl_estimator: k2}", "options: kl_estimator is unused while kl is 0"),
        (GRPO + "optimizer: {final_ratio: 0.1}", "final_ratio: unused with schedule constant"),
        (GRPO.replace("arithmetic", "arithmetic\n  shuffle: true"), "shuffle: only for rows of a file"),
        (SFT.replace("rows.jsonl", "rows.jsonl, seed: 3"), "data: seed is unused: the rows are not shuffled"),
        (SFT.replace("rows.jsonl", "rows.jsonl, prompt: q, template: '{q}'"), "the prompt is given twice"),
        (SFT.replace("path: x", "path: x, adapter: {path: a, rank: 4}"), "rank: read from the saved adapter at 'a'"),
        (GRPO + "sampling: {temperature: 0, top_k: 4}", "top_k does nothing at temperature 0"),
        (GRPO + "evaluation: {data: {family: arithmetic}, correct: {weight: 2}}", "correct.weight: only for rewards"),
        (GRPO.replace("  family: arithmetic", "  path: a\n  completion: b"), "data.completion is for demonstrations"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_fix(tmp_path: Path, text: str, message: str) -> None:
    assert message in fails(tmp_path, text)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    lines = fails(tmp_path, GRPO + "stepps: 1\noptimizer: {lr: x}").splitlines()
    assert len(lines) == 2 and "optimizer.lr" in lines[0] and "stepps" in lines[1]


@pytest.mark.parametrize(("name", "message"), [("recpe.yaml", "did you mean"), ("none/x.yaml", "there is no folder")])
def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "recipe.yaml").write_text(GRPO)
    with pytest.raises(InputError, match=message):
        load_recipe(tmp_path / name)


def test_a_folder_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        load_recipe(tmp_path)
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        load_recipe(tmp_path / "x.yaml")


# ---------------------------------------------------------------- documentation


@pytest.mark.parametrize("method", DECLARED)
def test_every_key_is_documented_once_with_type_and_meaning(method: str) -> None:
    keys = documented_keys(METHODS[method].recipe)
    names = [key.key for key in keys]
    assert len(set(names)) == len(names)
    assert {"method", "optimizer.lr", "data.family.digits", "model.adapter.rank", "evaluation.every"} <= set(names)
    assert all(key.type and "typing" not in key.type for key in keys)
    assert [key.key for key in keys if not key.description and not key.key.endswith(("method", "kind"))] == []
    assert ("samples_per_prompt" in names) == (method != "sft")


@pytest.mark.parametrize("method", DECLARED)
def test_every_documented_key_is_a_key(method: str) -> None:
    """Each is refused for its value at most, never as unknown."""
    for key in documented_keys(METHODS[method].recipe):
        path = key.key.replace("[]", ".0")
        try:
            recipe_from_mapping(BASES[method], [f"{path}=[[]]"])
        except InputError as error:
            assert "there is no key" not in str(error), key
