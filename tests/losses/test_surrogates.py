"""Each surrogate at each level of ratio against its formula, sequence by sequence in plain Python, and by differences.

The formulas are written down a second time, from the papers, without tensors; gradients are central differences of
them. What stands under sg( ) in a formula is held fixed while differences are taken.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from burnish.errors import InputError
from burnish.losses.build import build
from burnish.losses.reductions import Incidence
from burnish.losses.spec import CovarianceSpec, PolicyGradientSpec
from burnish.losses.surrogates import coin_kl
from tests.losses.flat import LENGTHS, TOKENS, padded, sequences, shown, signals, value_and_gradient

Logs = list[float]


def levels(level: str, gaps: Logs, segment: Logs) -> tuple[Logs, Logs]:
    """Log-ratios of a sequence's tokens, and the number of tokens that share each."""
    count = len(gaps)
    if level == "token":
        return gaps, [1.0] * count
    if level.startswith("sequence"):
        return [sum(gaps) / count] * count, [float(count)] * count
    if level == "prefix":
        return [sum(gaps[: t + 1]) for t in range(count)], [1.0] * count
    units = [[g for g, s in zip(gaps, segment, strict=True) if s == segment[t]] for t in range(count)]
    return [sum(unit) / len(unit) for unit in units], [float(len(unit)) for unit in units]


def coin(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def formula(spec: PolicyGradientSpec, now: Logs, held: Logs, old: Logs, advantage: Logs, segment: Logs) -> Logs:
    """The loss values of one sequence's tokens; `held` stands in for `now` under sg( )."""
    gaps = [a - b for a, b in zip(now, old, strict=True)]
    if spec.surrogate == "gmpo":
        gaps = [
            min(g, spec.clip_high) if a > 0 else max(g, -spec.clip_low) for g, a in zip(gaps, advantage, strict=True)
        ]
    ratios, lengths = levels(spec.ratio, gaps, segment)
    fixed, _ = levels(spec.ratio, [a - b for a, b in zip(held, old, strict=True)], segment)
    if spec.ratio == "sequence_token":  # sg(s) pi / sg(pi)
        ratios = [f + a - h for f, a, h in zip(fixed, now, held, strict=True)]
    low, high = 1 - spec.clip_low, 1 + spec.clip_high
    found = []
    for log_r, log_f, n, a, lp, h, o in zip(ratios, fixed, lengths, advantage, now, held, old, strict=True):
        r, f = math.exp(log_r), math.exp(log_f)
        if spec.surrogate == "ppo":
            gain = min(r * a, min(max(r, low), high) * a)
            value = gain if spec.dual_clip is None or a >= 0 else max(gain, spec.dual_clip * a)
        elif spec.surrogate == "cispo":
            value = min(max(f, low), high) * a * lp
        elif spec.surrogate == "reinforce":
            value = a * lp
        elif spec.surrogate == "sapo":
            tau = spec.soft_positive if a > 0 else spec.soft_negative
            value = 4 / tau / (1 + math.exp(-tau * (r - 1))) * a
        elif spec.surrogate == "gmpo":
            value = r * a
        elif spec.surrogate == "log_band":
            value = math.exp(min(max(log_r, -spec.clip_low), spec.clip_high)) * a
        elif spec.surrogate == "hard_band":
            value = r * a if low < r < high else 0.0
        elif spec.surrogate == "squared":
            value = a * lp - spec.tau / 2 * (n * log_r) ** 2 / n
        else:
            moved = math.exp(h) - math.exp(o)
            far = abs(moved) if spec.divergence == "tv" else coin(math.exp(o), math.exp(h))
            dropped = far > spec.threshold and moved * a > 0
            value = 0.0 if dropped else min(f, 20.0) * a * lp
        found.append(-value)
    return found


def brute(spec: PolicyGradientSpec, values: dict[str, torch.Tensor]) -> tuple[float, np.ndarray]:
    """Value and gradient of the token mean."""
    names = ("policy_logprob", "old_logprob", "advantage", "segment")
    rows = list(zip(*(sequences(values[name]) for name in names), strict=True))

    def total(row: int, now: Logs) -> float:
        held, old, advantage, segment = rows[row]
        return sum(formula(spec, now, held, old, advantage, segment)) / TOKENS

    gradient = []
    for row, (now, *_) in enumerate(rows):
        for place in range(len(now)):
            steps = [[*now[:place], now[place] + step, *now[place + 1 :]] for step in (1e-6, -1e-6)]
            gradient.append((total(row, steps[0]) - total(row, steps[1])) / 2e-6)
    return sum(total(row, rows[row][0]) for row in range(len(LENGTHS))), np.array(gradient)


LEVELS = ("token", "sequence", "sequence_token", "segment", "prefix")
CASES: list[dict[str, Any]] = [
    *({"surrogate": "ppo", "ratio": level, "clip_low": 0.15, "clip_high": 0.25} for level in LEVELS),
    {"surrogate": "ppo", "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 1.3},
    *({"surrogate": "cispo", "ratio": level, "clip_low": 0.3, "clip_high": 0.2} for level in LEVELS),
    {"surrogate": "reinforce"},
    *({"surrogate": "sapo", "ratio": level, "soft_negative": 1.4} for level in ("token", "sequence")),
    *({"surrogate": "gmpo", "ratio": level, "clip_low": 0.2, "clip_high": 0.25} for level in ("sequence", "segment")),
    *({"surrogate": "log_band", "ratio": level, "clip_low": 0.2, "clip_high": 0.3} for level in LEVELS),
    *({"surrogate": "hard_band", "ratio": level, "clip_low": 0.2, "clip_high": 0.3} for level in LEVELS),
    *({"surrogate": "squared", "ratio": level, "tau": 0.7} for level in ("token", "sequence", "segment")),
    {"surrogate": "divergence_mask", "threshold": 0.05},
    {"surrogate": "divergence_mask", "divergence": "kl", "threshold": 0.004},
]


@pytest.mark.parametrize("constant", [True, False], ids=["one-advantage", "advantage-a-token"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c.values())))
def test_value_and_gradient_equal_the_formula(case: dict[str, Any], constant: bool) -> None:
    spec = PolicyGradientSpec(old="learner", **case)
    values = signals(3, constant=constant)
    value, gradient = value_and_gradient(build(spec), values)
    expected, by_differences = brute(spec, values)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient.numpy(), by_differences, atol=2e-9)
    assert np.abs(by_differences).max() > 1e-3


def test_the_cases_reach_every_branch() -> None:
    """Somewhere each clipping surrogate takes a gradient away, and somewhere it leaves one."""
    for case in CASES:
        spec = PolicyGradientSpec(old="learner", **case)
        if spec.surrogate not in ("cispo", "reinforce", "sapo", "squared"):
            share = shown(spec, signals(3))["clipped_share"]
            assert 0 < share < 1, case


# ---------------------------------------------------------------- identities (rl.md 20)


def on_policy(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**values, "policy_logprob": values["old_logprob"]}


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["surrogate"] != "gmpo"], ids=lambda c: "-".join(map(str, c.values()))
)
def test_on_policy_each_is_reinforce_with_the_levels_weights(case: dict[str, Any]) -> None:
    """Where nothing has moved the gradient is that of -A log pi, averaged over whatever shares the ratio."""
    values = on_policy(signals(1))
    _, gradient = value_and_gradient(build(PolicyGradientSpec(old="learner", **case)), values)
    _, plain = value_and_gradient(build(PolicyGradientSpec(surrogate="reinforce", old="learner")), values)
    if case.get("ratio") == "prefix" and case["surrogate"] in ("ppo", "log_band", "hard_band"):
        later = torch.cat(
            [torch.arange(n, 0, -1) for n in LENGTHS]
        )  # token t is in the prefixes that end at t or later
        plain = plain * later
    torch.testing.assert_close(gradient, plain, rtol=1e-12, atol=0)


def test_gspo_token_has_gspos_gradient_where_the_advantage_is_one_a_sequence() -> None:
    specs = [
        PolicyGradientSpec(ratio=r, old="learner", clip_low=0.1, clip_high=0.1) for r in ("sequence", "sequence_token")
    ]
    one, other = (value_and_gradient(build(s), signals(5)) for s in specs)
    assert one[0] == pytest.approx(other[0], rel=1e-12)
    torch.testing.assert_close(one[1], other[1], rtol=1e-12, atol=1e-15)
    one, other = (value_and_gradient(build(s), signals(5, constant=False)) for s in specs)
    assert float((one[1] - other[1]).abs().max()) > 1e-3


def test_gspo_with_the_token_mean_is_luspo() -> None:
    """LUSPO weighs each sequence's term with its length: over the step that is the mean over tokens."""
    values = signals(2)
    spec = PolicyGradientSpec(ratio="sequence", old="learner", clip_low=0.002, clip_high=0.0025)
    value, _ = value_and_gradient(build(spec), values)
    gaps = padded(values["policy_logprob"] - values["old_logprob"])
    lengths = torch.tensor(LENGTHS, dtype=torch.float64)
    s, a = torch.exp(gaps.sum(1) / lengths), padded(values["advantage"])[:, 0]
    theirs = -(torch.minimum(s * a, s.clamp(0.998, 1.0025) * a) * lengths).sum() / lengths.sum()
    assert value == pytest.approx(float(theirs), rel=1e-12)


def test_a_shared_token_has_the_ratio_of_each_of_its_sequences() -> None:
    """Tokens 0-1 are a stem of two sequences, 2 ends the one and 3-4 the other."""
    incidence = Incidence(5, np.array([0, 1, 2, 0, 1, 3, 4]), np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 0]))
    gap = torch.tensor([0.1, -0.2, 0.4, -0.3, 0.05], dtype=torch.float64)
    ones = torch.ones(5, dtype=torch.float64)
    values = {"policy_logprob": gap - 2, "old_logprob": -2 * ones, "sampler_logprob": -2 * ones, "advantage": ones}
    term = build(
        PolicyGradientSpec(ratio="sequence", old="learner", clip_low=0.9, clip_high=9, reduction="sequence_sum")
    )
    first, second = math.exp((0.1 - 0.2 + 0.4) / 3), math.exp((0.1 - 0.2 - 0.3 + 0.05) / 4)
    value, _ = value_and_gradient(term, values, incidence)
    assert value == pytest.approx(-(2 * (first + second) / 2 + first + 2 * second) / 2, rel=1e-12)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c.values())))
def test_a_ratio_beyond_any_float_stays_a_number(case: dict[str, Any]) -> None:
    values = signals(0)
    values["old_logprob"] = values["old_logprob"] - 900.0
    for advantage in (values["advantage"], torch.zeros(TOKENS, dtype=torch.float64)):
        value, gradient = value_and_gradient(
            build(PolicyGradientSpec(old="learner", **case)), {**values, "advantage": advantage}
        )
        assert math.isfinite(value) and bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"surrogate": "gmpo"}, "takes a ratio of segment or sequence"),
        ({"surrogate": "reinforce", "ratio": "prefix"}, "takes a ratio of token"),
        ({"surrogate": "squared", "ratio": "prefix"}, "takes a ratio of segment or sequence or token"),
        ({"surrogate": "divergence_mask", "ratio": "sequence"}, "takes a ratio of token"),
        ({"correction": "correction"}, "would count the behaviour policy twice"),
        ({"covariance": CovarianceSpec(rule="kl")}, "rule kl is a term of its own"),
        ({"reduction": "constant"}, "needs `constant`"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(case: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(PolicyGradientSpec(**case))


@pytest.mark.parametrize("key", ["clip_low", "clip_high", "soft_positive", "threshold", "tau", "dual_clip"])
def test_a_negative_width_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        PolicyGradientSpec.model_validate({key: -0.1})


def test_the_divergence_of_coins_is_finite_in_float32_where_a_token_was_certain() -> None:
    certain, half = torch.tensor([0.0, -1e-8]), torch.tensor([math.log(0.5)] * 2)
    assert coin_kl(certain, half).tolist() == pytest.approx([math.log(2)] * 2, rel=1e-6)
