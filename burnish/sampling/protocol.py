"""What a sampler is: prompts as token ids in, completions as token ids with their log-probabilities out. No torch here.

The protocol asks for nothing but tokens, so that a server reached over the network can keep it as well as the local
engine: `sample` starts from a prompt, `extend` continues a session, `publish` tells of new weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.ledger import Ledger
from burnish.traces import Support

Finish = Literal["stop", "length", "context", "cancelled"]
"""Why a completion ended: a stop token, `max_tokens`, the model's context is full, or `cancel` was called."""


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn. Raises InputError for a value out of range.

    The order is that of transformers: the logits are divided by `temperature`; `top_k` keeps the k most probable
    tokens (and any that tie with the k-th); `top_p` keeps, of what is left and renormalised, the smallest set of most
    probable tokens whose mass reaches top_p; `min_p` drops tokens less probable than min_p times the most probable
    one. The draw is from the renormalised rest. Temperature 0 is greedy decoding: the most probable token, the first
    of equals.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    """0: no limit."""
    top_p: float = 1.0
    min_p: float = 0.0
    stop_ids: frozenset[int] = frozenset()
    """Token ids that end a completion; the stop token itself is part of it."""

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise InputError(f"max_tokens must be at least 1, not {self.max_tokens}")
        if not 0 <= self.temperature < float("inf"):
            raise InputError(f"temperature must be 0 (greedy) or a positive number, not {self.temperature}")
        if self.top_k < 0:
            raise InputError(f"top_k must be 0 (no limit) or more, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p must lie above 0 and at most at 1 (no limit), not at {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise InputError(f"min_p must lie between 0 (no limit) and 1, not at {self.min_p}")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken instead of a draw."""
        return self.temperature == 0

    @property
    def truncates(self) -> bool:
        """Whether some tokens may be cut from the distribution before the draw."""
        return not self.greedy and (self.top_k > 0 or self.top_p < 1 or self.min_p > 0)


@dataclass
class Completion:
    """T sampled tokens with what is needed to train on them."""

    tokens: npt.NDArray[np.int32]
    """Ids [T], the stop token included."""
    logprobs: npt.NDArray[np.float32]
    """Log-probability [T] of each token under the distribution it was drawn from: temperature and truncation included.
    Of a greedy token: under the model's own distribution (temperature 1, nothing cut)."""
    versions: npt.NDArray[np.int32]
    """Weight version [T] that each token was computed with."""
    finish: Finish
    support: Support | None = None
    """The kept token ids at each token, present when top_k, top_p or min_p was on."""
    greedy: bool = False
    """The tokens were not drawn but chosen: a likelihood ratio on them has no meaning."""
    session: Any = field(default=None, repr=False)
    """Handle for `extend`; None where the sampler cannot continue."""
    prefilled: int | None = None
    """Tokens before the first sampled one that were computed for it; of n samples of a prompt the first has them all.
    None where the sampler does not tell."""
    flops: int | None = None
    """Floating point operations of these tokens and of `prefilled` (docs/ledger.md). None where the sampler does not
    tell."""


class Sampler(Protocol):
    """An engine with a named model and a weight version."""

    name: str

    @property
    def version(self) -> int:
        """Weight version of the tokens sampled from now on."""
        ...

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
        keep: bool = True,
    ) -> list[Completion]:
        """n completions of a prompt. `keep`: they may be continued with `extend`; False saves the memory for that.

        Completion i draws with the numbers of (seed, task, sample + i, position), position being a token's place in
        the whole sequence; they depend neither on what shares the batch nor on when it runs.
        """
        ...

    async def extend(
        self,
        session: Any,
        tokens: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
    ) -> list[Completion]:
        """n continuations of a completion after further tokens (a tool's answer, the next turn)."""
        ...

    def publish(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        """Every token sampled from now on is computed with the weights of this version and says so."""
        ...

    def cancel(self, task: int) -> None:
        """End the completions of a task with what they have."""
        ...

    def release(self, session: Any) -> None:
        """Give up a session and the memory it holds."""
        ...


def count_samples(ledger: Ledger, role: str, completions: Sequence[Completion]) -> None:
    """Count the samples of one prompt; what the sampler does not tell is not counted."""
    ledger.add(role, "prompts")
    ledger.add(role, "rollouts", len(completions))
    ledger.add(role, "sampled_tokens", sum(len(completion.tokens) for completion in completions))
    for completion in completions:
        if completion.prefilled is not None:
            ledger.add(role, "prefilled_tokens", completion.prefilled)
        if completion.flops is not None:
            ledger.add(role, "flops", completion.flops)
