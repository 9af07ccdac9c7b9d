"""The keys of a recipe: what there is, in words, and which one a wrong key was meant to be. No torch here."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from burnish.feedback.spec import KEYS_OF_DEFAULT
from burnish.methods.registry import DECLARED, METHODS

SYNONYMS: Mapping[str, str] = {
    "learning_rate": "optimizer.lr",
    "batch_size": "prompts_per_step",
    "num_generations": "samples_per_prompt",
    "group_size": "samples_per_prompt",
    "max_new_tokens": "sampling.max_tokens",
    "max_steps": "steps",
    "beta": "options.kl",
    "kl_coef": "options.kl",
    "max_grad_norm": "optimizer.clip_norm",
    "reward": "rewards",
    "dataset": "data",
    "lora": "model.adapter",
}
"""Names that other systems use -> the key here."""


@dataclass(frozen=True)
class Key:
    """One key of a recipe. A key of a list's entries has `[]` for the place in the list."""

    key: str
    type: str
    default: str
    description: str
    meanings: tuple[str, ...] = ()
    """Of a key that kinds share, or that only some have: what each of them says of it."""


def documented_keys(recipe: type[BaseModel]) -> list[Key]:
    """Every key that a recipe of this class may hold, in order, with type, default and description."""
    return list(_keys(recipe, ""))


def _keys(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        key = prefix + name
        inner = models_of(field.annotation)
        yield Key(key, type_words(field, inner), _default(field), field.description or _first_line(inner))
        below = f"{key}[]." if _is_list(field.annotation) else f"{key}."
        if len(kinds_of(inner)) < 2:
            yield from (found for each in inner for found in _keys(each, below))
            continue
        yield Key(f"{below}kind", " | ".join(kinds_of(inner)), "required", "which of them; each has keys of its own")
        listed = [type(field.default)] if KEYS_OF_DEFAULT in field.metadata else inner
        yield from (found for found in _shared(listed, below) if found.key != f"{below}kind")


def _shared(models: Sequence[type[BaseModel]], below: str) -> list[Key]:
    """The keys of the kinds of something, each once, with the kinds that have it where not all do."""
    found: dict[str, dict[str, Key]] = {}
    for model in models:
        for key in _keys(model, below):
            found.setdefault(key.key, {}).setdefault(kinds_of([model])[0], key)
    return [_of_kinds(by_kind, len(models)) for by_kind in found.values()]


def _of_kinds(by_kind: Mapping[str, Key], count: int) -> Key:
    first = next(iter(by_kind.values()))
    saying: dict[str, list[str]] = {}
    for kind, key in by_kind.items():
        saying.setdefault(key.description, []).append(kind)
    if len(saying) == 1 and len(by_kind) == count:
        return first
    told = "; ".join(f"{', '.join(kinds)}: {text}" for text, kinds in saying.items())
    return replace(first, description=told, meanings=tuple(saying))


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value of this annotation may hold, in unions and in lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = get_origin(annotation)
    if origin is Annotated:
        return models_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType, tuple, list):
        return [model for part in get_args(annotation) for model in models_of(part)]
    return []


def kinds_of(models: Sequence[type[BaseModel]]) -> list[str]:
    """The values of `kind` that tell these models apart."""
    return [str(model.model_fields["kind"].default) for model in models if "kind" in model.model_fields]


def model_at(recipe: type[BaseModel], location: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that may stand at a location as pydantic reports it: names, places in lists, kinds of a union."""
    current: list[type[BaseModel]] = [recipe]
    for part in location:
        if isinstance(part, int):
            continue
        inside = [model.model_fields[part] for model in current if part in model.model_fields]
        if inside:
            current = [model for field in inside for model in models_of(field.annotation)]
        else:
            current = [model for model in current if kinds_of([model]) == [part]] or current
    return current


def field_at(recipe: type[BaseModel], location: Sequence[str | int]) -> FieldInfo | None:
    """The field at a location as pydantic reports it, or None when it is no field."""
    names = [place for place, part in enumerate(location) if isinstance(part, str)]
    for place in reversed(names):
        for model in model_at(recipe, location[:place]):
            if location[place] in model.model_fields:
                return model.model_fields[str(location[place])]
    return None


def choices_of(annotation: Any) -> list[str]:
    """The words that a Literal allows, also within a union or a list."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [word for part in get_args(annotation) for word in choices_of(part)]


def only_choices(annotation: Any) -> bool:
    """Whether nothing but the words of a Literal (or null) fits."""
    if get_origin(annotation) in (Union, types.UnionType):
        return all(only_choices(part) for part in get_args(annotation))
    return annotation is type(None) or get_origin(annotation) is Literal


def suggestion(key: str, recipe: type[BaseModel], siblings: Sequence[str], method: str) -> str:
    """What to do about a key that does not exist; `siblings` are the names that exist at its place."""
    known = [entry.key for entry in documented_keys(recipe)]
    parent, _, name = key.rpartition(".")
    prefix = f"{parent}." if parent else ""
    if near := difflib.get_close_matches(name, siblings, n=1, cutoff=0.8):
        return f"did you mean {prefix}{near[0]}?"
    if others := [other for other in DECLARED if method not in ("", other) and _has(METHODS[other].recipe, key)]:
        what = "methods that sample" if _samples(METHODS[others[0]].recipe, recipe, key) else "other methods"
        return f"it belongs to {what} ({', '.join(others)}); {method} does not use it, so remove it"
    elsewhere = [other for other in known if other.rpartition(".")[2] == name]
    if elsewhere:
        inside = [other for other in elsewhere if other.startswith(prefix)]
        return f"did you mean {' or '.join((inside or elsewhere)[:3])}?"
    if (meant := SYNONYMS.get(name)) and meant in known:
        return f"here it is called {meant}"
    if near := difflib.get_close_matches(name, siblings, n=1, cutoff=0.6):
        return f"did you mean {prefix}{near[0]}?"
    by_name: dict[str, str] = {other.rpartition(".")[2]: other for other in reversed(known)}
    others = [other for other in known if not key.startswith(f"{other}.")]
    if near := difflib.get_close_matches(key, others, n=1, cutoff=0.7):
        return f"did you mean {near[0]}?"
    if near := difflib.get_close_matches(name, by_name, n=1, cutoff=0.75):
        return f"did you mean {by_name[near[0]]}?"
    return f"{parent or ('a recipe of ' + method if method else 'this')} has: {', '.join(siblings)}"


def _has(recipe: type[BaseModel], key: str) -> bool:
    return any(entry.key.replace("[]", "") == key for entry in documented_keys(recipe))


def _samples(owner: type[BaseModel], recipe: type[BaseModel], key: str) -> bool:
    """Whether the key is one that every method which samples has."""
    from burnish.methods.recipe import RolloutRecipe

    top = key.partition(".")[0]
    return (
        issubclass(owner, RolloutRecipe) and not issubclass(recipe, RolloutRecipe) and top in RolloutRecipe.model_fields
    )


def type_words(field: FieldInfo, inner: Sequence[type[BaseModel]] = ()) -> str:
    """What a field takes, in words: "whole number >= 1"."""
    words = _words(field.annotation, inner)
    bounds = [
        f"{sign} {value:g}"
        for sign, name in ((">=", "ge"), (">", "gt"), ("<=", "le"), ("<", "lt"))
        for part in field.metadata
        if (value := getattr(part, name, None)) is not None
    ]
    return f"{words} {' and '.join(bounds)}" if bounds else words


_SIMPLE: Mapping[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    type(None): "null",
}


def _words(annotation: Any, inner: Sequence[type[BaseModel]] = ()) -> str:
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "keys"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(str(value) for value in arguments)
    if origin is Annotated:
        return _words(arguments[0], inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(part) for part in arguments))
    if origin is tuple and Ellipsis not in arguments:
        return f"list of {len(arguments)} of {_words(arguments[0])}"
    if origin in (tuple, list):
        return f"list of {_words(arguments[0])}"
    if origin is dict:
        return f"names, each with {'any value' if arguments[1] is Any else _words(arguments[1])}"
    if origin is Callable or annotation is Callable:
        return "function"
    return "function" if "Callable" in str(annotation) else str(annotation)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        return ""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(str(each) for each in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _first_line(models: Sequence[type[BaseModel]]) -> str:
    return (models[0].__doc__ or "").strip().splitlines()[0] if len(models) == 1 else ""


def _is_list(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_list(get_args(annotation)[0])
    return origin in (tuple, list)
