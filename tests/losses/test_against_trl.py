"""The variants that TRL has, by TRL's own code: value and gradient of its loss, on the same log-probabilities."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from burnish.losses.build import build
from burnish.losses.spec import PolicyGradientSpec, ReferenceKlSpec
from tests.losses.flat import LENGTHS, TOKENS, flat, loss_of, padded, signals, value_and_gradient


def trl_loss(logprobs: Tensor, values: dict[str, Tensor], **settings: Any) -> Tensor:
    """GRPOTrainer's loss on log-probabilities [B, T]; its model, its accelerator and its counters are stood in for."""
    mask = padded(torch.ones(TOKENS, dtype=torch.float64))
    ids = torch.zeros(mask.shape, dtype=torch.long)
    args = SimpleNamespace(
        delta=settings.pop("delta", None), sapo_temperature_pos=1.0, sapo_temperature_neg=1.05,
        use_bias_correction_kl=settings.pop("corrected", False), steps_per_generation=1,
    )  # fmt: skip
    same = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer = SimpleNamespace(
        args=args, accelerator=same, aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        use_vllm=False, vllm_importance_sampling_correction=False, _entropy_bonus_enabled=False,
        model=SimpleNamespace(training=False), _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, torch.zeros_like(logprobs), None),
        **{"importance_sampling_level": "token", "beta": 0.0, "epsilon_low": 0.2, "epsilon_high": 0.28,
           "loss_type": "dapo", "max_completion_length": 9, **settings},
    )  # fmt: skip
    inputs = {
        "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids, "completion_mask": mask,
        "advantages": padded(values["advantage"])[:, 0], "old_per_token_logps": padded(values["old_logprob"]),
        "ref_per_token_logps": padded(values["reference_logprob"]), "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    return GRPOTrainer._compute_loss(trainer, None, inputs)  # type: ignore[arg-type]


CLIP = {"clip_low": 0.2, "clip_high": 0.28}
VARIANTS = {
    "grpo": ({"loss_type": "grpo"}, {"reduction": "sequence_mean", **CLIP}),
    "dapo": ({"loss_type": "dapo"}, {"reduction": "token_mean", **CLIP}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, {"reduction": "constant", "constant": 9.0, **CLIP}),
    "two-sided": ({"delta": 1.5}, {"dual_clip": 1.5, **CLIP}),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.2},
        {"surrogate": "cispo", "clip_low": 1.0, "clip_high": 0.2},  # TRL's bound is on the ratio itself
    ),
    "sapo": ({"loss_type": "sapo"}, {"surrogate": "sapo", "reduction": "sequence_mean"}),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_low": 0.15, "epsilon_high": 0.2},
        {"ratio": "sequence", "reduction": "sequence_mean", "clip_low": 0.15, "clip_high": 0.2},
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_has_trls_value_and_gradient(name: str) -> None:
    theirs, ours = VARIANTS[name]
    values = signals(11)
    leaf = padded(values["policy_logprob"]).requires_grad_()
    loss = trl_loss(leaf, values, **theirs)
    [gradient] = torch.autograd.grad(loss, leaf)
    value, mine = value_and_gradient(build(PolicyGradientSpec.model_validate({"old": "learner", **ours})), values)
    limit = 1e-6 if name == "sapo" else 1e-12  # TRL's tau of 1.05 is a float32
    assert value == pytest.approx(float(loss.detach()), rel=limit)
    torch.testing.assert_close(mine, flat(gradient), rtol=limit, atol=1e-15)
    assert int((gradient != 0).sum()) > len(LENGTHS)


@pytest.mark.parametrize(("estimator", "corrected"), [("k3_ratio", True), ("k3_forward", False)])
def test_the_kl_term_has_trls_value_and_gradient(estimator: str, corrected: bool) -> None:
    values = signals(12)
    values["sampler_logprob"] = values["old_logprob"]
    leaf = padded(values["policy_logprob"]).requires_grad_()
    loss = trl_loss(leaf, {**values, "advantage": torch.zeros(TOKENS)}, beta=0.3, corrected=corrected)
    [gradient] = torch.autograd.grad(loss, leaf)
    term = build(ReferenceKlSpec.model_validate({"estimator": estimator, "coefficient": 0.3}))
    value, mine = value_and_gradient(term, values)
    assert value == pytest.approx(float(loss.detach()), rel=1e-12)
    torch.testing.assert_close(mine, flat(gradient), rtol=1e-10, atol=1e-15)
    assert float(loss_of(term, values)) == pytest.approx(value)
