"""The arithmetic floor: the least time that a piece of work can take on this machine. No torch here.

Floor = sum over phases of (operations of the model's mathematics) / (rate of matrix products). Operations are counted
by `burnish.models.flops`: nothing that is computed a second time counts, and a token that several samples share
counts once, because that is the least arithmetic that the work can be done with (a layout that repeats prompts does
more and has the same floor). The rate is measured in the same run: the total operations of the model's own linear
shapes, at the number of rows at hand, over their total seconds, each product at its best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnish.studies.bench.spec import Work

MICRO_BATCH = 4096
"""Rows of a training pass at most: `learner.micro_batch_tokens`. More are not faster."""
CHUNK = 1 << 24
"""Logits that a training pass holds at once (`burnish.models.head`)."""


@dataclass(frozen=True)
class Phase:
    """Work at one number of rows: which tokens are computed, and how many of them are projected to the vocabulary."""

    name: str
    runs: tuple[tuple[int, int], ...]
    """(first, last + 1) positions of each stretch of tokens that is computed; each attends to all before it."""
    projected: int
    rows: int
    head_rows: int
    backward: bool = False
    tokens: int = 0


def phases(work: Work, *, trained_tokens: int | None = None, vocabulary: int | None = None) -> list[Phase]:
    """The phases of a piece of work.

    Sampling is a prefill of every prompt once, which gives the first token, and a decode step for each further token.
    Training takes every prompt once, every answer whole, and projects what it trains.
    """
    chunk = max(1, CHUNK // (vocabulary or 1))
    if work.kind == "sft":
        runs = tuple((0, length) for length in work.lengths)
        return [_training(runs, trained_tokens or 0, chunk)]
    prompt, new, rows = work.prompt_tokens, work.new_tokens, work.rows
    prompts, found = ((0, prompt),) * work.prompts, []
    if work.kind in ("grpo", "toy", "engine"):
        asked = work.prompts
        found.append(_phase("prefill", prompts, asked, min(asked * prompt, MICRO_BATCH), asked))
        found.append(_phase("decode", ((prompt, prompt + new - 1),) * rows, rows * (new - 1), rows, rows))
    if work.kind in ("grpo", "toy", "learner"):
        found.append(_training((*prompts, *(((prompt, prompt + new),) * rows)), rows * new, chunk))
    return found


def _training(runs: tuple[tuple[int, int], ...], projected: int, chunk: int) -> Phase:
    tokens = sum(stop - start for start, stop in runs)
    return _phase("learn", runs, projected, min(tokens, MICRO_BATCH), min(projected, chunk), backward=True)


def _phase(
    name: str, runs: tuple[tuple[int, int], ...], projected: int, rows: int, head_rows: int, backward: bool = False
) -> Phase:
    tokens = sum(stop - start for start, stop in runs)
    return Phase(name, runs, projected, rows, head_rows, backward, tokens)


def seconds(counted: Sequence[Mapping[str, Any]], rates: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The floor, from the operations of each phase and the rates that were measured for it, [rounds, phases].

    The best rate of all rounds counts. Returns the total seconds, and of each phase its operations, rate and seconds.
    """
    parts = {}
    for index, phase in enumerate(counted):
        rate = max(of_round[index] for of_round in rates)
        parts[phase["name"]] = {"flops": phase["flops"], "flops_per_second": rate, "seconds": phase["flops"] / rate}
    return {"seconds": sum(part["seconds"] for part in parts.values()), "phases": parts}
