"""The tools that an environment offers, checked before a model is shown them.

A description that cannot be read would otherwise come up at the first call, and look like the model's fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from burnish.environments.answers import EnvironmentFault
from burnish.environments.protocol import Tool
from burnish.errors import InputError
from burnish.feedback.checks.applicable import require_applicable
from burnish.feedback.checks.outcome import Unjudged

Schema = Mapping[str, Any]
"""A JSON Schema of a tool's parameters."""


def schemas_of(tools: Sequence[Tool]) -> dict[str, Schema]:
    """Name -> schema of the parameters. Raises EnvironmentFault ("reset") for a tool without a name, one named twice,
    a schema that is none, a pattern that does not compile, and a reference to what the schema does not hold;
    InputError where the library that reads schemas is not there.
    """
    found: dict[str, Schema] = {}
    for tool in tools:
        function = function_of(tool)
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise _fault(f"is described by an object with a name, not {str(tool)[:80]}")
        if function["name"] in found:
            raise _fault(f"{function['name'][:80]!r} is there twice")
        found[function["name"]] = _checked(function["name"], function.get("parameters") or {"type": "object"})
    return found


def function_of(tool: Any) -> Mapping[str, Any]:
    """What stands under `function` in a tool's description, or the whole where nothing does."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _checked(name: str, schema: Any) -> Schema:
    if not isinstance(schema, dict):
        raise _fault(f"{name[:80]!r} has parameters that are no object: {str(schema)[:80]}")
    _check(name, json.dumps(schema, sort_keys=True))
    return schema


@lru_cache(maxsize=1024)
def _check(name: str, schema: str) -> None:
    try:
        require_applicable(schema)
    except Unjudged as error:
        raise _fault(f"{name[:80]!r} has parameters whose schema is of no use: {error}") from None
    except ImportError as error:
        raise InputError(
            f"tools need a library that is not installed: {error}; pip install 'burnish[tasks]'"
        ) from error


def _fault(reason: str) -> EnvironmentFault:
    return EnvironmentFault("reset", f"a tool {reason}")
