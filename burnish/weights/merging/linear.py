"""A weighted sum of models, tensor by tensor (model soups: Wortsman et al. 2022, arXiv 2203.05482).

Models are read from their safetensors files one tensor at a time and written in shards, so that memory holds one shard
of the result however large the models are.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from burnish.errors import InputError, RunError
from burnish.models.folders import BESIDE_WEIGHTS, atomic_folder
from burnish.models.precision import as_dtype
from burnish.models.saving import check_space

SHARD_BYTES = 2 << 30
"""Most bytes of one file of the result, but for a tensor that is larger by itself."""

_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class _Stored:
    """A tensor of a model folder: its file, shape and type."""

    file: Path
    shape: tuple[int, ...]
    dtype: str


def merge_linear(
    folders: Sequence[str | Path],
    weights: Sequence[float],
    out: str | Path,
    *,
    dtype: str = "float32",
    shard_bytes: int = SHARD_BYTES,
) -> Path:
    """Write the model whose every tensor is the sum of weight x tensor over `folders`, an ordinary transformers folder.

    Sums are taken in float32, in float64 where a model is stored in it; `dtype` names the type they are stored in.
    Tensors of whole numbers must be equal in all models. Configuration, generation settings and tokenizer are those of
    the first model. Adapters have to be merged in beforehand (`burnish.models.saving.export`).

    Returns `out`. Raises InputError for folders that are no models, of different architectures, tokenizers, tensor
    names or shapes (naming the first tensor that differs), and for weights that are not one finite number a model;
    RunError when the disk is full.
    """
    places = [Path(folder) for folder in folders]
    if len(places) < 2 or len(weights) != len(places) or not all(math.isfinite(w) for w in weights):
        raise InputError(f"merging takes two models or more and one finite weight for each, not {list(weights)}")
    stored, target = as_dtype(dtype), Path(out)
    models = [_tensors(place) for place in places]
    _check_alike(places, models)
    shards = _shards(models[0], stored.itemsize, shard_bytes)
    check_space(target, sum(math.prod(t.shape) for t in models[0].values()) * stored.itemsize)
    try:
        with atomic_folder(target) as aside:
            _copy_beside(places[0], aside, dtype)
            _write(models, weights, shards, aside, stored)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{target}: the merged model could not be written ({error}); is the disk full?") from error
    return target


# ---------------------------------------------------------------- what there is


def _tensors(folder: Path) -> dict[str, _Stored]:
    """The tensors of a model folder by name."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} is not a model: it has no config.json")
    index = folder / _INDEX
    names = sorted(set(_json(index)["weight_map"].values())) if index.is_file() else ["model.safetensors"]
    found: dict[str, _Stored] = {}
    for file in (folder / name for name in names):
        if not file.is_file():
            raise InputError(f"model {folder} has no {file.name}; `burnish export {folder} NEW` writes safetensors")
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a dictionary
                    part = opened.get_slice(name)
                    found[name] = _Stored(file, tuple(part.get_shape()), part.get_dtype())
        except SafetensorError as error:
            raise InputError(f"{file} is damaged ({error})") from error
    return found


def _check_alike(places: Sequence[Path], models: Sequence[Mapping[str, _Stored]]) -> None:
    first, one = places[0], models[0]
    for other, two in zip(places[1:], models[1:], strict=True):
        for key in ("model_type", "architectures"):
            a, b = (_json(place / "config.json").get(key) for place in (first, other))
            if a != b:
                raise InputError(f"{first} and {other} cannot be averaged: {key} {_shown(a)} is not {_shown(b)}")
        for name in sorted(one.keys() | two.keys()):
            if name not in one or name not in two:
                has, lacks = (first, other) if name in one else (other, first)
                raise InputError(f"{first} and {other} cannot be averaged: {has} has a tensor {name}, {lacks} has none")
            if one[name].shape != two[name].shape:
                raise InputError(
                    f"{first} and {other} cannot be averaged: tensor {name} is {list(one[name].shape)} in the one and "
                    f"{list(two[name].shape)} in the other"
                )
        if _vocabulary(first) != _vocabulary(other):
            raise InputError(
                f"{first} and {other} cannot be averaged: their tokenizers give tokens other numbers, so that rows of "
                "the embedding stand for different tokens"
            )


def _vocabulary(folder: Path) -> Any:
    file = folder / "tokenizer.json"
    return _json(file).get("model", {}).get("vocab") if file.is_file() else None


def _json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is damaged ({error})") from error


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


# ---------------------------------------------------------------- writing


def _shards(model: Mapping[str, _Stored], itemsize: int, most: int) -> list[list[str]]:
    """Names of the tensors of each file of the result, in the order of the names."""
    shards: list[list[str]] = [[]]
    size = 0
    for name in sorted(model):
        needed = math.prod(model[name].shape) * itemsize
        if shards[-1] and size + needed > most:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += needed
    return shards


def _write(
    models: Sequence[Mapping[str, _Stored]],
    weights: Sequence[float],
    shards: Sequence[Sequence[str]],
    folder: Path,
    dtype: torch.dtype,
) -> None:
    placed: dict[str, str] = {}
    total = 0
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors" if len(shards) > 1 else "model.safetensors"
        tensors = dict(_merged(models, weights, names, dtype))
        save_file(tensors, folder / file, metadata={"format": "pt"})
        placed |= dict.fromkeys(names, file)
        total += sum(t.numel() * t.element_size() for t in tensors.values())
    if len(shards) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": placed}
        (folder / _INDEX).write_text(json.dumps(index, indent=1) + "\n", "utf-8")


def _merged(
    models: Sequence[Mapping[str, _Stored]], weights: Sequence[float], names: Sequence[str], dtype: torch.dtype
) -> Iterator[tuple[str, Tensor]]:
    with ExitStack() as stack:
        files = sorted({model[name].file for model in models for name in names})
        opened = {file: stack.enter_context(safe_open(file, framework="pt")) for file in files}
        for name in names:
            yield name, _sum(name, [opened[m[name].file].get_tensor(name) for m in models], weights, dtype)


def _sum(name: str, tensors: Sequence[Tensor], weights: Sequence[float], dtype: torch.dtype) -> Tensor:
    if not all(t.is_floating_point() for t in tensors):
        if any(not torch.equal(t, tensors[0]) for t in tensors):
            raise InputError(f"tensor {name} holds whole numbers that differ between the models: it has no average")
        return tensors[0]
    wide = torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32
    total = torch.zeros(tensors[0].shape, dtype=wide)
    for weight, tensor in zip(weights, tensors, strict=True):
        total.add_(tensor.to(wide), alpha=weight)
    return total.to(dtype)


def _copy_beside(first: Path, folder: Path, dtype: str) -> None:
    """What stands beside the weights, with the stored type noted in the configuration."""
    for pattern in BESIDE_WEIGHTS:
        for file in sorted(first.glob(pattern)):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
    config = {key: value for key, value in _json(first / "config.json").items() if key != "torch_dtype"}
    text = json.dumps({**config, "dtype": dtype}, indent=2, sort_keys=True)
    (folder / "config.json").write_text(text + "\n", "utf-8")
