"""Talking to a model by hand: samples of a prompt, and conversations that go on without a second prefill."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from burnish.errors import InputError
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.models.saving import export
from burnish.models.spec import DtypeName, LoraSpec, ModelSpec
from burnish.running.assemble import format_of
from burnish.running.config import spec_from_mapping
from burnish.sampling import LocalEngine
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sampling.spec import SamplingSpec
from burnish.traces.templates import Format

Named: TypeAlias = "str | Path | ModelSpec | LanguageModel | Speaker"
"""What may stand for a model: a path as in a recipe, or one that is loaded."""


MOST_SAMPLES = 100_000
"""Samples of a prompt that are drawn at a time; each is held in memory."""


def model_spec(path: str, *, dtype: Any = "auto", template: str = "auto") -> ModelSpec:
    """A spec of what stands at `path`; a folder with an adapter alone stands for its base model with the adapter on.

    Raises InputError for a type there is not, and when the adapter does not say what its base model is.
    """
    spec = spec_from_mapping(ModelSpec, {"path": path, "dtype": dtype, "template": template}, name="model")
    described = Path(path).expanduser() / "adapter_config.json"
    if not described.is_file() or (described.parent / "config.json").exists():
        return spec
    try:
        base = json.loads(described.read_text("utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError) as error:
        raise InputError(f"{described}: not the description of an adapter ({error})") from None
    if not isinstance(base, str) or not base:
        raise InputError(f"{described} does not name the adapter's base model: add base_model_name_or_path to it")
    return spec.model_copy(update={"path": base, "adapter": LoraSpec(path=str(described.parent))})


class Speaker:
    """A model with its format and an engine, loaded once to be asked often. Loads without gradients."""

    def __init__(
        self,
        model: str | Path | ModelSpec | LanguageModel,
        *,
        dtype: DtypeName = "auto",
        template: str = "auto",
        max_rows: int = 64,
    ) -> None:
        if isinstance(model, (str, Path)):
            model = model_spec(str(model), dtype=dtype, template=template)
        if isinstance(model, ModelSpec):
            template = model.template
            model = load_model(model, train=False)
        self.model = model
        self.format: Format = format_of(self.model, template)
        self.engine = LocalEngine(self.model, max_rows=max_rows)

    def params(self, spec: SamplingSpec) -> SamplingParams:
        """Sampling parameters with the model's own stop tokens."""
        return spec.params(self.format.stop_ids)

    def sample(self, prompt: str, completion: Completion) -> Sample:
        """A completion with its text."""
        tokens = completion.tokens.tolist()
        return Sample(
            prompt, self.decode(tokens), tuple(tokens), tuple(completion.logprobs.tolist()), completion.finish
        )

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


def speaker_of(model: Named, *, dtype: DtypeName = "auto", template: str = "auto") -> Speaker:
    """The model that is named, loaded; a speaker as it is. `dtype` and `template` are for a path."""
    return model if isinstance(model, Speaker) else Speaker(model, dtype=dtype, template=template)


def export_model(
    model: str | Path | ModelSpec, out: str | Path, *, merge: bool = False, dtype: str = "float32"
) -> Path:
    """Write a model as an ordinary transformers folder (or, for an adapter without `merge`, a peft folder).

    `model` is a path as in a recipe, a run's final/ too; `dtype` is the stored type. Returns the folder. Raises
    InputError for a model that cannot be loaded, a type there is not, and a folder that holds something else.
    """
    spec = model if isinstance(model, ModelSpec) else model_spec(str(model))
    if merge and spec.adapter is None:
        raise InputError(f"{spec.path} has no adapter to merge: leave out --merge, and it is written whole")
    return export(spec, out, merged=merge, dtype=dtype)


# ---------------------------------------------------------------- samples


@dataclass(frozen=True)
class Sample:
    """One answer of a model."""

    prompt: str
    text: str
    tokens: tuple[int, ...] = field(repr=False)
    """The ids as sampled, the stop token included."""
    logprobs: tuple[float, ...] = field(repr=False)
    """Of each of them, under the distribution that was sampled from."""
    finish: str
    """How it ended: stop, length, or context."""

    def __str__(self) -> str:
        return self.text


def samples(
    model: Named,
    prompts: str | Sequence[str],
    *,
    n: int = 1,
    seed: int = 0,
    raw: bool = False,
    dtype: DtypeName = "auto",
    **sampling: Any,
) -> Iterator[Sample]:
    """As `sample`, one after the other. Raises its errors before the first."""
    params = sampling_spec(sampling)
    if not 1 <= n <= MOST_SAMPLES:
        raise InputError(f"n: given {n}; it takes a whole number >= 1 and <= {MOST_SAMPLES}")
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    speaker = speaker_of(model, dtype=dtype)

    def draw() -> Iterator[Sample]:
        for number, prompt in enumerate(prompts):
            ids = speaker.prompt(prompt, raw=raw)
            drawn = speaker.engine.sample_sync(ids, speaker.params(params), n=n, seed=seed, task=number)
            yield from (speaker.sample(prompt, completion) for completion in drawn)

    return draw()


def sample(model: Named, prompts: str | Sequence[str], **options: Any) -> list[Sample]:
    """Answers to one prompt or several: `n` of each (default 1), those of the first prompt first.

    `model` is a path as in a recipe, a run's final/ too, or a loaded `Speaker`. `raw` continues the text as it stands,
    without the chat template; `seed` (default 0) decides every random number; `dtype` is the compute type. Further
    options are the keys of `sampling` in a recipe: max_tokens, temperature, top_k, top_p, min_p. Raises InputError for
    a model that cannot be loaded, an option that does not exist, and a prompt that fills the context.
    """
    return list(samples(model, prompts, **options))


def sampling_spec(values: dict[str, Any]) -> SamplingSpec:
    """Sampling options as a recipe checks them. Raises InputError."""
    return spec_from_mapping(SamplingSpec, values, name="sampling options")


# ---------------------------------------------------------------- conversations


def chat(
    model: Named, *, system: str | None = None, seed: int = 0, dtype: DtypeName = "auto", **sampling: Any
) -> Conversation:
    """A conversation with a model: `.ask(text)` gives its answer. `system` is a system message.

    The other options are those of `sample`, and it raises InputError as that does.
    """
    params = sampling_spec(sampling)
    speaker = speaker_of(model, dtype=dtype)
    return Conversation(speaker, speaker.params(params), seed=seed, system=system)


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

    def ask(self, text: str) -> Sample:
        """The model's answer to the user's next message. Raises InputError when the context is full."""
        return self.speaker.sample(text, self.say(text))

    def say(self, text: str) -> Completion:
        """As `ask`, in tokens."""
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
