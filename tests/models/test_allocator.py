"""Freed memory stays with the process: a step that asks for it again does not fault its pages in anew."""

from __future__ import annotations

import platform
import subprocess
import sys

from burnish.models.allocator import keep_freed_memory

_WORK = """
import resource, sys
import torch
from burnish.models.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def step():
    kept = [torch.ones(2_000_000) for _ in range(40)]  # 8 MB each, all alive at once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del kept
    again = [torch.ones(2_000_000) for _ in range(40)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
step()
print(step())
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _WORK, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_that_was_freed_is_there_for_the_next_step() -> None:
    if keep_freed_memory():
        assert faults("kept") < 2_000  # of 78,000 pages; what is given back otherwise is glibc's affair
    else:  # another C library: nothing is changed, and nothing is promised
        assert platform.libc_ver()[0] != "glibc"
