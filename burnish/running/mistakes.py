"""What pydantic finds wrong with a recipe, in the user's words: place, key, what was given, and the fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from burnish.running.keys import choices_of, field_at, kinds_of, model_at, only_choices, suggestion, type_words
from burnish.tasks.suggest import did_you_mean

Path = tuple[str | int, ...]

_LONGEST = 80


def explained(
    error: ValidationError,
    recipe: type[BaseModel],
    method: str,
    given: Mapping[str, Any],
    place: Callable[[Path], str],
) -> str:
    """One line for each mistake; `given` is what was validated, `place` says where a key was written."""
    mistakes: dict[Path, str] = {}
    everything = error.errors(include_url=False)
    for found in everything:
        inside = [other["loc"] for other in everything if len(other["loc"]) > len(found["loc"])]
        if found["type"] == "too_short" and any(loc[: len(found["loc"])] == found["loc"] for loc in inside):
            continue  # its entries were refused one by one, which left none
        path = users_path(found["loc"], given, missing=found["type"] == "missing")
        # one value that fits no member of a union is reported once for each member
        mistakes.setdefault(path, _mistake(found, path, recipe, method, given))
    lines = [f"{place(path)}: {text}" for path, text in mistakes.items()]
    return "\n".join(lines)


def bools_for_numbers(value: Any, recipe: type[BaseModel], path: Path = ()) -> list[Path]:
    """Where true or false stands in the place of a number: pydantic would read 1 or 0."""
    if isinstance(value, Mapping):
        return [p for key, inner in value.items() for p in bools_for_numbers(inner, recipe, (*path, key))]
    if isinstance(value, list):
        return [p for place, inner in enumerate(value) for p in bools_for_numbers(inner, recipe, (*path, place))]
    field = field_at(recipe, path) if isinstance(value, bool) else None
    wanted = type_words(field) if field is not None else ""
    return [path] if "number" in wanted and "true or false" not in wanted else []


def users_path(location: Sequence[str | int], given: Any, *, missing: bool = False) -> Path:
    """A location as pydantic reports it, without the steps that the user did not write (kinds, short forms)."""
    path: list[str | int] = []
    node: Any = given
    for index, part in enumerate(location):
        in_list = isinstance(node, list) and isinstance(part, int) and part < len(node)
        if in_list or (isinstance(node, Mapping) and part in node):
            path.append(part)
            node = cast(Any, node)[part]
        elif missing and index == len(location) - 1:
            path.append(part)
    return tuple(path)


def dotted(path: Sequence[str | int]) -> str:
    """`data.family.digits`."""
    return ".".join(str(part) for part in path)


def value_at(given: Any, path: Sequence[str | int]) -> Any:
    """What the user wrote there."""
    for part in path:
        given = given[part]
    return given


def shown(value: Any) -> str:
    """A value as it is quoted in a message."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _mistake(
    found: Mapping[str, Any], path: Path, recipe: type[BaseModel], method: str, given: Mapping[str, Any]
) -> str:
    kind, location, context = found["type"], found["loc"], found.get("ctx", {})
    key = dotted(path) or "recipe"
    if kind == "extra_forbidden":
        kinds = kinds_of([m for m in model_at(recipe, location[:-2]) if location[-1] in m.model_fields])
        if (
            len(location) > 1
            and isinstance(location[-2], str)
            and location[-2] not in dotted(path).split(".")
            and kinds
        ):
            return f"{key} belongs to kind {' or '.join(kinds)}, and this is of kind {location[-2]}; remove it"
        siblings = list(dict.fromkeys(n for model in model_at(recipe, location[:-1]) for n in model.model_fields))
        return f"there is no key {key}; {suggestion(key, recipe, siblings, method)}"
    field = field_at(recipe, location)
    if kind == "missing":
        about = f" ({field.description})" if field is not None and field.description else ""
        return f"{key} is missing{about}; add it"
    if kind == "value_error":
        return f"{key}: {context['error']}"
    if kind == "union_tag_not_found":
        return f"{key}: kind is missing; choose one of {', '.join(kinds_of(model_at(recipe, location)))}"
    if kind == "union_tag_invalid":
        kinds = kinds_of(model_at(recipe, location))
        return f"{key}.kind: given {shown(context['tag'])}, {did_you_mean(str(context['tag']), kinds)}"
    value = value_at(given, path)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        names = list(dict.fromkeys(name for model in model_at(recipe, location) for name in model.model_fields))
        return f"{key}: given {shown(value)}, but it has keys of its own: {', '.join(names)}; set those"
    if kind == "literal_error" and field is not None and only_choices(field.annotation):
        return f"{key}: given {shown(value)}; {_choice(value, choices_of(field.annotation))}"
    if field is None:
        return f"{key}: given {shown(value)}; {found['msg']}"
    if kind == "string_type":
        return f"{key}: given {shown(value)}, which YAML does not read as text: put it in quotes"
    plain = kind.endswith(("_type", "_parsing", "_from_float")) or kind.startswith(("greater_than", "less_than"))
    more = "" if plain else f" ({found['msg']})"
    return f"{key}: given {shown(value)}; it takes {type_words(field)}{more}"


def _choice(value: Any, choices: list[str]) -> str:
    """The near one first, then all."""
    meant = did_you_mean(str(value), choices)
    return meant if meant.startswith("there are") else f"{meant} There are: {', '.join(choices)}"
