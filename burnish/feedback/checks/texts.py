"""Texts compared after named normalisations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Literal

Normalisation = Literal["width", "case", "accents", "punctuation", "articles", "space"]
"""width: compatibility forms (NFKC), so that a full-width 5 is a 5; case: upper and lower alike; accents: é is e;
punctuation: signs are left out; articles: a, an, the are left out; space: runs of white space are one blank."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


def normalised(text: str, names: Collection[str]) -> str:
    """The text after the named normalisations, always in the order in which `Normalisation` lists them.

    >>> normalised("  The Café!", ["case", "accents", "punctuation", "articles", "space"])
    'cafe'
    """
    if "width" in names:
        text = unicodedata.normalize("NFKC", text)
    if "case" in names:
        text = text.casefold()
    if "accents" in names:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    if "punctuation" in names:
        text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
    if "articles" in names:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split()) if "space" in names else text
