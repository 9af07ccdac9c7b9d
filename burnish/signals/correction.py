"""Correction for a sampler that is not the learner: weights of the proximal over the behaviour policy.

With rho_t = pi_old(y_t) / mu(y_t), the learner's probability at the start of a step over the sampler's. Weights are
constants; docs/methods/mismatch.md has sources.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from burnish.signals.spec import CorrectionSettings

Floats = npt.NDArray[np.float64]


def weights(log_rho: Floats, rule: CorrectionSettings) -> Floats:
    """The weight of each token of one sample, [T], for the rules tis, mis and coin_kl; of the logs of rho [T].

    `coin_kl` needs more than the ratio and is `coin_weights`.
    """
    logs = np.full(len(log_rho), log_rho.sum()) if rule.level == "sequence" else log_rho
    rho = np.exp(np.minimum(logs, 40.0))
    if rule.rule == "tis":
        return np.minimum(rho, rule.upper)
    return np.where((rho >= rule.lower) & (rho <= rule.upper), rho, 0.0)


def coin_weights(old: Floats, sampler: Floats, threshold: float) -> Floats:
    """1 where neither KL divergence of the two coins (p, 1 - p), (q, 1 - q) exceeds the threshold, else 0 (KPop)."""
    p, q = (np.clip(np.exp(x), 1e-12, 1 - 1e-12) for x in (old, sampler))
    there = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    back = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    return np.where((there <= threshold) & (back <= threshold), 1.0, 0.0)


def kept(log_rho: Floats, rule: CorrectionSettings) -> bool:
    """Whether a sample stays, for the rules that reject whole samples; of the logs of rho [T].

    `geometric` keeps it where the geometric mean of rho lies in the band, `k3` where the mean of rho - 1 - log rho is
    at most `upper`.
    """
    if not len(log_rho):
        return True
    if rule.rule == "geometric":
        return bool(rule.lower <= np.exp(min(log_rho.mean(), 40.0)) <= rule.upper)
    return bool(np.mean(np.exp(np.minimum(log_rho, 40.0)) - 1.0 - log_rho) <= rule.upper)
