"""The nursery: a character tokenizer, fresh models, and the pretrained one that ships with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish.errors import InputError
from burnish.models import nursery, nursery_list
from burnish.models.loading import load_model

TOKENIZER = nursery.character_tokenizer()


SPELT = ["<pad>", "<bos>", "<eos>", "<unk>", "a<eos>b"]
"""Texts that spell special tokens of other tokenizers: here they are characters like any."""


@given(st.text(alphabet=nursery.CHARACTERS))
@example("".join(SPELT))
def test_every_character_is_one_token_and_comes_back(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert len(ids) == len(text)
    assert TOKENIZER.decode(ids) == text


def test_an_unknown_character_is_one_unknown_token() -> None:
    assert TOKENIZER.encode("aéb", add_special_tokens=False)[1] == TOKENIZER.unk_token_id


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(nursery.CHARACTERS)), min_size=2))
def test_a_longer_conversation_starts_with_the_shorter_one(turns: list[tuple[str, str]]) -> None:
    messages = [{"role": role, "content": content} for role, content in turns]
    shorter, longer = (TOKENIZER.apply_chat_template(m, tokenize=False) for m in (messages[:-1], messages))
    assert isinstance(longer, str) and isinstance(shorter, str)
    assert longer.startswith(shorter)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(nursery.CHARACTERS)), min_size=1))
@example([("user", text) for text in SPELT] + [("assistant", text) for text in SPELT])
def test_no_text_of_a_message_becomes_a_special_token(turns: list[tuple[str, str]]) -> None:
    """Only the template's own tokens are special: one at the start, one behind each of the model's messages."""
    messages = [{"role": role, "content": content} for role, content in turns]
    ids = TOKENIZER.apply_chat_template(messages, tokenize=True, return_dict=False)
    assert ids[0] == TOKENIZER.bos_token_id
    assert ids.count(TOKENIZER.eos_token_id) == sum(role == "assistant" for role, _ in turns)
    assert len(ids) == 1 + sum(len(content) + 1 for _, content in turns)
    assert sum(i in TOKENIZER.all_special_ids for i in ids) == 1 + ids.count(TOKENIZER.eos_token_id)


def test_sizes_are_as_documented() -> None:
    counts = {size: sum(p.numel() for p in nursery.fresh_network(size).parameters()) for size in nursery.SIZES}
    assert counts == {size: nursery.parameters(size) for size in nursery.SIZES}
    assert 0.4e6 < counts["S"] < 0.6e6 < 1e6 < counts["M"] < 2e6 < 4e6 < counts["L"] < 6e6


def test_a_fresh_network_is_a_function_of_its_seed_and_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (nursery.fresh_network("S", seed=seed).lm_head.weight for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_fresh_model_is_made_once_and_loads_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path))
    folder = nursery.nursery_folder("S")
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert nursery.nursery_folder("S") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    model = load_model("nursery:S")
    assert torch.equal(model.head.projection.weight.float(), nursery.fresh_network("S").lm_head.weight)


@pytest.mark.parametrize("name", nursery.pretrained_names())
def test_a_shipped_model_is_an_ordinary_transformers_folder_of_a_few_megabytes(name: str) -> None:
    folder = nursery.nursery_folder(name)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1e7
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert len(tokenizer.encode("".join(SPELT), add_special_tokens=False)) == len("".join(SPELT))
    network = AutoModelForCausalLM.from_pretrained(folder)
    assert str(network.dtype) == f"torch.{nursery.nursery_entries()[name].stored}"
    assert load_model(f"nursery:{name}").sharing


def test_the_arithmetic_model_ships() -> None:
    assert "arithmetic-S" in nursery.pretrained_names()


def test_a_model_that_is_not_built_yet_is_refused_with_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path))
    monkeypatch.setattr(nursery_list, "PRETRAINED", tmp_path)  # a package without its models
    with pytest.raises(InputError, match=r"nursery:countdown-L .* not built yet: burnish nursery build countdown-L$"):
        load_model("nursery:countdown-L")


def test_an_unknown_nursery_model_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match="there is no nursery model 'arithmetic-XL'.*arithmetic-S.*S, M, L"):
        load_model("nursery:arithmetic-XL")
