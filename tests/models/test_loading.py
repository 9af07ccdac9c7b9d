"""Loading: folders, adapters, compute types, and what a user is told when it cannot work."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from burnish.errors import InputError
from burnish.models import precision
from burnish.models.loading import load_model, load_tokenizer
from burnish.models.precision import as_dtype, choose_dtype
from burnish.models.saving import save_model
from burnish.models.spec import LoraSpec, ModelSpec
from tests.tiny import logits_of, tiny_model, tiny_network, token_row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved tiny Llama."""
    return save_model(tiny_model("llama"), tmp_path / "model")


def refused(path: Path | str, message: str, **keys: object) -> None:
    with pytest.raises(InputError, match=message):
        load_model(ModelSpec.model_validate({"path": str(path), "dtype": "float32", **keys}))


# -- what loads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("architecture", ["llama", "olmoe"])
def test_each_compute_type_loads_and_computes_in_it(architecture: str, name: str, tmp_path: Path) -> None:
    save_model(tiny_model(architecture), tmp_path / "model")
    model = load_model(ModelSpec.model_validate({"path": str(tmp_path / "model"), "dtype": name}), name="teacher")
    assert model.name == "teacher" and model.version == 0
    assert {p.dtype for p in model.network.parameters()} == {as_dtype(name)} == {model.compute_dtype}
    error = (logits_of(model, token_row()).double() - logits_of(tiny_model(architecture), token_row())).abs().max()
    assert error < {"float32": 1e-5, "float64": 1e-4, "bfloat16": 1.5}[name]


def test_a_plain_string_is_a_path_and_auto_takes_the_measured_type(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fast, expected in ((0.5, torch.bfloat16), (0.9, torch.float32), (7.0, torch.float32)):
        seconds = {torch.float32: 1.0, torch.bfloat16: fast}
        monkeypatch.setattr(precision, "_seconds", lambda dtype, place, seconds=seconds: seconds[dtype])
        choose_dtype.cache_clear()
        assert load_model(str(folder)).compute_dtype == expected
        assert choose_dtype(torch.device("cpu")).reason.startswith(str(expected).removeprefix("torch."))
    choose_dtype.cache_clear()


def test_the_measurement_itself_gives_a_type_and_a_reason() -> None:
    choice = choose_dtype()
    assert choice.dtype in (torch.float32, torch.bfloat16) and "x the speed of float32 here" in choice.reason


def test_a_frozen_model_asks_for_no_gradient(folder: Path) -> None:
    assert not any(p.requires_grad for p in load_model(str(folder), train=False).network.parameters())
    assert all(p.requires_grad for p in load_model(str(folder)).network.parameters())


def test_the_template_is_the_tokenizers_own_or_none_or_a_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text("{{ messages[0]['content'] }}!")
    turns = [{"role": "user", "content": "hi"}]
    assert "<|im_start|>user" in str(load_tokenizer(str(folder)).apply_chat_template(turns, tokenize=False))
    assert load_tokenizer(str(folder), template="plain").chat_template is None
    mine = load_tokenizer(str(folder), template=str(tmp_path / "mine.jinja"))
    assert mine.apply_chat_template(turns, tokenize=False) == "hi!"
    refused(folder, "model.template: no file nowhere.jinja", template="nowhere.jinja")


def test_an_unsavable_generation_config_is_mended_at_load_and_not_found_out_at_the_end(
    folder: Path, tmp_path: Path
) -> None:
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**settings, "temperature": 0.6, "top_p": 0.9}))
    saved = save_model(load_model(str(folder)), tmp_path / "again")
    kept = json.loads((saved / "generation_config.json").read_text())
    assert kept["temperature"] == 0.6 and kept["do_sample"] is True


# -- adapters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "dtype", "expected"),
    [
        ("llama", "float32", torch.float32), ("llama", "bfloat16", torch.float32), ("llama", "float64", torch.float64),
        ("gpt2", "float32", torch.float32), ("gemma2", "float32", torch.float32),
    ],
)  # fmt: skip
def test_a_new_adapter_changes_nothing_yet_and_alone_is_trained(
    architecture: str, dtype: str, expected: torch.dtype, tmp_path: Path
) -> None:
    save_model(tiny_model(architecture), tmp_path / "model")
    spec = ModelSpec.model_validate({"path": str(tmp_path / "model"), "dtype": dtype})
    base = logits_of(load_model(spec), token_row())
    model = load_model(spec.model_copy(update={"adapter": LoraSpec(rank=3)}))
    torch.testing.assert_close(logits_of(model, token_row()), base, atol=0, rtol=0)
    for name, parameter in model.network.named_parameters():
        assert parameter.requires_grad is ("lora_" in name), name
        assert parameter.dtype == (expected if "lora_" in name else as_dtype(dtype)), name
    assert not any("lm_head" in name for name, _ in model.network.named_parameters() if "lora_" in name)


def test_a_new_adapter_is_a_function_of_the_seed_and_leaves_the_global_generator_alone(folder: Path) -> None:
    spec = ModelSpec(path=str(folder), dtype="float32", adapter=LoraSpec(rank=3))

    def drawn(seed: int) -> torch.Tensor:
        network = load_model(spec, seed=seed).network
        return torch.cat([p.detach().flatten() for n, p in network.named_parameters() if "lora_A" in n])

    state = torch.random.get_rng_state()
    first, again, other = drawn(5), drawn(5), drawn(6)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_named_targets_alone_are_adapted(folder: Path) -> None:
    model = load_model(ModelSpec(path=str(folder), adapter=LoraSpec(targets=["q_proj", "mlp.down_proj"])))
    adapted = {n.split(".lora_")[0].rsplit(".", 1)[-1] for n, _ in model.network.named_parameters() if "lora_" in n}
    assert adapted == {"q_proj", "down_proj"}


def test_a_target_that_matches_nothing_is_refused_even_beside_one_that_does(folder: Path) -> None:
    message = (
        "model.adapter.targets: 'query' matches no linear layer of this LlamaForCausalLM; it has down_proj, .*q_proj"
    )
    refused(folder, message, adapter={"targets": ["q_proj", "query"]})


def test_adapter_dropout_is_refused_since_it_would_do_nothing(folder: Path) -> None:
    refused(folder, "model.adapter.dropout: dropout is always off", adapter={"dropout": 0.1})


def test_a_saved_adapter_that_cannot_be_continued_is_refused(folder: Path, tmp_path: Path) -> None:
    refused(folder, "nowhere does not exist", adapter={"path": str(tmp_path / "nowhere")})
    refused(folder, "has no adapter_config.json, so it is not an adapter", adapter={"path": str(folder)})
    model = load_model(ModelSpec(path=str(folder), dtype="float32", adapter=LoraSpec(rank=2)))
    adapter = save_model(model, tmp_path / "adapter")
    with pytest.raises(ValidationError, match="rank: read from the saved adapter"):
        LoraSpec(path=str(adapter), rank=2)

    other = save_model(tiny_model("llama", overrides={"hidden_size": 48, "head_dim": 8}), tmp_path / "wider")
    refused(other, "adapter does not fit this model .*size mismatch", adapter={"path": str(adapter)})
    gpt2 = save_model(tiny_model("gpt2"), tmp_path / "gpt2")
    refused(gpt2, "adapter does not fit this model .*not found in the base model", adapter={"path": str(adapter)})
    longer = save_model(tiny_model("llama", overrides={"num_hidden_layers": 3}), tmp_path / "longer")
    named = load_model(ModelSpec(path=str(folder), adapter=LoraSpec(targets=["q_proj"])))
    short = save_model(named, tmp_path / "short")
    refused(longer, "was made for another model: its weights have other names", adapter={"path": str(short)})

    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**settings, "peft_type": "IA3"}))
    refused(folder, "is a IA3 adapter; only LORA", adapter={"path": str(adapter)})
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    refused(folder, r"has no adapter_model.safetensors \(pickled .bin", adapter={"path": str(adapter)})


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/model", "~/nowhere-at-all", "a/b/c", "nowhere/model.gguf"])
def test_a_missing_path_is_named(path: str) -> None:
    refused(path, f"model path {path} does not exist")


def test_a_hub_id_without_network_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    refused("someone/some-model", "there is no such folder here, and the hub could not be reached")


def test_a_folder_that_is_not_a_model_is_named(tmp_path: Path) -> None:
    refused(tmp_path, "is not a model: it has no config.json")
    (tmp_path / "config.json").write_text("{not json")
    (tmp_path / "model.safetensors").write_bytes(b"")
    refused(tmp_path, "transformers cannot load its configuration .*not a valid JSON")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-family"}))
    refused(tmp_path, "transformers cannot load its configuration .*no-such-family")
    refused(tmp_path / "model.safetensors", "is a file of an unknown kind")


def test_an_adapter_folder_as_the_model_says_where_it_belongs(folder: Path, tmp_path: Path) -> None:
    adapter = save_model(load_model(ModelSpec(path=str(folder), adapter=LoraSpec())), tmp_path / "adapter")
    refused(adapter, "holds an adapter, not a whole model: .*as model.adapter.path")


def test_pickled_weights_are_refused_with_the_way_to_convert_them(folder: Path, tmp_path: Path) -> None:
    how = r"pickled weights are refused.*save_pretrained\(.* writes safetensors"
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "has only pytorch_model.bin: " + how)
    for name in ("weights.bin", "weights.pt", "weights.pth", "weights.ckpt"):
        (tmp_path / name).write_bytes(b"")
        refused(tmp_path / name, how)
    refused("nowhere.bin", how)


def test_a_folder_without_weights_or_with_half_of_them_is_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, weights, metadata={"format": "pt"})
    refused(folder, "is incomplete: 1 weights are missing, the first model.layers.1.mlp.up_proj.weight")
    weights.unlink()
    refused(folder, "has no weights: expected model.safetensors")


def test_damaged_weights_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(folder, "model: transformers cannot load its weights")
    weights.write_bytes(struct.pack("<Q", 2) + b"{}")
    refused(folder, "is incomplete|cannot load its weights")


def test_weights_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    save_model(tiny_model("llama", overrides={"intermediate_size": 40}), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", folder)
    refused(folder, "transformers cannot load its weights")


def test_a_quantised_checkpoint_is_refused(folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_text())
    quantised = {"quant_method": "gptq", "bits": 4}
    (folder / "config.json").write_text(json.dumps({**settings, "quantization_config": quantised}))
    refused(folder, "is stored quantised, so its weights cannot be trained")


def test_remote_code_is_never_run(folder: Path, tmp_path: Path) -> None:
    settings = json.loads((folder / "config.json").read_text())
    ran = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nclass C: pass\n")
    auto = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.C"}
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": "evil", "auto_map": auto}))
    refused(folder, "transformers cannot load its configuration")
    assert not ran.exists()


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    tiny_network("llama").save_pretrained(tmp_path / "bare")
    refused(tmp_path / "bare", "transformers cannot load its tokenizer")


def test_unknown_types_and_devices_are_refused(folder: Path) -> None:
    with pytest.raises(ValidationError, match="'auto', 'float32', 'bfloat16' or 'float64'"):
        ModelSpec.model_validate({"path": str(folder), "dtype": "fp32"})
    with pytest.raises(InputError, match="unknown dtype 'fp32': choose one of auto, float32, bfloat16, float64"):
        as_dtype("fp32")
    refused(folder, "unknown device 'gpu'", device="gpu")
    refused(folder, r"device 'cuda:9' is not there: torch sees \d CUDA devices", device="cuda:9")


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError, match="trust_remote_code"):
        ModelSpec.model_validate({"path": "x", "trust_remote_code": True})
    with pytest.raises(ValidationError, match="targets is an empty list"):
        LoraSpec(targets=[])
