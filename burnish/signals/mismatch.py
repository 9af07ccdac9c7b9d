"""The annotator of correction: it compares the learner's re-score with what the sampler recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.signals.correction import coin_weights, kept, weights
from burnish.signals.credit import sampled_values, write_credits
from burnish.signals.rewards import flattened, members_of
from burnish.signals.spec import CorrectionSpec
from burnish.traces import Group, SignalKind
from burnish.traces.signal_names import OLD_LOGPROB, SAMPLER_LOGPROB

Floats = npt.NDArray[np.float64]


def correct(groups: Sequence[Group], spec: CorrectionSpec) -> None:
    """Write a weight on every sampled token, or mask the samples that are too far off.

    A token that several samples share has the mean of its weights. Raises InputError where the learner has not scored
    the samples.
    """
    rule = spec.settings
    units = [Group(g.key, members_of(g)) for g in flattened(groups) if members_of(g)]
    found: list[list[Floats]] = []
    for unit in units:
        found.append([])
        for member in unit.members:
            old, sampler = (sampled_values(member, spec.learner, name) for name in (OLD_LOGPROB, SAMPLER_LOGPROB))
            if np.isnan(old).any() and member.counts:
                raise InputError(f"a correction needs {OLD_LOGPROB!r} on every sampled token: the learner scores first")
            if rule.rejects:
                member.masked = member.masked or not kept(old - sampler, rule)
            elif rule.rule == "coin_kl":
                found[-1].append(coin_weights(old, sampler, rule.upper))
            else:
                found[-1].append(weights(old - sampler, rule))
    if rule.rejects:
        return
    if rule.normalise:
        flat = [w[~np.isnan(w)] for each in found for w in each]
        mean = float(np.concatenate([*flat, np.zeros(0)]).mean()) if any(len(w) for w in flat) else 1.0
        found = [[w / mean if mean > 0 else w for w in each] for each in found]
    write_credits(units, found, spec.signal, spec.learner, SignalKind.STATISTIC)
