"""The tokenizer's own chat template, called the official way: the one place where text becomes tokens.

The tokenizer is handed in as an object (transformers' PreTrainedTokenizerBase); nothing here imports transformers,
which would import torch.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from burnish.errors import InputError
from burnish.traces.templates.forms import Forms

Message = Mapping[str, Any]
"""A chat message as transformers takes it: role, content, and for some tool_calls, reasoning_content, name, ..."""
Tool = Mapping[str, Any]
"""A tool as JSON schema, the form that `apply_chat_template(tools=...)` takes."""

_CLOCK = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")


class Tokenizer(Protocol):
    """What is used of a transformers tokenizer."""

    chat_template: Any
    eos_token_id: int | None
    is_fast: bool
    added_tokens_decoder: dict[int, Any]

    def __call__(self, text: str, **options: Any) -> Any: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...
    def get_chat_template(self, chat_template: Any = None, tools: Any = None) -> Any: ...
    def decode(self, token_ids: Any, **options: Any) -> Any: ...
    def convert_ids_to_tokens(self, ids: Any) -> Any: ...


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def common_suffix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many trailing tokens two sequences share."""
    return common_prefix(a[::-1], b[::-1])


class OfficialTemplate:
    """Renders messages with one template, one set of template variables and one fixed clock.

    The clock is fixed when the template is loaded, so that a run that lasts past midnight, or is resumed on another
    day, keeps rendering the same tokens. `template=None` means the tokenizer's own.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: str | None = None,
        variables: Mapping[str, Any] | None = None,
        today: datetime.datetime | None = None,
        forms: Forms | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.variables = dict(variables or {})
        self.forms = forms or Forms()
        self.today = today or datetime.datetime.now()
        self.special_ids = frozenset(
            index for index, token in tokenizer.added_tokens_decoder.items() if getattr(token, "special", False)
        )

    def text(self, messages: Iterable[Message], tools: Iterable[Tool] | None = None, *, prompt: bool = False) -> str:
        """The rendered text; `prompt` adds the opening of the assistant's turn. Raises InputError when refused."""
        return self._call(messages, tools, prompt, tokenize=False)

    def ids(
        self, messages: Iterable[Message], tools: Iterable[Tool] | None = None, *, prompt: bool = False
    ) -> list[int]:
        """The rendered tokens, exactly `apply_chat_template(tokenize=True)`. Raises InputError when refused."""
        return list(self._call(messages, tools, prompt, tokenize=True))

    def encode(self, text: str) -> list[int]:
        """Tokens of text that continues a rendering: no special tokens are put around it."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]] | None:
        """Tokens of a whole rendering and the characters each covers; None when the tokenizer cannot tell."""
        if not self.tokenizer.is_fast:
            return None
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(encoded["input_ids"]), [tuple(span) for span in encoded["offset_mapping"]]

    def _call(self, messages: Iterable[Message], tools: Iterable[Tool] | None, prompt: bool, tokenize: bool) -> Any:
        from jinja2.exceptions import TemplateError  # transformers needs it for templates; not imported at start

        tools = None if tools is None else [dict(tool) for tool in tools]
        listed = [self.forms.apply(message) for message in messages]
        try:
            return self.tokenizer.apply_chat_template(
                listed,
                tools=tools,
                chat_template=self._source(tools),
                add_generation_prompt=prompt,
                tokenize=tokenize,
                return_dict=False,
                **self.variables,
            )
        # A template is a program: it may fail in any of these ways on messages that it was not written for.
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            roles = ", ".join(str(message.get("role")) for message in listed)
            raise InputError(
                f"the chat template refuses these messages (roles: {roles}): {error}; change the messages or give "
                "another template (template: path/to/template.jinja)"
            ) from error

    def _source(self, tools: list[dict[str, Any]] | None) -> str:
        """The template's text with the date written in. transformers lets no other clock into a template."""
        source = str(self.tokenizer.get_chat_template(self.template, tools))
        return _CLOCK.sub(lambda call: json.dumps(self.today.strftime(call[2]), ensure_ascii=False), source)
