"""A GPU that is not there: tensors that say they are on cuda:0, are kept on the CPU, and mix with no CPU tensor.

Code that makes a tensor on the wrong device, or hands one over, fails here as it would on a GPU, and every moment at
which a GPU would have to be waited for is counted. The numbers are a CPU's; no kernel of a GPU is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

GPU = torch.device("cuda", 0)
_META = torch.device("meta")
"""What the tensors are to the C++ code, which asks nothing of such a device."""

_aten = torch.ops.aten
_WAITS = {
    _aten._local_scalar_dense.default, _aten.nonzero.default, _aten.masked_select.default, _aten._unique2.default,
    _aten.equal.default, _aten.unique_dim.default,
}  # fmt: skip
"""Operations whose result, or the size of it, a program on the CPU has to wait for."""
_INDEXING = {_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default, _aten._unsafe_index_put.default}
"""A CPU tensor may index one on a GPU."""


class Pretend(Tensor):
    """A tensor on the GPU that is not there; `kept` has its numbers."""

    kept: Tensor

    @staticmethod
    def __new__(cls, kept: Tensor) -> Pretend:
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, kept.size(), strides=kept.stride(), storage_offset=kept.storage_offset(), dtype=kept.dtype,
            layout=kept.layout, device=_META,
        )  # fmt: skip
        made.kept = kept
        return made

    device = property(lambda self: GPU)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]
    is_meta = property(lambda self: False)  # type: ignore[assignment]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Pretend({self.kept!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run([], func, args, kwargs or {})


def _run(waits: list[str], func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One operation, on the numbers; refuses what a GPU would refuse."""
    wrappers: dict[int, Pretend] = {}
    plain: list[Tensor] = []

    def unwrapped(value: Any) -> Any:
        if isinstance(value, Pretend):
            wrappers[id(value.kept)] = value
            return value.kept
        if isinstance(value, Tensor) and value.dim():
            plain.append(value)
        return value

    given = tree_map(unwrapped, (args, kwargs))
    device = kwargs.get("device")
    there = bool(wrappers) if device is None else torch.device(device).type != "cpu"
    if device is not None:
        given = (given[0], {**given[1], "device": torch.device("cpu")})
    moves = func in (_aten._to_copy.default, _aten.copy_.default)
    if wrappers and plain and not moves:
        allowed = func in _INDEXING and all(t.dtype in (torch.long, torch.bool) for t in plain)
        if not allowed:
            raise AssertionError(f"{func} is given tensors of the CPU and of the GPU")
    data_dependent = func in _INDEXING and any(
        isinstance(index, Pretend) and index.dtype == torch.bool for index in args[1] if index is not None
    )
    from_gpu = moves and wrappers and (not there or not isinstance(args[0], Pretend))
    if wrappers and (func in _WAITS or from_gpu or data_dependent):
        waits.append(str(func))
    result = func(*given[0], **given[1])
    if func is _aten._local_scalar_dense.default or not there:
        return args[0] if func is _aten.copy_.default else result
    return tree_map(lambda x: wrappers.get(id(x), Pretend(x)) if isinstance(x, Tensor) else x, result)


class _Devices(TorchFunctionMode):
    """Hands on "cuda" as the device that `Pretend` has to the C++ code."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and _is_gpu(kwargs.get("device")):
            return Pretend(func(*args, **{**kwargs, "device": None}))
        args = tuple(_META if _is_gpu(a) else a for a in args)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1]), *args[2:])  # C++ would make it where `Pretend` says it is
        return func(*args, **{k: _META if _is_gpu(v) else v for k, v in kwargs.items()})


def _is_gpu(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "cuda") or (
        isinstance(value, str) and value.startswith("cuda")
    )


class _Operations(TorchDispatchMode):
    def __init__(self, waits: list[str]) -> None:
        super().__init__()
        self.waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(self.waits, func, args, kwargs or {})


@contextmanager
def pretended() -> Iterator[list[str]]:
    """A context in which cuda:0 can be computed on; the list grows by every operation that waits for it."""
    waits: list[str] = []
    with _Devices(), _Operations(waits):
        yield waits


def moved(network: nn.Module) -> nn.Module:
    """The network with its parameters and buffers on the GPU that is not there; tied ones stay tied."""
    made: dict[int, Any] = {}
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if id(parameter) not in made:
                    made[id(parameter)] = nn.Parameter(Pretend(parameter.detach()), parameter.requires_grad)
                module._parameters[name] = made[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = made.setdefault(id(buffer), Pretend(buffer))
    return network
