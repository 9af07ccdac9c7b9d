"""The weighted sum of models against an independent calculation, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish import InputError
from burnish.weights.merging.linear import merge_linear
from tests.tiny import tiny_network, tiny_tokenizer


def model(folder: Path, architecture: str = "qwen2", seed: int = 0, **options: Any) -> Path:
    tiny_network(architecture, seed, **options).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def stored(folder: Path) -> dict[str, np.ndarray]:
    return {name: array for file in sorted(folder.glob("*.safetensors")) for name, array in load_file(file).items()}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    return [model(folder / str(seed), seed=seed) for seed in range(3)]


def test_every_tensor_is_the_weighted_sum_that_numpy_computes(models: list[Path], tmp_path: Path) -> None:
    weights = [0.5, 0.75, -0.25]
    out = merge_linear(models, weights, tmp_path / "out")
    merged, parts = stored(out), [stored(folder) for folder in models]
    assert merged.keys() == parts[0].keys()
    for name, array in merged.items():
        expected = sum(w * part[name].astype(np.float64) for w, part in zip(weights, parts, strict=True))
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, expected, rtol=0, atol=1e-6)


def test_the_result_is_an_ordinary_model_that_computes_with_those_weights(models: list[Path], tmp_path: Path) -> None:
    out = merge_linear(models[:2], [0.5, 0.5], tmp_path / "out", dtype="float64")
    loaded = AutoModelForCausalLM.from_pretrained(out, dtype="auto")
    assert loaded.dtype == torch.float64
    assert AutoTokenizer.from_pretrained(out).chat_template
    one, two = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in models[:2])
    assert all(torch.allclose(t.float(), (one[n] + two[n]) / 2, atol=1e-6) for n, t in loaded.state_dict().items())


def test_sums_of_bfloat16_models_are_taken_in_float32(tmp_path: Path) -> None:
    folders = [model(tmp_path / str(seed), seed=seed, dtype=torch.bfloat16) for seed in range(2)]
    out = merge_linear(folders, [0.3, 0.7], tmp_path / "out")
    for name in ("model.norm.weight", "model.layers.0.self_attn.q_proj.bias"):
        parts = []
        for folder in folders:
            with safe_open(folder / "model.safetensors", framework="pt") as file:
                parts.append(file.get_tensor(name).float().numpy().astype(np.float64))
        np.testing.assert_allclose(stored(out)[name], 0.3 * parts[0] + 0.7 * parts[1], rtol=0, atol=1e-6)


def test_a_result_in_several_files_is_the_same_model(models: list[Path], tmp_path: Path) -> None:
    whole = stored(merge_linear(models, [0.2, 0.3, 0.5], tmp_path / "whole"))
    parted = merge_linear(models, [0.2, 0.3, 0.5], tmp_path / "parted", shard_bytes=10_000)
    assert len(list(parted.glob("model-*.safetensors"))) > 3
    assert max(f.stat().st_size for f in parted.glob("model-*.safetensors")) < 20_000
    assert all(np.array_equal(array, whole[name]) for name, array in stored(parted).items())
    state = AutoModelForCausalLM.from_pretrained(parted).state_dict()
    assert all(np.array_equal(state[name].numpy(), array) for name, array in whole.items())
    again = merge_linear([parted, parted], [0.5, 0.5], tmp_path / "again")  # files of several parts are read, too
    assert all(np.allclose(array, whole[name], atol=1e-6) for name, array in stored(again).items())


def test_models_that_do_not_fit_are_refused_by_the_first_tensor(models: list[Path], tmp_path: Path) -> None:
    other = model(tmp_path / "llama", "llama")
    with pytest.raises(InputError, match="model_type qwen2 is not llama"):
        merge_linear([models[0], other], [0.5, 0.5], tmp_path / "out")
    wider = model(tmp_path / "wider", overrides={"intermediate_size": 64})
    with pytest.raises(InputError, match=r"tensor model.layers.0.mlp.down_proj.weight is \[32, 48\] .* \[32, 64\]"):
        merge_linear([models[0], wider], [0.5, 0.5], tmp_path / "out")
    deeper = model(tmp_path / "deeper", overrides={"num_hidden_layers": 3})
    with pytest.raises(InputError, match=r"deeper has a tensor model.layers.2.input_layernorm.weight"):
        merge_linear([models[0], deeper], [0.5, 0.5], tmp_path / "out")
    renamed = model(tmp_path / "renamed")
    tokenizer = json.loads((renamed / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (renamed / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match="tokenizers give tokens other numbers"):
        merge_linear([models[0], renamed], [0.5, 0.5], tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty is not a model: it has no config.json"):
        merge_linear([models[0], tmp_path / "empty"], [0.5, 0.5], tmp_path / "out")
    for weights in ([1.0], [0.5, float("nan")]):
        with pytest.raises(InputError, match="one finite weight for each"):
            merge_linear(models[:2], weights, tmp_path / "out")
    assert not (tmp_path / "out").exists()
