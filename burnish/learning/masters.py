"""float32 master weights and float32 gradient accumulation beside a lower-precision compute copy.

A micro-batch's gradient is added to the master's float32 gradient as soon as autograd has accumulated it, and the
low-precision gradient is dropped at once: sums over micro-batches never round to bfloat16, and at no time are there
two full sets of gradients. A float32 or float64 model is its own master.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

_LOW = (torch.bfloat16, torch.float16)


class Masters:
    """The trained parameters of a network by name, in the precision the optimizer works in. Get them with `of`."""

    _known: ClassVar[WeakKeyDictionary[nn.Module, Masters]] = WeakKeyDictionary()

    def __init__(self, network: nn.Module) -> None:
        self.compute = {n: p for n, p in network.named_parameters() if p.requires_grad}
        self.parameters: dict[str, Tensor] = {}
        for name, parameter in self.compute.items():
            if parameter.dtype in _LOW:
                master = parameter.detach().float().clone()
                self.parameters[name] = master
                parameter.register_post_accumulate_grad_hook(_adder(master))
            else:
                self.parameters[name] = parameter

    @classmethod
    def of(cls, network: nn.Module) -> Masters:
        """The network's masters. There is one set: a second would lose its gradients to the first."""
        found = cls._known.get(network)
        trained = {n: p for n, p in network.named_parameters() if p.requires_grad}
        if found is None or {id(p) for p in found.compute.values()} != {id(p) for p in trained.values()}:
            found = cls._known[network] = cls(network)
        found._follow()
        return found

    @torch.no_grad()
    def _follow(self) -> None:
        """Take over weights that were written to the compute copy since; a master that still rounds to it stays."""
        for name, parameter in self.compute.items():
            master = self.parameters[name]
            if master is not parameter and not torch.equal(master.to(parameter.dtype), parameter):
                master.copy_(parameter)

    @property
    def separate(self) -> bool:
        """Whether any parameter has a master apart from its compute copy."""
        return any(self.parameters[n] is not p for n, p in self.compute.items())

    def clear_gradients(self) -> None:
        """Drop every gradient."""
        for tensors in (self.parameters, self.compute):
            for tensor in tensors.values():
                tensor.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """Round the masters into the compute copy that learner and sampler share."""
        for name, parameter in self.compute.items():
            if self.parameters[name] is not parameter:
                parameter.copy_(self.parameters[name])

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Set the masters by name and publish them. Raises KeyError for a missing name."""
        for name, master in self.parameters.items():
            master.copy_(tensors[name])
        self.publish()


def _adder(master: Tensor) -> Callable[[Tensor], None]:
    def add(parameter: Tensor) -> None:
        if parameter.grad is not None:
            gradient = parameter.grad.float()
            master.grad = gradient if master.grad is None else master.grad.add_(gradient)
            parameter.grad = None

    return add
