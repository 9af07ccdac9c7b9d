"""The artefacts of a pipeline on disk: OUT/artefacts/NODE-KEY/, each done when its provenance.json is there.

The key is a hash of everything that decides what the node makes, so that a folder never has to be made twice. No torch
here.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError
from burnish.methods.recipe import Recipe
from burnish.running.pipelines.contents import Content, Contents, digest
from burnish.running.pipelines.graph import Node
from burnish.running.pipelines.spec import Made
from burnish.running.progress import plain
from burnish.traces.files import atomic_write

FORMAT = 1
"""Of artefacts and keys. Another number makes everything anew."""

PROVENANCE = "provenance.json"


@dataclass(frozen=True)
class Artefact:
    """A finished artefact: its folder and what was written down about it."""

    path: Path
    provenance: Mapping[str, Any]

    def place(self, kind: Made) -> Path:
        """The folder (or for a report the file) of one of the things it holds."""
        return self.path / self.provenance["outputs"][kind]["path"]

    def hash(self, kind: Made) -> str:
        """The hash of that thing's content when it was made."""
        return str(self.provenance["outputs"][kind]["hash"])


@dataclass(frozen=True)
class Resolved:
    """A node whose inputs are all there: its key, what the key is made of, and the artefacts it takes."""

    node: Node
    key: str
    spec: dict[str, Any]
    """The spec with paths in the place of references."""
    settings: dict[str, Any]
    """The spec as JSON values, references and paths as they are written."""
    inputs: dict[str, dict[str, str]]
    """Dotted key -> value as written, hash of the content, and the node and artefact it comes from."""


def resolve(node: Node, made: Mapping[str, Artefact], outside: list[Content]) -> Resolved:
    """A node with the artefacts of the nodes it takes from, and its key."""
    settings = node.spec.model_dump(mode="json")
    spec, counted = json.loads(json.dumps(settings)), json.loads(json.dumps(settings))
    inputs: dict[str, dict[str, str]] = {}
    for content in outside:
        _put(counted, content.key, f"content {content.hash}")
        inputs[_dotted(content.key)] = {"value": content.text, "hash": content.hash}
        if content.key[-1] == "function":  # one file may hold several functions
            _put(counted, content.key, f"content {content.hash}:{content.text.rpartition(':')[2]}")
    for source in node.inputs:
        artefact = made[source.node]
        found = artefact.hash(source.wants)
        _put(counted, source.key, f"content {found}")
        place = artefact.place(source.wants)
        # a recipe reads rows; judges and filters read the traces as well
        is_rows = source.wants == "dataset" and source.key[-1] == "path"
        _put(spec, source.key, str(place / "rows.jsonl" if is_rows else place))
        if is_rows:
            _name_format(spec, source.key[:-1])
        about = {"value": source.text, "hash": found, "node": source.node, "artefact": artefact.path.name}
        inputs[_dotted(source.key)] = about
    kind = f"train {node.spec.method}" if isinstance(node.spec, Recipe) else node.kind
    return Resolved(node, digest([FORMAT, kind, counted])[:20], spec, settings, inputs)


def _name_format(spec: dict[str, Any], key: tuple[str | int, ...]) -> None:
    """Rows of a dataset have a prompt and a completion, whatever format the rows had that were sampled from."""
    data: Any = spec
    for part in key:
        data = data[part]
    if data["format"] == "auto" and data["messages"] is None and not data["columns"]:
        data["format"] = "prompt"


def _dotted(key: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in key)


def _put(values: Any, key: tuple[str | int, ...], value: str) -> None:
    for part in key[:-1]:
        values = values[part]
    values[key[-1]] = value


class Store:
    """The artefacts below a pipeline's directory."""

    def __init__(self, out: Path) -> None:
        self.folder = out / "artefacts"

    def place(self, resolved: Resolved) -> Path:
        """Where the artefact of a node belongs."""
        return self.folder / f"{resolved.node.id}-{resolved.key}"

    def find(self, resolved: Resolved) -> Artefact | None:
        """The finished artefact with this key, whatever its node was called when it was made."""
        own = self.place(resolved)
        for path in [own, *sorted(self.folder.glob(f"*-{resolved.key}"))]:
            found = self.read(path)
            if found is not None and found.provenance["key"] == resolved.key:
                return found
        return None

    def begun(self, resolved: Resolved) -> bool:
        """Whether something of an unfinished artefact is there."""
        return self.place(resolved).is_dir()

    def latest(self, id: str) -> Artefact | None:
        """The artefact that a node of this name made last, by what the clocks said."""
        found = [a for a in map(self.read, self.folder.glob(f"{id}-*")) if a is not None and a.provenance["node"] == id]
        return max(found, key=lambda a: a.provenance["finished"], default=None)

    def read(self, path: Path) -> Artefact | None:
        """The finished artefact in a folder; None when it is not finished, or of another format."""
        try:
            provenance = json.loads((path / PROVENANCE).read_text("utf-8"))
        except OSError:
            return None
        except ValueError as error:
            raise InputError(f"{path / PROVENANCE} is damaged ({error}); move {path} away to make it anew") from None
        return Artefact(path, provenance) if provenance.get("format") == FORMAT else None

    def check(self, artefact: Artefact, contents: Contents) -> None:
        """Raise InputError when an artefact is no longer what its node made."""
        for kind, output in artefact.provenance["outputs"].items():
            place = artefact.path / output["path"]
            if not place.exists() or contents.artefact(place, kind) != output["hash"]:
                raise InputError(
                    f"{place} is not what the pipeline made: something changed it afterwards. Move {artefact.path} "
                    "away to have it made anew"
                )

    def finish(
        self,
        resolved: Resolved,
        pipeline: Mapping[str, str],
        outputs: Mapping[Made, Path],
        result: Mapping[str, Any],
        times: tuple[datetime, datetime],
        contents: Contents,
    ) -> Artefact:
        """Write down where an artefact comes from, last of all, which makes it finished."""
        path, (started, finished) = self.place(resolved), times
        provenance = {
            "format": FORMAT,
            "node": resolved.node.id,
            "kind": resolved.node.kind,
            "key": resolved.key,
            **pipeline,
            "inputs": resolved.inputs,
            "outputs": {
                kind: {"path": str(place.relative_to(path)), "hash": contents.artefact(place, kind)}
                for kind, place in outputs.items()
            },
            "result": plain(result),
            "settings": resolved.settings,
            "versions": versions(),
            "command": list(sys.argv),
            "started": started.isoformat(timespec="seconds"),
            "finished": finished.isoformat(timespec="seconds"),
            "seconds": round((finished - started).total_seconds(), 1),
        }
        text = json.dumps(provenance, indent=1, ensure_ascii=False) + "\n"
        try:
            atomic_write(path / PROVENANCE, text)
        except OSError as error:
            raise RunError(f"{path / PROVENANCE} could not be written ({error}); is the disk full?") from error
        return Artefact(path, json.loads(text))


def now() -> datetime:
    """The time of day, for people: nothing is decided by it."""
    return datetime.now(UTC)


def versions() -> dict[str, str]:
    """The versions that an artefact was made with."""
    import burnish

    found = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "numpy")}
    return {"burnish": burnish.__version__, "python": platform.python_version(), **found}
