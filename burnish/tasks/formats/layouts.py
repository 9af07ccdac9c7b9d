"""The formats: the columns by which each is known, and how it reads a row. A new one is an entry of the table.

Sources: TRL's dataset formats, LLaMA-Factory's data/README.md (Alpaca, ShareGPT), Axolotl's docs/dataset-formats and
docs/rlhf.qmd (the name of its dataset type stands in `also`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from burnish.tasks.answers import Message
from burnish.tasks.faults import RowError
from burnish.tasks.formats import preferences, prompts
from burnish.tasks.formats.conversations import conversation, in_share_form
from burnish.tasks.formats.prompts import Ask
from burnish.tasks.formats.reader import Example, Reader, Row, Want
from burnish.tasks.messages import checked_messages, split_conversation, trained_turns

Read = Callable[[Reader], Example]


@dataclass(frozen=True)
class Layout:
    """One format. `needs` are the columns by which it is known, `may` those it also reads."""

    name: str
    holds: Want
    """The most that it can be read for; every format can be read for its prompts."""
    needs: tuple[str, ...]
    """`a|b` is either of two columns."""
    read: Read
    may: tuple[str, ...] = ()
    also: str = ""
    """Where it comes from."""
    loose: bool = False
    """Known by names that mean other things as well: taken only where no other format fits."""
    test: Callable[[Row], bool] = lambda row: True
    """What must hold of the values besides."""

    def fits(self, reader: Reader) -> bool:
        """Whether a row has what the format needs."""
        if not all(any(reader.has(name) for name in need.split("|")) for need in self.needs):
            return False
        return self.test({name: reader.row.get(reader.column(name)) for name in self.columns if reader.has(name)})

    def reads(self, reader: Reader) -> set[str]:
        """The columns of a row, under its own names, that the format would read."""
        return {reader.column(name) for name in self.columns if reader.has(name)}

    @property
    def columns(self) -> set[str]:
        """Every column that it may read, but for the answer, which `data.answer` names."""
        return {name for need in (*self.needs, *self.may) for name in need.split("|")}


# ---------------------------------------------------------------- readers of rows


def _completion(ask: Ask, name: str, *, system: str = "system") -> Read:
    """A prompt, and what to imitate in a column."""

    def read(reader: Reader) -> Example:
        example = _asked(reader, ask(reader), system)
        if reader.want == "demonstrations":
            example.demonstration = reader.shown(name)
        return example

    return read


def _conversation(column: str, other: str = "") -> Read:
    """A conversation, whose assistant's turns are what to imitate."""

    def read(reader: Reader) -> Example:
        name = column if reader.has(column) or not other else other
        messages = _messages(reader, name)
        if reader.want == "prompts":
            return _asked(reader, messages)
        asked, shown = split_conversation(messages, reader.column(name))
        example = _asked(reader, asked)
        example.demonstration = trained_turns(shown, reader.column(name))
        return example

    return read


def _messages(reader: Reader, name: str) -> tuple[Message, ...]:
    value = reader.value(name)
    read = checked_messages if name == "messages" and not in_share_form(value) else conversation
    return read(value, reader.column(name))


def _asked(reader: Reader, prompt: tuple[Message, ...] | str, system: str = "system") -> Example:
    return Example(prompt, system=reader.optional(system), tools=reader.tools())


def _preference(ask: Ask | None, names: tuple[str, str] = ("chosen", "rejected")) -> Read:
    """Two answers, with the prompt beside them or within them."""

    def read(reader: Reader) -> Example:
        prompt = None if ask is None else ask(reader)
        prompt, found = preferences.compared(reader, prompt, names)
        example = _asked(reader, prompt)
        example.preference = found if reader.want == "preferences" else None
        return example

    return read


def _implicit_or_explicit(reader: Reader) -> Example:
    given = reader.has("prompt") or reader.spec.template is not None
    return _preference(prompts.plain if given else None)(reader)


def _turns_before(*names: str) -> Ask:
    """The conversation up to the answers, which stand in columns of their own."""

    def ask(reader: Reader) -> tuple[Message, ...]:
        name = next((name for name in names if reader.has(name)), names[0])
        messages = _messages(reader, name)
        if messages[-1]["role"] == "assistant":
            raise RowError(
                "assistant", f"{reader.column(name)!r} ends with the assistant, whose answers stand elsewhere"
            )
        return messages

    return ask


def _ranked(reader: Reader) -> Example:
    example = _asked(reader, prompts.plain(reader))
    if reader.want == "preferences":
        example.preference = preferences.in_order(reader)
    return example


def _unpaired(ask: Ask, name: str) -> Read:
    """One answer and its label."""

    def read(reader: Reader) -> Example:
        example = _asked(reader, ask(reader))
        if reader.want == "labels":
            example.judged = preferences.judged(reader, reader.shown(name))
        return example

    return read


def _unpaired_conversation(reader: Reader) -> Example:
    """A conversation whose last turn is judged."""
    name = next((name for name in ("conversations", "messages") if reader.has(name)), "conversations")
    messages, column = _messages(reader, name), reader.column(name)
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise RowError(
            "assistant", f"{column!r} must end with an assistant's turn after a prompt: the label is its own"
        )
    example = _asked(reader, messages[:-1])
    if reader.want == "labels":
        example.judged = preferences.judged(reader, trained_turns(messages[-1:], column))
    return example


def _holds_ranked_objects(row: Row) -> bool:
    answers = row["answers"]
    return isinstance(answers, list) and all(isinstance(each, dict) and "rank" in each for each in answers)


def _holds_lists(row: Row) -> bool:
    return all(isinstance(row[name], list) for name in row if name not in ("prompt", *_CHAT))


def _is_labelled(row: Row) -> bool:
    return isinstance(row.get("label", row.get("kto_tag")), bool)


def _is_rows_of_messages(row: Row) -> bool:
    return not in_share_form(row["messages"])


def _is_conversation(row: Row) -> bool:
    return row.get("conversations") is not None or in_share_form(row.get("messages"))


# ---------------------------------------------------------------- the table

_CHAT = ("system", "tools")
_TAG = "label|kto_tag"
_INSTRUCTION = ("input", "history", *_CHAT)
_SCORES = ("margin", *(name for pair in preferences.MARGINS for name in pair))

LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("prompt", "demonstrations", ("prompt",), _completion(prompts.plain, "completion"),
               ("completion", *_CHAT), "TRL: prompt-only, prompt-completion"),
        Layout("messages", "demonstrations", ("messages",), _conversation("messages"), _CHAT,
               "TRL, OpenAI; Axolotl: chat_template", test=_is_rows_of_messages),
        Layout("preference", "preferences", ("chosen", "rejected"), _implicit_or_explicit,
               ("prompt", *_SCORES, *_CHAT), "TRL; Axolotl: chatml.prompt_pairs, chatml.ultra, argilla_chat"),
        Layout("ranked", "preferences", ("prompt", "completions|responses", "ranks|scores|ratings"), _ranked, _CHAT,
               test=_holds_lists),
        Layout("unpaired", "labels", ("prompt", "completion", _TAG), _unpaired(prompts.plain, "completion"), _CHAT,
               "TRL; Axolotl: kto, user_defined", test=_is_labelled),
        Layout("alpaca", "demonstrations", ("instruction", "output"), _completion(prompts.instruction, "output"),
               _INSTRUCTION, "Stanford Alpaca; Axolotl: alpaca"),
        Layout("alpaca_preference", "preferences", ("instruction", "chosen", "rejected"),
               _preference(prompts.instruction), (*_SCORES, *_INSTRUCTION), "LLaMA-Factory"),
        Layout("alpaca_unpaired", "labels", ("instruction", "output", _TAG),
               _unpaired(prompts.instruction, "output"), _INSTRUCTION, "LLaMA-Factory", test=_is_labelled),
        Layout("sharegpt", "demonstrations", ("conversations|messages",), _conversation("conversations", "messages"),
               _CHAT, "ShareGPT; Axolotl: chat_template with from/value, pygmalion", test=_is_conversation),
        Layout("sharegpt_preference", "preferences", ("conversations|messages", "chosen", "rejected"),
               _preference(_turns_before("conversations", "messages")), (*_SCORES, *_CHAT),
               "LLaMA-Factory; Axolotl: chat_template.default of dpo",
               test=lambda row: not isinstance(row["chosen"], list)),
        Layout("sharegpt_unpaired", "labels", ("conversations|messages", _TAG), _unpaired_conversation, _CHAT,
               "LLaMA-Factory", test=_is_labelled),
        Layout("gpteacher", "demonstrations", ("instruction", "input", "response"),
               _completion(prompts.instruction, "response"), ("history", *_CHAT), "Axolotl: gpteacher, alpaca_chat"),
        Layout("open_orca", "demonstrations", ("system_prompt", "question", "response"),
               _completion(prompts.of("question"), "response", system="system_prompt"), ("tools",),
               "Axolotl: alpaca_w_system.load_open_orca"),
        Layout("oasst", "demonstrations", ("INSTRUCTION", "RESPONSE"),
               _completion(prompts.of("INSTRUCTION"), "RESPONSE"), _CHAT, "Axolotl: oasst"),
        Layout("metharme", "demonstrations", ("prompt", "generation"), _completion(prompts.plain, "generation"), _CHAT,
               "Axolotl: metharme"),
        Layout("nectar", "preferences", ("prompt", "answers"), _ranked, _CHAT, "Axolotl: zephyr.nectar",
               test=_holds_ranked_objects),
        Layout("intel", "preferences", ("question", "chosen", "rejected"), _preference(prompts.of("question")),
               (*_SCORES, *_CHAT), "Axolotl: chatml.intel"),
        Layout("icr", "preferences", ("input", "chosen", "rejected"), _preference(prompts.of("input")),
               (*_SCORES, *_CHAT), "Axolotl: chatml.icr"),
        Layout("argilla", "preferences", ("instruction", "chosen_response", "rejected_response"),
               _preference(prompts.instruction, ("chosen_response", "rejected_response")),
               (*_SCORES, *_INSTRUCTION), "Axolotl: chatml.argilla"),
        Layout("intel_unpaired", "labels", ("question", "completion", _TAG),
               _unpaired(prompts.of("question"), "completion"), _CHAT, "Axolotl: chatml.intel of kto",
               test=_is_labelled),
        Layout("argilla_unpaired", "labels", ("instruction", "completion", _TAG),
               _unpaired(prompts.instruction, "completion"), _INSTRUCTION, "Axolotl: chatml.argilla of kto",
               test=_is_labelled),
        Layout("qa", "demonstrations", ("question", "answer"), _completion(prompts.of("question"), "answer"), _CHAT,
               "Axolotl: alpaca_chat.load_qa", loose=True),
        Layout("context_qa", "demonstrations", ("context", "question", "answer"),
               _completion(prompts.of("context", "question"), "answer"), _CHAT, "Axolotl: context_qa.load_v2",
               loose=True),
        Layout("summarizetldr", "demonstrations", ("article", "summary"),
               _completion(prompts.of("article"), "summary"), _CHAT, "Axolotl: summarizetldr", loose=True),
    )
}  # fmt: skip
"""Every format by the name that `data.format` gives. The first of several that say the same is taken."""
