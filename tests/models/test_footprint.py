"""What autograd keeps is told from a few tokens, whatever the architecture and however a batch is laid out."""

from __future__ import annotations

import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec
from burnish.models.adapters import attach_adapter
from burnish.models.footprint import Activations
from burnish.models.forest import Forest
from burnish.models.language_model import LanguageModel
from burnish.models.spec import LoraSpec
from tests.tiny import ARCHITECTURES, UNSHAREABLE, tiny_model, tiny_network

_RUNS = (30, 25, 40, 7, 50, 90)
_PARENTS = (-1, 0, 0, -1, 3, -1)
"""A fork, a chain and a line; together they take a masked call, calls with ancestors and a plain causal one."""


def branching(model: LanguageModel) -> Forest:
    runs = [torch.arange(n) % model.vocab_size for n in _RUNS]
    return Forest.build(runs, _PARENTS)


class Kept:
    """Bytes of the storages that autograd keeps in a forward pass, counted on their own."""

    def __init__(self, model: LanguageModel) -> None:
        self.own = {p.untyped_storage().data_ptr() for p in (*model.network.parameters(), *model.network.buffers())}
        self.sizes: dict[int, int] = {}

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.own:
            self.sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    def of(self, model: LanguageModel, forest: Forest) -> int:
        with torch.autograd.graph.saved_tensors_hooks(self.pack, lambda t: t):
            hidden = model.hidden(forest.tokens, forest.positions, forest)
        total = sum(self.sizes.values())
        del hidden
        return total


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_a_forest_keeps_is_told_before_it_runs(architecture: str) -> None:
    model = tiny_model(architecture)
    forest = branching(model)
    told = Activations.of(model).forest(forest)
    assert told == pytest.approx(Kept(model).of(model, forest), rel=0.03)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_adapter_keeps_what_its_own_layers_need(dtype: torch.dtype) -> None:
    network = attach_adapter(tiny_network("llama", dtype=dtype), LoraSpec(rank=4))
    model = LanguageModel(network, compute_dtype=dtype)
    forest = branching(model)
    assert Activations.of(model).forest(forest) == pytest.approx(Kept(model).of(model, forest), rel=0.01)


def test_recomputed_layers_are_told_as_if_they_were_kept_and_stay_recomputed() -> None:
    plain, recomputed = tiny_model("llama"), tiny_model("llama")
    Learner(recomputed, layout=LearnerSpec(gradient_checkpointing=True))
    forest = branching(plain)
    assert Activations.of(recomputed).forest(forest) == Activations.of(plain).forest(forest)
    assert Kept(recomputed).of(recomputed, forest) < Kept(plain).of(plain, forest) / 2


@pytest.mark.parametrize("architecture", UNSHAREABLE)
def test_padded_rows_are_told_where_prefixes_cannot_be_shared(architecture: str) -> None:
    model = tiny_model(architecture)
    rows = [torch.arange(n) % model.vocab_size for n in (64, 50)]
    kept = Kept(model)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda t: t):
        hidden = model.hidden_rows(rows)
    assert Activations.of(model).rows(2, 64) == pytest.approx(sum(kept.sizes.values()), rel=0.15)
    del hidden


def test_telling_leaves_no_gradient_and_no_trace_in_the_model() -> None:
    model = tiny_model("llama")
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    Activations.of(model)
    assert all(torch.equal(value, before[name]) for name, value in model.network.state_dict().items())
    assert all(p.grad is None for p in model.network.parameters()) and not model.network.training
