# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Inputs by system shared memory, for a server on the same machine: copied once instead of sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
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


class Region:
    """Memory that the server maps too, by `key`; one request at a time uses it.

    `places` are the offset and the size, in bytes, of each input that it holds.
    """

    def __init__(self, size_bytes: int) -> None:
        self.name = f"client-{uuid.uuid4().hex}"
        self.key = f"/{self.name}"
        self.size_bytes = size_bytes
        self.registered = False
        self.places: dict[str, tuple[int, int]] = {}
        self._handle = system.create_shared_memory_region(self.name, self.name, size_bytes, True)

    def write(self, contents: Arrays) -> None:
        self.places, offset = {}, 0
        for name, content in contents.items():
            system.set_shared_memory_region(self._handle, [content], offset)
            self.places[name] = (offset, _size(content))
            offset += _room(content)

    def close(self) -> None:
        system.destroy_shared_memory_region(self._handle)


def _content(array: NDArray[Any]) -> NDArray[Any]:
    return serialize_byte_tensor(array) if array.dtype == object else np.ascontiguousarray(array)


def _size(content: NDArray[Any]) -> int:
    return len(content.item()) if content.dtype == object else content.nbytes


def _room(content: NDArray[Any]) -> int:
    return -(-_size(content) // ALIGNED_BYTES) * ALIGNED_BYTES


@contextmanager
def explained() -> Iterator[None]:
    """Why a server of release 26.04 or newer maps no memory."""
    try:
        yield
    except (InvalidInput, ServerFailure) as error:
        raise ServerFailure(f"{error}; {HINT}") from None


class Regions:
    """The regions of a client: one for each request that it has at once."""

    def __init__(self) -> None:
        self._idle: LifoQueue[Region] = LifoQueue()
        self._all: list[Region] = []

    @contextmanager
    def lent(self, arrays: Arrays) -> Iterator[Region]:
        """A region that holds the arrays. One that was too small, or may be in use, waits for `close`."""
        contents = {name: _content(array) for name, array in arrays.items() if array.size}
        region = self._with_room(sum(map(_room, contents.values())))
        try:
            region.write(contents)
            yield region
        except (DeadlineExceeded, Unavailable):
            raise  # the server may read it yet
        except InferenceError:
            self._idle.put(region)
            raise
        self._idle.put(region)

    def _with_room(self, needed: int) -> Region:
        size = LEAST_BYTES
        try:
            region = self._idle.get_nowait()
            if region.size_bytes >= needed:
                return region
            size = 2 * region.size_bytes  # so that all outgrown ones together are no larger
        except Empty:
            pass
        region = Region(max(needed, size))
        self._all.append(region)
        return region

    def registered(self) -> Iterator[Region]:
        return (region for region in self._all if region.registered)

    def close(self) -> None:
        while self._all:
            self._all.pop().close()
