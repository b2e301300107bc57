"""A Service with a cluster address on this machine, as kube-proxy makes one."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

CHUNK_BYTES = 1 << 16


class Balancer:
    """Sends each new connection to one of the `endpoints`, addresses of pods, at random.

    It stays there until one side closes it, also when its pod is not an endpoint any more. Where the pod refuses it, it
    ends: no other one is tried.
    """

    def __init__(self) -> None:
        self.endpoints: set[str] = set()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> str:
        """Return `HOST:PORT`, a free one here, whose connections go to `port` of the pods."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            self._connections.add(task)
            try:
                await self._connect(port, reader, writer)
            finally:
                self._connections.discard(task)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        host, own = server.sockets[0].getsockname()
        return f"{host}:{own}"

    async def _connect(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            pod = random.choice(sorted(self.endpoints))
            there, back = await asyncio.open_connection(pod, port)
        except (IndexError, OSError):
            writer.transport.abort()
            return
        await asyncio.gather(_copied(reader, back), _copied(there, writer))

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send on what is received, and that it ends."""
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()
