"""What the C library does with memory that was freed: keep it for the next step, not give it back page by page.

A training step frees gigabytes of activations that the next one asks for again. By default glibc hands the top of its
heap back to the kernel, which zeroes every page anew: about a sixth of a step of the 135M model on two cores.
"""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt (malloc.h)."""
_LARGEST = 32 << 20
"""Above this glibc maps a block of its own whatever it is told (DEFAULT_MMAP_THRESHOLD_MAX on 64-bit machines)."""
_KEPT = (1 << 31) - 1
"""Free bytes at the top of the heap that are kept; the largest number that mallopt takes."""


def keep_freed_memory() -> bool:
    """Let this process keep memory that it frees, for what it allocates next. False where the C library is not glibc.

    The peak of its memory stays what it is; what falls away is giving memory back between steps. Calling it again
    changes nothing.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    return bool(libc.mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(libc.mallopt(_TRIM_THRESHOLD, _KEPT))
