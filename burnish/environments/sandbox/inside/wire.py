"""Messages between Burnish and a sandbox: a JSON header and bytes, each with its length before it."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LENGTHS = struct.Struct("!II")


def pack(header: dict[str, Any], blob: bytes = b"") -> bytes:
    """A message as it travels."""
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(blob)) + text + blob


def send(channel: socket.socket, header: dict[str, Any], blob: bytes = b"") -> None:
    """Send a message, waiting until it is gone."""
    channel.sendall(pack(header, blob))


def receive(channel: socket.socket) -> tuple[dict[str, Any], bytes] | None:
    """The next message, or None when the other side has closed."""
    lengths = _exactly(channel, LENGTHS.size)
    if lengths is None:
        return None
    text_length, blob_length = LENGTHS.unpack(lengths)
    text, blob = _exactly(channel, text_length), _exactly(channel, blob_length)
    return None if text is None or blob is None else (json.loads(text), blob)


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = channel.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
