"""Whether this machine's matrix products give a row the same bits whatever rows stand beside it.

Deterministic mode rests on that. It differs between processors, libraries, number types, shapes and thread counts, so
it is tried out, on the model and the row counts that will be used, each time the mode is switched on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from burnish.errors import RunError
from burnish.models.language_model import LanguageModel
from burnish.sampling.memory import ByteBudget
from burnish.sampling.pool import rounded
from burnish.sampling.protocol import SamplingParams
from burnish.sampling.requests import Request, Row
from burnish.sampling.shared import SharedRunner

_QUANTA = (8, 16, 32)
_PROMPT = 11
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")

Trail = list[tuple[str, Tensor]]
"""What each module put out for the watched rows, in order."""


def require_row_invariance(model: LanguageModel, max_rows: int) -> int:
    """The smallest number to pad row counts to a multiple of, such that a row's bits do not depend on the others.

    Raises RunError naming the first module whose output differs when there is none, and for a mixture of experts.
    """
    experts = next((key for key in _EXPERTS if getattr(model.config, key, None)), None)
    if experts is not None:
        raise RunError(
            f"deterministic mode is not possible for model {model.name!r}: in a mixture of experts ({experts}) the "
            "rows that meet in an expert depend on the rest of the batch, and with them the bits of a row"
        )
    probe = _Probe(model)
    difference = ""
    for quantum in (*(q for q in _QUANTA if q < max_rows), rounded(max_rows, 8)):
        difference = probe.difference(range(quantum, rounded(max_rows, quantum) + 1, quantum))
        if not difference:
            return quantum
    raise RunError(
        f"deterministic mode is not possible for model {model.name!r} on this machine with {torch.get_num_threads()} "
        f"threads: {difference}. Run without it, or with another number of threads or number type"
    )


class _Probe:
    """Runs two rows, one with a shared prefix and one without, among different numbers of others."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._trails: dict[tuple[int, bool], Trail] = {}
        self._runner = SharedRunner(model, ByteBudget(0), deterministic=True)
        params = SamplingParams(max_tokens=4)
        prompts = [[(step * (place + 3) + place) % model.vocab_size for place in range(_PROMPT)] for step in (1, 2, 3)]
        self._requests = [Request(p, None, params, n, 0, 0, 0) for p, n in zip(prompts, (1, 2, 1), strict=True)]
        with torch.no_grad():
            self._runner.prefill(self._requests)

    def difference(self, counts: range) -> str:
        """The first difference between the given numbers of rows, in words; empty when there is none."""
        reference = self._trail(counts[0], False)
        for count in counts:
            for last in (False, True):
                trail = self._trail(count, last)
                for (name, expected), (_, found) in zip(reference, trail, strict=True):
                    if not torch.equal(expected, found):
                        gap = float((expected.double() - found.double()).abs().max())
                        where = "the last rows" if last else "the first rows"
                        return (
                            f"{where} of {count} differ in {name} by {gap:.1e} from the first rows of {counts[0]}, "
                            "with the same input"
                        )
        return ""

    def _trail(self, count: int, last: bool) -> Trail:
        if (count, last) not in self._trails:
            self._trails[count, last] = self._run(count, last)
        return self._trails[count, last]

    @torch.no_grad()
    def _run(self, count: int, last: bool) -> Trail:
        watched = [Row(request, 0) for request in self._requests[:2]]
        others = [Row(self._requests[2], i) for i in range(count - 2)]
        for i, row in enumerate((*watched, *others)):
            other = 11 * count + 3 if last and i > 1 else 5  # not the same company each time
            row.append((other + 7 * i) % self.model.vocab_size, 0.0, 0, None)
        self._runner.enter([*others, *watched] if last else [*watched, *others])
        trail: Trail = []
        rows = self._runner.rows()
        watching = [rows.index(row) for row in watched]
        handles = [
            module.register_forward_hook(self._watcher(name, watching, count, trail))
            for name, module in self.model.network.named_modules()
            if not any(True for _ in module.children())
        ]
        try:
            _, logits = self._runner.decode()
        finally:
            for handle in handles:
                handle.remove()
            self._runner.clear()
        return [*trail, ("the logits", logits[watching].clone())]

    @staticmethod
    def _watcher(name: str, rows: list[int], count: int, trail: Trail) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.dim() > 1 and count in output.shape[:2]:
                axis = 0 if output.shape[0] == count else 1
                trail.append((name, output.index_select(axis, torch.tensor(rows, device=output.device)).clone()))

        return hook
