"""Text of any origin made safe and visible in HTML: markup escaped, characters that hide or reorder shown."""

from __future__ import annotations

import html
import re

# Controls (but newline and tab), zero-width and bidirectional characters, line separators, tags, lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

LONGEST = 4000
"""Characters of one text that a report shows."""


def shown(text: str, *, longest: int = LONGEST) -> str:
    """HTML of a text: escaped, with hidden characters named in place and what is left out counted."""
    rest = len(text) - longest
    escaped = html.escape(text[:longest] if rest > 0 else text)
    named = _HIDDEN.sub(lambda match: f'<span class="hidden">U+{ord(match[0]):04X}</span>', escaped)
    return f'{named}<span class="hidden">{rest} more characters</span>' if rest > 0 else named


def number(value: float) -> str:
    """A number in about four characters that differ: 0.1234, 12.3, 1,234, 2.5e-05."""
    size = abs(value)
    if size != 0 and (size < 1e-3 or size >= 1e9):
        return f"{value:.2g}"
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.3f}".rstrip("0")
