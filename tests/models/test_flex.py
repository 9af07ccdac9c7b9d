"""FlexAttention's block mask is made from the slots and hides exactly what the forest's own calls hide.

Only the eager form runs on a CPU. tests/gpu has the compiled one, with its backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention.flex_attention import create_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from burnish.models import flex
from burnish.models.forest import Forest

WINDOWS = (None, 1, 60, 500)


def random_forest(seed: int, slots: int, longest: int) -> Forest:
    """Trees with empty and long slots, chains and wide branchings, across the edges of blocks."""
    rng = np.random.default_rng(seed)
    parents, root = [], 0
    for index in range(slots):
        new = index == 0 or rng.random() < 0.15
        root = index if new else root
        parents.append(-1 if new else int(rng.integers(root, index)))
    lengths = rng.integers(0, longest, slots)
    return Forest.build([torch.from_numpy(rng.integers(0, 97, n)) for n in lengths], parents)


def visible(forest: Forest, window: int | None) -> Tensor:
    """Which key each query sees, bool [N, N]: worked out path by path."""
    seen = torch.zeros(len(forest), len(forest), dtype=torch.bool)
    for index, slot in enumerate(forest.slots):
        path = [forest.slots[a] for a in forest.ancestors(index)]
        keys = torch.cat([torch.arange(s.start, s.stop) for s in path])
        for place in range(slot.start, slot.stop):
            upto = keys[keys <= place]
            seen[place, upto if window is None else upto[-window:]] = True
    return seen


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("seed", "slots", "longest"), [(0, 9, 90), (1, 30, 40), (2, 4, 400), (3, 1, 300), (4, 12, 130)]
)
def test_the_block_mask_shows_what_the_paths_show(seed: int, slots: int, longest: int, window: int | None) -> None:
    forest = random_forest(seed, slots, longest)
    expected = visible(forest, window)
    count = len(forest)
    token_mask = create_mask(flex.mask_function(forest, window), 1, 1, count, count, device="cpu")[0, 0]
    assert torch.equal(token_mask, expected)
    some, whole = flex.block_tables(forest, window)
    padded = torch.zeros(len(some) * flex.BLOCK, len(some) * flex.BLOCK, dtype=torch.bool)
    padded[:count, :count] = expected
    blocks = padded.unflatten(1, (-1, flex.BLOCK)).unflatten(0, (-1, flex.BLOCK)).transpose(1, 2).flatten(2)
    rows = torch.ones(len(some) * flex.BLOCK, dtype=torch.bool)
    rows[count:] = False
    of_rows = blocks.unflatten(2, (flex.BLOCK, flex.BLOCK)) | ~rows.view(-1, 1, flex.BLOCK, 1)
    assert not (blocks.any(-1).numpy() & ~some).any(), "a block that is seen was left out"
    assert not (whole & ~of_rows.all(-1).all(-1).numpy()).any(), "a block that is partly hidden was called whole"
    if window is None:
        assert (blocks.any(-1).numpy() == some).all(), "a block that nobody sees would be computed"


def test_most_blocks_of_a_long_chain_are_whole_and_those_beyond_the_window_are_left_out() -> None:
    forest = Forest.build([torch.zeros(1000), torch.zeros(1048)], [-1, 0])
    some, whole = flex.block_tables(forest, None)
    assert whole.sum() == 16 * 15 // 2 and some.sum() == whole.sum() + 16
    some, whole = flex.block_tables(forest, 256)
    assert some.sum() <= 16 + 15 + 14 and whole.sum() >= 14
    mask = flex.block_mask(forest, 256)
    assert int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum()) == some.sum()
    assert mask.kv_indices.dtype == torch.int32 and mask.shape == (1, 1, 2048, 2048)


class _Largest(TorchDispatchMode):
    """Elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def test_making_it_holds_nothing_that_grows_with_the_square_of_the_tokens() -> None:
    runs, parents = [torch.zeros(2048)] + [torch.zeros(1024)] * 8, [-1] + [0] * 8
    forest = Forest.build(runs, parents)
    with _Largest() as seen:
        flex.block_mask(forest, None)
    assert seen.elements <= len(forest)


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_lengths_trees_windows_and_caps_are_no_reason_to_compile_again(softcap: float | None) -> None:
    """A kernel takes long to compile, and torch stops compiling after eight: traced once, whatever is asked of it."""
    counter = CompileCounterWithBackend("eager")
    torch._dynamo.reset()
    run = torch.compile(flex_attention, dynamic=True, fullgraph=True, backend=counter)
    for seed, slots in enumerate((6, 9, 17)):
        for window in (None, 30):
            forest = random_forest(seed, slots, 200)
            assert len(forest) > flex.BLOCK  # a size of 1 is compiled in
            query = torch.randn(1, 4, len(forest), 16)
            key, value = torch.randn(2, 1, 2, len(forest), 16)
            cap = None if softcap is None else softcap + seed
            arguments = {"scaling": 0.3, "window": window, "softcap": cap}
            compiled = run(
                query * (0.3 * 4), key, value, block_mask=flex.block_mask(forest, window), enable_gqa=True,
                score_mod=None if cap is None else flex._capped(cap, query.device),
            ).transpose(1, 2)  # fmt: skip
            torch.testing.assert_close(compiled, forest.attend(0, query, key, value, **arguments), rtol=1e-5, atol=1e-5)
    assert counter.frame_count == 1
