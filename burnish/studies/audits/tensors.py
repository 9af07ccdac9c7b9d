"""Safetensors files read by rows with numpy: no torch, and never a whole model at once.

The format: eight bytes with the header's length, a JSON header (name -> dtype, shape, offsets), the bytes. bfloat16,
which numpy lacks, is read as the upper half of a float32.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_LARGEST_HEADER = 100_000_000  # bytes, the limit of the safetensors library

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Stored:
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Tensors:
    """The floating tensors of a folder's safetensors files, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stored: dict[str, _Stored] = {}
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise InputError(f"{folder} has no .safetensors file: there are no weights to read")
        for file in files:
            self._stored |= _header(file)

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order of the files."""
        return list(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._stored[name].shape

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        """Entries `start` to `stop` of the first axis, as float32 (a float64 tensor is rounded)."""
        stored = self._stored[name]
        whole = np.memmap(stored.file, dtype=_TYPES[stored.dtype], mode="r", offset=stored.offset, shape=stored.shape)
        part = np.asarray(whole[start:stop] if stored.shape else whole)
        if stored.dtype == "BF16":
            return (part.astype(np.uint32) << 16).view(np.float32)
        return part.astype(np.float32)


def _header(file: Path) -> dict[str, _Stored]:
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header: dict[str, Any] = json.loads(stream.read(length))
        found = {}
        for name, entry in header.items():
            if name == "__metadata__" or entry["dtype"] not in _TYPES:
                continue
            (begin, end), shape = entry["data_offsets"], tuple(int(n) for n in entry["shape"])
            width = np.dtype(_TYPES[entry["dtype"]]).itemsize
            if end - begin != math.prod(shape) * width or 8 + length + end > size:
                raise ValueError(f"tensor {name} does not fit the file")
            if math.prod(shape):
                found[name] = _Stored(file, entry["dtype"], shape, 8 + length + begin)
        return found
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise InputError(f"{file} is damaged or cut short: not a safetensors file ({error})") from None


def to_bfloat16(values: Floats) -> npt.NDArray[np.uint16]:
    """The bits of the nearest bfloat16 (ties to even), for values that are finite."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
