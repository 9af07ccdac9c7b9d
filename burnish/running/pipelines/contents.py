"""Hashes of what a node takes from outside of its pipeline: models, files of rows, reward functions. No torch here.

A thing counts by its content, not by its name or age. What cannot be looked into without fetching it (a model hub's id,
a model in a wheel, a fresh nursery network) counts by its name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.models import nursery, wheels
from burnish.models.folders import BESIDE_WEIGHTS
from burnish.running.pipelines.graph import texts
from burnish.running.pipelines.spec import Made, NodeSpec
from burnish.running.yamlfile import KeyPath
from burnish.tasks.rows.library import is_saved, saved_files
from burnish.tasks.suggest import did_you_mean
from burnish.traces.files import atomic_write

_MODEL = ("config.json", "*.safetensors", "*.safetensors.index.json", *BESIDE_WEIGHTS)
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
_DATASET = ("rows.jsonl", "traces/[!.]*.parquet")
PATTERNS: Mapping[Made, tuple[str, ...]] = {"model": _MODEL, "adapter": _ADAPTER, "dataset": _DATASET}
"""The files of a folder that make out an artefact."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_REMEMBERED = 1 << 20  # bytes; smaller files are hashed anew each time
_SETTLED = 2.0  # seconds; a file changed so recently could change again without its times telling


@dataclass(frozen=True)
class Content:
    """Something from outside that a key of a node names."""

    key: KeyPath
    text: str
    """As the node has it."""
    hash: str


class Contents:
    """Hashes files, and remembers those of large ones in the file `memory` while their size and times stay."""

    def __init__(self, memory: Path | None = None) -> None:
        self.memory = memory
        self._known: dict[str, list[Any]] = {}
        if memory is not None and memory.is_file():
            try:
                self._known = dict(json.loads(memory.read_text("utf-8")))
            except (ValueError, TypeError):
                self._known = {}  # nothing but time is lost

    def file(self, path: Path) -> str:
        """The hash of a file's bytes."""
        name, before = str(path.absolute()), _stamp(path)
        if before[0] >= _REMEMBERED and self._known.get(name, [])[:-1] == before:
            return self._known[name][-1]
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        recent = time.time() - max(before[1], before[2]) / 1e9 < _SETTLED
        if before[0] >= _REMEMBERED and before == _stamp(path) and not recent:
            self._known[name] = [*before, found]
        return found

    def artefact(self, path: Path, kind: Made) -> str:
        """The hash of a model, an adapter or a dataset in a folder, or of a report's file."""
        if kind == "report":
            return self.file(path)
        files = sorted({file for pattern in PATTERNS[kind] for file in path.glob(pattern) if file.is_file()})
        return digest([[str(file.relative_to(path)), self.file(file)] for file in files])

    def save(self) -> None:
        """Write down what is remembered."""
        if self.memory is not None and self._known:
            atomic_write(self.memory, json.dumps(self._known, indent=0) + "\n")


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def digest(value: Any) -> str:
    """The hash of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def outside_contents(spec: NodeSpec | Recipe, taken: Iterable[KeyPath], contents: Contents) -> Iterator[Content]:
    """Everything from outside that a spec names, but for the keys in `taken`, which are references.

    Raises InputError, naming the key, for a path that does not exist or is something else.
    """
    inside = set(taken)
    for key, text in texts(spec.model_dump(mode="json")):
        if key in inside:
            continue
        try:
            found = _hash(key, text, contents)
        except InputError as error:
            raise InputError(f"{'.'.join(str(part) for part in key)}: {error}") from None
        if found is not None:
            yield Content(key, text, found)


def recipe_contents(recipe: Recipe, base: Path | None = None) -> dict[str, str]:
    """Dotted key -> hash of what it names outside of the recipe; relative paths are taken from `base`.

    What cannot be looked into, such as a function that was handed over in Python, is left out.
    """
    found: dict[str, str] = {}
    contents = Contents()
    for key, text in texts(recipe.model_dump(mode="json")):
        place = text if base is None or not (base / text.rpartition(":")[0]).exists() else str(base / text)
        if base is not None and (base / text).exists():
            place = str(base / text)
        try:
            hashed = _hash(key, place, contents)
        except (InputError, OSError):
            continue
        if hashed is not None:
            found[".".join(str(part) for part in key)] = hashed
    return found


def _hash(key: KeyPath, text: str, contents: Contents) -> str | None:
    """The hash of what a key names, or None for a key that names nothing outside."""
    names = [part for part in key if isinstance(part, str)]
    match names:
        case ["data"]:
            return _folder(text, "dataset", contents)
        case [*_, "data" | "mix", "path"]:
            return _rows(Path(text).expanduser(), contents)
        case [*_, "data" | "mix", "hub"]:
            return digest(text)
        case [*_, "model" | "models", "path"]:
            return _model(text, contents)
        case [*_, "adapter", "path"]:
            return _folder(text, "adapter", contents)
        case [*_, "model" | "models", "template"] if text not in ("auto", "plain"):
            return contents.file(_existing(Path(text).expanduser()))
        case [*_, "rewards" | "correct", "function"]:
            return contents.file(_source(text))
    return None


def _existing(path: Path) -> Path:
    if not path.is_file():
        near = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"no file {path}" + (f"; {did_you_mean(path.name, near)}" if 0 < len(near) < 50 else ""))
    return path


def _rows(path: Path, contents: Contents) -> str:
    if path.is_dir() and (path / "rows.jsonl").is_file():
        raise InputError(f"{path} is a folder: give its file {path / 'rows.jsonl'}")
    if not is_saved(path):
        return contents.file(_existing(path))
    return digest([[str(file.relative_to(path)), contents.file(file)] for file in saved_files(path)])


def _folder(text: str, kind: Made, contents: Contents) -> str:
    path = Path(text).expanduser()
    needed = "adapter_config.json" if kind == "adapter" else "traces"
    if not (path / needed).exists():
        what = "an adapter" if kind == "adapter" else "a dataset of a pipeline"
        raise InputError(
            f"{path} {f'is not {what}: it has no {needed}' if path.exists() else 'does not exist'}"
            + ("" if kind == "adapter" else "; name a node, such as @draw")
        )
    return contents.artefact(path, kind)


def _model(text: str, contents: Contents) -> str:
    if text.startswith(nursery.PREFIX) and text.removeprefix(nursery.PREFIX) not in nursery.SIZES:
        return contents.artefact(nursery.nursery_folder(text.removeprefix(nursery.PREFIX)), "model")
    path = Path(text).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            adapter = (path / "adapter_config.json").is_file()
            raise InputError(
                f"{path} is an adapter: give its base as the model's path and this folder as adapter.path"
                if adapter
                else f"{path} is not a model: it has no config.json"
            )
        return contents.artefact(path, "model")
    if path.is_file():
        return contents.file(path)
    if text.startswith((nursery.PREFIX, wheels.PREFIX)) or (_HUB_ID.fullmatch(text) and path.suffix != ".gguf"):
        return digest(text)
    raise InputError(f"model path {text} does not exist")


def _source(function: str) -> Path:
    """The file that a reward function stands in; what that file imports is not looked into."""
    where = function.rpartition(":")[0]
    if where.endswith(".py"):
        return _existing(Path(where).expanduser())
    try:
        found = importlib.util.find_spec(where) if where else None
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None:
        raise InputError(f'{function!r} cannot be found: write it as "file.py:name" or "package.module:name"')
    return Path(found.origin)
