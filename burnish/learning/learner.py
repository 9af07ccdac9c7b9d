"""The learner: one trained model and its optimizer. It never knows which method runs.

`update` splits a batch of groups into optimizer steps, counts every denominator over the whole step, folds them into
per-token weights, and only then cuts micro-batches, which merely add. Terms of a wider scope than a token are
differentiated with respect to the token statistics over the whole step first, and back-propagated as a linear sum of
coefficient x statistic; so each term is exact at one sequence per micro-batch (promise E1; docs/exact-losses.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from burnish.errors import InputError, RunError
from burnish.learning.collect import StepTokens, collect
from burnish.learning.masters import Masters
from burnish.learning.muon import Blocks
from burnish.learning.objective import Objective
from burnish.learning.optimizers import clip_global_norm, make_optimizer
from burnish.learning.packing import MicroBatch, pack
from burnish.learning.routing import muon_plan
from burnish.learning.spec import LearnerSpec, OptimizerSpec
from burnish.learning.statistics import Statistics, loss_in_head, projections, token_statistics
from burnish.ledger import Ledger
from burnish.losses.term import Term
from burnish.models.allocator import keep_freed_memory
from burnish.models.flops import ModelFlops
from burnish.models.language_model import LanguageModel
from burnish.randomness import counter_generator, stable_hash
from burnish.traces import Group


class Learner:
    """One trained model and its optimizer.

    `total_steps` is the number of optimizer steps the schedule runs over. Raises InputError when the model has
    nothing to train.
    """

    def __init__(
        self,
        model: LanguageModel,
        optimizer: OptimizerSpec | None = None,
        layout: LearnerSpec | None = None,
        *,
        seed: int = 0,
        total_steps: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.model = model
        self.optimizer_spec = optimizer or OptimizerSpec()
        self.layout = layout or LearnerSpec()
        self.seed = seed
        self.total_steps = total_steps
        self.ledger = Ledger() if ledger is None else ledger
        self.steps_taken = 0
        if self.optimizer_spec.schedule != "constant" and not (self.optimizer_spec.decay_steps or total_steps):
            raise InputError(f"schedule {self.optimizer_spec.schedule!r} needs an end: set decay_steps or total_steps")
        self.masters = Masters.of(model.network)
        if not self.masters.parameters:
            raise InputError(f"model {model.name!r} has no parameter that requires a gradient: nothing to train")
        self.plan = self._plan()
        self.optimizer = make_optimizer(self.optimizer_spec, self.masters.parameters.values(), self._rate(), self.plan)
        self._flops = ModelFlops.of(model)
        keep_freed_memory()
        if self.layout.gradient_checkpointing:
            _checkpoint_layers(model)

    # -- updating ------------------------------------------------------------------------------------------------

    def update(
        self,
        groups: Sequence[Group],
        terms: Sequence[Term],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:
        """One pass over `groups`: its optimizer steps, and the model's version one higher for each.

        Returns the mean over optimizer steps of the loss, each term, the gradient norm before clipping, the learning
        rate and the terms' diagnostics, and the sum of trained tokens. A part of the batch without any trained token
        takes no optimizer step. `progress` is told how many optimizer steps are done, of how many. Raises RunError when
        the loss or the gradient of an optimizer step is not finite; that step is then not taken.
        """
        terms = [t for t in terms if t.learner == self.model.name]
        if not terms:
            raise InputError(f"no loss term trains model {self.model.name!r}")
        records = []
        parts = self._partition(groups)
        for done, part in enumerate(parts):
            progress(done, len(parts))
            step = collect(part, terms)
            if len(step):
                with self.ledger.timed(self.model.name):
                    records.append(self._optimizer_step(step, terms))
                self.ledger.add(self.model.name, "trained_tokens", len(step))
        progress(len(parts), len(parts))
        return _merge(records)

    def gradients(self, groups: Sequence[Group], terms: Sequence[Term]) -> dict[str, Tensor]:
        """The gradient of one optimizer step over all `groups` by parameter name, without taking the step."""
        terms = [t for t in terms if t.learner == self.model.name]
        self.masters.clear_gradients()
        self._accumulate(collect(groups, terms), terms)
        result = {n: p.grad.clone() for n, p in self.masters.parameters.items() if p.grad is not None}
        self.masters.clear_gradients()
        return result

    def _partition(self, groups: Sequence[Group]) -> list[list[Group]]:
        """Groups shuffled by (seed, steps taken) and split into the declared number of optimizer steps."""
        parts = min(self.layout.optimizer_steps, max(1, len(groups)))
        if parts == 1:
            return [list(groups)]
        order = counter_generator(self.seed, stable_hash("partition"), self.steps_taken).permutation(len(groups))
        return [[groups[i] for i in chunk] for chunk in np.array_split(order, parts)]

    def _optimizer_step(self, step: StepTokens, terms: Sequence[Term]) -> dict[str, float]:
        self.masters.clear_gradients()
        record = self._accumulate(step, terms)
        if all(parameter.grad is None for parameter in self.masters.parameters.values()):
            raise RunError(f"optimizer step {self.steps_taken}: no parameter of {self.model.name!r} got a gradient")
        record["grad_norm"] = clip_global_norm(self.masters.parameters.values(), self.optimizer_spec.clip_norm)
        if not (math.isfinite(record["loss"]) and math.isfinite(record["grad_norm"])):
            self.masters.clear_gradients()
            raise RunError(
                f"optimizer step {self.steps_taken}: the loss is {record['loss']} and the gradient norm "
                f"{record['grad_norm']}; no step was taken. Lower optimizer.lr, or look at the rewards and weights"
            )
        record["lr"] = self._rate()
        for group in self.optimizer.param_groups:
            group["lr"] = record["lr"]
        self.optimizer.step()
        self.masters.clear_gradients()
        self.masters.publish()
        self.steps_taken += 1
        self.model.version += 1
        return record

    def _plan(self) -> list[Blocks | None] | None:
        """Of Muon, which parameters it has."""
        if self.optimizer_spec.name != "muon":
            return None
        return muon_plan(self.model.network, list(self.masters.parameters), split=self.optimizer_spec.muon.split)

    def _rate(self) -> float:
        return self.optimizer_spec.learning_rate(
            self.steps_taken, adapter=self.model.adapter, total_steps=self.total_steps
        )

    def _accumulate(self, step: StepTokens, terms: Sequence[Term]) -> dict[str, float]:
        """Add the gradient of the step's loss to the masters; returns the loss and the diagnostics."""
        objective = Objective(step, terms, self.model.device)
        batches = pack(
            step,
            self.layout.micro_batch_tokens,
            share=self.layout.share_prefixes and self.model.sharing,
            packing=self.layout.packing,
            padded=not self.model.sharing,
        )
        laid_out = [MicroBatch.lay_out(pieces, self.model.device) for pieces in batches]
        for batch in laid_out:
            flops = self._flops.training(batch.runs, projections(batch, step, objective.needs))
            self.ledger.add(self.model.name, "flops", flops)
        with self.model.numerics():
            if objective.token_scope or len(laid_out) == 1:
                for batch in laid_out:
                    self._loss(batch, step, objective).backward()
            else:
                self._accumulate_wide(objective, laid_out, step)
        return objective.record()

    def _loss(self, batch: MicroBatch, step: StepTokens, objective: Objective) -> Tensor:
        """The loss on a micro-batch that holds every token its terms look at."""
        if objective.token_scope and self.layout.head == "auto":
            loss = loss_in_head(self.model, batch, step, objective.needs, lambda t, s: objective.loss(s, t))
            if loss is not None:
                return loss
        statistics = self._statistics(batch, step, objective)
        order = torch.argsort(batch.tokens)  # flat order, which the incidence of a wider scope goes by
        return objective.loss({name: values[order] for name, values in statistics.items()}, batch.tokens[order])

    def _statistics(self, batch: MicroBatch, step: StepTokens, objective: Objective) -> Statistics:
        return token_statistics(self.model, batch, step, objective.needs, self.layout.head, rounded=objective.linear)

    def _accumulate_wide(self, objective: Objective, batches: list[MicroBatch], step: StepTokens) -> None:
        """Terms that look beyond a token: score, differentiate over the step, back-propagate the coefficients."""
        with torch.no_grad():
            scored = [self._statistics(batch, step, objective) for batch in batches]
        order = torch.argsort(torch.cat([b.tokens for b in batches]))
        whole: Statistics = {
            name: torch.cat([s[name] for s in scored])[order].detach().requires_grad_() for name in objective.needs
        }
        loss = objective.loss(whole, torch.arange(len(step), device=self.model.device))
        names = list(whole)
        grads = torch.autograd.grad(loss, [whole[n] for n in names], allow_unused=True)
        coefficients = {n: g for n, g in zip(names, grads, strict=True) if g is not None}

        def linear(tokens: Tensor, statistics: Statistics) -> Tensor:
            return torch.stack([(coefficients[n][tokens] * statistics[n]).sum() for n in coefficients]).sum()

        for batch in batches:
            loss = None
            if self.layout.head == "auto":
                loss = loss_in_head(self.model, batch, step, objective.needs, linear)
            if loss is None:
                loss = linear(batch.tokens, self._statistics(batch, step, objective))
            loss.backward()

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """What a checkpoint must hold: plain values, and tensors by name.

        The tensors are the trained parameters in the precision of their masters ("parameter/<name>") and the
        optimizer's ("optimizer/<name>/<entry>").
        """
        from burnish.learning.state import optimizer_state

        tensors = optimizer_state(self.optimizer, list(self.masters.parameters))
        tensors |= {f"parameter/{n}": t.detach() for n, t in self.masters.parameters.items()}
        values = {"steps_taken": self.steps_taken, "version": self.model.version, "optimizer": self.optimizer_spec.name}
        return values, tensors

    def load(self, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `state` gave; an optimizer of another kind begins anew.

        Raises InputError when the tensors are those of another model.
        """
        from burnish.learning.state import load_optimizer_state

        own = self.masters.parameters
        given = {n.removeprefix("parameter/"): t for n, t in tensors.items() if n.startswith("parameter/")}
        for name in own.keys() | given.keys():
            if name not in own or name not in given or own[name].shape != given[name].shape:
                sizes = [list(side[name].shape) if name in side else "absent" for side in (given, own)]
                raise InputError(f"{name} is {sizes[0]} in the state and {sizes[1]} in model {self.model.name!r}")
        self.steps_taken, self.model.version = int(values["steps_taken"]), int(values["version"])
        self.masters.load(given)
        if values["optimizer"] == self.optimizer_spec.name:
            load_optimizer_state(self.optimizer, list(own), tensors)


def _checkpoint_layers(model: LanguageModel) -> None:
    """Turn on transformers' layer recomputation, which asks for layers in train mode, with every dropout left off."""
    network: Any = model.network
    network.eval()
    # a backward pass suspends function modes, so the layers that it recomputes need theirs given anew
    contexts = {"use_reentrant": False, "context_fn": lambda: (nullcontext(), model.numerics())}
    network.activation_checkpointing_enable(activation_checkpointing_kwargs=contexts)
    for layer in network.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            layer.training = True  # this flag alone: its parts stay in eval mode
            for name, value in vars(layer).items():
                if "drop" in name and isinstance(value, float):
                    setattr(layer, name, 0.0)  # dropout that a layer applies by itself


def _merge(records: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each number over optimizer steps; counts are summed."""
    if not records:
        return {"loss": 0.0, "trained_tokens": 0.0, "optimizer_steps": 0.0}
    merged = {
        key: float(np.mean([r[key] for r in records if key in r]))
        for key in dict.fromkeys(k for r in records for k in r)
    }
    merged["trained_tokens"] = float(sum(r["trained_tokens"] for r in records))
    merged["optimizer_steps"] = float(len(records))
    return merged
