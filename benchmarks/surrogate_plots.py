"""Each surrogate's value and gradient against the ratio, as SVG files: `python -m benchmarks.surrogate_plots`.

Computed by the terms themselves, on tokens that the older policy gave a probability of 0.3. Drawn is what is gained,
minus the loss, from its value at a ratio of 1; and the gradient of that in log pi, by automatic differentiation.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from burnish.losses.build import build
from burnish.losses.reductions import Incidence
from burnish.losses.spec import PolicyGradientSpec
from burnish.losses.term import TokenView

mpl.rcParams["svg.hashsalt"] = "surrogates"  # the same file for the same numbers
mpl.rcParams["svg.fonttype"] = "none"

UP, DOWN, QUIET = "#0b7a6f", "#b4532a", "#9a9ea5"
OLD = 0.3
RATIOS = np.linspace(0.02, 3.0, 299)
SURROGATES: dict[str, dict[str, Any]] = {
    "reinforce": {},
    "ppo": {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 2.5},
    "cispo": {"clip_low": 1.0, "clip_high": 1.0},
    "sapo": {},
    "gmpo": {"ratio": "sequence", "clip_low": 0.4, "clip_high": 0.4},
    "log_band": {"clip_low": 0.5, "clip_high": 0.5},
    "hard_band": {"clip_low": 0.5, "clip_high": 1.0},
    "squared": {"tau": 0.5},
    "divergence_mask": {"threshold": 0.2},
}


def curves(name: str, advantage: float) -> tuple[np.ndarray, np.ndarray]:
    """Gain, from that at a ratio of 1, and its gradient in log pi, over RATIOS."""
    term = build(PolicyGradientSpec.model_validate({"surrogate": name, "old": "learner", **SURROGATES[name]}))
    ratios = torch.tensor([*RATIOS, 1.0], dtype=torch.float64)
    old = torch.full_like(ratios, math.log(OLD))
    now = (old + ratios.log()).requires_grad_()
    signals = {"old_logprob": old, "sampler_logprob": old, "advantage": torch.full_like(ratios, advantage)}
    view = TokenView({"policy_logprob": now}, signals, Incidence.flat(np.arange(len(ratios))))
    gain = -term.function(view).values
    [gradient] = torch.autograd.grad(gain.sum(), now)
    return (gain - gain[-1]).detach().numpy()[:-1], gradient.numpy()[:-1]


def draw(name: str, folder: Path) -> None:
    """One file: the value on the left, the gradient on the right, for an advantage of 1 and of -1."""
    figure = Figure(figsize=(6.2, 2.3), layout="constrained")
    panels = figure.subplots(1, 2)
    for advantage, color in ((1.0, UP), (-1.0, DOWN)):
        for panel, values in zip(panels, curves(name, advantage), strict=True):
            panel.plot(RATIOS, values, color=color, linewidth=1.4, label=f"A = {advantage:+.0f}")
    for panel, title in zip(panels, ("value", "gradient in log pi"), strict=True):
        panel.axvline(1.0, color=QUIET, linewidth=0.8, linestyle=":")
        panel.axhline(0.0, color=QUIET, linewidth=0.8, linestyle=":")
        panel.set_title(f"{name}: {title}", fontsize=9)
        panel.set_xlabel("ratio", fontsize=8)
        panel.tick_params(labelsize=7)
    panels[0].legend(fontsize=7, frameon=False)
    figure.savefig(folder / f"surrogate-{name.replace('_', '-')}.svg", metadata={"Date": None})


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    folder = parser.parse_args().out
    for name in SURROGATES:
        draw(name, folder)
        print(folder / f"surrogate-{name.replace('_', '-')}.svg")


if __name__ == "__main__":
    main()
