"""GGUF files: unpacked once to equal weights, and refused when damaged or unknown."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf as gguf_writer
import numpy as np
import pytest
import torch

from burnish.errors import InputError
from burnish.models import gguf
from burnish.models.loading import load_model
from burnish.models.spec import ModelSpec
from tests.tiny import logits_of, tiny_network, tiny_tokenizer, token_row

_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_gguf(path: Path, seed: int = 0, quantisation: Any = None, architecture: str = "llama") -> Path:
    """A tiny Llama as a GGUF file, with matrices quantised when a GGUF type is given."""
    network, tokenizer = tiny_network("llama", seed), tiny_tokenizer()
    config: Any = network.config
    writer = gguf_writer.GGUFWriter(str(path), architecture)
    writer.add_context_length(512)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    tokens = [*tokenizer.convert_ids_to_tokens(list(range(len(tokenizer) - 1))), "he"]  # the format wants one merge
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 4 + [1] * (len(tokens) - 4))
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_chat_template(str(tokenizer.chat_template))
    for name, tensor in network.state_dict().items():
        _add(writer, name.removesuffix(".weight"), tensor, config, quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: Any, name: str, tensor: torch.Tensor, config: Any, quantisation: Any) -> None:
    data = tensor.numpy()
    if name in _OUTER:
        target = f"{_OUTER[name]}.weight"
    else:
        _, _, layer, rest = name.split(".", 3)
        target = f"blk.{layer}.{_NAMES[rest]}.weight"
        if rest.endswith(("q_proj", "k_proj")):  # GGUF interleaves the two halves of a rotary head
            heads = config.num_attention_heads if "q_proj" in rest else config.num_key_value_heads
            data = data.reshape(heads, 2, -1, data.shape[-1]).swapaxes(1, 2).reshape(data.shape)
    data = np.ascontiguousarray(data, dtype=np.float32)
    if quantisation is not None and data.ndim == 2 and data.shape[-1] % 32 == 0:
        writer.add_tensor(target, gguf_writer.quantize(data, quantisation), raw_dtype=quantisation)
    else:
        writer.add_tensor(target, data)


def load(path: Path) -> Any:
    return load_model(ModelSpec(path=str(path), dtype="float32"))


def test_a_gguf_file_gives_the_weights_it_holds_with_tokenizer_and_template(tmp_path: Path) -> None:
    model = load(write_gguf(tmp_path / "m.gguf"))
    for name, parameter in tiny_network("llama").named_parameters():
        assert torch.equal(parameter, model.network.get_parameter(name)), name
    assert model.tokenizer.decode(model.tokenizer("2+2=4").input_ids) == "2+2=4"
    text = model.tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert text == "<|im_start|>user\nhi<|im_end|>\n"
    assert model.tokenizer.eos_token_id == 2 and model.network.generation_config.eos_token_id == 2


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_quantised_weights_are_unpacked_and_can_be_trained(kind: str, tmp_path: Path) -> None:
    quantisation = gguf_writer.GGMLQuantizationType[kind]
    model = load(write_gguf(tmp_path / "m.gguf", quantisation=quantisation))
    original = tiny_network("llama").get_parameter("model.layers.0.mlp.up_proj.weight").detach()
    blocks = gguf_writer.quantize(original.numpy(), quantisation)
    expected = torch.from_numpy(gguf_writer.dequantize(blocks, quantisation))
    unpacked = model.network.get_parameter("model.layers.0.mlp.up_proj.weight")
    torch.testing.assert_close(unpacked.detach(), expected, atol=1e-6, rtol=0)
    assert not torch.equal(unpacked, original) and unpacked.requires_grad
    assert not hasattr(model.config, "quantization_config")


def test_the_second_load_reads_the_copy_and_gives_equal_logits(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "m.gguf", quantisation=gguf_writer.GGMLQuantizationType.Q4_1)
    first = logits_of(load(path), token_row())
    (folder,) = [f for f in (cache / "unpacked").iterdir() if f.is_dir()]
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {f.name for f in folder.iterdir()}

    def never(*arguments: Any) -> None:
        raise AssertionError("unpacked again")

    monkeypatch.setattr(gguf, "_unpack", never)
    assert torch.equal(logits_of(load(path), token_row()), first)


def test_another_file_under_the_same_name_is_not_mistaken_for_the_copy(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", seed=0)
    first = logits_of(load(path), token_row())
    write_gguf(path, seed=1)
    assert (logits_of(load(path), token_row()) - first).abs().max() > 0.1


def test_damaged_files_are_named_and_nothing_is_cached(tmp_path: Path, cache: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf").read_bytes()

    def refused(content: bytes, message: str) -> None:
        path = tmp_path / "bad.gguf"
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            load(path)

    refused(b"", "bad.gguf is not a GGUF file: it has 0 bytes")
    refused(b"PK\3\4" + whole[4:], "bad.gguf is not a GGUF file: it does not start with the letters GGUF")
    refused(whole[:4] + struct.pack("<I", 9) + whole[8:], "unsupported GGUF version 9")
    refused(whole[:-1000], rf"bad.gguf is cut short: it has {len(whole) - 1000} of \d+ bytes; fetch it again")
    for length in (40, 300, 900):
        refused(whole[:length], "bad.gguf is damaged or cut short in its header")
    assert not cache.exists()


def test_an_architecture_transformers_does_not_know_is_named(tmp_path: Path, cache: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", architecture="no-such-family")
    with pytest.raises(InputError, match="m.gguf: transformers cannot read the configuration .*'no-such-family'"):
        load(path)
    assert not [f for f in cache.rglob("*") if f.is_dir() and f.name.startswith("m-")]


def test_a_tensor_type_nobody_knows_is_named(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    content = bytearray(path.read_bytes())
    name = b"output_norm.weight"
    at = content.index(name) + len(name) + 4 + 8  # dimensions (one of them), then the type
    content[at : at + 4] = struct.pack("<I", 999)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"unsupported GGUF tensor type 999 \(tensor output_norm.weight\)"):
        load(path)
