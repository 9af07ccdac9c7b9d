"""How formats make a prompt of a row."""

from __future__ import annotations

from collections.abc import Callable

from burnish.tasks.answers import Message
from burnish.tasks.faults import RowError
from burnish.tasks.formats.reader import Reader, fill

Ask = Callable[[Reader], tuple[Message, ...] | str]
"""Makes the prompt of a row."""

ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:\n"
)
ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"
)
"""The prompts of Stanford Alpaca (Taori et al. 2023), for models without a chat template (`style: text`)."""


def plain(reader: Reader) -> tuple[Message, ...] | str:
    """The column `prompt` (or what data.prompt names), or what data.template makes of columns."""
    if reader.spec.template is None:
        return reader.asked()
    text = fill(reader.spec.template, reader.row)
    if not text.strip():
        raise RowError("empty", "the prompt that data.template makes of this row is empty")
    return text


def instruction(reader: Reader) -> tuple[Message, ...] | str:
    """Alpaca: the instruction and, where it is not empty, the input, with earlier turns before them.

    As a chat they are joined by a newline, as LLaMA-Factory does; as text they are put into Alpaca's own prompt.
    """
    asked = reader.text("instruction", filled="remove the row or write its instruction")
    given = reader.optional("input")
    history = _history(reader)
    if reader.chat:
        last = {"role": "user", "content": asked if given is None else f"{asked}\n{given}"}
        return (*history, last)
    if history:
        raise RowError("type", f"{reader.column('history')!r} holds earlier turns, which need `style: chat`")
    return ALPACA.format(instruction=asked) if given is None else ALPACA_WITH_INPUT.format(
        instruction=asked, input=given
    )  # fmt: skip


def _history(reader: Reader) -> tuple[Message, ...]:
    """Earlier turns: a list of [question, answer]."""
    if not reader.has("history"):
        return ()
    turns = reader.value("history")
    right = isinstance(turns, list) and all(
        isinstance(turn, list) and len(turn) == 2 and all(isinstance(text, str) for text in turn) for turn in turns
    )
    if not right:
        raise RowError("type", f"{reader.column('history')!r} must be a list of pairs [question, answer] of texts")
    roles = ("user", "assistant")
    return tuple({"role": role, "content": text} for turn in turns for role, text in zip(roles, turn, strict=True))


def of(*names: str, between: str = "\n\n") -> Ask:
    """A prompt that is the texts of some columns, with `between` between them."""

    def ask(reader: Reader) -> tuple[Message, ...] | str:
        return between.join(reader.text(name, filled="remove the row or write it") for name in names)

    return ask
