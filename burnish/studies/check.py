"""What `burnish check` finds out about a model: its template, how it is run, and whether sampler and learner agree."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from burnish.learning.memory import training_bytes
from burnish.learning.scoring import score
from burnish.learning.spec import OptimizerSpec
from burnish.models.footprint import Activations
from burnish.models.language_model import LanguageModel
from burnish.models.precision import choose_dtype
from burnish.models.spec import DtypeName, ModelSpec
from burnish.running.sync import finished
from burnish.running.talk import Speaker, model_spec
from burnish.sampling.shared import cache_shape
from burnish.sampling.spec import SamplingSpec
from burnish.sources.context import Context
from burnish.tasks import Task

LIMIT = 1e-4
"""Promise E5: largest difference of log-probabilities in float32, local engine."""

_PROMPTS = (
    "What is 17 + 25?",
    "Name three colours of the rainbow and say why the sky is blue.",
    "Continue: one, two, three,",
    "Write a short letter to a friend who has moved to another town, and ask how the new flat is.",
)

_SEQUENCES, _LENGTH = 64, 512  # what the estimate of keys and values is for


@dataclass(frozen=True)
class Gap:
    """Absolute differences between the log-probabilities of sampler and learner over sampled tokens."""

    largest: float
    mean: float
    p999: float
    tokens: int


@dataclass(frozen=True)
class Check:
    """Everything found. Bytes of training, of activations for 1,000 tokens, and of keys and values are estimates."""

    model: str
    template: str
    stop_tokens: tuple[str, ...]
    path_in_use: str
    dtype: str
    dtype_reason: str
    gap: Gap
    parameters: int
    layers: int
    context_length: int | None
    weight_bytes: int
    training_bytes: int
    activation_bytes: int
    recomputed_bytes: int
    """Of activations where layers are computed again in the backward pass."""
    kv_bytes: int

    @property
    def passed(self) -> bool:
        """Promise E5; in bfloat16 nothing is promised and the gap is only reported."""
        return self.dtype == "bfloat16" or self.gap.largest < LIMIT

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """What is printed."""
        gap = self.gap
        promise = f"promise E5: under {LIMIT:g}" if self.dtype != "bfloat16" else "bfloat16: reported, not promised"
        return "\n".join([
            f"model: {self.model}",
            f"parameters: {self.parameters:,} in {self.layers} layers; context: {self.context_length or 'no limit'}",
            f"template: {self.template}",
            f"stop tokens: {', '.join(self.stop_tokens)} (sampling ends at any of them, and training covers it)",
            f"path in use: {self.path_in_use}",
            f"compute type: {self.dtype_reason}",
            f"sampler/learner gap of log-probabilities: max {gap.largest:.2e}, mean {gap.mean:.2e}, "
            f"99.9th percentile {gap.p999:.2e} over {gap.tokens} sampled tokens ({promise})",
            f"weights: {_size(self.weight_bytes)}",
            f"memory to train all weights with AdamW: about {_size(self.training_bytes)} (weights, masters, gradients, "
            f"two moments), and {_size(self.activation_bytes)} for every 1,000 tokens of a micro-batch, or "
            f"{_size(self.recomputed_bytes)} with gradient checkpointing (estimated)",
            f"memory to sample {_SEQUENCES} sequences of {_LENGTH} tokens: about {_size(self.kv_bytes)} of keys and "
            "values, nothing shared (estimated)",
        ])  # fmt: skip


def check_model(
    spec: str | Path | ModelSpec,
    *,
    dtype: DtypeName = "auto",
    template: str = "auto",
    samples: int = 4,
    max_tokens: int = 32,
    seed: int = 0,
) -> Check:
    """Load a model, sample a few prompts and score the samples: print the result, or look whether it has `passed`.

    `dtype` and `template` are for a path; a spec has its own. Raises InputError when the model cannot be loaded.
    """
    if not isinstance(spec, ModelSpec):
        spec = model_spec(str(spec), dtype=dtype, template=template)
    speaker = Speaker(spec)
    model = speaker.model
    computed = str(model.compute_dtype).removeprefix("torch.")
    reason = choose_dtype(model.device).reason if spec.dtype == "auto" else f"{computed} (asked for)"
    kept, recomputed = activation_bytes(model)
    return Check(
        model=spec.path,
        template=str(speaker.format.finding),
        stop_tokens=tuple(str(model.tokenizer.convert_ids_to_tokens(i)) for i in sorted(speaker.format.stop_ids)),
        path_in_use=speaker.engine.path_in_use,
        dtype=computed,
        dtype_reason=reason,
        gap=sampler_gap(speaker, samples=samples, max_tokens=max_tokens, seed=seed),
        parameters=sum(p.numel() for p in model.network.parameters()),
        layers=model.num_layers,
        context_length=model.context_length,
        weight_bytes=sum(p.numel() * p.element_size() for p in model.network.parameters()),
        training_bytes=training_bytes(OptimizerSpec(), model.network.parameters()),
        activation_bytes=kept,
        recomputed_bytes=recomputed,
        kv_bytes=kv_bytes(model, _SEQUENCES * _LENGTH),
    )


def sampler_gap(speaker: Speaker, *, samples: int, max_tokens: int, seed: int = 0) -> Gap:
    """Sample `samples` completions of a few prompts at temperature 1 and score them with the learner's layout."""
    tasks = [Task(prompt=text) for text in _PROMPTS]
    if speaker.model.tokenizer.chat_template:
        tasks = [Task(messages=({"role": "user", "content": text},)) for text in _PROMPTS]
    limit = speaker.model.context_length
    room = max_tokens if limit is None else max(1, min(max_tokens, limit // 4))
    params = speaker.params(SamplingSpec(max_tokens=room))
    context = Context(speaker.engine, speaker.format, params, seed)

    async def drawn() -> list:
        return list(await asyncio.gather(*(context.sample(task, samples) for task in tasks)))

    groups = finished(drawn())
    gaps = np.abs(score(speaker.model, groups).sampler_gap)
    return Gap(float(gaps.max()), float(gaps.mean()), float(np.quantile(gaps, 0.999)), len(gaps))


def activation_bytes(model: LanguageModel) -> tuple[int, int]:
    """Bytes that a forward pass over 1,000 tokens keeps when all weights learn, and with gradient checkpointing."""
    learning = [p for p in model.network.parameters() if p.requires_grad]
    model.network.requires_grad_(True)
    try:
        found = Activations.of(model)
    finally:
        model.network.requires_grad_(False)
        for parameter in learning:
            parameter.requires_grad_(True)
    length = min(_LENGTH, model.context_length or _LENGTH)
    kept = 1000 * found.sequence(length) // length
    return kept, found.layer_inputs(1000) + kept // model.num_layers


def kv_bytes(model: LanguageModel, tokens: int) -> int:
    """Bytes of the keys and values of so many tokens in every layer; 0 where the engine caches none."""
    return tokens * cache_shape(model).token_bytes if model.sharing else 0


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
