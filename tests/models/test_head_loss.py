"""A loss inside the head is the loss and the gradient of the same thing written out, chunked anyhow."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from burnish.models.head_loss import head_loss

M, WIDTH, VOCAB = 11, 6, 17


def case(dtype: torch.dtype = torch.float64) -> tuple[nn.Linear, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    projection = nn.Linear(WIDTH, VOCAB, bias=False, dtype=dtype)
    with torch.no_grad():
        projection.weight.copy_(torch.randn(VOCAB, WIDTH, generator=generator))
    hidden = torch.randn(M, WIDTH, generator=generator).to(dtype).requires_grad_()
    targets = torch.randint(VOCAB, (M,), generator=generator)
    return projection, hidden, targets, torch.randn(M, generator=generator, dtype=torch.float64)


def surrogate(logprob: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Something whose slope depends on the log-probability's value, as a clipped ratio's does."""
    return (weight * torch.exp(0.3 * logprob).clamp(max=0.7)).sum()


@pytest.mark.parametrize("rows", [1, 4, 11, 100])
@pytest.mark.parametrize("scaled", [None, 0.25, "each"])
def test_value_and_gradients_are_those_of_the_written_out_loss(rows: int, scaled: float | str | None) -> None:
    projection, hidden, targets, weight = case()
    scale = torch.linspace(0.5, 2, M, dtype=torch.float64) if scaled == "each" else float(scaled or 1.0)

    def part(start: int, stop: int, logprob: torch.Tensor) -> torch.Tensor:
        return surrogate(logprob, weight[start:stop])

    factor = scale[:, None] if isinstance(scale, torch.Tensor) else scale
    logits = hidden @ projection.weight.T * factor
    expected = surrogate(torch.log_softmax(logits, -1).gather(-1, targets[:, None])[:, 0], weight)
    reference = torch.autograd.grad(2.5 * expected, (hidden, projection.weight))
    loss = head_loss(projection, hidden, targets, scale, rows, part)
    found = torch.autograd.grad(2.5 * loss, (hidden, projection.weight))
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(found, reference, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_chunk_that_the_loss_does_not_look_at_gives_zero_gradient() -> None:
    projection, hidden, targets, weight = case()

    def part(start: int, stop: int, logprob: torch.Tensor) -> torch.Tensor:
        return surrogate(logprob, weight[start:stop]) if start else torch.zeros((), dtype=torch.float64)

    head_loss(projection, hidden, targets, 1.0, 4, part).backward()
    assert hidden.grad is not None
    assert not hidden.grad[:4].any() and hidden.grad[4:].any(dim=1).all()


@pytest.mark.parametrize("frozen", ["head", "body"])
def test_only_what_learns_gets_a_gradient(frozen: str) -> None:
    projection, hidden, targets, weight = case()
    projection.weight.requires_grad_(frozen != "head")
    hidden = hidden.detach().requires_grad_(frozen != "body")
    loss = head_loss(projection, hidden, targets, 1.0, 4, lambda a, b, logprob: surrogate(logprob, weight[a:b]))
    loss.backward()
    assert (hidden.grad is None) == (frozen == "body") and (projection.weight.grad is None) == (frozen == "head")


def test_in_bfloat16_the_projections_gradient_is_summed_over_chunks_in_float32() -> None:
    """Summed in bfloat16, it would stop growing at 256 times the smallest step."""
    projection = nn.Linear(1, 2, bias=False, dtype=torch.bfloat16)
    nn.init.zeros_(projection.weight)
    hidden, targets = torch.ones(1000, 1, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.long)
    head_loss(projection, hidden, targets, 1.0, 1, lambda a, b, logprob: logprob.sum()).backward()
    assert projection.weight.grad is not None
    assert projection.weight.grad[:, 0].tolist() == [500.0, -500.0]


def test_a_second_backward_pass_is_refused() -> None:
    projection, hidden, targets, weight = case()
    loss = head_loss(projection, hidden, targets, 1.0, 4, lambda a, b, logprob: surrogate(logprob, weight[a:b]))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        loss.backward()
