"""The gap between the sampler's log-probabilities and the learner's, by position in the answer (promise E5).

Gap: log mu - log pi of a sampled token, both under the sampling distribution. KL(mu || pi) is estimated by
exp(-gap) + gap - 1 on the sampled tokens (unbiased and never negative; methods of Schulman 2020).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.intervals import Sums, growth, ratio, windows
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import OLD, Tally
from burnish.studies.statistics import Interval

NAME = "gap"
RULE = (
    "fault: the mean absolute gap is above 0.1; look: it is above 0.02, or a single one above 2, or the gap late in "
    "the answers is more than twice that before and above 0.02 (lower bounds)"
)
CANNOT = (
    "It compares the two on tokens that were sampled, so it does not see tokens that one of them would never choose; "
    "and the gap of a run that makes several passes over a batch holds the policy's own movement as well."
)

Gaps = Sequence[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float64]]]


def gap(run: RunFiles, tally: Tally, rescored: Gaps = ()) -> Finding:
    """The audit, of token gaps where they are stored or `rescored`, else of the metric `sampler_gap` alone.

    Raises UnmeasuredError when there is neither.
    """
    series = run.series("sampler_gap")
    gaps = rescored or tally.gaps
    if not gaps:
        return _by_step(series)
    cluster = np.concatenate([np.full(len(at), trace) for trace, at, _ in gaps])
    position = np.concatenate([at for _, at, _ in gaps])
    value = np.concatenate([values for _, _, values in gaps])
    size = np.abs(value)
    mean = ratio(Sums(size, np.ones(len(size)), cluster))
    edges = _edges(int(position.max()) + 1)
    bins = [(a, (position >= a) & (position < b)) for a, b in itertools.pairwise(edges)]
    bins = [(a, inside) for a, inside in bins if inside.any()]
    parts = [Sums(size[inside], np.ones(int(inside.sum())), cluster[inside]) for _, inside in bins]
    late, rise = Interval(math.nan, math.nan, math.nan), Interval(math.nan, math.nan, math.nan)
    if len(parts) > 1:
        before = position < bins[-1][0]
        late = ratio(parts[-1])
        rise = growth(Sums(size[before], np.ones(int(before.sum())), cluster[before]), parts[-1])
    kl = ratio(Sums(np.exp(-value) + value - 1, np.ones(len(value)), cluster))
    figures = (
        Figure.of("mean_gap", mean, f"{len(size)} sampled tokens of {len(gaps)} traces"),
        Figure("largest_gap", float(size.max()), over="the same"),
        Figure.of("kl", kl, "of sampler and learner, a token"),
        Figure.of("mean_ratio", ratio(Sums(np.exp(-value), np.ones(len(value)), cluster)), "learner over sampler"),
        Figure.of("late_gap", late, f"from position {bins[-1][0]} on"),
        Figure.of("late_over_early", rise, "mean gap of the last positions over that before them"),
    )  # fmt: skip
    level = graded(fault=mean.low > 0.1, look=mean.low > 0.02 or size.max() > 2 or (rise.low > 2 and late.low > 0.02))
    source = "scored again by the weights that sampled them" if rescored else f"stored as {OLD}"
    says = f"mean {mean.estimate:.1e}, largest {size.max():.1e} over {len(size)} sampled tokens ({source})" + (
        f"; late in the answers {rise.estimate:.1f} times as before" if len(parts) > 1 else ""
    )
    curves = {"by_position": [(float(a), part.ratio) for (a, _), part in zip(bins, parts, strict=True)]}
    return Finding(NAME, level, says, RULE, CANNOT, figures, {**curves, "by_step": [(float(s), v) for s, v in series]})


def _by_step(series: list[tuple[int, float]]) -> Finding:
    if not series:
        raise UnmeasuredError(
            "no log-probabilities of the learner are recorded: no metric sampler_gap, and no signal old_logprob "
            "(options.old: learner writes it)"
        )
    steps, values = np.array([s for s, _ in series]), np.array([v for _, v in series])
    mean = ratio(Sums(values, np.ones(len(values)), steps))
    last = set(windows(steps.tolist())[1] or steps.tolist())
    end = float(np.mean([v for s, v in series if s in last]))
    figures = (
        Figure.of("mean_gap", mean, f"trained tokens of {len(values)} steps, steps resampled"),
        Figure("last_gap", end, over="last quarter of the steps"),
        Figure("largest_gap", float(values.max()), over="largest mean of a step"),
    )
    low = mean.estimate if math.isnan(mean.low) else mean.low
    says = (
        f"mean {mean.estimate:.1e} a step, largest {values.max():.1e}; by position it is not stored (options.old: "
        "learner stores it, --models scores stored traces again)"
    )
    level = graded(fault=low > 0.1, look=low > 0.02)
    return Finding(NAME, level, says, RULE, CANNOT, figures, {"by_step": [(float(s), v) for s, v in series]})


def _edges(longest: int) -> list[int]:
    """0, 1, 4, 16, 64, ... up to the longest answer."""
    edges = [0, 1]
    while edges[-1] < longest:
        edges.append(edges[-1] * 4)
    return edges
