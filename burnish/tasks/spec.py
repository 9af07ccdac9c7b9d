"""What a recipe says about its tasks: a file of rows, or a generated family. No torch here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.tasks.families.spec import AnyFamily
from burnish.tasks.suggest import did_you_mean

ANSWER = "answer"
"""The column of the private answer when the recipe names none; it may be absent."""

FormatName = Literal[
    "auto", "prompt", "messages", "preference", "ranked", "unpaired", "alpaca", "alpaca_preference", "alpaca_unpaired",
    "sharegpt", "sharegpt_preference", "sharegpt_unpaired", "gpteacher", "open_orca", "oasst", "metharme", "nectar",
    "intel", "icr", "argilla", "intel_unpaired", "argilla_unpaired", "qa", "context_qa", "summarizetldr",
]  # fmt: skip
"""auto, and the formats of tasks/formats/layouts.py."""

COLUMN_KEYS = ("prompt", "messages", "completion")
"""Columns of formats that have a key of their own."""

_HUB_KEYS = ("name", "revision")
_ROW_KEYS = (
    "split", *_HUB_KEYS, "format", "columns", *COLUMN_KEYS, "answer", "template", "on_bad_row", "limit", "shuffle"
)  # fmt: skip


class DataSpec(BaseModel):
    """Where tasks come from: exactly one of `path` (a file of rows), `hub` (a data set) and `family` (generated)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(
        default=None,
        min_length=1,
        description="rows: JSON (one object a line, or an array), a .parquet file, or a folder that `datasets` saved",
    )
    hub: str | None = Field(
        default=None, min_length=1, description="a data set of the hub by its id, or a folder laid out like one"
    )
    split: str | None = Field(
        default=None, min_length=1, description="split of `hub` or of a saved folder; absent: the only one there is"
    )
    name: str | None = Field(default=None, min_length=1, description="configuration (subset) of `hub`")
    revision: str | None = Field(default=None, min_length=1, description="commit, tag or branch of `hub`")
    family: AnyFamily | None = Field(
        default=None, description="a generated family; its name, or its options with `kind`"
    )
    style: Literal["chat", "text"] = Field(
        default="chat", description="chat: a prompt text becomes a user message; text: it is continued as it stands"
    )
    system: str | None = Field(default=None, min_length=1, description="a system message put before every prompt")
    seed: int | None = Field(default=None, ge=0, description="of shuffling or generation; absent: the run's seed")
    format: FormatName = Field(
        default="auto", description="how rows are read (docs/data.md has each); auto: told by the columns of the rows"
    )
    columns: dict[str, str | None] = Field(
        default={}, description="column of the format: its name in these rows; null: there is none"
    )
    prompt: str | None = Field(
        default=None, description="column with the prompt, a text or a list of messages; absent: `prompt`"
    )
    answer: str | None = Field(
        default="answer", description="column with the private answer (`answer` may be absent); null: there is none"
    )
    messages: str | None = Field(default=None, description="column with a whole conversation; absent: `messages`")
    completion: str = Field(default="completion", description="column with what to imitate, for supervised training")
    template: str | None = Field(default=None, description='a prompt made of columns, such as "{question}\\nAnswer:"')
    on_bad_row: Literal["error", "skip"] = Field(
        default="error", description="of a row that cannot be used: refuse the data, or leave it out and say so"
    )
    limit: int | None = Field(default=None, ge=1, description="use at most this many rows, taken after shuffling")
    shuffle: bool = Field(default=False, description="shuffle the rows once, by the seed")

    @model_validator(mode="before")
    @classmethod
    def _family_by_name(cls, values: Any) -> Any:
        family = values.get("family") if isinstance(values, dict) else None
        if isinstance(family, str):
            return {**values, "family": {"kind": family}}
        if isinstance(family, dict) and "kind" not in family:
            return {**values, "family": {"kind": "arithmetic", **family}}
        return values

    @model_validator(mode="after")
    def _one_origin(self) -> DataSpec:
        check_origin(self)
        return self

    @property
    def named_columns(self) -> set[str]:
        """The columns of a format that the keys name; `template` stands for the prompt."""
        given = _given(self)
        return {*self.columns, *(key for key in COLUMN_KEYS if key in given), *({"prompt"} if self.template else ())}


def check_origin(spec: DataSpec) -> None:
    """Refuse more or fewer origins than one, and keys that the others leave without an effect. Raises ValueError."""
    given = _given(spec)
    if sum(origin is not None for origin in (spec.path, spec.hub, spec.family)) != 1:
        raise ValueError(
            "data needs exactly one of `path` (a file of rows), `hub` (a data set of the hub) and `family` "
            "(generated tasks)"
        )
    if spec.family is not None and (unused := [key for key in _ROW_KEYS if key in given]):
        raise ValueError(f"{', '.join(unused)}: only for rows of a file, unused with a family; remove from data")
    if spec.hub is None and (unused := [key for key in _HUB_KEYS if key in given]):
        raise ValueError(f"{', '.join(unused)}: only with `hub`, unused with a path; remove from data")
    if spec.family is None and spec.seed is not None and not spec.shuffle:
        raise ValueError("seed is unused: the rows are not shuffled; add `shuffle: true` or remove it")
    if spec.system is not None and spec.style == "text":
        raise ValueError("a system message needs `style: chat`; a text prompt has no messages")
    _check_columns(spec, given)


def _given(spec: DataSpec) -> set[str]:
    """Keys that differ from their defaults: a resolved recipe writes out every key."""
    return {key for key in _ROW_KEYS if getattr(spec, key) != DataSpec.model_fields[key].default}


def _check_columns(spec: DataSpec, given: set[str]) -> None:
    """Refuse names of columns that contradict each other or the format. Raises ValueError."""
    from burnish.tasks.formats.layouts import LAYOUTS  # the formats read specs: they cannot be imported before

    if spec.template is not None and spec.prompt is not None:
        raise ValueError("the prompt is given twice, by `prompt` and by `template`; remove one")
    if spec.messages is not None and (spec.prompt is not None or spec.template is not None):
        raise ValueError("messages: unused, since `prompt` or `template` says what the prompt is; remove one")
    if spec.messages is not None and "completion" in given:
        raise ValueError("completion: unused, since a conversation in `messages` ends with what to imitate; remove")
    if own := [key for key in spec.columns if key in (*COLUMN_KEYS, ANSWER)]:
        raise ValueError(f"columns.{own[0]}: this column has a key of its own, data.{own[0]}; use that")
    named = spec.named_columns
    layouts = LAYOUTS.values() if spec.format == "auto" else [LAYOUTS[spec.format]]
    if not any(named <= layout.columns for layout in layouts):
        known = sorted({column for layout in layouts for column in layout.columns})
        odd = [name for name in sorted(named) if name not in known]
        if odd:
            which = "no format has" if spec.format == "auto" else f"format {spec.format} does not have"
            raise ValueError(f"columns: {which} a column {odd[0]!r}; {did_you_mean(odd[0], known)}")
        raise ValueError(f"columns: no format has all of {', '.join(sorted(named))}; name the columns of one")
