"""The nursery: tiny models with a character tokenizer, for tests and for studies that need hundreds of runs.

A nursery model is an ordinary Llama network, small enough to learn in seconds on a CPU. Some pretrained ones are
package data, others are built (nursery_list.py; docs/nursery.md has what was measured of them); fresh ones are made
here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from burnish.errors import InputError
from burnish.models.folders import atomic_folder, cache_directory, exclusive
from burnish.models.nursery_list import PRETRAINED, nursery_entries
from burnish.models.nursery_shapes import (
    BOS,
    CHARACTERS,
    EOS,
    PAD,
    SIZES,
    SPECIAL_TOKENS,
    UNKNOWN,
)
from burnish.models.nursery_shapes import PREFIX as PREFIX
from burnish.randomness import stable_hash

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% else %}{{ '\\n' }}{% endif %}{% endfor %}"
)
"""A message ends with a newline, the model's own with the stop token: every render is a prefix of the next one."""

CONTEXT_LENGTH = 512
ROPE_THETA = 10_000.0
"""Base of the rotary embedding's wave lengths."""


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token for each character of `CHARACTERS`, any other becomes `‹unk›`; the only stop token is `‹eos›`."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *CHARACTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNKNOWN,
        model_max_length=CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def nursery_config(size: str, *, context_length: int = CONTEXT_LENGTH) -> LlamaConfig:
    """The Llama configuration of a size in `SIZES`, over the character tokenizer's vocabulary."""
    from transformers import LlamaConfig

    if size not in SIZES:
        raise InputError(f"there is no nursery size {size!r}; choose one of {', '.join(SIZES)}")
    shape = SIZES[size]
    return LlamaConfig(
        vocab_size=len(SPECIAL_TOKENS) + len(CHARACTERS),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=context_length,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        pad_token_id=SPECIAL_TOKENS.index(PAD),
        bos_token_id=SPECIAL_TOKENS.index(BOS),
        eos_token_id=SPECIAL_TOKENS.index(EOS),
    )


def fresh_network(size: str, *, seed: int = 0, context_length: int = CONTEXT_LENGTH) -> LlamaForCausalLM:
    """A randomly initialised float32 network of a size in `SIZES`; the seed alone decides its weights."""
    import torch
    from transformers import LlamaForCausalLM

    config = nursery_config(size, context_length=context_length)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def fresh_folder(size: str) -> Path:
    """A randomly initialised model (seed 0) with its tokenizer as a folder in the cache, to pretrain from."""
    content = repr((nursery_config(size).to_diff_dict(), SPECIAL_TOKENS, CHARACTERS, CHAT_TEMPLATE))
    folder = cache_directory() / "nursery" / f"fresh-{size}-{stable_hash(content):016x}"
    if not folder.is_dir():
        from burnish.models.quiet import quietly

        with exclusive(folder.with_name(f".{folder.name}.lock")):
            if not folder.is_dir():  # another process may have made it
                with quietly(), atomic_folder(folder) as aside:
                    fresh_network(size).save_pretrained(aside)
                    character_tokenizer().save_pretrained(aside)
    return folder


def fresh_content(size: str) -> str:
    """Everything here that decides what a fresh model of a size is. Imports neither torch nor transformers."""
    return repr((SIZES[size], CONTEXT_LENGTH, ROPE_THETA, SPECIAL_TOKENS, CHARACTERS, CHAT_TEMPLATE))


def parameters(size: str) -> int:
    """How many parameters a size in `SIZES` has; the embedding is the head's as well."""
    shape = SIZES[size]
    attention = 2 * shape.hidden * shape.hidden * (1 + shape.kv_heads / shape.heads)
    layer = attention + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden
    return int((len(SPECIAL_TOKENS) + len(CHARACTERS)) * shape.hidden + shape.layers * layer + shape.hidden)


def pretrained_names() -> list[str]:
    """Names of the models that ship with the package, such as `arithmetic-S`."""
    return sorted(config.parent.name for config in PRETRAINED.glob("*/config.json"))


def nursery_folder(name: str) -> Path:
    """Folder of a nursery model: `arithmetic-S` ships with the package or was built, `S` is a fresh one of that size.

    Raises InputError with the names there are, and for one that is still to be built with the command that builds it.
    """
    if name in SIZES:
        return fresh_folder(name)
    entries = nursery_entries()
    if name not in entries:
        raise InputError(
            f"there is no nursery model {name!r}. Pretrained: {', '.join(entries)}; fresh, to pretrain from: "
            f"{', '.join(SIZES)}"
        )
    folder = entries[name].folder
    if folder is None:
        raise InputError(
            f"nursery:{name} does not ship with the package and is not built yet: burnish nursery build {name}"
        )
    return folder
