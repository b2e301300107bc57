"""How much is let in: requests at once, requests that wait, and bytes in memory. What is beyond it is refused at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from triton_ensemble.gateway import observe
from triton_ensemble.gateway.limit import Limit
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings

Receive = Callable[[], Awaitable[Any]]
WINDOW_S = 0.5  # of what the limit is told


class Admission:
    """The places of a worker, and the memory that its requests share."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(settings.concurrency)
        self._limit = Limit(settings.concurrency)
        self._withheld = 0  # of the places, by the limit
        self._watched_since = 0.0  # while requests are refused
        self._answered = self._refused = 0  # since then
        self._waiting = self._held_bytes = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold one of the places that Triton's requests have; Refusal 429 where none is free in time."""
        with observe.span("queue"):
            await (self._waited() if self._places.locked() else self._places.acquire())
        try:
            with observe.COMPUTING.track_inprogress():
                yield
        finally:
            self._answered += 1
            self._withheld += 1
            self._release()

    def _release(self) -> None:
        """Free what is withheld beyond what the limit wants."""
        while self._withheld > self._settings.concurrency - self._limit.places:
            self._withheld -= 1
            self._places.release()

    @property
    def is_full(self) -> bool:
        """Whether no place is left, nor one to wait; where some are withheld, who waits would only be late."""
        is_all = self._limit.places == self._settings.concurrency
        waiting = self._settings.waiting if is_all else 0
        return self._places.locked() and self._waiting >= waiting

    def check(self) -> None:
        """Raise Refusal 429 where none may wait: before a request is read, that costs the least."""
        if self.is_full:
            raise self.refusal()

    def refusal(self) -> Refusal:
        """Return the refusal of a request that no place is left for, which the limit is told of."""
        self._refused += 1
        if self._settings.adapt and not self._watched_since:
            self._watch()
        return too_many()

    def _watch(self) -> None:
        """Have the limit look at what has happened after each window, until nothing is refused and all places are back."""
        self._answered, self._refused, self._watched_since = 0, 0, time.monotonic()
        asyncio.get_running_loop().call_later(WINDOW_S, self._look)

    def _look(self) -> None:
        refused, seconds = self._refused, time.monotonic() - self._watched_since
        self._limit.window(self._answered, refused, seconds)
        self._release()
        if refused or self._withheld:
            self._watch()
        else:
            self._watched_since = 0.0

    async def _waited(self) -> None:
        self.check()
        self._waiting += 1
        try:
            with observe.WAITING.track_inprogress(), anyio.fail_after(self._settings.wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise self.refusal() from None
        finally:
            self._waiting -= 1

    @contextmanager
    def memory(self, receive: Receive, length: str | None) -> Iterator[Receive]:
        """Yield `receive`, which counts the bytes that come; Refusal 413 where they are too many, 429 where all requests' are."""
        if length and length.isdecimal() and int(length) > self._settings.max_bytes:
            raise self._too_large()
        size = 0

        async def counted() -> Any:
            nonlocal size
            message = await receive()
            more = len(message.get("body", b""))
            size += more
            self._held_bytes += more
            if size > self._settings.max_bytes:
                raise self._too_large()
            if self._held_bytes > self._settings.memory_bytes:
                raise too_many()
            return message

        try:
            yield counted
        finally:
            self._held_bytes -= size

    def _too_large(self) -> Refusal:
        return Refusal(413, f"a request may have {self._settings.max_bytes} bytes; send fewer")


def too_many() -> Refusal:
    """Return the refusal of a request that comes with too many others."""
    return Refusal(429, "too many requests at once; try again", retry_after_s=1)
