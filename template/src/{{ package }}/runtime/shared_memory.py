# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Pass inputs in system shared memory to a server on the same machine: copy them once instead of sending them."""

import math
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import serialize_byte_tensor  # type: ignore[import-untyped]
from tritonclient.utils import shared_memory as system

from .batches import Arrays
from .errors import DeadlineExceeded, InferenceError, InvalidInput, ServerFailure, Unavailable

HINT = "start the server with --allow-client-shm=true, or the client without shared_memory"
LEAST_BYTES = 1 << 16
ALIGNED_BYTES = 64
REST_S = 60.0  # in this time a server finishes a request that the client gave up


class Region:
    """Memory that the server also maps, by `key`; one request at a time uses it.

    `places` are the offset and the size, in bytes, of each input that it holds.
    """

    def __init__(self, size_bytes: int) -> None:
        self.name = f"client-{uuid.uuid4().hex}"
        self.key = f"/{self.name}"
        self.size_bytes = size_bytes
        self.registered = False
        self.free_at = math.inf  # time.monotonic() at which another request may use it
        self.places: dict[str, tuple[int, int]] = {}
        self._handle = system.create_shared_memory_region(self.name, self.name, size_bytes, True)

    def write(self, contents: Arrays) -> None:
        self.places, offset = {}, 0
        for name, content in contents.items():
            system.set_shared_memory_region(self._handle, [content], offset)
            self.places[name] = (offset, content.nbytes)
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


def _content(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == object:
        return np.frombuffer(serialize_byte_tensor(array).item(), np.uint8)
    return np.ascontiguousarray(array)


def _align(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNED_BYTES) * ALIGNED_BYTES


@contextmanager
def explain_mapping() -> Iterator[None]:
    """Add to an error how to make a server of release 26.04 or newer map memory."""
    try:
        yield
    except (InvalidInput, ServerFailure) as error:
        raise ServerFailure(f"{error}; {HINT}") from None


class Regions:
    """The regions of a client: one for each concurrent request."""

    def __init__(self) -> None:
        self._all: list[Region] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, arrays: Arrays) -> Iterator[Region]:
        """Yield a region that holds the arrays. If the request is given up, a registered region rests for a while."""
        contents = {name: _content(array) for name, array in arrays.items() if array.size}
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

    def iter_registered(self) -> Iterator[Region]:
        return (region for region in self._all if region.registered)

    def close(self) -> None:
        while self._all:
            self._all.pop().close()
