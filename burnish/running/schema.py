"""The JSON schema of recipes, for editors that check and complete YAML. It allows what the loader allows.

It is a draft 7 schema, which yaml-language-server and the JetBrains editors understand. Contradictions between keys
are not in it: `burnish config` finds those.
"""

from __future__ import annotations

import copy
from typing import Any

from burnish.methods.registry import METHODS

DRAFT = "http://json-schema.org/draft-07/schema#"

Schema = dict[str, Any]


def recipe_schema(method: str) -> Schema:
    """The JSON schema of a method's recipe, short forms included. Raises KeyError for a method that does not exist."""
    schema = METHODS[method].recipe.model_json_schema(ref_template="#/definitions/{model}")
    schema["definitions"] = _with_short_forms(schema.pop("$defs"))
    return {"$schema": DRAFT, **_draft_7(schema)}


def any_recipe_schema() -> Schema:
    """One JSON schema for the recipes of every method; the value of `method` decides which keys there are."""
    definitions: Schema = {}
    cases = []
    for name in METHODS:
        recipe = recipe_schema(name)
        definitions |= recipe.pop("definitions")
        recipe.pop("$schema")
        definitions[recipe["title"]] = recipe
        chosen = {"properties": {"method": {"const": name}}, "required": ["method"]}
        cases.append({"if": chosen, "then": {"$ref": f"#/definitions/{recipe['title']}"}})
    method = {"enum": list(METHODS), "description": "name of the method; `burnish methods` lists them"}
    return {
        "$schema": DRAFT,
        "title": "Burnish recipe",
        "type": "object",
        "properties": {"method": method},
        "required": ["method"],
        "allOf": cases,
        "definitions": definitions,
    }


def _draft_7(schema: Any) -> Any:
    """`prefixItems` is called `items` in draft 7, and `const` with a default needs no title."""
    if isinstance(schema, list):
        return [_draft_7(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {"items" if key == "prefixItems" else key: _draft_7(value) for key, value in schema.items()}
    if "prefixItems" in schema:
        renamed["additionalItems"] = False
    return renamed


def _with_short_forms(definitions: Schema) -> Schema:
    """The definitions with what may stand in a part's place: see docs/configuration.md."""
    definitions = copy.deepcopy(definitions)
    for definition in list(definitions.values()):
        if family := definition.get("properties", {}).get("family"):
            names = [each["$ref"].rpartition("/")[2] for part in family["anyOf"] for each in part.get("oneOf", ())]
            kinds = [definitions[name]["properties"]["kind"]["const"] for name in names]
            family["anyOf"].insert(0, {"enum": kinds, "description": "its name alone: the defaults of the family"})
            for name in names[1:]:  # without a kind it is the first
                definitions[name]["required"] = ["kind"]
    if tracker := definitions.get("TrackerSpec"):
        kinds = {"enum": tracker["properties"]["kind"]["enum"], "description": "its kind alone"}
        definitions["TrackerSpec"] = {"anyOf": [kinds, tracker]}
    if "FeedbackSpec" in definitions:
        definitions["Rewards"] = definitions["FeedbackSpec"]
        definitions["FeedbackSpec"] = _rewards(definitions)
    return definitions


def _rewards(definitions: Schema) -> Schema:
    """A reward's kind, a reward, a list of either, or the whole part."""
    part = definitions["Rewards"]["properties"]
    shared = {key: value for key, value in part.items() if key != "rewards"}
    names = [each["$ref"].rpartition("/")[2] for each in part["rewards"]["items"]["oneOf"]]
    for name in names:
        required = sorted({*definitions[name].get("required", ()), "kind"})
        entry = {**definitions[name], "required": required}
        definitions[f"{name}Entry"] = entry
        definitions[f"{name}Alone"] = {**entry, "properties": {**entry["properties"], **shared}}
    kinds = {"enum": [definitions[name]["properties"]["kind"]["const"] for name in names]}
    entries, alone = ([{"$ref": f"#/definitions/{name}{suffix}"} for name in names] for suffix in ("Entry", "Alone"))
    part["rewards"]["items"] = {"oneOf": entries}
    listed = {"type": "array", "minItems": 1, "items": {"anyOf": [kinds, *entries]}}
    return {"anyOf": [kinds, listed, *alone, {"$ref": "#/definitions/Rewards"}]}
