"""What a step of a method costs, from its declaration and the sizes of the work, in the ledger's quantities.

The counts are those that a run of one turn would write into its ledger (docs/ledger.md has the formulas): the source
says what is sampled, the annotators what is scored, the phases what is trained. No torch here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.ledger import Ledger, Totals
from burnish.methods.method import Declaration
from burnish.models.nursery_shapes import CHARACTERS, PREFIX, SIZES, SPECIAL_TOKENS
from burnish.signals.spec import ScoreSpec
from burnish.sources.spec import RolloutsSpec


@dataclass(frozen=True)
class Shape:
    """What the arithmetic of a decoder depends on. Every token passes `maps` parameters of linear maps, a pair of query
    and key costs `attention` multiply-adds, and the logits of a token `head`."""

    maps: int
    attention: int
    head: int

    def forward(self, tokens: int, keys: int, logits: int) -> int:
        """Operations of computing `tokens` that see `keys` in all, and logits at `logits` of them."""
        return 2 * (self.maps * tokens + self.attention * keys + self.head * logits)

    def training(self, tokens: int, keys: int, logits: int) -> int:
        """Operations of a forward and a backward pass in which every weight learns."""
        return 3 * self.forward(tokens, keys, logits)


@dataclass(frozen=True)
class Sizes:
    """How long what is read and written is, in tokens; of an attempt in an environment all turns together."""

    prompt: int
    answer: int


def shape_of(model: str) -> Shape:
    """The shape of a dense decoder: a model of the nursery, or a folder with a config.json.

    Raises InputError for a model whose shape is not at hand, and for one that is no dense decoder.
    """
    if model.startswith(PREFIX):
        size = model.removeprefix(PREFIX).rpartition("-")[2]
        if size not in SIZES:
            raise InputError(f"model: there is no {model!r}; `burnish nursery list` has the nursery's models")
        s = SIZES[size]
        return dense(s.hidden, s.layers, s.heads, s.kv_heads, s.intermediate, len(SPECIAL_TOKENS) + len(CHARACTERS))
    path = Path(model).expanduser() / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, ValueError):
        raise InputError(
            f"model: the shape of {model!r} is not at hand: {path} cannot be read; give a folder with a config.json, a "
            "model of the nursery, or the number of its parameters"
        ) from None
    return _configured(config if isinstance(config, dict) else {}, model)


def of_parameters(parameters: int) -> Shape:
    """A model of which only the size is known: 2 operations a parameter and token, attention left out."""
    return Shape(maps=parameters, attention=0, head=0)


def dense(hidden: int, layers: int, heads: int, kv_heads: int, intermediate: int, vocabulary: int) -> Shape:
    """A decoder with gated feed-forward layers, as Llama's. A head is hidden / heads wide."""
    return _gated(hidden, layers, heads, kv_heads, hidden // heads, intermediate, vocabulary)


def _gated(hidden: int, layers: int, heads: int, kv_heads: int, size: int, intermediate: int, vocabulary: int) -> Shape:
    maps = hidden * size * (2 * heads + 2 * kv_heads) + 3 * hidden * intermediate
    return Shape(maps=layers * maps, attention=layers * heads * 2 * size, head=hidden * vocabulary)


_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
_OTHERWISE = ("num_experts", "num_local_experts", "n_routed_experts", "layer_types", "linear_num_value_heads")
"""Keys of configurations whose layers are not all alike, or not dense."""


def _configured(config: Mapping[str, Any], model: str) -> Shape:
    missing = [name for name in _NAMES if not isinstance(config.get(name), int)]
    kinds = {kind for kind in config.get("layer_types") or () if kind != "full_attention"}
    odd = [name for name in _OTHERWISE if config.get(name) and (name != "layer_types" or kinds)]
    if missing or odd:
        what = f"its config.json has no {', '.join(missing)}" if missing else f"its config.json has {', '.join(odd)}"
        raise InputError(f"model: {model!r} is no dense decoder that is counted here ({what}); give its parameters")
    hidden, layers, heads, intermediate, vocabulary = (int(config[name]) for name in _NAMES)
    kv_heads = int(config.get("num_key_value_heads") or heads)
    size = int(config.get("head_dim") or hidden // heads)
    return _gated(hidden, layers, heads, kv_heads, size, intermediate, vocabulary)


# ---------------------------------------------------------------- a step


def step_cost(declaration: Declaration, sizes: Sizes, shape: Shape) -> Totals:
    """Role -> quantity -> count of one step, every answer being as long as `sizes` says and nothing going wrong.

    What a step trains beside the policy is taken to have the policy's shape, and every weight to learn.
    """
    ledger, source = Ledger(), declaration.source
    prompts = source.prompts_per_step
    samples = source.samples_per_prompt if isinstance(source, RolloutsSpec) else 1
    prompt, answer = sizes.prompt, sizes.answer
    ledger.add("policy", "prompts", prompts)
    if isinstance(source, RolloutsSpec):
        drawn = samples + source.greedy  # a greedy answer is compared with, and not trained
        fed = drawn * (answer - 1)  # the last token of a sample is never fed back
        keys = _seen(0, prompt) + drawn * _seen(prompt, prompt + answer - 1)
        ledger.add("policy", "rollouts", prompts * drawn)
        ledger.add("policy", "sampled_tokens", prompts * drawn * answer)
        ledger.add("policy", "prefilled_tokens", prompts * prompt)
        ledger.add("policy", "flops", prompts * shape.forward(prompt + fed, keys, 1 + fed))
    tokens, trained = prompt + samples * answer, samples * answer
    keys = _seen(0, prompt) + samples * _seen(prompt, prompt + answer)
    for phase in declaration.controller.phases:
        for annotator in phase.annotators:
            if isinstance(annotator, ScoreSpec):
                ledger.add(annotator.model, "scored_tokens", prompts * trained)
                ledger.add(annotator.model, "flops", prompts * shape.forward(tokens, keys, trained))
        ledger.add(phase.learner, "trained_tokens", phase.passes * prompts * trained)
        ledger.add(phase.learner, "flops", phase.passes * prompts * shape.training(tokens, keys, trained))
    return ledger.to_json()


def _seen(start: int, stop: int) -> int:
    """Keys that the tokens at positions start:stop see, each all before it and itself."""
    return (stop * (stop + 1) - start * (start + 1)) // 2


def flops_of(cost: Totals) -> int:
    """Operations of every role."""
    return sum(int(counts.get("flops", 0)) for counts in cost.values())


def total_of(cost: Totals, quantity: str) -> int:
    """A quantity summed over the roles."""
    return sum(int(counts.get(quantity, 0)) for counts in cost.values())
