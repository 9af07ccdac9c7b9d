"""The lean head by torch's fused operation and by our own chunks: the same numbers, and each where it belongs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from burnish.errors import InputError
from burnish.models.head import Head, KeptSupport
from burnish.models.language_model import LanguageModel
from burnish.models.spec import HeadPath
from tests.tiny import ARCHITECTURES, VOCAB, tiny_network

BOUND = {torch.float64: 1e-12, torch.float32: 2e-6}
CAPPED = {"gemma2"}
"""Tiny models whose logits have a soft cap, which the fused operation does not know."""
BIASED = {"phi"}
"""And those whose logits have a bias, which a temperature divides as well."""


def head_of(architecture: str, dtype: torch.dtype) -> Head:
    return LanguageModel(tiny_network(architecture, dtype=dtype)).head


def outcome(head: Head, path: HeadPath, temperature: Tensor | None, chunk: int | None = 7) -> list[Tensor]:
    """Log-probabilities, and the gradients of their weighted sum in hidden states and weights."""
    generator = torch.Generator().manual_seed(0)
    width = next(head.projection.parameters()).shape[1]
    hidden = torch.randn(30, width, generator=generator, dtype=torch.float64).to(head.dtype).requires_grad_()
    targets = torch.randint(VOCAB, (30,), generator=generator)
    weights = torch.randn(30, generator=generator, dtype=torch.float64).to(head.dtype)
    head.projection.zero_grad()
    logprob, entropy = head.token_statistics(hidden, targets, temperature=temperature, chunk=chunk, path=path)
    assert entropy is None and hidden.dtype == head.dtype
    (logprob * weights).sum().backward()
    found = [logprob.detach(), hidden.grad, *(p.grad for p in head.projection.parameters())]
    return [tensor.clone() for tensor in found if tensor is not None]


@pytest.mark.parametrize("dtype", BOUND, ids=str)
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a not in CAPPED])
@pytest.mark.parametrize("warm", [False, True], ids=["plain", "temperature"])
def test_both_paths_give_the_same_values_and_gradients(architecture: str, dtype: torch.dtype, warm: bool) -> None:
    head = head_of(architecture, dtype)
    temperature = torch.linspace(0.3, 2.0, 30, dtype=torch.float64) if warm else None
    assert head.fuses("auto", temperature=warm) == (architecture not in BIASED or not warm)
    for ours, fused in zip(outcome(head, "chunked", temperature), outcome(head, "auto", temperature), strict=True):
        assert float((ours - fused).norm() / ours.norm()) < BOUND[dtype]


def test_what_the_fused_operation_cannot_do_our_own_chunks_do_and_asking_for_it_is_refused() -> None:
    plain, linear = head_of("llama", torch.float32), nn.Linear(4, 9)
    for head, asked, reason in (
        (head_of("gemma2", torch.float32), {}, "caps its logits"),
        (Head(linear, scale=2.0), {}, "have a bias and are scaled"),
        (Head(nn.Sequential(linear)), {}, "is a Sequential"),
        (head_of("llama", torch.bfloat16), {}, "rounded to bfloat16"),
        (Head(linear), {"temperature": True}, "have a bias and are scaled"),
        (plain, {"entropy": True}, "no entropy"),
        (plain, {"support": True}, "kept support"),
    ):
        assert not head.fuses("auto", **asked)
        with pytest.raises(InputError, match=rf"learner\.head: fused .*{reason}"):
            head.fuses("fused", **asked)
    assert plain.fuses("auto") and plain.fuses("fused") and not plain.fuses("chunked")
    assert Head(linear).fuses("fused") and Head(nn.Linear(4, 9, bias=False), scale=2.0).fuses("fused")


def test_a_bfloat16_head_is_fused_on_a_cpu_only_where_that_is_asked_for_and_rounding_does_not_matter() -> None:
    head = head_of("llama", torch.bfloat16)
    assert not head.fuses("auto", rounded=True) and head.fuses("fused", rounded=True)
    hidden, targets = torch.randn(6, 32, dtype=torch.bfloat16), torch.arange(6)
    ours, _ = head.token_statistics(hidden, targets)
    fused, _ = head.token_statistics(hidden, targets, path="fused", rounded=True)
    assert ours.dtype == fused.dtype == torch.float32
    torch.testing.assert_close(fused, ours, rtol=2**-7, atol=0)
    assert not torch.equal(fused, fused.bfloat16().float() + 1e-3)


def test_a_kept_support_goes_to_our_own_chunks() -> None:
    head = head_of("llama", torch.float32)
    support = KeptSupport(torch.tensor([0, 0]), torch.tensor([3, 4]))
    hidden = torch.randn(2, 32)
    with torch.no_grad():
        logits = head.logits(hidden)
        logprob, _ = head.token_statistics(hidden, torch.tensor([3, 5]), support=support)
    expected = [logits[0, 3:5].log_softmax(-1)[0], logits[1].log_softmax(-1)[5]]
    torch.testing.assert_close(logprob, torch.stack(expected))


class _Largest(TorchDispatchMode):
    """The bytes of the largest tensor that any operation makes."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor):
                self.bytes = max(self.bytes, tensor.numel() * tensor.element_size())
        return result


@pytest.mark.parametrize("path", ["chunked", "fused"])
def test_no_tensor_of_all_tokens_times_vocabulary_is_ever_made(path: HeadPath) -> None:
    head, rows = head_of("llama", torch.float32), 4
    with _Largest() as seen:
        outcome(head, path, None, chunk=rows)
    assert seen.bytes <= max(rows * VOCAB, 30 * 32, VOCAB * 32) * 4 < 30 * VOCAB * 4 * 2
