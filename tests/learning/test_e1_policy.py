"""E1 for every surrogate, ratio and choice over a step: the gradient down to one sequence per micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec
from burnish.losses import build as losses
from burnish.losses.spec import CovariancePenaltySpec, CovarianceSpec, DriftSpec, PolicyGradientSpec, ReferenceKlSpec
from burnish.losses.term import Term
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec, SegmentSpec
from burnish.traces import Group
from tests.learning.groups import make_groups
from tests.learning.test_e1 import Gradients, distance, shared_model

WIDE = {"clip_low": 0.9, "clip_high": 30.0}
BAND = {"clip_low": 0.9, "clip_high": 3.0}
CASES: dict[str, Any] = {
    "dual": PolicyGradientSpec(dual_clip=40, **WIDE),
    **{f"ppo-{r}": PolicyGradientSpec(ratio=r, **WIDE) for r in ("sequence", "sequence_token", "segment", "prefix")},
    "cispo": PolicyGradientSpec(surrogate="cispo", clip_low=1.0, clip_high=4.0),
    "reinforce": PolicyGradientSpec(surrogate="reinforce", reduction="sequence_sum"),
    "sapo": PolicyGradientSpec(surrogate="sapo", reduction="sequence_mean"),
    "gmpo": PolicyGradientSpec(surrogate="gmpo", ratio="sequence", clip_low=0.4, clip_high=0.4),
    "log-band": PolicyGradientSpec(surrogate="log_band", **BAND),
    "hard-band": PolicyGradientSpec(surrogate="hard_band", clip_low=1.0, clip_high=30.0),
    "squared": PolicyGradientSpec(surrogate="squared", ratio="sequence", reduction="sequence_sum", tau=0.1),
    "mask": PolicyGradientSpec(surrogate="divergence_mask", threshold=0.01),
    "clip-cov": PolicyGradientSpec(covariance=CovarianceSpec(share=0.2, low=-1, high=1), **WIDE),
    "kl-cov": CovariancePenaltySpec(share=0.3),
    "entropy-share": PolicyGradientSpec(entropy_share=0.4, **WIDE),
    "correction": PolicyGradientSpec(old="learner", correction="correction", **WIDE),
    "drift": DriftSpec(),
    **{f"kl-{e}": ReferenceKlSpec(estimator=e) for e in ("k2", "k1_ratio", "k3_ratio", "k3_forward")},
}
LAYOUTS = [
    LearnerSpec(micro_batch_tokens=tokens, packing=packing, share_prefixes=share)
    for tokens, packing, share in ((1, True, True), (25, True, False), (60, False, True))
]


def annotated() -> list[Group]:
    groups = make_groups()
    build_annotator(GroupAdvantageSpec(estimator="grpo"))(groups)
    build_annotator(SegmentSpec(tokens=2))(groups)
    rng = np.random.default_rng(5)
    for trace in {id(t): t for g in groups for t in g.traces}.values():
        for index, node in enumerate(trace.nodes):
            own = ~np.isnan(node.logprobs)
            near = np.where(own, node.logprobs + rng.uniform(-0.3, 0.3, len(node)), np.nan)
            for name, values in (("old_logprob", near), ("reference_logprob", near), ("correction", np.exp(near))):
                trace.write(index, name, values)
    return groups


def gradients(term: Term, layout: LearnerSpec) -> Gradients:
    return Learner(shared_model("qwen2", torch.float64), layout=layout).gradients(annotated(), [term])


@pytest.mark.parametrize("name", CASES)
def test_e1_gradient_is_independent_of_the_layout(name: str) -> None:
    term = losses.build(CASES[name])
    reference = gradients(term, LearnerSpec(micro_batch_tokens=100_000))
    assert all(float(g.norm()) > 0 for g in reference.values())
    for layout in LAYOUTS:
        assert distance(gradients(term, layout), reference) < 1e-10, layout


def test_a_sequence_ratio_that_is_said_to_be_of_a_token_is_told_apart() -> None:
    """The test can fail: declared too narrow, a sequence's ratio is taken over what one micro-batch holds."""
    from dataclasses import replace

    term = losses.build(CASES["clip-cov"])
    reference = gradients(term, LearnerSpec(micro_batch_tokens=100_000))
    assert distance(gradients(replace(term, scope="token"), LearnerSpec(micro_batch_tokens=25)), reference) > 1e-3
