"""What a plan says: the situation, the methods that apply with their cost, the others with reasons. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from burnish.ledger import SAID, Totals, duration_text, flops_text
from burnish.methods.budgets import Budget
from burnish.methods.costs import Shape, Sizes, flops_of, total_of
from burnish.methods.evidence import Evidence
from burnish.methods.method import Behaviour, Method, Need


@dataclass(frozen=True)
class Situation:
    """What is wanted, what is at hand, and how large the work is."""

    want: tuple[Behaviour, ...]
    have: tuple[Need, ...]
    budget: Budget | None
    shape: Shape | None
    """The model's; None: no cost is worked out."""
    parameters: int | None
    sizes: Sizes
    work: Mapping[str, int] = field(default_factory=dict)
    """Recipe keys: steps, prompts_per_step, samples_per_prompt."""
    rate: float | None = None
    """Share of samples that are right before training, where it is known."""


@dataclass(frozen=True)
class Rate:
    """Operations a second of a measured run, and which run that was."""

    flops_per_second: float
    where: str


@dataclass(frozen=True)
class Expected:
    """What a method would cost here."""

    steps: int
    per_step: Totals
    rate: Rate | None
    budget_steps: int | None
    """Steps that the budget pays for; None where it does not limit this method, or nobody can tell."""

    @property
    def flops(self) -> int:
        """Of all steps."""
        return self.steps * flops_of(self.per_step)

    @property
    def seconds(self) -> float | None:
        """Of all steps, at the measured rate."""
        return None if self.rate is None else self.flops / self.rate.flops_per_second

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        rate = self.rate and {"flops_per_second": self.rate.flops_per_second, "measured": self.rate.where}
        return {
            "steps": self.steps, "per_step": self.per_step, "flops": self.flops, "seconds": self.seconds,
            "rate": rate, "budget_steps": self.budget_steps,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """In words."""
        counts = [
            f"{total:,} {word}" for quantity, word in SAID.items() if (total := total_of(self.per_step, quantity))
        ]
        told = [f"a step: {', '.join([*counts, flops_text(flops_of(self.per_step))])}"]
        time = ""
        if self.seconds is not None and self.rate is not None:
            speed = flops_text(round(self.rate.flops_per_second))
            time = f", about {duration_text(self.seconds)} at the {speed} a second of {self.rate.where}"
        told.append(f"{self.steps} steps: {flops_text(self.flops)}{time}")
        if self.budget_steps is not None:
            told.append(f"the budget pays for {self.budget_steps:,} steps")
        return told


@dataclass(frozen=True)
class Choice:
    """A method that applies."""

    method: Method
    uses: tuple[Need, ...]
    how: Mapping[Behaviour, str]
    models: tuple[str, ...]
    """Other models it computes with."""
    cost: Expected | None
    notes: tuple[str, ...]
    evidence: tuple[Evidence, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        m = self.method
        return {
            "name": m.name, "summary": m.summary, "status": m.status, "rows": list(m.rows), "uses": list(self.uses),
            "preset_of": m.preset_of, "how": dict(self.how), "models": list(self.models),
            "cost": self.cost and self.cost.to_json(), "cost_in_words": m.cost, "citation": m.citation,
            "notes": list(self.notes),
            "evidence": [
                {**e.short(), "metric": e.metric, "control": e.control, "task": e.task} for e in self.evidence
            ],
        }  # fmt: skip

    def lines(self) -> list[str]:
        """In words; of a preset what it has of its own."""
        m = self.method
        measured = [f"  measured: {entry.line()}" for entry in self.evidence]
        if m.preset_of is not None:
            return [f"{m.name}: {m.summary}", f"  {m.preset_of} with other defaults; a step: {m.cost}", *measured]
        told = [f"{m.name}: {m.summary}", f"  learns from: {', '.join(self.uses)}"]
        told += [f"  {wanted}: {how}" for wanted, how in self.how.items()]
        if self.models:
            told.append(f"  also computes with: {', '.join(self.models)}")
        told += [f"  {line}" for line in (self.cost.lines() if self.cost else [f"a step: {self.method.cost}"])]
        told += [f"  note: {note}" for note in self.notes]
        return told + (measured or ["  measured: nothing yet"])


@dataclass(frozen=True)
class Plan:
    """Methods that apply and methods that do not, each in the order of their names."""

    situation: Situation
    applicable: tuple[Choice, ...]
    others: Mapping[str, tuple[str, ...]]
    """Method -> why it does not apply."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        s = self.situation
        budget = s.budget and {"amount": s.budget.amount, "quantity": s.budget.quantity}
        return {
            "want": list(s.want), "have": list(s.have), "budget": budget, "rate": s.rate, "parameters": s.parameters,
            "sizes": {"prompt_tokens": s.sizes.prompt, "answer_tokens": s.sizes.answer, **s.work},
            "order": "by name; none is a default",
            "applicable": [choice.to_json() for choice in self.applicable],
            "not_applicable": [{"name": name, "reasons": list(reasons)} for name, reasons in self.others.items()],
        }  # fmt: skip

    def __str__(self) -> str:
        s = self.situation
        lines = [f"wanted: {', '.join(s.want)}; at hand: {', '.join(s.have)}"]
        if s.budget is not None:
            lines[0] += f"; budget: {s.budget}"
        if not self.applicable:
            lines += ["", "No method of this version applies."]
        for choice in self.applicable:
            lines += ["", *choice.lines()]
        if len(self.applicable) > 1:
            lines += ["", "In the order of their names. Effects of different tasks and controls do not compare."]
        if self.others:
            lines += ["", "Does not apply:"]
            for reasons in dict.fromkeys(self.others.values()):
                alike = [name for name, own in self.others.items() if own == reasons]
                lines.append(f"  {', '.join(alike)}: {'; '.join(reasons)}")
        return "\n".join(lines)

    __repr__ = __str__
