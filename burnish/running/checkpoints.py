"""Checkpoints: everything a run needs to go on with the same bits, in a folder that is whole or told to be torn.

checkpoints/step-N/ is an ordinary model folder (transformers or peft load it) with more beside it: `state/parts.json`,
every part's state by name; `state/<learner>.safetensors`, the optimizer's tensors and those trained parameters that
the model's own file does not hold bit for bit under their own name; `manifest.json`, written last, with the size and
checksum of every file. The folder is filled aside, flushed to disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from burnish.errors import RunError
from burnish.learning.learner import Learner
from burnish.models.folders import atomic_folder
from burnish.models.saving import check_space, write_model_files

FORMAT = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d+)")
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found whole."""

    path: Path
    manifest: Mapping[str, Any]
    parts: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Steps done."""
        return int(self.manifest["step"])

    def load_learner(self, name: str, learner: Learner) -> None:
        """Set a learner's weights and optimizer. Raises InputError when they are those of another model."""
        tensors = load_file(self.path / "state" / f"{name}.safetensors")
        for file, names in self.manifest["parameters"][name].items():
            with safe_open(self.path / file, framework="pt") as stored:
                tensors |= {f"parameter/{n}": stored.get_tensor(n) for n in names}
        learner.load(self.parts[f"learner/{name}"], tensors)


class TornError(Exception):
    """Why a folder is no whole checkpoint."""


def write_checkpoint(
    path: Path,
    learners: Mapping[str, Learner],
    parts: Mapping[str, Any],
    about: Mapping[str, Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write a checkpoint at `path`: its first learner's model as a model folder, and the state of everything.

    `parts` holds JSON values by part name; `about` goes into the manifest (step, run, score, environment). `progress`
    is told how many of the four stages are done: model, state, checksums, in its place.
    Raises RunError when the disk is too full or refuses.
    """
    states = {name: learner.state() for name, learner in learners.items()}
    tensors = [t for _, state in states.values() for t in state.values()]
    check_space(path, sum(t.numel() * t.element_size() for t in tensors))
    policy = next(iter(learners.values()))
    masters = {n: t.detach() for n, t in policy.masters.parameters.items()} if policy.masters.separate else {}
    progress(0, 4)
    try:
        with atomic_folder(path) as aside:
            write_model_files(policy.model, aside, masters)
            progress(1, 4)
            (aside / "state").mkdir()
            held: dict[str, dict[str, list[str]]] = {}
            for name, (_, state) in states.items():
                held[name] = _held_by_the_model(aside, state)
                elsewhere = {f"parameter/{n}" for names in held[name].values() for n in names}
                kept = {n: t.detach().cpu().contiguous() for n, t in state.items() if n not in elsewhere}
                save_file(kept, aside / "state" / f"{name}.safetensors")
            values = {**parts, **{f"learner/{name}": values for name, (values, _) in states.items()}}
            (aside / "state" / "parts.json").write_text(json.dumps(values, indent=1), "utf-8")
            progress(2, 4)
            files = sorted(p for p in aside.rglob("*") if p.is_file())
            manifest = {
                "format": FORMAT, **about, "parameters": held,
                "files": {str(p.relative_to(aside)): [p.stat().st_size, _checksum(p)] for p in files},
            }  # fmt: skip
            (aside / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
            progress(3, 4)
        progress(4, 4)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path}: the checkpoint could not be written ({error}); earlier ones are whole. Free some space, then go "
            "on with --resume"
        ) from error


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint with every file's checksum verified. Raises TornError with the reason when it is not whole."""
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        listed, version = dict(manifest["files"]), manifest["format"]
        _ = int(manifest["step"]), dict(manifest["parameters"]), dict(manifest["environment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TornError(f"its {MANIFEST} is missing or unreadable ({error})") from None
    if version != FORMAT:
        raise TornError(f"it has format {version}, and this version of Burnish reads {FORMAT}")
    for name, (size, checksum) in listed.items():
        try:
            if (path / name).stat().st_size != size or _checksum(path / name) != checksum:
                raise TornError(f"{name} is not what was written")
        except OSError as error:
            raise TornError(f"{name} cannot be read ({error.strerror})") from None
    return Checkpoint(path, manifest, json.loads((path / "state" / "parts.json").read_text("utf-8")))


def numbered_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The folders step-N in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return sorted(found)


def newest_whole(folder: Path, usable: Callable[[Checkpoint], str]) -> tuple[Checkpoint | None, dict[Path, str]]:
    """The newest checkpoint that is whole, and the newer ones that are not with the reason.

    `usable` says what else is wrong with one, or nothing ("").
    """
    torn: dict[Path, str] = {}
    for _, path in reversed(numbered_checkpoints(folder)):
        try:
            found = read_checkpoint(path)
            if not (reason := usable(found)):
                return found, torn
        except TornError as error:
            reason = str(error)
        torn[path] = reason
    return None, torn


def retire(folder: Path, keep: int) -> list[int]:
    """Remove all but the newest `keep` checkpoints and the one with the best score; the removed steps."""
    found = numbered_checkpoints(folder)
    scores = {step: _score(path) for step, path in found}
    scored = {step: score for step, score in scores.items() if score is not None}
    best = max(scored, key=lambda step: (scored[step], -step)) if scored else None  # the first of equals
    old = [(step, path) for step, path in found[: max(0, len(found) - keep)] if step != best]
    for step, path in old:
        # out of the way in one move first: a kill halfway leaves no half of a step-N
        doomed = path.rename(folder / f".removed-step-{step}")
        shutil.rmtree(doomed)
    return [step for step, _ in old]


def _held_by_the_model(folder: Path, state: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """Model file -> the trained parameters that it holds under their own names with the very same bits."""
    held: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as stored:
            names = [n for n in stored.keys() if f"parameter/{n}" in state]  # noqa: SIM118 - it is no mapping
            same = [n for n in names if _same(stored.get_tensor(n), state[f"parameter/{n}"])]
        if same:
            held[file.name] = same
    return held


def _same(stored: Tensor, own: Tensor) -> bool:
    return stored.dtype == own.dtype and torch.equal(stored, own.detach().cpu())


def _score(path: Path) -> float | None:
    try:
        return json.loads((path / MANIFEST).read_text("utf-8")).get("score")
    except (OSError, ValueError):
        return None


def _checksum(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
