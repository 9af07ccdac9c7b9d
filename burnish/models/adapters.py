"""Low-rank adapters through peft: a new one, or one continued from a saved folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers.pytorch_utils import Conv1D

from burnish.errors import InputError
from burnish.models.quiet import quietly
from burnish.models.spec import LoraSpec

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@quietly()
def attach_adapter(network: Any, spec: LoraSpec, *, train: bool = True, seed: int = 0) -> PeftModel:
    """Freeze a transformers model and put a low-rank adapter on it, new (drawn from `seed`) or continued.

    Adapter weights are float32 over a float32 or bfloat16 base and float64 over a float64 base. Raises InputError
    when a target names no linear layer, or when the saved adapter is missing, pickled or made for another model.
    """
    if spec.dropout > 0:
        raise InputError("model.adapter.dropout: dropout is always off in Burnish (promise E1); remove the key")
    adapted = _saved(network, Path(spec.path), train) if spec.path is not None else _new(network, spec, train, seed)
    wide = torch.float64 if network.dtype == torch.float64 else torch.float32
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(wide)
    return adapted


def _new(network: Any, spec: LoraSpec, train: bool, seed: int) -> PeftModel:
    if isinstance(spec.targets, list):
        _check_targets(network, spec.targets)
    config = LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,  # pyright: ignore[reportArgumentType]  # peft divides by it, so a float serves
        lora_dropout=0.0,
        target_modules=spec.targets,
        use_rslora=spec.rslora,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in network.modules()),
        task_type="CAUSAL_LM",
        inference_mode=not train,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            adapted = get_peft_model(network, config)
        except ValueError as error:
            raise InputError(f"model.adapter.targets: {error}") from error
    assert isinstance(adapted, PeftModel)
    return adapted


def _check_targets(network: Any, targets: list[str]) -> None:
    """Every target must name at least one linear layer: peft itself is content when any one of them does."""
    linear = [name for name, module in network.named_modules() if isinstance(module, (nn.Linear, Conv1D))]
    endings = sorted({name.rsplit(".", 1)[-1] for name in linear})
    for target in targets:
        if not any(name == target or name.endswith("." + target) for name in linear):
            raise InputError(
                f"model.adapter.targets: {target!r} matches no linear layer of this {type(network).__name__}; "
                f'it has {", ".join(endings)}; or write "all-linear"'
            )


def _saved(network: Any, path: Path, train: bool) -> PeftModel:
    if not (path / CONFIG).is_file():
        kind = f"has no {CONFIG}, so it is not an adapter that peft saved" if path.exists() else "does not exist"
        raise InputError(f"model.adapter.path: {path} {kind}")
    if not (path / WEIGHTS).is_file():
        raise InputError(
            f"model.adapter.path: {path} has no {WEIGHTS} (pickled .bin weights are refused, since loading them can "
            "run code); load it with peft where you trust it and save it again"
        )
    try:
        kind = json.loads((path / CONFIG).read_text("utf-8")).get("peft_type")
        with safe_open(path / WEIGHTS, framework="pt") as stored:
            stored_names = set(stored.keys())
    except (json.JSONDecodeError, SafetensorError) as error:
        raise InputError(f"model.adapter.path: {path} is damaged ({error})") from error
    if kind != "LORA":
        raise InputError(f"model.adapter.path: {path} is a {kind} adapter; only LORA adapters are supported")
    try:
        adapted = PeftModel.from_pretrained(network, path, is_trainable=train)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"model.adapter.path: {path} does not fit this model ({_first_line(error)})") from error
    if stored_names != set(get_peft_model_state_dict(adapted, save_embedding_layers=False)):
        raise InputError(f"model.adapter.path: {path} was made for another model: its weights have other names")
    return adapted


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])
