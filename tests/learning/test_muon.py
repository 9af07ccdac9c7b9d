"""Muon: its update against torch's and against a singular value decomposition, and who gets it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnish.errors import InputError
from burnish.learning.learner import Learner
from burnish.learning.muon import Blocks, Muon, orthogonalized, scale_of
from burnish.learning.optimizers import make_optimizer
from burnish.learning.routing import muon_plan
from burnish.learning.spec import MuonSpec, OptimizerSpec
from burnish.losses.build import build as build_term
from burnish.losses.spec import CrossEntropySpec
from burnish.models.spec import LoraSpec, ModelSpec
from tests.learning.test_memory import model_of, shown
from tests.tiny import tiny_network


def matrix(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def steps(optimizer: torch.optim.Optimizer, parameters: list[Tensor], count: int = 4) -> None:
    for step in range(count):
        for number, parameter in enumerate(parameters):
            two = parameter.dim() == 2
            even = torch.full_like(parameter, 0.1 * (step + 1))
            parameter.grad = matrix(*parameter.shape, seed=100 * step + number) if two else even
        optimizer.step()


# ---------------------------------------------------------------- the update


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (8, 8)])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("scale", ["match_rms", "original"])
def test_in_bfloat16_the_bits_are_those_of_torchs_muon(shape: tuple[int, int], nesterov: bool, scale: Any) -> None:
    spec = MuonSpec(nesterov=nesterov, scale=scale, precision="bfloat16")
    ours, theirs = matrix(*shape), matrix(*shape)
    adjust = "match_rms_adamw" if scale == "match_rms" else "original"
    other = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, nesterov=nesterov, adjust_lr_fn=adjust)
    own = make_optimizer(OptimizerSpec(name="muon", weight_decay=0.1, muon=spec), [ours], 0.02)
    steps(own, [ours])
    steps(other, [theirs])
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6)])
@pytest.mark.parametrize(("coefficients", "low", "high"), [("jordan", 0.68, 1.14), ("polar", 0.86, 1.15)])
def test_singular_values_become_about_one_and_directions_stay(
    shape: tuple[int, int], coefficients: Any, low: float, high: float
) -> None:
    """Bounds of rl.md 15 for rectangular matrices; U V^T by a singular value decomposition in float64."""
    given = matrix(*shape, seed=3)
    found = orthogonalized(given, MuonSpec(coefficients=coefficients)).double()
    values = torch.linalg.svdvals(found)
    assert values.min() > low and values.max() < high
    left, _, right = torch.linalg.svd(given.double(), full_matrices=False)
    turned = left.mT @ found @ right.mT  # diagonal: no direction mixes with another
    assert (turned - torch.diag(turned.diagonal())).abs().max() < 1e-4


def test_more_iterations_of_polar_express_come_closer() -> None:
    given = matrix(12, 12, seed=1)
    specs = [MuonSpec(coefficients="polar", iterations=n) for n in (3, 5, 8)]
    errors = [float((torch.linalg.svdvals(orthogonalized(given, spec)) - 1).abs().max()) for spec in specs]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.2


def test_a_stack_is_many_matrices() -> None:
    stack = torch.stack([matrix(5, 8, seed=n) for n in range(3)])
    for spec in (MuonSpec(), MuonSpec(coefficients="polar")):
        together = orthogonalized(stack, spec)
        assert torch.allclose(together, torch.stack([orthogonalized(m, spec) for m in stack]), atol=1e-5)


def test_nothing_divides_by_zero() -> None:
    for normalise in (False, True):
        parameter = matrix(4, 6)
        before = parameter.clone()
        optimizer = make_optimizer(OptimizerSpec(name="muon", muon=MuonSpec(normalise=normalise)), [parameter], 0.1)
        parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        assert torch.equal(parameter, before)


def test_scales_are_as_they_are_defined() -> None:
    assert scale_of(4, 16, MuonSpec()) == pytest.approx(0.2 * 4)
    assert (scale_of(4, 16, MuonSpec(scale="original")), scale_of(16, 4, MuonSpec(scale="original"))) == (1.0, 2.0)
    assert scale_of(4, 16, MuonSpec(scale="spectral")) == 0.5


@pytest.mark.parametrize("shape", [(16, 24), (24, 16), (32, 96)])
def test_the_size_of_a_step_is_about_that_of_adamw(shape: tuple[int, int]) -> None:
    """Root mean square 0.2 times the learning rate, or a little less: AdamW's learning rate carries over."""
    parameter = torch.zeros(shape)
    optimizer = make_optimizer(OptimizerSpec(name="muon"), [parameter], 1.0)
    parameter.grad = matrix(*shape)
    optimizer.step()
    assert 0.15 < float(parameter.square().mean().sqrt()) < 0.21


def test_rows_are_evened_out_at_the_same_norm() -> None:
    gradient = matrix(8, 20) * torch.logspace(0, -2, 8)[:, None]
    plain, even = torch.zeros(8, 20), torch.zeros(8, 20)
    for parameter, normalise in ((plain, False), (even, True)):
        optimizer = make_optimizer(OptimizerSpec(name="muon", muon=MuonSpec(normalise=normalise)), [parameter], 1.0)
        parameter.grad = gradient
        optimizer.step()
    assert float(even.norm()) == pytest.approx(float(plain.norm()), rel=1e-4)
    rows = [p.norm(dim=1) for p in (plain, even)]
    assert float(rows[1].std() / rows[1].mean()) < 1e-3 < float(rows[0].std() / rows[0].mean())


def test_what_is_not_a_matrix_is_adamws_with_its_own_learning_rate() -> None:
    spec = OptimizerSpec(name="muon", betas=(0.8, 0.9), weight_decay=0.1, muon=MuonSpec(rest_lr=3.0))
    ours = [matrix(4, 6), torch.ones(5)]
    theirs = torch.ones(5)
    own = make_optimizer(spec, ours, 0.01)
    other = torch.optim.AdamW([theirs], lr=0.03, betas=(0.8, 0.9), weight_decay=0.1, fused=True)
    for group in own.param_groups:
        group["lr"] = 0.01  # as the learner sets it at each step
    steps(own, ours)
    steps(other, [theirs])
    assert torch.equal(ours[1], theirs)


def test_maps_that_are_fused_are_each_by_itself() -> None:
    gradient, blocks = matrix(10, 7), Blocks((4, 2, 4))
    whole, apart = torch.zeros(10, 7), [torch.zeros(size, 7) for size in blocks.sizes]
    settings: dict[str, Any] = {"lr": 0.1, "betas": (0.9, 0.9), "eps": 1e-8, "weight_decay": 0.0, "muon": MuonSpec()}
    fused = Muon([whole], [blocks], **settings)
    separate = Muon(apart, [Blocks.of(p) for p in apart], **settings)
    whole.grad = gradient
    for parameter, piece in zip(apart, gradient.split(blocks.sizes), strict=True):
        parameter.grad = piece.clone()
    fused.step()
    separate.step()
    assert torch.allclose(whole, torch.cat(apart), atol=1e-6)
    turned = torch.zeros(7, 10)
    columns = Muon([turned], [Blocks((4, 2, 4), transposed=True)], **settings)
    turned.grad = gradient.mT.contiguous()
    columns.step()
    assert torch.allclose(turned.mT, whole, atol=1e-6)


# ---------------------------------------------------------------- who gets it


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi3", "qwen3_moe"])
def test_linear_maps_are_muons_and_the_rest_is_adamws(family: str) -> None:
    network = tiny_network(family)
    names = [name for name, _ in network.named_parameters()]
    plan = dict(zip(names, muon_plan(network, names), strict=True))
    taken = {name for name, blocks in plan.items() if blocks is not None}
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
    for name in names:
        words = ("embed", "wte", "wpe", "lm_head", "norm", "ln_", "bias", "mlp.gate.weight")
        assert (name in taken) != any(word in name for word in words), (name, shapes[name])
    fused = {name: blocks.sizes for name, blocks in plan.items() if blocks is not None and len(blocks.sizes) > 1}
    assert bool(fused) == (family in ("gpt2", "phi3"))
    whole = muon_plan(network, names, split=False)
    assert all(len(blocks.sizes) == 1 for blocks in whole if blocks is not None)


def test_what_chooses_experts_is_known_by_its_name_too() -> None:
    network = nn.ModuleDict({"router": nn.Linear(6, 3), "gate": nn.Linear(6, 3), "gate_proj": nn.Linear(6, 3)})
    names = [f"{name}.weight" for name in network]
    assert [blocks is not None for blocks in muon_plan(network, names)] == [False, False, True]


class Alone(nn.Module):
    """No linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 3)


def test_a_network_without_a_linear_map_is_refused() -> None:
    with pytest.raises(InputError, match="muon is for matrices of linear maps"):
        muon_plan(Alone(), ["table.weight"])


def test_adapters_are_muons() -> None:
    from burnish.models.loading import load_model

    model = load_model(ModelSpec(path="nursery:S", dtype="float32", adapter=LoraSpec(rank=2)))
    learner = Learner(model, OptimizerSpec(name="muon", lr=1e-3))
    assert learner.plan and all(blocks is not None for blocks in learner.plan)


def test_a_learner_learns_with_it_and_goes_on_from_its_state() -> None:
    groups, terms = shown(3, 12), [build_term(CrossEntropySpec())]

    def learner() -> Learner:
        return Learner(model_of(), OptimizerSpec(name="muon", lr=0.02, muon=MuonSpec(normalise=True)), total_steps=9)

    whole = learner()
    losses = [whole.update(groups, terms)["loss"] for _ in range(6)]
    assert losses[-1] < 0.8 * losses[0]
    first = learner()
    for _ in range(3):
        first.update(groups, terms)
    values, tensors = first.state()
    again = learner()
    again.load(values, {name: tensor.clone() for name, tensor in tensors.items()})
    assert [again.update(groups, terms)["loss"] for _ in range(3)] == losses[3:]
    for name, parameter in again.masters.parameters.items():
        assert torch.equal(parameter, whole.masters.parameters[name]), name
