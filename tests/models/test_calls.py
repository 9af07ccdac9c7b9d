"""However a forest's attention is cut into calls, it is what one dense mask over everything gives, with gradients."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.models.call_attention import Attention
from burnish.models.calls import Branches, Trees, plan
from burnish.models.forest import Forest, Slot

HEADS, KV_HEADS, SIZE = 4, 2, 8


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Up to three trees of up to eight runs, some of them empty."""
    runs, parents = [], []
    for _ in range(draw(st.integers(1, 3))):
        root = len(runs)
        for index in range(draw(st.integers(1, 8))):
            parents.append(-1 if index == 0 else draw(st.integers(root, root + index - 1)))
            runs.append(torch.zeros(draw(st.sampled_from([0, 1, 2, 2, 3, 5]))))
    return Forest.build(runs, parents)


def dense(forest: Forest, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, how: dict) -> torch.Tensor:
    """The same attention from one [N, N] mask, written from what a forest means and nothing else."""
    home = torch.tensor([i for i, slot in enumerate(forest.slots) for _ in range(len(slot))])
    slots = range(len(forest.slots))
    on_path = torch.tensor([[other in forest.ancestors(slot) for other in slots] for slot in slots])
    distance = forest.positions[:, None] - forest.positions
    seen = on_path[home][:, home] & (distance >= 0)
    if how["window"] is not None:
        seen &= distance < how["window"]
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * how["scaling"]
    if how["softcap"] is not None:
        scores = how["softcap"] * torch.tanh(scores / how["softcap"])
    return (torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ v).transpose(1, 2)


def assert_as_dense(forest: Forest, width: int, window: int | None, softcap: float | None) -> Attention:
    """The calls give what one dense mask over everything gives, and the same gradients."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, heads, len(forest), SIZE, generator=generator, dtype=torch.float64, requires_grad=True)
        for heads in (HEADS, KV_HEADS, KV_HEADS)
    )
    how = {"scaling": 0.3, "window": window, "softcap": softcap}
    attention = Attention(plan(forest.slots, width), forest.positions, forest.seen)
    weights = torch.randn(1, len(forest), HEADS, SIZE, generator=generator, dtype=torch.float64)
    results = []
    for output in (attention.attend(q, k, v, **how), dense(forest, q, k, v, how)):
        results.append((output, *torch.autograd.grad((output * weights).sum(), (q, k, v))))
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-9)
    return attention


@settings(deadline=None, max_examples=150)
@given(
    forests().filter(len),
    st.sampled_from([1, 10**4, 10**6, 10**9]),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 2.0]),
)
def test_any_cut_gives_what_one_dense_mask_gives(
    forest: Forest, width: int, window: int | None, softcap: float | None
) -> None:
    """`width` decides what a call costs: from one product over everything to one for every slot."""
    assert_as_dense(forest, width, window, softcap)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [None, 100, 1000])
def test_slots_longer_than_a_block_of_queries_give_the_same(window: int | None, softcap: float | None) -> None:
    """A conversation of 300 tokens, and two answers to it beyond the 256 of a block, one that fills blocks exactly."""
    runs, parents = [20, 280, 270, 512, 0, 3], [-1, 0, 1, 1, 1, 4]
    forest = Forest.build([torch.zeros(length) for length in runs], parents)
    attention = assert_as_dense(forest, 10**9, window, softcap)
    assert all(isinstance(call, Branches) for call in attention.calls)
    bands = {mask.shape[0] for mask in attention.masks() if mask.dim() == 2 and mask.is_floating_point()}
    assert min(256, window or 256) in bands  # blocks were used
    if window is None:
        assert max(bands) == 256  # and no mask of a slot's length squared


class Counted(int):
    """A token's place that counts how often it, or what is computed from it, is compared."""

    compared = 0

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)

    def __add__(self, other: int) -> Counted:
        return Counted(int(self) + int(other))

    def __sub__(self, other: int) -> Counted:
        return Counted(int(self) - int(other))


def test_planning_a_group_costs_the_same_for_each_of_its_answers() -> None:
    def comparisons(samples: int) -> int:
        places = [Counted(7 * i) for i in range(samples + 2)]
        slots = [
            Slot(start, stop, -1 if i == 0 else 0, 7 * (i > 0)) for i, (start, stop) in enumerate(pairwise(places))
        ]
        Counted.compared = 0
        [_, answers] = plan(slots, 2048)
        assert isinstance(answers, Branches) and len(answers.lengths) == samples
        return Counted.compared

    assert 0 < comparisons(400) < 2.2 * comparisons(200)


@settings(deadline=None, max_examples=100)
@given(forests(), st.sampled_from([1, 10**4, 10**6, 10**9]))
def test_calls_cover_every_token_once_and_in_order(forest: Forest, width: int) -> None:
    edges = [0]
    for call in plan(forest.slots, width):
        assert call.start == edges[-1]
        edges.append(call.stop)
    assert edges[-1] == len(forest)


@pytest.mark.parametrize("samples", [2, 8, 32])
def test_a_group_is_two_calls_whose_pairs_grow_as_the_group_does(samples: int) -> None:
    """One for the prompt, one for all samples: no product over samples x samples."""
    forest = Forest.build([torch.zeros(64)] + [torch.zeros(30 + i % 3) for i in range(samples)], [-1] + [0] * samples)
    prompt, answers = plan(forest.slots, 2048)
    assert isinstance(prompt, Branches) and isinstance(answers, Branches)
    assert (prompt.stop, len(answers.lengths)) == (64, samples)
    assert answers.pairs == samples * max(answers.lengths) * (64 + max(answers.lengths))


def test_small_trees_share_a_product_and_a_conversation_is_one_stretch() -> None:
    small = Forest.build([torch.zeros(2)] * 6, [-1, 0, 0, -1, 3, 3])
    assert [type(call) for call in plan(small.slots, 64)] == [Trees]
    turns = Forest.build([torch.zeros(9)] * 4, [-1, 0, 1, 2])
    [whole] = plan(turns.slots, 64)
    assert isinstance(whole, Branches) and whole.lengths == (36,)
