# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Inputs in system shared memory, for a server on the same machine: copied once instead of sent."""

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
REST_S = 60.0  # in which a server is done with a request that was given up


class Region:
    """Memory that the server maps too, by `key`; one request at a time uses it.

    `places` are the offset and the size, in bytes, of each input that it holds.
    """

    def __init__(self, size_bytes: int) -> None:
        self.name = f"client-{uuid.uuid4().hex}"
        self.key = f"/{self.name}"
        self.size_bytes = size_bytes
        self.registered = False
        self.free_at = math.inf  # time.monotonic() from which another request may have it
        self.places: dict[str, tuple[int, int]] = {}
        self._handle = system.create_shared_memory_region(self.name, self.name, size_bytes, True)

    def write(self, contents: Arrays) -> None:
        self.places, offset = {}, 0
        for name, content in contents.items():
            system.set_shared_memory_region(self._handle, [content], offset)
            self.places[name] = (offset, content.nbytes)
            offset += _aligned(content.nbytes)

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """Suppresses the error of a server that was started anew, and so knows the region no longer."""
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


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNED_BYTES) * ALIGNED_BYTES


@contextmanager
def explained() -> Iterator[None]:
    """Adds to an error how to make a server of release 26.04 or newer map memory."""
    try:
        yield
    except (InvalidInput, ServerFailure) as error:
        raise ServerFailure(f"{error}; {HINT}") from None


class Regions:
    """The regions of a client: one for each request that it has at once."""

    def __init__(self) -> None:
        self._all: list[Region] = []
        self._lock = threading.Lock()

    @contextmanager
    def lent(self, arrays: Arrays) -> Iterator[Region]:
        """A region that holds the arrays. One that was registered rests after a request that was given up."""
        contents = {name: _content(array) for name, array in arrays.items() if array.size}
        region = self._with_room(sum(_aligned(content.nbytes) for content in contents.values()))
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

    def _with_room(self, needed: int) -> Region:
        """One that is too small is not used again: all of them together are no larger than the next."""
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

    def registered(self) -> Iterator[Region]:
        return (region for region in self._all if region.registered)

    def close(self) -> None:
        while self._all:
            self._all.pop().close()
