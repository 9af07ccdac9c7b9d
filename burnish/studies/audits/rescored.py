"""Stored traces scored again by the very weights that sampled them, for a gap by position where none is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.learning.scoring import score
from burnish.studies.audits import places
from burnish.studies.audits.asking import recipe_of, speaker_of
from burnish.studies.audits.finding import UnmeasuredError
from burnish.studies.audits.places import Point
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import gaps_of
from burnish.traces import Group

STEPS, GROUPS = 3, 8
"""Stored steps, and groups of each, that are scored at most."""

_SIGNAL = "audit/learner_logprob"

Gap = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float64]]


def rescored(run: RunFiles, base: str | None) -> list[Gap]:
    """(trace, positions, sampler minus learner) of steps whose weights are still there: the base's and checkpoints'.

    Raises UnmeasuredError when no stored step was sampled by weights that are there.
    """
    points = {0: places.base(run, base)} | {_version(point): point for point in places.checkpoints(run)}
    found: list[Gap] = []
    steps = 0
    for _, groups in run.groups():
        version = _sampled_by(groups)
        if version not in points:
            continue
        found += _gaps(run, points[version], groups[:GROUPS], len(found))
        steps += 1
        if steps == STEPS:
            break
    if not found:
        raise UnmeasuredError(
            "no stored step was sampled by weights that the run still has (checkpoint_every keeps them)"
        )
    return found


def _version(point: Point) -> int:
    """The weight version of a checkpoint. Raises InputError when it is damaged."""
    file = Path(point.path) / "state" / "parts.json"
    try:
        return int(json.loads(file.read_text("utf-8"))["learner/policy"]["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: missing or damaged ({error!r}), so the checkpoint is not whole") from None


def _sampled_by(groups: Sequence[Group]) -> int | None:
    """The one weight version that sampled a step; None for several or none."""
    versions = {author.version for group in groups for trace in group.traces for author in trace.authors} - {-1}
    return versions.pop() if len(versions) == 1 else None


def _gaps(run: RunFiles, point: Point, groups: list[Group], first: int) -> list[Gap]:
    model = speaker_of(recipe_of(run), point).model
    score(model, groups).write(_SIGNAL)
    traces = {id(trace): trace for group in groups for trace in group.traces}
    found = [(first + place, *gaps_of(trace, _SIGNAL)) for place, trace in enumerate(traces.values())]
    return [gap for gap in found if len(gap[2])]
