"""Talking to a model by hand: samples of a prompt, and conversations that go on without a second prefill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.models.spec import LoraSpec, ModelSpec
from burnish.running.assemble import format_of
from burnish.sampling import LocalEngine
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sampling.spec import SamplingSpec
from burnish.traces.templates import Format


def model_spec(path: str, *, dtype: Any = "auto", template: str = "auto") -> ModelSpec:
    """A spec of what stands at `path`; a folder with an adapter alone stands for its base model with the adapter on.

    Raises InputError when the adapter does not say what its base model is.
    """
    described = Path(path).expanduser() / "adapter_config.json"
    if not described.is_file() or (described.parent / "config.json").exists():
        return ModelSpec(path=path, dtype=dtype, template=template)
    try:
        base = json.loads(described.read_text("utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError) as error:
        raise InputError(f"{described}: not the description of an adapter ({error})") from None
    if not base:
        raise InputError(f"{described} does not name the adapter's base model: add base_model_name_or_path to it")
    return ModelSpec(path=base, dtype=dtype, template=template, adapter=LoraSpec(path=str(described.parent)))


class Speaker:
    """A model with its format and an engine. Loads without gradients."""

    def __init__(self, model: LanguageModel | ModelSpec, *, max_rows: int = 64) -> None:
        template = model.template if isinstance(model, ModelSpec) else "auto"
        self.model = load_model(model, train=False) if isinstance(model, ModelSpec) else model
        self.format: Format = format_of(self.model, template)
        self.engine = LocalEngine(self.model, max_rows=max_rows)

    def params(self, spec: SamplingSpec) -> SamplingParams:
        """Sampling parameters with the model's own stop tokens."""
        return spec.params(self.format.stop_ids)

    def prompt(self, text: str, *, raw: bool = False, system: str | None = None) -> list[int]:
        """Ids of a user's message in the chat format, or of a text as it stands after what the tokenizer puts first."""
        if raw:
            return [int(i) for i in self.model.tokenizer(text)["input_ids"]]
        messages = [{"role": "system", "content": system}] if system else []
        return self.format.prompt([*messages, {"role": "user", "content": text}]).tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of what was sampled, without the stop token and special tokens."""
        ids = list(tokens)
        while ids and ids[-1] in self.format.stop_ids:
            ids.pop()
        return self.model.tokenizer.decode(ids, skip_special_tokens=True)


@dataclass
class Conversation:
    """Turns of a user and a model. The model's own tokens stay as sampled; only new ones are computed (promise E6)."""

    speaker: Speaker
    params: SamplingParams
    seed: int = 0
    system: str | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    _session: Any = None
    _turns: int = 0

    def say(self, text: str) -> Completion:
        """The model's answer to the user's next message. Raises InputError when the context is full."""
        new = {"role": "user", "content": text}
        engine, form = self.speaker.engine, self.speaker.format
        coordinates = {"seed": self.seed, "task": self._turns}
        if not self.messages:
            messages = [{"role": "system", "content": self.system}, new] if self.system else [new]
            prompt = form.prompt(messages).tokens
            [completion] = engine.sample_sync(prompt, self.params, **coordinates)
        else:
            messages = [*self.messages, new]
            extension = form.extend(self.messages, self.path, [new])
            prompt = [*self.path[: extension.keep], *extension.added.tokens]
            if extension.new_segment or self._session is None:
                [completion] = engine.sample_sync(prompt, self.params, **coordinates)
            else:
                [completion] = engine.extend_sync(self._session, extension.added.tokens, self.params, **coordinates)
        if self._session is not None:
            engine.release(self._session)
        sampled = completion.tokens.tolist()
        self.messages = [*messages, dict(form.assistant_message(sampled))]
        self.path, self._session = [*prompt, *sampled], completion.session
        self._turns += 1
        return completion
