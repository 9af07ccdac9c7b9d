"""A sampler that differs from the learner by as much as is asked for: rounded, stale, or at another temperature.

An inference server rounds its weights, samples with those of some updates ago, and runs other kernels. Here the
difference can be set, and the log-probabilities that come with the samples are still those of what was drawn from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.models.language_model import LanguageModel
from burnish.sampling.engine import LocalEngine
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sampling.requests import Session
from burnish.sampling.spec import MismatchSpec


class MismatchedEngine(LocalEngine):
    """Samples from `copy`, a model of the policy's kind that takes over the policy's weights as the spec says.

    Its tokens name the version whose weights computed them: that of some updates ago, where it is stale. Raises
    InputError for a copy whose parameters are not the policy's.
    """

    def __init__(self, policy: LanguageModel, copy: LanguageModel, spec: MismatchSpec, **options: Any) -> None:
        self.policy, self.spec = policy, spec
        self._own = dict(copy.network.named_parameters())
        if self._own.keys() != dict(policy.network.named_parameters()).keys():
            raise InputError("a mismatched sampler needs a copy with the parameters of the policy")
        self._past: list[tuple[int, dict[str, Tensor]]] = []
        copy.version = self._take(policy.version)
        super().__init__(copy, **options)

    def publish(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        """Take over the policy's weights, or those of `stale` versions ago."""
        self.model.version = self._take(version)
        super().publish(self.model.version)

    def _take(self, version: int) -> int:
        now = {name: values.detach() for name, values in self.policy.network.named_parameters()}
        if self.spec.stale:
            self._past.append((version, {name: values.clone() for name, values in now.items()}))
            del self._past[: -self.spec.stale - 1]
            version, now = self._past[0]
        with torch.no_grad():
            for name, values in now.items():
                self._own[name].copy_(rounded(values, self.spec.rounded))
        return version

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
        """See Sampler; at the spec's multiple of the temperature."""
        heated = self._heated(params)
        return await super().sample(prompt, heated, n=n, seed=seed, task=task, sample=sample, keep=keep)

    async def extend(
        self,
        session: Session,
        tokens: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
    ) -> list[Completion]:
        """See Sampler; at the spec's multiple of the temperature."""
        return await super().extend(session, tokens, self._heated(params), n=n, seed=seed, task=task, sample=sample)

    def _heated(self, params: SamplingParams) -> SamplingParams:
        return replace(params, temperature=params.temperature * self.spec.temperature)


def rounded(values: Tensor, to: str) -> Tensor:
    """Values as a coarser type would hold them; int8 has a scale for each row, and leaves vectors alone."""
    if to == "bfloat16":
        return values.to(torch.bfloat16).to(values.dtype)
    if to == "int8" and values.ndim > 1:
        scale = values.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / 127
        return (values / scale).round() * scale
    return values
