"""How much memory a run will take at its peak, told before its first step. docs/memory.md has more.

What the process holds already is measured. What comes on top follows from the recipe: the largest step its data can
give, what autograd keeps of it, gradients, the optimizer's state, the engine's keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from burnish.learning.memory import UpdateMemory, Wanted, optimizer_held, update_memory
from burnish.methods.recipe import RolloutRecipe
from burnish.models.devices import CPU, free_on_gpu, on_gpu
from burnish.models.footprint import Activations
from burnish.models.language_model import LanguageModel
from burnish.running.assemble import Parts
from burnish.running.machine_memory import free_memory, held_memory
from burnish.sampling.footprint import EngineMemory, Work, engine_memory
from burnish.sources.largest import largest_steps
from burnish.traces import Group

Moment = Literal["the update", "sampling"]

_LATER = 64 << 20
"""What a process loads and sets up during its first steps beside tensors: modules that are imported when first used,
work space of kernels. Measured on the nursery model, whose tensors are small."""
_SHOWN = 0.01
"""Parts below this share of the peak are left out of the line."""

_ADVICE = {
    "activations": "learner.micro_batch_tokens, learner.gradient_checkpointing: true",
    "logits": "learner.micro_batch_tokens",
    "optimizer": "model.adapter (trains an adapter instead of all weights), optimizer.name",
    "gradients": "model.adapter (trains an adapter instead of all weights)",
    "keys and values": "engine_rows, sampling.max_tokens",
    "sampling": "engine_rows, sampling.max_tokens",
}
"""The recipe keys that lower each part."""


@dataclass(frozen=True)
class MemoryEstimate:
    """The predicted peak of a run, by part, in bytes."""

    parts: Mapping[str, int]
    """By what they are for, at the moment of the peak."""
    moment: Moment
    held: int
    """What is there already."""
    free: int
    """What can still be had."""
    gpu: torch.device | None = None
    """The GPU whose memory it is; None: the machine's."""

    @property
    def peak(self) -> int:
        """On a CPU that of the whole process, on a GPU that of its tensors there."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether what is still to come can be had."""
        return self.peak - self.held <= self.free

    def line(self) -> str:
        """What is printed before the first step; a GB is 10^9 bytes."""
        largest = sorted(self.parts.items(), key=lambda part: -part[1])
        shown = ", ".join(f"{name} {_gb(size)}" for name, size in largest if size >= _SHOWN * self.peak)
        place = "" if self.gpu is None else f" of {self.gpu} (not verified on a GPU)"
        return (
            f"memory: about {_gb(self.peak)} GB{place} at its peak, in {self.moment} ({shown}); "
            f"{_gb(self.held)} GB held now, {_gb(self.free)} GB free"
        )

    def warning(self) -> str | None:
        """What to do about a run that will not fit; None when it will."""
        if self.fits:
            return None
        largest = sorted(self.parts, key=lambda name: -self.parts[name])
        keys = dict.fromkeys(key for name in largest if name in _ADVICE for key in _ADVICE[name].split(", "))
        return (
            f"this run may run out of memory: it will need {_gb(self.peak - self.held)} GB more than it holds now, and "
            f"{_gb(self.free)} GB are free. Keys that lower it, what helps most first: {', '.join(keys)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "peak": self.peak, "parts": dict(self.parts), "moment": self.moment, "held": self.held, "free": self.free,
            "fits": self.fits, "device": str(self.gpu or CPU),
        }  # fmt: skip


def estimate(parts: Parts) -> MemoryEstimate:
    """The peak memory of a run whose parts stand ready, on the device of its policy.

    Answers are taken to be as long as they may get. Runs the model on a few tokens; changes nothing.
    """
    kept, device = Activations.of(parts.policy), parts.policy.device
    steps = largest_steps(
        parts.source, parts.recipe.steps, budget=parts.recipe.learner.micro_batch_tokens,
        context_length=parts.policy.context_length,
    )  # fmt: skip
    update, engine = _update(parts, steps, kept), _engine(parts, steps, kept)
    del steps
    now = _held(parts)
    coming = {"optimizer": update.optimizer, "keys and values": engine.held}
    moments: dict[Moment, dict[str, int]] = {
        "the update": coming | {
            "gradients": update.gradients, "activations": update.activations, "logits": update.logits,
            "temporaries": update.temporaries, "allocator": update.holes,
        },
        "sampling": coming | {"sampling": engine.passing},
    }  # fmt: skip
    moment = max(moments, key=lambda name: sum(moments[name].values()))
    total = {name: now.get(name, 0) + moments[moment].get(name, 0) for name in (*now, *moments[moment])}
    if not on_gpu(device):
        total["process"] += _LATER
        return MemoryEstimate(total, moment, sum(now.values()), free_memory())
    return MemoryEstimate(total, moment, sum(now.values()), free_on_gpu(device), device)


def _held(parts: Parts) -> dict[str, int]:
    """What is there already: models, masters, the optimizer's state after a resume; on a CPU also the process."""
    masters = parts.learner.masters
    others = {id(r.model): r.model for r in parts.references.values() if r.model is not parts.policy}
    now = {
        "weights": _weights(parts.policy),
        "masters": sum(t.numel() * t.element_size() for t in masters.parameters.values()) if masters.separate else 0,
        "other models": sum(map(_weights, others.values())),
        "optimizer": optimizer_held(parts.learner),
    }
    if not on_gpu(parts.policy.device):
        _touch(parts.policy)
        now["process"] = max(0, held_memory() - sum(now.values()))
    return now


def _update(parts: Parts, steps: list[list[Group]], kept: Activations) -> UpdateMemory:
    """The largest update of the steps."""
    recipe, learner = parts.recipe, parts.learner
    terms = [term for spec in parts.declaration.controller.phases for term in parts.phase(spec).terms]
    sampling = recipe.sampling if isinstance(recipe, RolloutRecipe) else None
    cut = sampling is not None and (sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0)
    wanted = Wanted(
        frozenset().union(*(term.needs for term in terms)), restricted=cut,
        tempered=sampling is not None and sampling.temperature not in (0, 1),
        wide=any(term.scope != "token" for term in terms),
    )  # fmt: skip
    again = learner.steps_taken > 0 or (learner.total_steps or 2) > 1
    share = -(-recipe.prompts_per_step // recipe.learner.optimizer_steps)  # groups of one optimizer step
    found = [
        update_memory(learner, sorted(groups, key=_tokens, reverse=True)[:share], wanted, kept, again=again)
        if share < len(groups)
        else update_memory(learner, groups, wanted, kept, again=again)
        for groups in steps
    ]
    return max(found, key=lambda update: update.total, default=UpdateMemory())


def _tokens(group: Group) -> int:
    return sum(len(node) for trace in group.traces for node in trace.nodes)


def _engine(parts: Parts, steps: list[list[Group]], kept: Activations) -> EngineMemory:
    """What the engine holds for rollouts and evaluations."""
    if parts.sampler is None:
        return EngineMemory()
    works: list[Work] = []
    recipe = parts.recipe
    if isinstance(recipe, RolloutRecipe):
        longest = max((len(trace.nodes[0]) for groups in steps for g in groups for trace in g.traces), default=1)
        prompts, samples = recipe.prompts_per_step, recipe.samples_per_prompt
        turns = recipe.environment is not None
        works.append(Work(prompts, longest, samples, recipe.sampling.max_tokens, keep=turns))
    if recipe.evaluation is not None:
        longest = len(parts.render(max(parts.held_out, key=lambda task: len(task.text))))
        together = min(recipe.evaluation.concurrency, len(parts.held_out))
        works.append(Work(together, longest, recipe.evaluation.samples, recipe.evaluation.max_tokens))
    limit = parts.policy.context_length
    if limit is not None:
        works = [replace(w, max_tokens=max(1, min(w.max_tokens, limit - w.length))) for w in works]
    return engine_memory(parts.sampler, works, layer_bytes=kept.per_token / parts.policy.num_layers)


def _weights(model: LanguageModel) -> int:
    """Bytes of a model's weights; tied ones count once."""
    return sum(p.numel() * p.element_size() for p in model.network.parameters())


@torch.no_grad()
def _touch(model: LanguageModel) -> None:
    """Read something of every page of the weights: those of a mapped file that lay idle may have been taken back, and
    would not be counted as held."""
    for parameter in model.network.parameters():
        parameter.flatten()[::512].count_nonzero()


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f}" if size >= 9.95e9 else f"{size / 1e9:.2f}"
