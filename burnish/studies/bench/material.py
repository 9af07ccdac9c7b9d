"""What the sides of a benchmark work on: a model folder, prompts, demonstrations and a reward, the same files for all.

It is made in a process of its own, so that whoever measures need not import torch:

    python -m burnish.studies.bench.material FOLDER '{"kind": "grpo", ...}'
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from burnish.studies.bench.spec import Work

MODEL, PROMPTS, ROWS, REWARDS, FACTS = "model", "prompts.jsonl", "rows.jsonl", "rewards.py", "facts.json"

NEVER = "<|never|>"
"""The token that ends a text in these folders. No model can sample it: its id is the size of the vocabulary. So every
answer has all the tokens that were asked for, on both sides and without a setting that differs between them."""

_TEXT = (
    "the of to in is that it was for on are as with his they at be this from have or by one had not but what all "
    "were when we there can an your which their said if do will each about how up out them then she many some so"
)

_REWARD = '''"""How many different characters an answer has: a reward that differs within a group."""


def reward(completions, **columns):
    return [len(set(completion)) / 20 for completion in completions]
'''

_TOY_SYMBOLS = "0123456789+-*= abc"


def make(folder: Path, work: Work) -> None:
    """Fill a folder with what `work` is done on; `facts.json` says where and how much of it there is."""
    from burnish.models.loading import load_tokenizer, resolve

    source = str(_toy_model(folder / "source")) if work.model == "toy" else resolve(work.model)
    tokenizer: Any = load_tokenizer(source)
    draw = random.Random(0)
    facts: dict[str, Any] = {"work": asdict(work), "model": source, "vocabulary": len(tokenizer)}
    if work.kind == "sft":
        facts |= _write_rows(folder, tokenizer, work.lengths, draw)
    else:
        texts = [text_of(tokenizer, work.prompt_tokens, draw) for _ in range(work.prompts)]
        _write_lines(folder / PROMPTS, [{"prompt": text} for text in texts])
        facts["prompts"] = [_ids(tokenizer, text) for text in texts]
        (folder / REWARDS).write_text(_REWARD, "utf-8")
    if work.kind in ("grpo", "toy"):
        _endless(Path(source), tokenizer, folder / MODEL)
        facts["model"] = str(folder / MODEL)
    (folder / FACTS).write_text(json.dumps(facts), "utf-8")


def text_of(tokenizer: Any, count: int, draw: random.Random, start: str = "") -> str:
    """A text of seeded words that is exactly `count` tokens long."""
    words = _TEXT.split()
    while True:
        text = start + draw.choice(words) if len(tokenizer) > 40 else "1"
        while len(_ids(tokenizer, text)) < count:
            text += " " + draw.choice(words) if len(tokenizer) > 40 else draw.choice(_TOY_SYMBOLS[:15])
        while len(_ids(tokenizer, text)) > count:
            text = text[:-1]
        if len(_ids(tokenizer, text)) == count and text == text.rstrip():
            return text


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _write_rows(folder: Path, tokenizer: Any, lengths: tuple[int, ...], draw: random.Random) -> dict[str, Any]:
    """Demonstrations whose prompt, completion and end of text have so many tokens together."""
    rows, trained = [], 0
    for length in lengths:
        prompt = min(12, length // 2)
        answer = length - prompt - 1
        rows.append({
            "prompt": text_of(tokenizer, prompt, draw), "completion": text_of(tokenizer, answer, draw, start=" "),
        })  # fmt: skip
        trained += answer + 1
    _write_lines(folder / ROWS, rows)
    return {"trained_tokens": trained, "longest": max(lengths), "tokens": sum(lengths)}


def _write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _endless(source: Path, tokenizer: Any, folder: Path) -> None:
    """The model with a tokenizer, and a generation config, whose end of text cannot be sampled."""
    config = json.loads((source / "config.json").read_text("utf-8"))
    size = int(config["vocab_size"])
    fillers = [f"<|unused-{index}|>" for index in range(len(tokenizer), size)]
    tokenizer.add_special_tokens({"additional_special_tokens": [*fillers, NEVER]})
    pad = tokenizer.pad_token or tokenizer.convert_ids_to_tokens(0)
    tokenizer.add_special_tokens({"eos_token": NEVER, "pad_token": pad})
    if tokenizer.convert_tokens_to_ids(NEVER) < size:
        raise ValueError(f"{NEVER} has an id that the model can sample")
    tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    for weights in source.glob("*.safetensors"):
        _link(weights, folder / weights.name)
    config |= {"eos_token_id": size, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    generation = {"eos_token_id": size, "pad_token_id": tokenizer.pad_token_id}
    (folder / "generation_config.json").write_text(json.dumps(generation), "utf-8")


def _link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source.resolve())
    except OSError:  # a system without links
        shutil.copy(source, target)


def _toy_model(folder: Path) -> Path:
    """A random Qwen2 of 2 layers and width 64 over a tokenizer of 20 symbols."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    from burnish.models.quiet import quietly

    symbols = ["<pad>", "<eos>", *_TOY_SYMBOLS]
    core = Tokenizer(models.WordLevel({symbol: index for index, symbol in enumerate(symbols)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(symbols), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, pad_token_id=0, bos_token_id=None,
        eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), quietly():
        torch.manual_seed(0)
        Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    make(Path(sys.argv[1]), Work(**json.loads(sys.argv[2])))
