"""Trackers as data. No torch here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

TrackerKind = Literal["tensorboard", "trackio", "wandb"]

_USED: dict[str, frozenset[str]] = {
    "tensorboard": frozenset(),
    "trackio": frozenset({"project", "name"}),
    "wandb": frozenset({"project", "name", "entity", "mode"}),
}
"""The keys that do something for each kind, besides `kind`."""


class TrackerSpec(BaseModel):
    """A program that shows metrics; its files are in trackers/ of the run. Its kind alone may stand in its place.

    Each needs its package: `pip install "burnish[trackers]"`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: TrackerKind = Field(description="which program")
    project: str = Field(default="burnish", min_length=1, description="project of the run (trackio, wandb)")
    name: str | None = Field(
        default=None, min_length=1, description="name of the run there (trackio, wandb); absent: the run directory's"
    )
    entity: str | None = Field(default=None, min_length=1, description="user or team that owns the project (wandb)")
    mode: Literal["online", "offline"] = Field(
        default="online", description="offline: no network and no account, `wandb sync` sends it later (wandb)"
    )

    @model_validator(mode="before")
    @classmethod
    def _by_kind(cls, values: Any) -> Any:
        return {"kind": values} if isinstance(values, str) else values

    @model_validator(mode="after")
    def _keys_used(self) -> TrackerSpec:
        # compared with the defaults, since a resolved recipe sets every key
        fields = type(self).model_fields
        unused = [
            key
            for key in fields
            if key not in _USED[self.kind] | {"kind"} and getattr(self, key) != fields[key].default
        ]
        if unused:
            raise ValueError(f"{', '.join(unused)}: unused by a tracker of kind {self.kind}; remove")
        return self
