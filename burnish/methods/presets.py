"""Objectives with a name of their own that are settings of grpo: other defaults, the same declaration.

A recipe of a preset may set every key that a recipe of grpo may. docs/methods/surrogates.md and
docs/methods/baselines.md have their formulas.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal

from pydantic import create_model

from burnish.losses.spec import CenteringSettings
from burnish.methods.grpo import GRPO, GrpoRecipe
from burnish.methods.grpo_options import GrpoOptions
from burnish.methods.method import Method

SURROGATES, BASELINES, MISMATCH = (f"docs/methods/{page}.md" for page in ("surrogates", "baselines", "mismatch"))
_PASS = "samples_per_prompt samples of every prompt, one forward and backward pass"
_TWICE = f"{_PASS}; a second forward pass where a step is several micro-batches"


def preset(
    name: str,
    summary: str,
    citation: str,
    formula: str,
    *,
    page: str = SURROGATES,
    cost: str = _PASS,
    rows: tuple[str, ...] = ("grpo",),
    **defaults: Any,
) -> Method:
    """grpo with other defaults of its options, under a name of its own."""
    title = "".join(part.capitalize() for part in name.replace("+", "p").replace(".", "").split("-"))
    fields: dict[str, Any] = {key: _field(key, value) for key, value in defaults.items()}
    options: Any = create_model(f"{title}Options", __base__=GrpoOptions, __doc__=f"Options of {name}.", **fields)
    own: dict[str, Any] = {"method": (Literal[name], name), "options": (options, options())}
    recipe = create_model(f"{title}Recipe", __base__=GrpoRecipe, __doc__=f"A recipe of method {name}.", **own)
    return replace(
        GRPO, name=name, summary=summary, citation=citation, formula=formula, page=page, cost=cost, rows=rows,
        recipe=recipe, preset_of="grpo",
    )  # fmt: skip


def _field(key: str, value: Any) -> Any:
    """A field of GrpoOptions with another default."""
    field = copy.copy(GrpoOptions.model_fields[key])
    field.default = value
    return (field.annotation, field)


PRESETS: tuple[Method, ...] = (
    preset(
        "dr-grpo",
        "grpo without its two biases: no standard deviation, and a sum over tokens by a constant",
        "Liu et al. 2025, arXiv 2503.20783",
        "A_i = R_i - mean(R);  L = - sum over i, t of  min(r A, clip(r) A) / (N x longest answer)",
        page=BASELINES, advantage="mean", reduction="constant", clip_high=0.2,
    ),
    preset(
        "dapo",
        "grpo with a wider clip above, a mean over tokens, and without groups or samples that say nothing",
        "Yu et al. 2025, arXiv 2503.14476; selection: {kind: refill} samples anew what is left out",
        "A_i = (R_i - mean(R)) / std(R);  L = - mean over tokens of  min(r A, clip(r, 0.8, 1.28) A)",
        advantage="grpo", drop_zero_variance=True, mask_truncated=True,
    ),
    preset(
        "gspo",
        "one ratio for a whole answer, the geometric mean of its tokens', clipped as one",
        "Zheng et al. 2025, arXiv 2507.18071",
        "s_i = exp( mean over t of log r_it );  L = - mean over i of  min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i)",
        cost=_TWICE, rows=("gspo", "grpo"), advantage="grpo", ratio="sequence", reduction="sequence_mean",
        clip_low=3e-4, clip_high=4e-4,
    ),
    preset(
        "cispo",
        "clip the weight of a token and not its gradient: every token goes on teaching",
        "MiniMax 2025, arXiv 2506.13585; the cap of 5: Khatri et al. 2025 (ScaleRL), arXiv 2510.13786",
        "L = - mean over tokens of  sg( min(r, 5) ) A log pi",
        rows=("cispo-forge", "grpo"), advantage="grpo", surrogate="cispo", clip_low=1.0, clip_high=4.0,
    ),
    preset(
        "sapo",
        "a soft gate on the ratio in place of a clip",
        "Gao et al. 2025, arXiv 2511.20347",
        "L = - mean of  (4 / tau) sigmoid( tau (r - 1) ) A,  tau 1.0 where A > 0, else 1.05",
        advantage="grpo", surrogate="sapo", reduction="sequence_mean",
    ),
    preset(
        "gmpo",
        "clip the log-ratios of tokens, then take their geometric mean",
        "Zhao et al. 2025, arXiv 2507.20673",
        "L = - mean over i of  A_i exp( mean over t of  clip(log r_it, to 0.4 the way A pushes) )",
        cost=_TWICE, advantage="grpo", surrogate="gmpo", ratio="sequence", reduction="sequence_mean",
        clip_low=0.4, clip_high=0.4,
    ),
    preset(
        "dppo",
        "leave a token out once its probability has gone far enough the way the advantage pushes",
        "arXiv 2602.04879",
        "L = - mean over tokens of  [ not( sign(pi - old) = sign(A) and |pi - old| > 0.2 ) ] sg( min(r, 20) ) A log pi",
        surrogate="divergence_mask",
    ),
    preset(
        "k1.5",
        "the squared surrogate of mirror descent: a pull of the whole answer's log-ratio towards 0, no clip",
        "Kimi team 2025, arXiv 2501.12599, section 2.3",
        "L = mean over i of  - (R_i - mean(R)) log pi(y_i) + tau / 2 ( log pi(y_i) / old(y_i) )^2",
        cost=_TWICE, rows=("k1.5", "grpo"), surrogate="squared", ratio="sequence", reduction="sequence_sum",
    ),
    preset(
        "score-centering",
        "take the drift away that a sampler which is not the learner brings, even for a constant reward",
        "Together AI 2026, score centering",
        "L = - mean over tokens of  A ( sg(w_y) log p_y - sum over v in H of sg(q_v w_v - alpha p_v) log p_v )",
        page=MISMATCH, cost=f"{_PASS}; one more forward pass, and 2 k numbers a token",
        rows=("score-centering", "grpo"), surrogate="reinforce", centering=CenteringSettings(),
    ),
    preset(
        "rloo",
        "REINFORCE with the mean of the prompt's other samples as the baseline",
        "Ahmadian et al. 2024, arXiv 2402.14740",
        "A_i = R_i - mean of R_j over j != i;  L = - mean over i of  A_i log pi(y_i)",
        page=BASELINES, advantage="rloo", surrogate="reinforce", reduction="sequence_sum",
    ),
    preset(
        "reinforce++",
        "no group: rewards whitened over the whole batch, one sample of a prompt is enough",
        "Hu 2025, arXiv 2501.03262",
        "A_it = whiten over the batch's tokens( R_i - kl x sum over j >= t of log(pi / ref)_ij );  L = PPO's",
        page=BASELINES, advantage="reinforce_pp", clip_high=0.2,
    ),
    preset(
        "remax",
        "REINFORCE with the reward of the prompt's greedy answer as the baseline",
        "Li et al. 2023, arXiv 2310.10505",
        "A_i = R_i - R(greedy answer);  L = - mean over i of  A_i log pi(y_i)",
        page=BASELINES, cost=f"{_PASS}; one greedy answer to every prompt", advantage="remax", surrogate="reinforce",
        reduction="sequence_sum",
    ),
    preset(
        "opo",
        "REINFORCE, strictly on-policy, with the baseline of least variance for answers of unequal length",
        "Hao et al. 2025, arXiv 2505.23585",
        "A_i = R_i - sum(T R) / sum(T);  L = - mean over i of  A_i log pi(y_i)",
        page=BASELINES, advantage="opo", surrogate="reinforce", reduction="sequence_sum",
    ),
)  # fmt: skip
"""Every preset, in the order they are listed."""
