"""The way to one sandbox: a request goes out, an answer comes back, in time or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any

from burnish.environments.sandbox.inside import wire
from burnish.environments.sandbox.results import SandboxError


class Channel:
    """Burnish's end of a sandbox's socket."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._socket = channel

    async def ask(self, request: dict[str, Any], blob: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """The answer's header and bytes. Raises SandboxError: the sandbox has ended, or is late."""
        try:
            return await asyncio.wait_for(self._talk(wire.pack(request, blob)), seconds)
        except TimeoutError as error:
            raise SandboxError(f"the sandbox did not answer within {seconds:g} s") from error

    async def end(self, seconds: float) -> bool:
        """Let the sandbox end, and close. False: it was not seen to end within that time."""
        try:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)  # its first process ends when it reads that
            await asyncio.wait_for(self._rest(), seconds)
            return True
        except TimeoutError:
            return False
        finally:
            self.close()

    def close(self) -> None:
        """Close; a sandbox that listens to it ends."""
        self._socket.close()

    async def _talk(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        with contextlib.suppress(OSError):  # it has ended; it may have said why
            await asyncio.get_running_loop().sock_sendall(self._socket, message)
        text_length, blob_length = wire.LENGTHS.unpack(await self._receive(wire.LENGTHS.size))
        return json.loads(await self._receive(text_length)), await self._receive(blob_length)

    async def _receive(self, count: int) -> bytes:
        loop, parts = asyncio.get_running_loop(), bytearray()
        while len(parts) < count:
            try:
                part = await loop.sock_recv(self._socket, min(count - len(parts), 1 << 20))
            except OSError as error:
                raise SandboxError(f"the sandbox has ended: {error}") from error
            if not part:
                raise SandboxError("the sandbox has ended")
            parts += part
        return bytes(parts)

    async def _rest(self) -> None:
        with contextlib.suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(self._socket, 1 << 16):
                pass
