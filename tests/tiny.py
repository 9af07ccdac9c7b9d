"""Tiny random models of every architecture the learner and the engine must serve, and a tokenizer for them.

Weights are drawn much larger than a trained model's start, norm weights and biases included, so that attention is far
from uniform, logits are far from flat, and a part that is skipped or scaled wrongly shows in the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

if TYPE_CHECKING:
    from burnish.models.language_model import LanguageModel

WINDOW = 5
"""Sliding window of the tiny models that have one: shorter than any test sequence, so that it cuts."""

VOCAB = 97
"""Vocabulary of the tiny models: small enough for a chi-square test on samples."""

_END, _START, _STOP, _UNKNOWN = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|unk|>"

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# One idea: 4 query heads on 2 key/value heads where the family allows grouping, head sizes that are not
# hidden / heads where the family sets them apart, every after-head transform at a value that matters.
_COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512}
_GATED = {**_COMMON, "num_key_value_heads": 2, "intermediate_size": 48}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2}

SHAREABLE: dict[str, dict[str, Any]] = {
    "llama": {**_GATED, "tie_word_embeddings": False},
    "qwen2": {**_GATED, "tie_word_embeddings": True},
    "qwen3": {**_GATED, "head_dim": 16, "tie_word_embeddings": False},
    "qwen3_moe": {**_GATED, **_MOE, "head_dim": 8, "moe_intermediate_size": 24, "norm_topk_prob": True},
    "mistral": {**_GATED, "head_dim": 8, "sliding_window": WINDOW},
    "gemma2": {
        **_GATED, "num_hidden_layers": 4, "head_dim": 16, "query_pre_attn_scalar": 9, "sliding_window": WINDOW,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0,
    },
    "gemma3": {
        **_GATED, "num_hidden_layers": 3, "head_dim": 16, "query_pre_attn_scalar": 9, "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    },
    "phi": {**_COMMON, "num_key_value_heads": 2, "intermediate_size": 48},
    "phi3": _GATED,
    "olmoe": {**_GATED, **_MOE, "intermediate_size": 24},
    "gpt2": {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    },
    "granite": {
        **_GATED, "tie_word_embeddings": True, "embedding_multiplier": 3.0, "logits_scaling": 0.5,
        "residual_multiplier": 0.7, "attention_multiplier": 0.25,
    },
    "cohere": {**_GATED, "logit_scale": 0.7, "use_qk_norm": True},
    "cohere2": {
        **_GATED, "num_hidden_layers": 4, "head_dim": 8, "logit_scale": 0.7, "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    },
}  # fmt: skip
"""Configurations of the architectures whose every attention layer can share prefixes, by transformers model type."""

UNSHAREABLE: dict[str, dict[str, Any]] = {
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "time_step_rank": 4},
    "qwen3_next": {
        **_GATED, **_MOE, "head_dim": 8, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "layer_types": ["linear_attention", "full_attention"],
    },
}  # fmt: skip
"""A state-space model and a linear-attention hybrid: state flows through the layers, so prefixes cannot be shared."""

ARCHITECTURES: tuple[str, ...] = tuple(SHAREABLE)


def tiny_tokenizer(vocab: int = VOCAB) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with min(vocab, 260) entries and a ChatML template.

    Four special tokens come first (end of text, <|im_start|>, <|im_end|> = the stop token, unknown), then single
    bytes, the common ones first; below 260 entries the bytes left over become the unknown token.
    """
    if vocab < 8:
        raise ValueError(f"a tiny tokenizer needs at least 8 entries, got {vocab}")
    byte_symbols = _byte_symbols()
    common = [ord(c) for c in "\n 0123456789abcdefghijklmnopqrstuvwxyz+-*/=.,:;!?'\"()<>|_ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    order = common + [b for b in range(256) if b not in set(common)]
    entries = [_END, _START, _STOP, _UNKNOWN, *(byte_symbols[b] for b in order)][:vocab]
    core = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(entries)}, merges=[], unk_token=_UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in entries[:4]])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=_STOP, pad_token=_END, unk_token=_UNKNOWN, model_max_length=512
    )
    tokenizer.chat_template = CHATML
    return tokenizer


def _byte_symbols() -> dict[int, str]:
    """The printable stand-in of each byte that byte-level tokenizers use (the GPT-2 table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in set(plain)]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def tiny_network(
    architecture: str,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    vocab: int = VOCAB,
    std: float = 0.25,
    overrides: Mapping[str, Any] | None = None,
) -> PreTrainedModel:
    """A random transformers model in eval mode, about 20-60 thousand parameters, with eager attention.

    The same seed gives the same weights in every dtype (they are drawn in float32). `overrides` are configuration
    keys. Raises KeyError for an architecture that is not listed above.
    """
    settings = {**(SHAREABLE | UNSHAREABLE)[architecture], **(overrides or {})}
    model_type = "gemma3_text" if architecture == "gemma3" else architecture
    configuration: Any = CONFIG_MAPPING[model_type]
    config = configuration(vocab_size=vocab, bos_token_id=0, eos_token_id=2, pad_token_id=0, **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
        if "num_experts" in settings:
            network.set_experts_implementation("eager")  # the grouped kernels have no float64
        _scramble(network, std)
    return network.to(dtype).eval()


@torch.no_grad()
def _scramble(network: PreTrainedModel, std: float) -> None:
    for name, parameter in network.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if leaf in ("A_log", "D", "dt_bias") or "dt_proj" in name or "conv1d" in name:
            continue  # a state-space layer is only stable near its own start
        noise = torch.randn_like(parameter)
        if "norm" in name or ".ln_" in name:
            parameter.add_(0.2 * noise)
        elif leaf.endswith("bias"):
            parameter.copy_(0.1 * noise)
        else:
            parameter.copy_(std * math.sqrt(32 / max(32, parameter.shape[-1])) * noise)


def tiny_model(
    architecture: str,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    vocab: int = VOCAB,
    std: float = 0.25,
    name: str = "policy",
    overrides: Mapping[str, Any] | None = None,
) -> LanguageModel:
    """A `LanguageModel` over `tiny_network` and `tiny_tokenizer`, on the CPU, computing in `dtype`."""
    from burnish.models.language_model import LanguageModel

    network = tiny_network(architecture, seed, dtype, vocab, std, overrides)
    return LanguageModel(network, tiny_tokenizer(vocab), name=name, compute_dtype=dtype, device=torch.device("cpu"))


@torch.no_grad()
def logits_of(model: LanguageModel, tokens: torch.Tensor) -> torch.Tensor:
    """Logits [T, V] of a LanguageModel on tokens [T], through its padded path."""
    return model.logits(model.hidden_rows([tokens])[0])


def token_row(length: int = 20, seed: int = 1, vocab: int = VOCAB) -> torch.Tensor:
    """Random ordinary token ids [length] (no special tokens)."""
    return torch.randint(4, vocab, (length,), generator=torch.Generator().manual_seed(seed))
