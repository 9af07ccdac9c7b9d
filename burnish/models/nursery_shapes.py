"""The nursery's names, characters and shapes: what is known of its models without making one. No torch here."""

from __future__ import annotations

import string
from dataclasses import dataclass

PREFIX = "nursery:"
"""How a model path names a nursery model: nursery:arithmetic-S, or nursery:S for a fresh one."""

PAD, BOS, EOS, UNKNOWN = SPECIAL_TOKENS = ("‹pad›", "‹bos›", "‹eos›", "‹unk›")
"""Written with a character that is none of the vocabulary's, so that no text of those spells a special token."""
CHARACTERS = "\n " + string.digits + string.ascii_letters + string.punctuation
"""One token each, in this order after the special ones: newline and the printable ASCII characters."""


@dataclass(frozen=True)
class NurserySize:
    """Shape of a network; `heads` query heads share `kv_heads` key and value heads."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int


SIZES = {
    "S": NurserySize(hidden=96, layers=5, heads=4, kv_heads=2, intermediate=256),
    "M": NurserySize(hidden=160, layers=5, heads=5, kv_heads=5, intermediate=432),
    "L": NurserySize(hidden=256, layers=6, heads=8, kv_heads=4, intermediate=688),
}
"""About 0.5, 1.6 and 4.4 million parameters."""
