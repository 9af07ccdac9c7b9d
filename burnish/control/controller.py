"""Controllers decide the phases of a step and their repetition, from the metrics they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from burnish.control.spec import FixedControllerSpec, PhaseSpec


class Controller(Protocol):
    """Decides what each step does. Its state is checkpointed by name."""

    def phases(self, step: int) -> Sequence[PhaseSpec]:
        """The phases of a step, in order."""
        ...

    def again(self, phase: PhaseSpec, passes_done: int, metrics: Mapping[str, float]) -> bool:
        """Whether a phase takes another pass over its groups."""
        ...

    def observe(self, step: int, metrics: Mapping[str, float]) -> None:
        """See a finished step's metrics."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...


class FixedController:
    """The same phases and passes in every step."""

    def __init__(self, spec: FixedControllerSpec) -> None:
        self.spec = spec

    def phases(self, step: int) -> Sequence[PhaseSpec]:
        """The declared phases."""
        return self.spec.phases

    def again(self, phase: PhaseSpec, passes_done: int, metrics: Mapping[str, float]) -> bool:
        """Until the declared number of passes is done."""
        return passes_done < phase.passes

    def observe(self, step: int, metrics: Mapping[str, float]) -> None:
        """Nothing depends on what was seen."""

    def state(self) -> dict[str, Any]:
        """No state."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """No state."""


def build(spec: FixedControllerSpec) -> Controller:
    """The controller a spec declares."""
    return FixedController(spec)
