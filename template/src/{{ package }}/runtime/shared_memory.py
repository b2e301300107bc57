# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Pass inputs in system shared memory to a server on the same machine: copy them once instead of sending them."""

import json
import math
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import numpy as np
from tritonclient.utils import shared_memory as system  # type: ignore[import-untyped]

from .batches import Arrays
from .bodies import encode_tensor
from .errors import DeadlineExceeded, InferenceError, InvalidInput, ServerFailure, Unavailable
from .grpc_transport import GrpcTransport, settle, translate_errors
from .http_transport import HttpTransport
from .transport import Deadline, Request

HINT = "start the server with --allow-client-shm=true, or the client without shared_memory"
LEAST_BYTES = 1 << 16
ALIGNED_BYTES = 64
REST_S = 60.0  # in this time a server finishes a request that the client gave up

Transport: TypeAlias = GrpcTransport | HttpTransport


class Region:
    """Memory that the server also maps, by `key`; one request at a time uses it.

    `places` say where it holds each input, as Request does.
    """

    def __init__(self, size_bytes: int) -> None:
        self.name = f"client-{uuid.uuid4().hex}"
        self.key = f"/{self.name}"
        self.size_bytes = size_bytes
        self.registered = False
        self.free_at = math.inf  # time.monotonic() at which another request may use it
        self.places: dict[str, dict[str, Any]] = {}
        self._handle = system.create_shared_memory_region(self.name, self.name, size_bytes, True)

    def write(self, contents: Arrays) -> None:
        self.places, offset = {}, 0
        for name, content in contents.items():
            system.set_shared_memory_region(self._handle, [content], offset)
            self.places[name] = {
                "shared_memory_region": self.name,
                "shared_memory_byte_size": content.nbytes,
                "shared_memory_offset": offset,
            }
            offset += _align(content.nbytes)

    @contextmanager
    def suppress_forgotten(self) -> Iterator[None]:
        """Suppress the error of a server that restarted and so no longer knows the region."""
        try:
            yield
        except InferenceError as error:
            if self.name not in str(error):
                raise
            self.registered = False

    def close(self) -> None:
        system.destroy_shared_memory_region(self._handle)


def _align(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNED_BYTES) * ALIGNED_BYTES


@contextmanager
def explain_mapping() -> Iterator[None]:
    """Add to an error how to make a server of release 26.04 or newer map memory."""
    try:
        yield
    except (InvalidInput, ServerFailure) as error:
        raise ServerFailure(f"{error}; {HINT}") from None


async def _tell(
    transport: Transport, what: str, region: Region, deadline: Deadline, **given: Any
) -> None:
    """Make the server register or unregister a region."""
    if isinstance(transport, GrpcTransport):
        call = getattr(transport.connection, f"{what}_system_shared_memory")
        options = {"headers": transport.headers, "client_timeout": deadline.left()}
        with translate_errors(deadline):
            await settle(call(region.name, *given.values(), **options))
    else:
        body = json.dumps({**given, "offset": 0}).encode() if given else b""
        transport.send(f"systemsharedmemory/region/{region.name}/{what}", deadline, [body])


class Regions:
    """The regions of a client: one for each concurrent request."""

    def __init__(self) -> None:
        self._all: list[Region] = []
        self._lock = threading.Lock()

    async def send(self, transport: Transport, request: Request) -> Arrays:
        """Return the answer to a request whose inputs are in a region."""
        with self.lend(request.inputs) as region:
            request = request._replace(places=region.places)
            if region.registered:
                with region.suppress_forgotten():
                    return await transport.infer(request)
            place = {"key": region.key, "byte_size": region.size_bytes}
            with explain_mapping():
                await _tell(transport, "register", region, request.deadline, **place)
            region.registered = True
            return await transport.infer(request)

    @contextmanager
    def lend(self, arrays: Arrays) -> Iterator[Region]:
        """Yield a region that holds the arrays. If the request is given up, a registered region rests for a while."""
        filled = {name: array for name, array in arrays.items() if array.size}
        contents = {n: np.frombuffer(encode_tensor(a), np.uint8) for n, a in filled.items()}
        region = self._find_room(sum(_align(content.nbytes) for content in contents.values()))
        given_up = True
        try:
            region.write(contents)
            yield region
            given_up = False
        except InferenceError as error:
            given_up = isinstance(error, (DeadlineExceeded, Unavailable))
            raise
        finally:
            rest = REST_S if given_up and region.registered else 0.0
            region.free_at = time.monotonic() + rest

    def _find_room(self, needed: int) -> Region:
        """Return a free region with enough room. Drop a region that is too small, so that they do not pile up."""
        with self._lock:
            now = time.monotonic()
            region = next((region for region in self._all if region.free_at <= now), None)
            if region:
                region.free_at = math.inf
        if region and region.size_bytes >= needed:
            return region
        region = Region(max(needed, 2 * region.size_bytes if region else LEAST_BYTES))
        self._all.append(region)
        return region

    async def end(self, transport: Transport, deadline: Deadline) -> None:
        """Make the server unregister the regions, and close them."""
        with suppress(InferenceError):  # the server has ended, or no longer has the region
            for region in self._all:
                if region.registered:
                    await _tell(transport, "unregister", region, deadline)
        self.close()

    def close(self) -> None:
        while self._all:
            self._all.pop().close()
