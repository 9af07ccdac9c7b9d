"""transformers and peft without what they print about work of a moment."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


@contextmanager
def quietly() -> Iterator[None]:
    """No bars for reading and writing weights, and no warning of what peft will have to change for transformers 6.

    Bars of downloads from the hub stay: those take long.
    """
    before = logging.set_tqdm_hook(lambda make, arguments, keys: make(*arguments, **{**keys, "disable": True}))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
            yield
    finally:
        logging.set_tqdm_hook(before)
