"""The work whose cost is measured as it grows: one axis grows, everything else stays as it is.

Models are random and tiny, so that what does not belong to the arithmetic (Python, bookkeeping, copies) is a large part
of the cost and shows first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import MistralConfig, MistralForCausalLM

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec, OptimizerSpec
from burnish.ledger import Ledger
from burnish.losses.build import build
from burnish.losses.spec import PolicyGradientSpec
from burnish.models.language_model import LanguageModel
from burnish.sampling import LocalEngine, SamplingParams
from burnish.traces import CONTEXT, Author, Group, Role, SignalKind, Span, Trace

Work = Callable[[], int]
"""Does the work once and returns the operations of its arithmetic, as docs/ledger.md counts them."""


@dataclass(frozen=True)
class Axis:
    """Something that grows: its name, of which job, how far, and how the work of a size is made."""

    job: str
    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Work]
    attention: bool = False
    """Attention is quadratic along it, in the arithmetic itself."""

    @property
    def title(self) -> str:
        """A name for a file and a row."""
        return f"{self.job}-{self.name}".replace(" ", "-")


def tiny(vocabulary: int = 512, layers: int = 2, window: int | None = None) -> LanguageModel:
    """A random network of Llama's kind with untied embeddings, in float32; with a sliding window it is Mistral's."""
    config = MistralConfig(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=128, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1 << 15, tie_word_embeddings=False, sliding_window=window,
    )  # fmt: skip
    torch.manual_seed(0)
    return LanguageModel(MistralForCausalLM(config).eval())


# ---------------------------------------------------------------- a learner's update


def update(
    *,
    samples: int = 8,
    prompt: int = 32,
    answer: int = 16,
    branches: int = 0,
    groups: int = 1,
    micro_batch_tokens: int = 1 << 30,
    **model_keys: int,
) -> Work:
    """One optimizer step of policy gradient on groups that are alike, in one micro-batch unless said otherwise."""
    model, ledger = tiny(**model_keys), Ledger()
    layout = LearnerSpec(micro_batch_tokens=micro_batch_tokens)
    learner = Learner(model, OptimizerSpec(lr=1e-6), layout, ledger=ledger)
    terms = [build(PolicyGradientSpec())]
    alike = [_tree(branches, prompt, answer) if branches else _group(samples, prompt, answer) for _ in range(groups)]

    def work() -> int:
        before = ledger.total("policy", "flops")
        learner.update(alike, terms)
        return int(ledger.total("policy", "flops") - before)

    return work


def _answered(trace: Trace, parent: int, length: int, rng: np.random.Generator) -> int:
    ids = rng.integers(0, 500, length)
    leaf = trace.add(parent, ids, Author.model("policy", 0), Role.ANSWER, np.full(length, -6.0))
    trace.write(leaf, "advantage", rng.normal(size=length), SignalKind.POLICY, learner="policy")
    return leaf


def _group(samples: int, prompt: int, answer: int) -> Group:
    rng, trace = np.random.default_rng(0), Trace("group")
    root = trace.add(-1, rng.integers(0, 500, prompt), CONTEXT, Role.PROMPT)
    return Group("group", [Span(trace, _answered(trace, root, answer, rng)) for _ in range(samples)])


def _tree(branches: int, prompt: int, answer: int) -> Group:
    """A prompt with that many branches, each of which ends in two answers."""
    rng, trace, members = np.random.default_rng(0), Trace("tree"), []
    root = trace.add(-1, rng.integers(0, 500, prompt), CONTEXT, Role.PROMPT)
    for _ in range(branches):
        stem = _answered(trace, root, answer, rng)
        members += [Span(trace, _answered(trace, stem, answer, rng)) for _ in range(2)]
    return Group("tree", members)


# ---------------------------------------------------------------- sampling


def sample(
    *,
    samples: int = 8,
    prompt: int = 32,
    answer: int = 16,
    branches: int = 0,
    turns: int = 0,
    **model_keys: int,
) -> Work:
    """Samples of one prompt; `branches` more from the end of one of them; or an exchange of so many turns."""
    model = tiny(**model_keys)
    ids = np.random.default_rng(0).integers(0, 500, prompt).tolist()
    params = SamplingParams(answer)

    def work() -> int:
        engine = LocalEngine(model, max_rows=max(64, samples, branches))
        start: Any = engine.sample_sync(ids, params, n=1 if branches or turns else samples, seed=0, task=0)[0].session
        if branches:
            engine.extend_sync(start, [1, 2, 3], params, n=branches, seed=0, task=1)
        for turn in range(turns):
            start = engine.extend_sync(start, [1, 2, 3], params, n=1, seed=0, task=1 + turn)[0].session
        return int(engine.metrics()["flops"])

    return work


def _doubling(first: int, last: int) -> tuple[int, ...]:
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


AXES = (
    Axis("update", "group size", _doubling(32, 1024), lambda n: update(samples=n)),
    Axis("update", "prompt length", _doubling(128, 4096), lambda n: update(prompt=n, samples=4), attention=True),
    Axis("update", "answer length", _doubling(128, 4096), lambda n: update(answer=n, samples=2), attention=True),
    Axis("update", "windowed prompt", _doubling(256, 8192), lambda n: update(prompt=n, samples=4, window=64)),
    Axis("update", "branches", _doubling(16, 512), lambda n: update(branches=n)),
    Axis("update", "vocabulary", _doubling(2048, 65_536), lambda n: update(vocabulary=n)),
    Axis("update", "layers", _doubling(1, 32), lambda n: update(layers=n)),
    Axis("sampling", "group size", _doubling(16, 512), lambda n: sample(samples=n)),
    Axis("sampling", "prompt length", _doubling(256, 8192), lambda n: sample(prompt=n, answer=4), attention=True),
    Axis("sampling", "answer length", _doubling(16, 512), lambda n: sample(answer=n, samples=4), attention=True),
    Axis("sampling", "windowed prompt", _doubling(256, 8192), lambda n: sample(prompt=n, answer=4, window=64)),
    Axis("sampling", "branches", _doubling(16, 512), lambda n: sample(branches=n)),
    Axis("sampling", "turns", _doubling(2, 64), lambda n: sample(turns=n, answer=8), attention=True),
    Axis("sampling", "vocabulary", _doubling(2048, 65_536), lambda n: sample(vocabulary=n, answer=8)),
    Axis("sampling", "layers", _doubling(1, 32), lambda n: sample(layers=n, answer=8)),
)
"""Everything that is measured. Sizes double, and only the upper half of them is fitted."""
