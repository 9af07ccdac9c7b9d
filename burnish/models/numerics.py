"""float64 that is float64 throughout.

transformers casts norms, softmaxes and router logits to float32 whatever the model's dtype. In a float64 model those
casts would round: the same gradient, summed in another order, would differ in the eighth digit, and promise E1 could
not be checked to 1e-10. Inside `full_float64` such casts of float64 tensors are left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CASTS = (torch.Tensor.to, torch.Tensor.float, torch.Tensor.type)
_WITH_DTYPE = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax, torch.nn.functional.log_softmax)


class full_float64(TorchFunctionMode):  # noqa: N801 - used as a context manager
    """Context in which float64 tensors are not cast down to float32."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        tensor = args[0] if args else None
        if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float64:
            if func is torch.Tensor.float:
                return tensor
            if func in _CASTS:
                args = tuple(torch.float64 if a is torch.float32 else a for a in args)
            if func in _CASTS or func in _WITH_DTYPE:
                kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        return func(*args, **kwargs)
