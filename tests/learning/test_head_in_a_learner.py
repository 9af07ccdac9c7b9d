"""The loss inside the head gives a learner the gradient of its own chunks, whatever the terms and the sampling."""

from __future__ import annotations

import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec
from burnish.losses.build import build
from burnish.losses.spec import CrossEntropySpec, PolicyGradientSpec
from burnish.models.language_model import LanguageModel
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec
from tests.learning.groups import demonstrations, make_groups
from tests.tiny import tiny_network


@pytest.mark.parametrize("architecture", ["llama", "cohere", "gemma2", "gpt2"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("terms", ["policy gradient", "cross-entropy", "both"])
@pytest.mark.parametrize("tokens", [24, 4096])
def test_auto_and_chunked_give_one_gradient(architecture: str, temperature: float, terms: str, tokens: int) -> None:
    """A head with a scale (Cohere), one with a soft cap (Gemma 2), tied weights (GPT-2), one micro-batch and many."""
    groups = make_groups() + demonstrations()
    build_annotator(GroupAdvantageSpec(estimator="grpo"))(groups[:5])
    for node in (node for group in groups for trace in group.traces for node in trace.nodes):
        node.meta["temperature"] = temperature
    losses = {"policy gradient": [PolicyGradientSpec()], "cross-entropy": [CrossEntropySpec()]}
    losses["both"] = [*losses["policy gradient"], *losses["cross-entropy"]]
    model = LanguageModel(tiny_network(architecture, dtype=torch.float64))
    auto, chunked = (
        Learner(model, layout=LearnerSpec(head=head, micro_batch_tokens=tokens)).gradients(
            groups, [build(s) for s in losses[terms]]
        )
        for head in ("auto", "chunked")
    )
    assert auto.keys() == chunked.keys() and any(gradient.any() for gradient in auto.values())
    for name, gradient in auto.items():
        torch.testing.assert_close(gradient, chunked[name], rtol=1e-9, atol=1e-12, msg=name)
