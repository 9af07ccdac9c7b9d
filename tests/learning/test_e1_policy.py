"""E1 for every surrogate, ratio and choice over a step: the gradient down to one sequence per micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec
from burnish.losses import build as losses
from burnish.losses.spec import (
    CovariancePenaltySpec,
    CovarianceSpec,
    DriftSpec,
    PolicyGradientSpec,
    ReferenceKlSpec,
    ScoreCenteringSpec,
)
from burnish.losses.term import Term
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec, SegmentSpec
from burnish.traces import Group
from tests.learning.groups import make_groups
from tests.learning.test_e1 import Gradients, distance, shared_model
from tests.tiny import VOCAB

WIDE = {"clip_low": 0.9, "clip_high": 30.0}
BAND = {"clip_low": 0.9, "clip_high": 3.0}
TOKEN_SCOPE = [
    PolicyGradientSpec(dual_clip=40, **WIDE),
    PolicyGradientSpec(surrogate="cispo", clip_low=1.0, clip_high=4.0),
    PolicyGradientSpec(surrogate="reinforce", reduction="sequence_sum"),
    PolicyGradientSpec(surrogate="sapo", reduction="sequence_mean"),
    PolicyGradientSpec(surrogate="log_band", **BAND),
    PolicyGradientSpec(surrogate="hard_band", clip_low=1.0, clip_high=30.0),
    PolicyGradientSpec(surrogate="divergence_mask", threshold=0.01),
    PolicyGradientSpec(old="learner", correction="correction", **WIDE),
    DriftSpec(),
    ScoreCenteringSpec(),
    *(ReferenceKlSpec(estimator=e) for e in ("k2", "k1_ratio", "k3_ratio", "k3_forward", "top_k")),
]
CASES: dict[str, list[Any]] = {
    "token-scope": TOKEN_SCOPE,
    "ppo-sequence": [PolicyGradientSpec(ratio="sequence", **WIDE)],
    "levels": [PolicyGradientSpec(ratio=r, **WIDE) for r in ("sequence_token", "segment", "prefix")],
    "gmpo and squared": [
        PolicyGradientSpec(surrogate="gmpo", ratio="sequence", clip_low=0.4, clip_high=0.4),
        PolicyGradientSpec(surrogate="squared", ratio="sequence", reduction="sequence_sum", tau=0.1),
    ],
    "clip-cov": [PolicyGradientSpec(covariance=CovarianceSpec(share=0.2, low=-1, high=1), **WIDE)],
    "kl-cov and entropy share": [CovariancePenaltySpec(share=0.3), PolicyGradientSpec(entropy_share=0.4, **WIDE)],
}
"""Terms whose sum is differentiated at once: each has a share in the gradient."""
LAYOUTS = [
    LearnerSpec(micro_batch_tokens=tokens, packing=packing, share_prefixes=share)
    for tokens, packing, share in ((1, True, True), (40, False, False))
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
            ids = np.where(own[:, None], rng.integers(0, VOCAB, (len(node), 5)), np.nan)
            trace.write(index, "top_ids", ids, axes=("top",))
            likely = np.where(own[:, None], np.log([0.3, 0.2, 0.1, 0.1, 0.05]), np.nan)
            for name in ("top_logprobs", "reference_top_logprobs"):
                trace.write(index, name, likely, axes=("top",))
    return groups


def gradients(terms: list[Term], layout: LearnerSpec) -> Gradients:
    return Learner(shared_model("qwen2", torch.float64), layout=layout).gradients(annotated(), terms)


@pytest.mark.parametrize("name", CASES)
def test_e1_gradient_is_independent_of_the_layout(name: str) -> None:
    terms = [losses.build(spec) for spec in CASES[name]]
    reference = gradients(terms, LearnerSpec(micro_batch_tokens=100_000))
    assert all(float(g.norm()) > 0 for g in reference.values())
    for layout in LAYOUTS:
        assert distance(gradients(terms, layout), reference) < 1e-10, layout


def test_a_sequence_ratio_that_is_said_to_be_of_a_token_is_told_apart() -> None:
    """The test can fail: declared too narrow, a sequence's ratio is taken over what one micro-batch holds."""
    from dataclasses import replace

    term = losses.build(CASES["ppo-sequence"][0])
    reference = gradients([term], LearnerSpec(micro_batch_tokens=100_000))
    narrow = replace(term, scope="token")
    assert distance(gradients([narrow], LearnerSpec(micro_batch_tokens=25)), reference) > 1e-3
