"""Saved models: transformers and peft load them with equal logits, and a folder is whole or absent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from burnish.errors import InputError, RunError
from burnish.models import saving
from burnish.models.adapters import attach_adapter
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model, load_tokenizer
from burnish.models.saving import export, save_model
from burnish.models.spec import LoraSpec, ModelSpec
from tests.tiny import SHAREABLE, UNSHAREABLE, logits_of, tiny_model, tiny_network, tiny_tokenizer, token_row


@torch.no_grad()
def reference(network: PreTrainedModel | PeftModel, tokens: Tensor) -> Tensor:
    return network(input_ids=tokens[None], attention_mask=torch.ones_like(tokens[None])).logits[0].float()


def transformers_loads(path: Path, dtype: str | torch.dtype = "auto") -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager")


def tiny_adapted(architecture: str, spec: LoraSpec, dtype: torch.dtype = torch.float32) -> LanguageModel:
    """A tiny model with an adapter whose update is not zero."""
    network = attach_adapter(tiny_network(architecture, dtype=dtype), spec)
    torch.manual_seed(3)
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.1)
    return LanguageModel(network, tiny_tokenizer(), compute_dtype=dtype)


@pytest.mark.parametrize("architecture", [*SHAREABLE, *UNSHAREABLE])
def test_a_full_model_round_trips_through_transformers_and_through_us(architecture: str, tmp_path: Path) -> None:
    model, tokens = tiny_model(architecture), token_row()
    before = reference(tiny_network(architecture), tokens)
    assert save_model(model, tmp_path / "saved") == tmp_path / "saved"
    assert torch.equal(reference(transformers_loads(tmp_path / "saved"), tokens), before)
    again = load_model(ModelSpec(path=str(tmp_path / "saved"), dtype="float32"))
    torch.testing.assert_close(logits_of(again, tokens), before, atol=2e-5, rtol=0)
    for name, parameter in model.network.named_parameters():
        assert torch.equal(parameter, again.network.get_parameter(name)), name


def test_the_folder_holds_tokenizer_template_and_generation_config_and_no_pickle(tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.network.generation_config.temperature = 0.25
    model.network.generation_config.do_sample = True
    save_model(model, tmp_path / "saved")
    names = {f.name for f in (tmp_path / "saved").iterdir()}
    assert names == {
        "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    }  # fmt: skip
    tokenizer, own = AutoTokenizer.from_pretrained(tmp_path / "saved"), tiny_tokenizer()
    turns = [{"role": "user", "content": "2+2=4 é"}]
    assert tokenizer.apply_chat_template(turns, tokenize=False) == own.apply_chat_template(turns, tokenize=False)
    assert tokenizer("2+2=4 é").input_ids == own("2+2=4 é").input_ids
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (own.eos_token_id, own.pad_token_id)
    assert json.loads((tmp_path / "saved" / "generation_config.json").read_text())["temperature"] == 0.25
    assert "burnish" not in (tmp_path / "saved" / "config.json").read_text()


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "phi3", "gemma3"])
def test_the_tokenizer_comes_back_as_it_was_saved_whatever_the_model_type(architecture: str, tmp_path: Path) -> None:
    save_model(tiny_model(architecture), tmp_path / "saved")
    for text in ["2+2=4 é ~", "it's 12  or\n\n 345?", "<|im_start|>user\n"]:
        assert load_tokenizer(str(tmp_path / "saved"))(text).input_ids == tiny_tokenizer()(text).input_ids


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gpt2"])
def test_tied_embeddings_are_stored_once_and_stay_tied(architecture: str, tied: bool, tmp_path: Path) -> None:
    model = tiny_model(architecture, overrides={"tie_word_embeddings": tied})
    before = logits_of(model, token_row())
    save_model(model, tmp_path / "saved")
    with safe_open(tmp_path / "saved" / "model.safetensors", "pt") as stored:
        assert ("lm_head.weight" in stored.keys()) is not tied  # noqa: SIM118 - not a dict
    network = load_model(ModelSpec(path=str(tmp_path / "saved"), dtype="float32")).network
    same = network.get_input_embeddings().weight is network.get_output_embeddings().weight
    assert same is tied
    torch.testing.assert_close(
        reference(transformers_loads(tmp_path / "saved"), token_row()), before, atol=2e-5, rtol=0
    )


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gpt2", "phi3", "qwen3_moe", "qwen3_next"])
@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_loads_in_peft_and_continues_in_us_with_equal_logits(
    architecture: str, rslora: bool, tmp_path: Path
) -> None:
    model, tokens = tiny_adapted(architecture, LoraSpec(rank=4, alpha=6.0, rslora=rslora)), token_row()
    before = logits_of(model, tokens)
    assert (before - reference(tiny_network(architecture), tokens)).abs().max() > 0.05
    save_model(model, tmp_path / "adapter")
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    assert (tmp_path / "adapter" / "chat_template.jinja").is_file()
    assert not (tmp_path / "adapter" / "config.json").exists()
    theirs = PeftModel.from_pretrained(tiny_network(architecture), tmp_path / "adapter")
    torch.testing.assert_close(reference(theirs, tokens), before, atol=2e-5, rtol=0)

    save_model(tiny_model(architecture), tmp_path / "base")
    spec = ModelSpec(path=str(tmp_path / "base"), dtype="float32", adapter=LoraSpec(path=str(tmp_path / "adapter")))
    ours = load_model(spec)
    torch.testing.assert_close(logits_of(ours, tokens), before, atol=2e-5, rtol=0)
    trained = {name for name, p in ours.network.named_parameters() if p.requires_grad}
    assert trained and all("lora_" in name for name in trained)


@pytest.mark.parametrize("architecture", ["llama", "qwen3_moe", "gemma3", "gpt2"])
def test_a_merged_adapter_is_a_whole_model_with_equal_logits(architecture: str, tmp_path: Path) -> None:
    model, tokens = tiny_adapted(architecture, LoraSpec(rank=4)), token_row()
    before = logits_of(model, tokens)
    save_model(model, tmp_path / "merged", merged=True)
    network = transformers_loads(tmp_path / "merged")
    torch.testing.assert_close(reference(network, tokens), before, atol=5e-5, rtol=0)
    assert not [name for name in network.state_dict() if "lora" in name]
    assert torch.equal(logits_of(model, tokens), before), "the live model was changed"


def test_a_bfloat16_base_is_merged_in_float32(tmp_path: Path) -> None:
    """Merging in bfloat16 would round the update away: an update of 1/1000 of a weight is below its resolution."""
    network = attach_adapter(
        tiny_network("llama", dtype=torch.bfloat16), LoraSpec(rank=1, alpha=1.0, targets=["q_proj"])
    )
    for name, parameter in network.named_parameters():
        if "lora_" in name:
            assert parameter.dtype == torch.float32
            parameter.data.fill_(1e-2)
    base = network.get_parameter("base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight").float()
    model = LanguageModel(network, tiny_tokenizer(), compute_dtype=torch.bfloat16)
    save_model(model, tmp_path / "merged", merged=True)
    stored = load_file(tmp_path / "merged" / "model.safetensors")["model.layers.0.self_attn.q_proj.weight"]
    torch.testing.assert_close(stored, base + 1e-4, atol=1e-7, rtol=0)


@pytest.mark.parametrize("stored", [None, torch.bfloat16])
def test_float32_masters_are_saved_in_place_of_the_compute_copy(stored: torch.dtype | None, tmp_path: Path) -> None:
    masters = tiny_network("qwen2")  # tied: the head must follow the embedding's master
    compute = tiny_model("qwen2", dtype=torch.bfloat16)
    state = {name: p.detach() for name, p in masters.named_parameters()}
    save_model(compute, tmp_path / "saved", state=state, dtype=stored)
    loaded = transformers_loads(tmp_path / "saved")
    expected = stored or torch.float32
    assert loaded.dtype == expected
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, state[name].to(expected)), name
    assert loaded.get_parameter("lm_head.weight") is loaded.get_input_embeddings().weight
    assert "lm_head.weight" not in load_file(tmp_path / "saved" / "model.safetensors"), "tied weights are stored once"
    assert compute.network.dtype == torch.bfloat16


def test_a_state_that_does_not_fit_the_network_is_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with pytest.raises(ValueError, match=r"'model.norm.wait', which is no parameter"):
        save_model(model, tmp_path / "saved", state={"model.norm.wait": torch.zeros(32)})
    with pytest.raises(ValueError, match=r"has shape \[31\], not \[32\]"):
        save_model(model, tmp_path / "saved", state={"model.norm.weight": torch.zeros(31)})
    assert not list(tmp_path.iterdir())


def test_saving_replaces_an_older_model_and_leaves_nothing_aside(tmp_path: Path) -> None:
    save_model(tiny_model("llama", seed=1), tmp_path / "saved")
    (tmp_path / "saved" / "model-00001-of-00002.safetensors").write_bytes(b"left from an older save")
    save_model(tiny_model("llama", seed=2), tmp_path / "saved")
    assert [f.name for f in tmp_path.iterdir()] == ["saved"]
    assert not (tmp_path / "saved" / "model-00001-of-00002.safetensors").exists()
    expected = reference(tiny_network("llama", seed=2), token_row())
    assert torch.equal(reference(transformers_loads(tmp_path / "saved"), token_row()), expected)


def test_a_failing_save_leaves_the_older_model_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(tiny_model("llama", seed=1), tmp_path / "saved")
    broken = tiny_model("llama", seed=2)

    def fail(folder: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(broken.tokenizer, "save_pretrained", fail)
    with pytest.raises(RunError, match="disk full"):
        save_model(broken, tmp_path / "saved")
    assert [f.name for f in tmp_path.iterdir()] == ["saved"]
    expected = reference(tiny_network("llama", seed=1), token_row())
    assert torch.equal(reference(transformers_loads(tmp_path / "saved"), token_row()), expected)


def test_a_folder_with_other_files_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files, which saving a model would delete"):
        save_model(tiny_model("llama"), tmp_path)
    with pytest.raises(InputError, match="is a file: give the path of a folder"):
        save_model(tiny_model("llama"), tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_too_little_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda place: type("Usage", (), {"free": 1000})())
    with pytest.raises(RunError, match=r"needs 0.00 GB, and .* has 0.00 GB free"):
        save_model(tiny_model("llama"), tmp_path / "saved")
    assert not list(tmp_path.iterdir())


def test_merging_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'policy' has no adapter to merge"):
        save_model(tiny_model("llama"), tmp_path / "saved", merged=True)


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_export_merges_and_stores_in_the_type_asked_for(dtype: str | None, tmp_path: Path) -> None:
    model, tokens = tiny_adapted("llama", LoraSpec(rank=4)), token_row()
    save_model(tiny_model("llama"), tmp_path / "base")
    save_model(model, tmp_path / "adapter")
    spec = ModelSpec(path=str(tmp_path / "base"), adapter=LoraSpec(path=str(tmp_path / "adapter")))
    network = transformers_loads(export(spec, tmp_path / "out", dtype=dtype))
    assert network.dtype == (torch.bfloat16 if dtype else torch.float32)
    if dtype is None:
        torch.testing.assert_close(reference(network, tokens), logits_of(model, tokens), atol=5e-5, rtol=0)
    whole = transformers_loads(save_model(model, tmp_path / "merged", merged=True))
    for name, parameter in whole.named_parameters():
        assert torch.equal(network.get_parameter(name), parameter.to(network.dtype)), name


def test_a_disk_that_refuses_is_told_in_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from tests.tiny import tiny_model; from burnish.models.saving import save_model; "
        "model = tiny_model('llama'); resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); save_model(model, sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert "RunError" in done.stderr and "is the disk full?" in done.stderr, done.stderr[-2000:]
    assert list(tmp_path.iterdir()) == []
