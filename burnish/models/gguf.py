"""GGUF files: checked before transformers reads them, and unpacked once into an ordinary model folder.

Training needs plain weights, so quantised blocks are unpacked to float32. That takes a good part of a minute even for
a small model (the vocabulary is read value by value), hence the copy in the cache, found again by the file's content.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

from burnish.errors import InputError
from burnish.models.folders import atomic_folder, cache_directory, exclusive, is_model_folder

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# formats of the scalar value types of the GGUF metadata, by code
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def model_folder_of(path: Path) -> Path:
    """The unpacked model folder (float32 safetensors, tokenizer, configuration) of a GGUF file.

    It is made in the cache at first use, under the digest of the file's content. Raises InputError when the file is
    not a whole GGUF file or holds an architecture or a tensor type that transformers cannot read.
    """
    architecture = check(path)
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    folder = cache_directory() / "unpacked" / f"{path.stem}-{digest[:16]}"
    if not is_model_folder(folder):
        with exclusive(folder.parent / f".{folder.name}.lock"):
            if not is_model_folder(folder):  # another process may have made it meanwhile
                print(f"unpacking {path.name} to plain weights, once (about a minute)", file=sys.stderr, flush=True)
                _unpack(path, architecture, folder)
    return folder


def check(path: Path) -> str:
    """The architecture a GGUF file names. Raises InputError when the file is damaged, cut short or not GGUF."""
    size = path.stat().st_size
    if size < 24:
        raise InputError(f"{path} is not a GGUF file: it has {size} bytes")
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != _MAGIC:
            raise InputError(f"{path} is not a GGUF file: it does not start with the letters GGUF")
        try:
            architecture, end = _walk(data)
        except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
            raise InputError(f"{path} is damaged or cut short in its header: fetch it again") from error
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error
    if size < end:
        raise InputError(f"{path} is cut short: it has {size} of {end} bytes; fetch it again")
    return architecture


class _Cursor:
    """A place in the file that moves as values are read."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 4

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self) -> str:
        length = self.number("Q")
        raw = self.data[self.at : self.at + length]
        if len(raw) != length:
            raise IndexError("string runs over the end")
        self.at += length
        return raw.decode("utf-8")

    def value(self, kind: int) -> Any:
        """A metadata value; arrays are passed over and give None."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            if kind not in _SCALARS:
                raise ValueError(f"unsupported GGUF metadata type {kind}")
            return self.number(_SCALARS[kind])
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            self.at += count * struct.calcsize("<" + _SCALARS[inner])
        else:
            for _ in range(count):
                self.value(inner)
        return None


def _walk(data: mmap.mmap) -> tuple[str, int]:
    """The architecture and the size in bytes that the header promises."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    cursor = _Cursor(data)
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise ValueError(f"unsupported GGUF version {version} (versions 2 and 3 are read)")
    tensors, pairs = cursor.number("Q"), cursor.number("Q")
    facts: dict[str, Any] = {}
    for _ in range(pairs):
        key = cursor.text()
        facts[key] = cursor.value(cursor.number("I"))
    if not isinstance(facts.get("general.architecture"), str):
        raise ValueError("the GGUF file names no architecture (general.architecture), so it is not a model")
    needed = 0
    for _ in range(tensors):
        name = cursor.text()
        elements = 1
        for _ in range(cursor.number("I")):
            elements *= cursor.number("Q")
        kind, offset = cursor.number("I"), cursor.number("Q")
        known = {t.value for t in GGMLQuantizationType}
        if kind not in known:
            raise ValueError(f"unsupported GGUF tensor type {kind} (tensor {name})")
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        needed = max(needed, offset + elements // block * block_bytes)
    alignment = int(facts.get("general.alignment") or 32)
    return facts["general.architecture"], -(-cursor.at // alignment) * alignment + needed


def _unpack(path: Path, architecture: str, folder: Path) -> None:
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}

    def read(what: str, load: Callable[[], Any]) -> Any:
        try:
            return load()
        except (ValueError, NotImplementedError, KeyError, AttributeError, RuntimeError) as error:
            # transformers reports what it does not know in all of these ways
            raise InputError(
                f"{path}: transformers cannot read the {what} of a GGUF file of architecture {architecture!r} "
                f"({error}); convert it to safetensors, or take the original model"
            ) from error

    config = read("configuration", lambda: AutoConfig.from_pretrained(**where))
    tokenizer = read("tokenizer", lambda: AutoTokenizer.from_pretrained(**where))
    plain = GgufConfig(dequantize=True)
    network = read(
        "weights",
        lambda: AutoModelForCausalLM.from_pretrained(
            **where, config=config, dtype=torch.float32, quantization_config=plain
        ),
    )
    # the weights are plain now, and a quantised model would be neither saved nor trained
    network.hf_quantizer = None
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
    with atomic_folder(folder) as aside:
        network.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
