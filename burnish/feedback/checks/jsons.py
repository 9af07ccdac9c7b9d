"""JSON as a candidate writes it: strictly read, every way in which it can be wrong by name."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Where a surrogate may be written, alone or in its pair."""


class BrokenJSON(Exception):  # noqa: N818 - it is the text that is broken, not the program
    """Text that is no JSON value we take; `kind` names how."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def loads(text: str) -> Any:
    """The JSON value that a text consists of. Raises BrokenJSON; NaN, infinities and doubled keys are no JSON, and
    neither is half a surrogate pair, which no text that is written out can hold."""
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_float, object_pairs_hook=_object)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise BrokenJSON("broken_json", "a text in the JSON holds half a surrogate pair") from None
    except RecursionError:
        raise BrokenJSON("too_deep", "the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BrokenJSON("broken_json", f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise BrokenJSON("number_too_large", "an integer in the JSON has too many digits") from None


def _constant(name: str) -> Any:
    raise BrokenJSON("broken_json", f"{name} is no JSON value")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BrokenJSON("number_too_large", f"the number {text[:40]} is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BrokenJSON("broken_json", "an object has one key twice")
    return found


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """What stands at the ends of a JSON value, by its place; an empty object or list is an end.

    >>> leaves({"a": [1, {}], "b": None})
    {('a', 0): 1, ('a', 1): {}, ('b',): None}
    """
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: dict[tuple[str | int, ...], Any] = {}
    for key, each in inner:
        found.update(leaves(each, (*place, key)))
    return found if inner and found else {place: value}


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same: 1 is 1.0, but true is not 1.

    Two whole numbers must be equal; others are the same to a relative 1e-6 or within 1e-12.
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (not (_whole(a) and _whole(b)) and _close(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


def _whole(number: float) -> bool:
    return isinstance(number, int) or number.is_integer()


def _close(a: float, b: float) -> bool:
    try:
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
    except OverflowError:  # a whole number beyond all fractions
        return False
