"""The parts of a run that remember something. Each is checkpointed by name and loaded by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from burnish.errors import InputError

if TYPE_CHECKING:
    from burnish.running.assemble import Parts
    from burnish.running.checkpoints import Checkpoint


@runtime_checkable
class Stateful(Protocol):
    """What is checkpointed: its state is JSON values that `load` takes up again."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON values."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        ...


def stateful(parts: Parts) -> dict[str, Stateful]:
    """Every stateful part of a run by name, the learners apart, whose state is mostly tensors."""
    found: dict[str, Any] = {"source": parts.source, "controller": parts.controller, "guards": parts.guards}
    if parts.feedback is not None:
        found["feedback"] = parts.feedback
    found["ledger"] = parts.ledger
    for number, spec in enumerate(parts.declaration.controller.phases):
        for place, annotator in enumerate(parts.phase(spec).annotators):
            if isinstance(annotator, Stateful):
                found[f"annotator/{number}.{place}"] = annotator
    return cast(dict[str, Stateful], found)


def states(parts: Parts) -> dict[str, Any]:
    """The state of every part by name."""
    return {name: part.state() for name, part in stateful(parts).items()}


def restore(parts: Parts, checkpoint: Checkpoint) -> None:
    """Set every part to its state in a checkpoint. Raises InputError for a checkpoint of another model or method."""
    own = stateful(parts)
    saved = {name for name in checkpoint.parts if not name.startswith("learner/")}
    if saved != own.keys():
        odd = sorted(saved ^ own.keys())
        raise InputError(f"{checkpoint.path} is not a checkpoint of this run: part {odd[0]} is in only one of the two")
    for name, part in own.items():
        part.load(checkpoint.parts[name])
    for name, learner in parts.learners.items():
        try:
            checkpoint.load_learner(name, learner)
        except InputError as error:
            raise InputError(f"{checkpoint.path} is a checkpoint of another model: {error}") from None
    parts.publish()
