"""Going on with a run: the same recipe, the newest whole checkpoint, and everything behind it out of the way.

What a killed run recorded after its last checkpoint will be recorded again. It moves to discarded/N/, so that nothing
is counted twice and nothing is lost.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.running.checkpoints import Checkpoint, newest_whole, numbered_checkpoints
from burnish.running.config import recipe_from_mapping
from burnish.running.directory import RunDirectory
from burnish.running.pipelines.contents import recipe_contents
from burnish.running.yamlfile import read_yaml
from burnish.traces.files import atomic_write

_STEP = re.compile(r"step-(\d+)")
_ASIDE = re.compile(
    r"\.((step-\d+|step-\d+\.\w+|final|config\.yaml|run\.json|summary\.json|report\.html|metrics\.jsonl)\..+|removed-step-\d+)"
)
_AT_THE_END = ("summary.json", "report.html", "final")


@dataclass
class Resumption:
    """Where a run goes on: after `step` steps, from `checkpoint` (None: from the beginning)."""

    identity: Mapping[str, Any]
    checkpoint: Checkpoint | None
    changed: list[str]
    """Keys of the recipe that are not as they were, in words."""
    messages: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.checkpoint.step if self.checkpoint else 0


def resumption(directory: RunDirectory, recipe: Recipe, *, force: bool, base: Path | None = None) -> Resumption:
    """What to go on with; nothing is changed on disk yet.

    Raises InputError for a changed recipe that is not forced, and for checkpoints of another run.
    """
    identity = _identity(directory.path / "run.json")
    changed = changed_keys(directory.path / "config.yaml", recipe)
    changed += changed_contents(identity.get("contents", {}), recipe_contents(recipe, base))
    if changed and not force:
        raise InputError(
            f"{directory.path} was begun with another recipe: {'; '.join(changed)}. Go on with the recipe it has "
            f"({directory.path / 'config.yaml'}), start a new run with another --out, or go on regardless with --force"
        )

    def usable(found: Checkpoint) -> str:
        if found.manifest.get("run") != identity["run"]:
            raise InputError(f"{found.path} is a checkpoint of another run: move it away, then resume")
        if found.step > recipe.steps:
            raise InputError(
                f"the run has done {found.step} steps, more than steps: {recipe.steps}; raise it, or start a new run"
            )
        if len(_kept(directory.path / "metrics.jsonl", found.step)[0]) < found.step:
            return f"metrics.jsonl does not hold its {found.step} steps whole"
        return ""

    checkpoint, torn = newest_whole(directory.path / "checkpoints", usable)
    result = Resumption(identity, checkpoint, changed)
    result.messages += [f"{path.name} cannot be used: {reason}; going back behind it" for path, reason in torn.items()]
    if changed:
        result.messages.append(f"resumed with a changed recipe, not bit-equal: {'; '.join(changed)}")
    return result


def changed_contents(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The keys that name the same file or folder as before, with other content in it."""
    return [f"what {key} names has changed" for key in now if key in before and before[key] != now[key]]


def changed_keys(config: Path, recipe: Recipe) -> list[str]:
    """The keys in which a saved resolved recipe differs from this one: "steps 10 -> 20"."""
    saved = read_yaml(config)[0]
    with suppress(
        InputError
    ):  # a key that is new since then has its default; a recipe of another method has none of it
        saved = recipe_from_mapping(saved).model_dump(mode="json")
    before = dict(_leaves(saved))
    now = dict(_leaves(recipe.model_dump(mode="json")))
    absent = object()
    return [
        f"{key} {_shown(before.get(key, absent), absent)} -> {_shown(now.get(key, absent), absent)}"
        for key in [*before, *(key for key in now if key not in before)]
        if before.get(key, absent) != now.get(key, absent)
    ]


def go_back(directory: RunDirectory, step: int) -> str:
    """Move what was recorded after `step` steps to discarded/N; what was moved, in words ("" for nothing).

    Killed halfway it can be done again: nothing is removed before it stands elsewhere.
    """
    root = directory.path
    _sweep(root)
    kept, behind = _kept(root / "metrics.jsonl", step)
    stale = [path for path in _numbered(root) if int(_STEP.fullmatch(path.stem)[1]) > step]  # type: ignore[index]
    stale += [root / name for name in _AT_THE_END if (root / name).exists()]
    if not behind and not stale:
        return ""
    numbers = [int(p.name) for p in (root / "discarded").glob("*") if p.name.isdigit()]
    place = root / "discarded" / str(max(numbers, default=0) + 1)
    with directory.writing(str(place.relative_to(root))):
        place.mkdir(parents=True)
        if behind:
            atomic_write(place / "metrics.jsonl", b"".join(behind))
            atomic_write(root / "metrics.jsonl", b"".join(kept))
        for path in stale:
            target = place / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    words = [f"{len(behind)} lines of metrics"] if behind else []
    words += [f"{len(stale)} files"] if stale else []
    return f"{' and '.join(words)} from after the last checkpoint moved to {place.relative_to(root)}"


def _sweep(root: Path) -> None:
    """Remove what a killed process was writing aside or taking away; nobody refers to it."""
    for folder in (root, *(root / name for name in ("traces", "evaluations", "checkpoints", "discarded"))):
        for path in folder.glob(".*"):
            if not _ASIDE.fullmatch(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _numbered(root: Path) -> Iterator[Path]:
    """Everything that carries the number of a step."""
    for folder in ("traces", "evaluations"):
        for path in sorted((root / folder).glob("step-*")):
            if _STEP.fullmatch(path.stem):
                yield path
    yield from (path for _, path in numbered_checkpoints(root / "checkpoints"))


def _kept(metrics: Path, step: int) -> tuple[list[bytes], list[bytes]]:
    """Lines of steps 1 to `step` as far as they are whole and in order, and all that follow."""
    lines = metrics.read_bytes().splitlines(keepends=True) if metrics.exists() else []
    count = 0
    while count < min(step, len(lines)) and _step_of(lines[count]) == count + 1:
        count += 1
    return lines[:count], lines[count:]


def _step_of(line: bytes) -> int | None:
    try:
        return json.loads(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError):
        return None


def _identity(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
        return {**found, "run": str(found["run"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is missing or damaged ({error}): this run cannot be resumed") from None


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(v, dict) for v in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{index}")
    else:
        yield path, value


def _shown(value: Any, absent: object) -> str:
    return "absent" if value is absent else json.dumps(value, default=str)
