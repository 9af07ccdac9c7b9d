"""The JSON schema for editors allows what the loader allows, short forms included, and no misspelt key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from burnish.errors import InputError
from burnish.methods.registry import DECLARED, METHODS
from burnish.running.config import any_recipe_schema, load_recipe, recipe_from_mapping, recipe_schema, resolved_yaml
from burnish.running.keys import documented_keys

ROOT = Path(__file__).parents[2]
RECIPES = [
    path for path in sorted((ROOT / "recipes").rglob("*.yaml")) if not {"pipelines", "studies"} & set(path.parts)
]
"""Every recipe; a pipeline is none."""

ANY = any_recipe_schema()


class _EditorsYaml(yaml.SafeLoader):
    """YAML 1.2 as editors read it: 1e-5 is a number."""


_EditorsYaml.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?"), list("-+0123456789")
)


def _as_an_editor_reads(text: str) -> Any:
    return yaml.load(text, Loader=_EditorsYaml)


def _mistakes(schema: dict[str, Any], values: Any) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(values)]


def _schemas(method: str) -> list[dict[str, Any]]:
    return [ANY, recipe_schema(method)]


@pytest.mark.parametrize("schema", [ANY, *map(recipe_schema, DECLARED)], ids=lambda s: s["title"])
def test_the_schema_is_one(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)


@pytest.mark.parametrize("method", DECLARED)
def test_the_schema_names_the_keys(method: str) -> None:
    schema = recipe_schema(method)
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(METHODS[method].recipe.model_fields)
    assert ANY["definitions"][schema["title"]]["properties"] == schema["properties"]
    assert all(ANY["definitions"][name] == each for name, each in schema["definitions"].items())


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_recipe_that_ships_is_valid_as_written_and_resolved(path: Path) -> None:
    recipe = load_recipe(path)
    for schema in _schemas(recipe.method):
        assert _mistakes(schema, _as_an_editor_reads(path.read_text(encoding="utf-8"))) == []
        assert _mistakes(schema, yaml.safe_load(resolved_yaml(recipe))) == []


BASES: dict[str, dict[str, Any]] = {
    "sft": {"method": "sft", "model": {"path": "m"}, "data": {"path": "d.jsonl"}},
    "grpo": {"method": "grpo", "model": {"path": "m"}, "data": {"path": "d.jsonl"}, "rewards": "numeric"},
}
NUMERIC = {"kind": "numeric", "tolerance": 0.1}
FUNCTION = {"kind": "function", "function": "f.py:reward"}

ACCEPTED: list[dict[str, Any]] = [
    {"data": {"family": "arithmetic"}},
    {"data": {"family": {"kind": "arithmetic", "operations": ["-"], "negative": True}}},
    {"data": {"family": {"digits": [2, 3]}}},
    {"data": {"path": "d.jsonl", "family": None}},
    {"data": {"path": "d.json", "format": "alpaca", "columns": {"output": "reply", "system": None}}},
    {"data": {"mix": [{"path": "a.jsonl", "weight": 2}, {"family": "arithmetic"}], "window": {"low": 0.1}}},
    {"data": {"path": "a", "curriculum": {"column": "level", "stages": [{"high": 2}, {"start": 9}]}}},
    {"rewards": "format"},
    {"rewards": NUMERIC},
    {"rewards": {**FUNCTION, "concurrency": 1}},
    {"rewards": ["numeric", {"kind": "format", "weight": 0.1}, FUNCTION]},
    {"rewards": {"rewards": [NUMERIC, FUNCTION], "concurrency": 2}},
    {"evaluation": {"data": {"family": "arithmetic"}, "correct": {"mode": "exact"}, "max_tokens": 6}},
    {"evaluation": None},
    {"optimizer": {"betas": [0.9, 0.98], "lr": None, "clip_norm": None}},
    {"model": {"path": "m", "adapter": {"targets": ["q_proj"]}}},
    {"model": {"path": "m", "adapter": {"targets": "all-linear"}}},
    {"trackers": [{"kind": "wandb", "project": "p"}, "tensorboard"]},
    {"guards": {"silent_steps": 0}, "threads": 2, "deterministic": True},
]

REFUSED: list[dict[str, Any]] = [
    {"stepps": 3},
    {"options": {"clip": 1}},
    {"optimizer": {"learning_rate": 1.0}},
    {"optimizer": {"lr": -1}},
    {"optimizer": {"lr": True}},
    {"optimizer": {"betas": [0.9]}},
    {"optimizer": {"betas": [0.9, 0.9, 0.9]}},
    {"optimizer": {"name": "adem"}},
    {"steps": 0},
    {"steps": 1.5},
    {"data": {"family": "arithmetc"}},
    {"data": {"path": "d.jsonl", "format": "alpca"}},
    {"data": {"path": "d.jsonl", "columns": {"output": 3}}},
    {"data": {"mix": [{"path": "a.jsonl", "wieght": 2}, {"family": "arithmetic"}]}},
    {"data": {"path": "a", "window": {"low": 0.1, "hihg": 0.9}}},
    {"data": {"path": "a", "curriculum": {"stages": [{"hihg": 2}]}}},
    {"evaluation": {"data": {"path": "a", "window": {"low": 0.1}}}},
    {"data": {"family": {"kind": "arithmetic", "digit": [2]}}},
    {"rewards": "numerc"},
    {"rewards": {"kind": "numeric", "tolerence": 1}},
    {"rewards": {"column": "a"}},
    {"rewards": {"kind": "numeric", "function": "f.py:reward"}},
    {"rewards": [{"kind": "numeric", "concurrency": 2}]},
    {"rewards": [{"column": "a"}]},
    {"rewards": []},
    {"rewards": {"rewards": ["numeric"]}},
    {"trackers": ["wandbee"]},
    {"trackers": "wandb"},
    {"trackers": [{"project": "p"}]},
    {"guards": {"silence": 1}},
    {"model": None},
]


@pytest.mark.parametrize("changed", ACCEPTED, ids=str)
def test_what_the_loader_accepts_is_valid(changed: dict[str, Any]) -> None:
    values = {**BASES["grpo"], **changed}
    recipe_from_mapping(values)
    for schema in _schemas("grpo"):
        assert _mistakes(schema, values) == []


@pytest.mark.parametrize("changed", REFUSED, ids=str)
def test_what_the_loader_refuses_is_not_valid(changed: dict[str, Any]) -> None:
    values = {**BASES["grpo"], **changed}
    with pytest.raises(InputError):
        recipe_from_mapping(values)
    for schema in _schemas("grpo"):
        assert _mistakes(schema, values) != []


def test_the_method_decides_which_keys_there_are() -> None:
    assert _mistakes(ANY, BASES["sft"]) == []
    assert any("rewards" in text for text in _mistakes(ANY, {**BASES["sft"], "rewards": "numeric"}))
    assert _mistakes(ANY, {**BASES["sft"], "method": "sftt"}) != []
    assert _mistakes(ANY, {key: value for key, value in BASES["sft"].items() if key != "method"}) != []


@pytest.mark.parametrize("method", DECLARED)
def test_a_misspelt_key_is_not_valid_at_any_depth(method: str) -> None:
    """Every key of the documentation, misspelt where it stands."""
    recipe: Any = recipe_from_mapping(
        BASES[method], ["model.adapter={}", "evaluation.data={family: {split: heldout}}", "trackers=[wandb]"]
    )
    whole = yaml.safe_load(resolved_yaml(recipe))
    validator = jsonschema.Draft7Validator(ANY)
    assert validator.is_valid(whole)
    for key in documented_keys(METHODS[method].recipe):
        values = json.loads(json.dumps(whole))
        *above, last = key.key.replace("[]", ".0").split(".")
        node: Any = values
        for part in above:
            inside = dict(enumerate(node)) if isinstance(node, list) else node or {}
            node = inside.get(int(part) if part.isdigit() else part)
        if isinstance(node, dict):  # not in a family where a path is given
            node[f"{last}x"] = node.pop(last, None)
            assert not validator.is_valid(values), key.key


@pytest.mark.parametrize("method", DECLARED)
def test_every_key_has_its_meaning_in_the_schema(method: str) -> None:
    """What an editor shows beside the key."""

    def described(node: Any) -> set[str]:
        if isinstance(node, list):
            return {text for each in node for text in described(each)}
        if not isinstance(node, dict):
            return set()
        own = {node["description"]} if isinstance(node.get("description"), str) else set()
        return own | {text for each in node.values() for text in described(each)}

    texts = described(ANY)
    for key in documented_keys(METHODS[method].recipe):
        inner = not key.description or key.key.endswith("kind") or key.type == "keys"
        assert inner or texts.issuperset(key.meanings or {key.description}), key.key
