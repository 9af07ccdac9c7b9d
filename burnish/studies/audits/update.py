"""How training changed the weights: how many, by how much, in how many directions, and whether in the model's own.

Definitions as in the studies of sparse and off-principal updates (arXiv 2505.11711, 2511.08567): docs/audits.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.intervals import Sums, ratio
from burnish.studies.audits.places import Point, adapter_settings, folder_of
from burnish.studies.audits.spectra import Spectrum, spectrum
from burnish.studies.audits.tensors import Tensors, to_bfloat16
from burnish.studies.statistics import Interval

NAME = "update"
TOLERANCE = 1e-5
RULE = (
    "fault: a weight is not finite, nothing changed at all, or the update is on average more than half as large as the "
    "matrix it changes; look: more than a tenth as large, or the matrices' first directions keep less than 0.9 of "
    "themselves, or all but a thousandth of the change is lost in bfloat16 (bounds over matrices)"
)
CANNOT = (
    "Sizes and angles of an update say nothing about what was learned: the same behaviour can come from a sparse "
    "update and from a dense one, and sparsity is partly the rounding of bfloat16."
)
_CHUNK = 1 << 22  # entries of a tensor that are held at a time
_SMALLEST = 8  # a matrix with a smaller side has no directions to speak of
_NO_MATRIX = ("embed", "lm_head", "wte", "wpe")

Floats = npt.NDArray[np.float32]
Rows = Callable[[int, int | None], Floats]


@dataclass(frozen=True)
class Changed:
    """A tensor before and its change, by rows of the first axis."""

    name: str
    shape: tuple[int, ...]
    before: Rows
    change: Rows


@dataclass
class Counts:
    """Over all weights that both sides have."""

    weights: int = 0
    same: int = 0
    same_in_bfloat16: int = 0
    within: int = 0
    not_finite: int = 0
    norm: float = 0.0
    base_norm: float = 0.0
    untouched: list[str] = field(default_factory=list)


def update(base: Point, trained: Point, *, matrices: int = 24) -> Finding:
    """The audit of `trained` against `base`; at most so many matrices are taken apart, evenly over the depth.

    Raises InputError when weights are damaged or are those of another model.
    """
    if matrices < 1:
        raise InputError(f"matrices: given {matrices}; it takes a whole number >= 1")
    counts, found = Counts(), list(changes(folder_of(base), Path(trained.path)))
    if not found:
        raise UnmeasuredError(f"{base.path} and {trained.path} have no weights in common")
    for tensor in found:
        _count(counts, tensor)
    if counts.not_finite:
        says = f"{counts.not_finite} of {counts.weights} weights of {trained.name} are not finite"
        return Finding(NAME, "fault", says, RULE, CANNOT, (Figure("not_finite", float(counts.not_finite)),))
    kept = [t for t in found if _is_matrix(t) and t.name not in counts.untouched]
    chosen = _spread(kept, matrices)
    spectra = {t.name: spectrum(t.before(0, None), t.change(0, None)) for t in chosen}
    figures = _figures(counts, list(spectra.values()))
    by_name = {figure.name: figure for figure in figures}
    size, overlap = by_name.get("relative_norm"), by_name.get("overlap")
    changed = counts.weights - counts.same
    lost = changed > counts.weights / 2 and counts.same_in_bfloat16 > 0.999 * counts.weights
    level = graded(
        fault=not changed or (size is not None and _low(size) > 0.5),
        look=lost or (size is not None and _low(size) > 0.1) or (overlap is not None and _high(overlap) < 0.9),
    )
    says = f"{100 * counts.same_in_bfloat16 / counts.weights:.1f} % of the weights are the same in bfloat16"
    if size is not None and overlap is not None:
        says += (
            f"; an update is {100 * size.value:.2g} % of its matrix, of effective rank "
            f"{by_name['effective_rank'].value:.1f}, and the matrices' first directions keep {overlap.value:.3f} of "
            f"themselves ({len(chosen)} of {len(kept)} matrices, {trained.name} against {base.path})"
        )
    curves = {
        name: [(float(i), float(getattr(s, name))) for i, s in enumerate(spectra.values())]
        for name in ("relative_norm", "effective_rank", "overlap")
    }
    return Finding(NAME, level, says, RULE, CANNOT, tuple(figures), curves)


def changes(base: Path, trained: Path) -> Iterator[Changed]:
    """Every floating tensor that both have, or that an adapter changes. Raises InputError when shapes differ."""
    before, settings = Tensors(base), adapter_settings(trained)
    after = Tensors(trained)
    if settings is not None:
        yield from _adapted(before, after, settings)
        return
    for name in before.names:
        if name not in after.names:
            continue  # a head that is tied to the embedding may be stored on one side alone
        if before.shape(name) != after.shape(name):
            raise InputError(
                f"{trained}: {name} has shape {list(after.shape(name))}, and {list(before.shape(name))} in {base}: "
                "these are weights of another model; give the one that the run began with by --base"
            )
        yield _between(before, after, name)


def _between(before: Tensors, after: Tensors, name: str) -> Changed:
    def change(start: int, stop: int | None) -> Floats:
        return after.rows(name, start, stop) - before.rows(name, start, stop)

    return Changed(name, before.shape(name), lambda a, b: before.rows(name, a, b), change)


def _adapted(before: Tensors, adapter: Tensors, settings: dict[str, object]) -> Iterator[Changed]:
    """W + scale B A for each matrix that a low-rank adapter changes."""
    rank, alpha = float(settings["r"]), float(settings["lora_alpha"])  # type: ignore[arg-type]
    scale = np.float32(alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank))
    for name in adapter.names:
        if not name.endswith(".lora_A.weight"):
            continue
        inner = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        target = f"{inner}.weight"
        if target not in before.names:
            raise InputError(f"{adapter.folder}: it changes {target}, which {before.folder} does not have")
        a, b = adapter.rows(name), adapter.rows(name.replace("lora_A", "lora_B"))
        if settings.get("fan_in_fan_out"):  # stored as [in, out]
            a, b = b.T, a.T
        if (b.shape[0], a.shape[1]) != before.shape(target):
            raise InputError(f"{adapter.folder}: {target} has another shape in {before.folder}: another base model")
        yield _low_rank(before, target, a, b * scale)


def _low_rank(before: Tensors, name: str, a: Floats, b: Floats) -> Changed:
    return Changed(name, before.shape(name), lambda i, j: before.rows(name, i, j), lambda i, j: b[i:j] @ a)


def _count(counts: Counts, tensor: Changed) -> None:
    rows = tensor.shape[0] if tensor.shape else 1
    each = max(1, _CHUNK // max(1, math.prod(tensor.shape[1:])))
    touched = False
    for start in range(0, rows, each):
        stop = start + each if tensor.shape else None
        before, change = tensor.before(start, stop), tensor.change(start, stop)
        after = before + change
        counts.weights += before.size
        counts.not_finite += int((~np.isfinite(after)).sum())
        if counts.not_finite:
            continue
        zero = change == 0
        touched |= not zero.all()
        counts.same += int(zero.sum())
        counts.within += int((np.abs(change) <= TOLERANCE).sum())
        counts.same_in_bfloat16 += int((to_bfloat16(before) == to_bfloat16(after)).sum())
        counts.norm += float((change.astype(np.float64) ** 2).sum())
        counts.base_norm += float((before.astype(np.float64) ** 2).sum())
    if not touched:
        counts.untouched.append(tensor.name)


def _is_matrix(tensor: Changed) -> bool:
    named = any(part in tensor.name for part in _NO_MATRIX)
    return len(tensor.shape) == 2 and min(tensor.shape) >= _SMALLEST and not named


def _spread(found: list[Changed], most: int) -> list[Changed]:
    if len(found) <= most:
        return found
    if most == 1:
        return [found[len(found) // 2]]
    return [found[round(i * (len(found) - 1) / (most - 1))] for i in range(most)]


def _figures(counts: Counts, spectra: list[Spectrum]) -> list[Figure]:
    whole = f"{counts.weights} weights"
    figures = [
        Figure("unchanged", counts.same / counts.weights, over=whole),
        Figure("unchanged_in_bfloat16", counts.same_in_bfloat16 / counts.weights, over=whole),
        Figure("unchanged_within_1e-5", counts.within / counts.weights, over=whole),
        Figure("norm", math.sqrt(counts.norm), over="Frobenius norm of the whole update"),
        Figure(
            "norm_over_base", math.sqrt(counts.norm / counts.base_norm) if counts.base_norm else math.inf, over=whole
        ),
    ]
    for name in [f.name for f in dataclasses.fields(Spectrum)] if spectra else []:
        values = np.array([getattr(s, name) for s in spectra], dtype=float)
        mean: Interval = ratio(Sums(values, np.ones(len(values)), np.arange(len(values))))
        figures.append(Figure.of(name, mean, f"mean of {len(values)} matrices"))
    return figures


def _low(figure: Figure) -> float:
    return figure.value if figure.low is None or math.isnan(figure.low) else figure.low


def _high(figure: Figure) -> float:
    return figure.value if figure.high is None or math.isnan(figure.high) else figure.high
