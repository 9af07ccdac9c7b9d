"""What an update holds in memory at its peak, told before it runs. docs/memory.md has the formulas and measurements.

The peak of an update lies in one of two moments: when the backward pass begins, with everything kept for it and the
logits of one chunk; or at its end, when every gradient is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from burnish.learning.collect import collect
from burnish.learning.learner import Learner
from burnish.learning.muon import Blocks
from burnish.learning.optimizers import plan_of
from burnish.learning.packing import MicroBatch, pack
from burnish.learning.spec import OptimizerSpec
from burnish.losses.term import Need, Term, TermValues, TokenView
from burnish.models.devices import on_gpu
from burnish.models.footprint import Activations
from burnish.models.fused import precise
from burnish.models.language_model import LanguageModel
from burnish.traces import AuthorKind, Group, SignalKind

_LOGITS = 5
"""Tensors of a chunk's logits alive at once in the backward pass of our own head: the logits, four on the way of the
gradient of log-softmax; torch's fused operation works in place on one. Entropy and a kept support
add a mask of a quarter each (they are bool)."""
_CANDIDATES = 3
"""Micro-batches with the most tokens that are looked at: how a layout is cut decides between them."""
_STATE = {"adam": 2, "adamw": 2, "nadam": 2, "radam": 2, "adamax": 2, "adadelta": 2, "rmsprop": 1, "adagrad": 1}
"""Tensors the size of the parameter that an optimizer keeps of it."""
_TEMPORARIES = {"nadam": 2, "radam": 2, "adadelta": 2, "adamax": 1, "rmsprop": 1, "adafactor": 1}
"""Tensors the size of a parameter while an optimizer that is not fused updates it."""
_ITERATING = 4
"""Tensors the size of a matrix while Muon iterates on it, as measured of square ones."""
_HOLES = 1 / 3
"""Of what a forward pass on a CPU makes and gives back between tensors that are kept, the share that leaves holes in
the C library's heap (measured with glibc: 0.17 without an adapter, 0.37 with one)."""
_STREAM = "trained"


@dataclass(frozen=True)
class UpdateMemory:
    """Bytes of an update at its peak, on top of the weights and masters, which stand all the while."""

    optimizer: int = 0
    gradients: int = 0
    activations: int = 0
    logits: int = 0
    temporaries: int = 0
    holes: int = 0
    """Free, but unusable: between what is kept the allocator has holes that nothing fits into."""

    @property
    def total(self) -> int:
        """Their sum."""
        return sum(asdict(self).values())


@dataclass(frozen=True)
class Wanted:
    """What the terms of an update ask for that costs memory."""

    needs: frozenset[Need] = frozenset({"logprob"})
    restricted: bool = False
    """Tokens were sampled from a kept support."""
    tempered: bool = False
    """Tokens were sampled at a temperature other than 1."""
    wide: bool = False
    """A term looks beyond a token."""

    @property
    def distributions(self) -> int:
        """Softmaxes that are taken of a token: the model's own, and that which was sampled from where it is another."""
        both = "logprob" in self.needs and len(self.needs) > 1
        return 2 if both and (self.restricted or self.tempered) else 1


def update_memory(
    learner: Learner, groups: Sequence[Group], wanted: Wanted, kept: Activations, *, again: bool
) -> UpdateMemory:
    """The peak of one optimizer step over `groups`, with every token trained that a model or a demonstration wrote.

    `kept` is what autograd keeps of the learner's model. `again`: an optimizer step went before, so the optimizer's
    state is there from the start.
    """
    _mark(groups)
    step = collect(groups, [_TERM])
    layout, model = learner.layout, learner.model
    batches = pack(
        step, layout.micro_batch_tokens, share=layout.share_prefixes and model.sharing, packing=layout.packing,
        padded=not model.sharing,
    )  # fmt: skip
    sizes = _Sizes.of(learner)
    largest = sorted(range(len(batches)), key=lambda i: sum(map(len, batches[i])), reverse=True)[:_CANDIDATES]
    begins = [
        sizes.backward_begins(
            MicroBatch.lay_out(batches[index], model.device),
            kept,
            wanted,
            summed=index > 0,
            alone=len(batches) == 1,
            again=again,
        )
        for index in largest
    ]
    holes = max((moment.holes for moment in begins), default=0) if layout.gradient_checkpointing else 0
    return max([*begins, sizes.at_the_end(holes)], key=lambda moment: moment.total)


@dataclass(frozen=True)
class _Sizes:
    """Bytes that follow from a learner's parameters."""

    learner: Learner
    optimizer: int
    """Of the state that is still to come: after a resume it is there already."""
    gradients: int
    head: int
    """Of the gradient of the vocabulary projection, 0 where it does not learn."""
    largest: int
    """Of the largest parameter in the precision of its master."""

    @classmethod
    def of(cls, learner: Learner) -> _Sizes:
        trained = learner.masters.parameters
        weight = getattr(learner.model.head.projection, "weight", None)
        learns = isinstance(weight, Tensor) and weight.requires_grad
        state = optimizer_bytes(learner.optimizer_spec, trained.values(), learner.plan)
        return cls(
            learner,
            max(0, state - optimizer_held(learner)),
            sum(map(_size, trained.values())),
            _size(weight) if learns and isinstance(weight, Tensor) else 0,
            max(map(_size, trained.values())),
        )

    def backward_begins(
        self, batch: MicroBatch, kept: Activations, wanted: Wanted, *, summed: bool, alone: bool, again: bool
    ) -> UpdateMemory:
        """Everything kept for the backward pass, and the head's gradients on their way. `alone`: the whole step is one
        micro-batch."""
        model = self.learner.model
        activations, layer, passing = self._activations(batch, kept)
        logits = _logits(self.learner, len(batch.tokens), wanted, self.head, alone=alone)
        return UpdateMemory(
            optimizer=self.optimizer if again else 0,
            gradients=self.gradients if summed else 0,
            # a layer is computed again only once the logits are gone
            activations=activations + 2 * len(batch.tokens) * _width(model) + max(0, layer - logits),
            logits=logits,
            holes=int(_HOLES * passing) if not on_gpu(model.device) else 0,
        )

    def at_the_end(self, holes: int) -> UpdateMemory:
        """Every gradient, and what adding up the last one takes; or the optimizer at work.

        `holes` are those that layers computed again leave between the gradients.
        """
        model, at_work = self.learner.model, _TEMPORARIES.get(self.learner.optimizer_spec.name, 0) * self.largest
        if self.learner.plan is not None:
            weights = zip(self.learner.masters.parameters.values(), self.learner.plan, strict=True)
            at_work = _ITERATING * max(_size(weight) for weight, blocks in weights if blocks is not None)
        copies = 0
        if self.learner.masters.separate:
            copies = self.largest // 2  # the gradient of the copy, before it is added to the master's
        elif model.network.get_input_embeddings().weight is getattr(model.head.projection, "weight", None):
            # tied weights get a gradient from each of their places; that of our own head is a view, so the sum is new
            copies = (1 if model.head.fuses(self.learner.layout.head, rounded=True) else 2) * self.head
        copies = max(copies, at_work)
        return UpdateMemory(optimizer=self.optimizer, gradients=self.gradients, temporaries=copies, holes=holes)

    def _activations(self, batch: MicroBatch, kept: Activations) -> tuple[int, int, int]:
        """Bytes that a forward pass keeps, that one layer keeps for itself when it is computed again, and that the
        pass makes and gives back between them."""
        model = self.learner.model
        if model.sharing:
            tokens, everything = len(batch.forest), kept.forest(batch.forest)
        else:
            rows = [stop - start for start, stop in batch.runs]
            tokens, everything = len(rows) * max(rows), kept.rows(len(rows), max(rows))
        passing = int(tokens * kept.passing)
        if not self.learner.layout.gradient_checkpointing:
            return everything, 0, passing
        # a layer at a time is computed again, and keeps then what it would have kept
        masks = batch.forest.mask_bytes()  # made once, for all layers
        return kept.layer_inputs(tokens) + masks, (everything - masks) // model.num_layers, passing


def optimizer_bytes(
    spec: OptimizerSpec, parameters: Iterable[Tensor], plan: Sequence[Blocks | None] | None = None
) -> int:
    """Bytes of the optimizer's state for these parameters, in their own precision; `plan` as in `make_optimizer`."""
    if spec.name == "muon":
        weights = list(parameters)
        return sum(_of_muon(spec, w, b) for w, b in zip(weights, plan or plan_of(weights), strict=True))
    shapes = [(tuple(p.shape), p.element_size()) for p in parameters]
    if spec.name == "adafactor":
        return sum(_factored(shape) * size for shape, size in shapes)
    copies = _STATE.get(spec.name, 0) + (spec.momentum > 0)
    return sum(copies * int(np.prod(shape)) * size for shape, size in shapes)


def _of_muon(spec: OptimizerSpec, weight: Tensor, blocks: Blocks | None) -> int:
    """A momentum, and of NorMuon a number for each output; of what is AdamW's, two tensors."""
    if blocks is None:
        return 2 * _size(weight)
    outputs = weight.shape[-1 if blocks.transposed else -2] * int(np.prod(weight.shape[:-2]))
    return _size(weight) + spec.muon.normalise * outputs * weight.element_size()


def training_bytes(spec: OptimizerSpec, parameters: Iterable[Tensor]) -> int:
    """Bytes of training these weights, activations apart: the weights, float32 masters beside low-precision ones,
    gradients, and the optimizer's state."""
    weights = list(parameters)
    masters = [torch.empty_like(w, dtype=torch.promote_types(w.dtype, torch.float32), device="meta") for w in weights]
    copies = sum(_size(w) for w, master in zip(weights, masters, strict=True) if master.dtype != w.dtype)
    return copies + 2 * sum(map(_size, masters)) + optimizer_bytes(spec, masters)


def _factored(shape: tuple[int, ...]) -> int:
    """Adafactor keeps a row and a column of a matrix's second moments (Shazeer and Stern 2018, arXiv 1804.04235)."""
    if len(shape) < 2:
        return int(np.prod(shape))
    *batch, rows, columns = shape
    return int(np.prod(batch)) * (rows + columns)


def optimizer_held(learner: Learner) -> int:
    """Bytes of the optimizer's state that are there already."""
    states: Iterable[Mapping[str, object]] = learner.optimizer.state.values()
    return sum(_size(value) for state in states for value in state.values() if isinstance(value, Tensor))


def _logits(learner: Learner, tokens: int, wanted: Wanted, head: int, *, alone: bool) -> int:
    """Bytes of the head's chunk of logits when its gradient is taken, and of the gradient of the projection beside it,
    which is added up over the chunks; `head` is the projection's size where it learns, otherwise 0.

    The loss is inside the head under the same conditions as in learning/statistics.py: not where a term looks wider
    and the step is one micro-batch (of several, the coefficients of each are known by then).
    """
    model, entropy = learner.model, "policy_entropy" in wanted.needs
    elements = min(tokens, model.head.chunk_rows) * model.vocab_size
    wide, own = 8 if model.dtype == torch.float64 else 4, model.dtype.itemsize
    unlike, heads = wanted.restricted or entropy or (wanted.wide and alone), wanted.distributions
    if learner.layout.head == "auto" and model.head.plain and heads == 1 and not unlike:
        summed = head * wide // own
        if wide == own:
            return wide * elements + summed
        # the logits as they come from the product; later the gradient rounded for the products, and what is added
        return wide * elements + summed + own * elements + head + summed
    if model.head.fuses(
        learner.layout.head, support=wanted.restricted, entropy=entropy, rounded=wanted.needs <= {"logprob"}
    ):
        # of two distributions the gradients of the first wait for those of the second, and then for their sum
        return elements * (own if precise(model.dtype) else 4 + own) + head * (2 * heads - 1)
    masks = 0.25 * (entropy + wanted.restricted) * 4 / wide
    return int(elements * wide * (_LOGITS + masks)) + (head if tokens > model.head.chunk_rows else 0)


def _width(model: LanguageModel) -> int:
    """Bytes of one hidden state."""
    return int(model.config.hidden_size) * model.dtype.itemsize


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


# ---------------------------------------------------------------- which tokens


def _nothing(view: TokenView) -> TermValues:
    raise AssertionError("the term of an estimate is never evaluated")


_TERM = Term("estimate", _STREAM, _nothing, needs=frozenset())


def _mark(groups: Sequence[Group]) -> None:
    """Write the stream that says which tokens are trained."""
    trained = (AuthorKind.MODEL, AuthorKind.DEMONSTRATION)
    for group in groups:
        for trace in group.traces:
            those = np.array([author.kind in trained for author in trace.authors], dtype=bool)
            for index, node in enumerate(trace.nodes):
                if len(node):
                    values = np.where(those[node.authors], 1.0, np.nan)
                    trace.write(index, _STREAM, values, SignalKind.WEIGHT)
