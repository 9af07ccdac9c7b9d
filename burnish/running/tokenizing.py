"""A model's format and the length of its context, without its weights."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, GenerationConfig

from burnish.models.language_model import context_limit
from burnish.models.loading import load_tokenizer, resolve
from burnish.running.talk import model_spec
from burnish.traces.templates import Format, chat_format


def format_and_context(model: str, template: str = "auto") -> tuple[Format, int | None]:
    """The format that a run with this model would have, and the most tokens of a path (None: no limit is known).

    `model` is a path as in a recipe, or an adapter's folder. Raises InputError for a path that is no model, and for a
    tokenizer without a template where one is needed.
    """
    path = model_spec(model, template=template).path
    tokenizer: Any = load_tokenizer(path, template=template)
    source = resolve(path)
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    try:
        ends = GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # a model need not have one
        ends = None
    stop_ids = [ends] if isinstance(ends, int) else list(ends or ())
    form = chat_format(tokenizer, "plain" if template == "plain" else "auto", stop_ids=stop_ids)
    return form, context_limit(config.get_text_config())
