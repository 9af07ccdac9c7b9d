"""Messages between a run and its workers: JSON with its length before it. No pickle, and every size is bounded."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

LONGEST_REPLY = 1 << 20
"""Bytes; a worker that says more is not one of ours any more."""

_HEAD = 4
_PIECE = 1 << 16


def send(connection: socket.socket, message: dict[str, Any], deadline: float | None = None) -> None:
    """Send one message, by `deadline` (of time.monotonic). Raises TimeoutError, or OSError when nobody listens."""
    data = json.dumps(message).encode("ascii")  # escapes whatever is not ASCII, lone surrogates included
    connection.settimeout(_left(deadline))
    connection.sendall(len(data).to_bytes(_HEAD, "big") + data)


def receive(
    connection: socket.socket, deadline: float | None = None, longest: int | None = None
) -> dict[str, Any] | None:
    """The next message, or None when the other side has gone. Raises TimeoutError, ValueError when it is too long.

    One message is under way at a time, so what is received belongs to it.
    """
    data = bytearray()
    while len(data) < _HEAD or len(data) < _HEAD + int.from_bytes(data[:_HEAD], "big"):
        if longest is not None and len(data) >= _HEAD and int.from_bytes(data[:_HEAD], "big") > longest:
            raise ValueError(f"a message of {int.from_bytes(data[:_HEAD], 'big')} bytes")
        connection.settimeout(_left(deadline))
        try:
            piece = connection.recv(_PIECE)
        except ConnectionError:  # ended with something of ours unread
            return None
        if not piece:
            return None
        data += piece
    return json.loads(data[_HEAD:])


def _left(deadline: float | None) -> float | None:
    """Seconds to wait; never 0, which would mean not to wait at all."""
    return None if deadline is None else max(deadline - time.monotonic(), 1e-3)
