"""How much is let in: requests at once, requests that wait, and bytes in memory. All beyond is refused at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

import anyio

from triton_ensemble.gateway import observe
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings

SUSTAINED = 4  # windows of refusals, until fewer places are tried
SETTLED = 3  # windows after a change: the first has requests of before
SAMPLES = 50  # requests that a window has at the least, so that rates compare
LEAST = 8  # places are at least one of so many
KEPT = 0.65  # of the rate that all places have
AGAIN_S = 300.0  # until all places are tried again
RETRY = 30  # times as long as it took to see that fewer cost too much, until they are tried again: rates vary


class Limit:
    """The places of a worker: halved, while that costs less than a third of the answers a second, until refusals end.

    A request that is let in then waits half as long. If a pipeline's rate falls with its places, it has them back after two
    seconds. Such a pipeline waits for something else, or computes larger batches in little more time.
    """

    def __init__(self, most: int) -> None:
        self._most, self._half = most, max(most // 2, 1)
        self._forget()

    def _forget(self) -> None:
        self._fewer = self._half  # that are tried first
        self._held_s = 0.0
        self._count = self._refused = 0
        self._seconds = 0.0
        self._set(self._most)

    def _set(self, places: int) -> None:
        self.places, self._windows = places, 0
        self._sum, self._sum_s = 0, 0.0

    def window(self, answered: int, refused: int, seconds: float) -> None:
        """Note how many requests have had a place, and how many none, in the seconds since the last call."""
        if not refused:
            self._forget()
            return
        self._count += answered
        self._refused += refused
        self._seconds += seconds
        if self._count < SAMPLES:
            return
        count, refused, seconds = self._count, self._refused, self._seconds
        self._count, self._refused, self._seconds = 0, 0, 0.0
        held_s = self._held_s - seconds
        if refused <= count:
            self._forget()
        elif held_s > 0:
            self._held_s = held_s
        elif self._held_s:
            self._held_s = 0.0
            self._fewer = self.places if self.places < self._most else self._half
            self._set(self._most)
        else:
            self._try(count, seconds)

    def _try(self, count: int, seconds: float) -> None:
        is_all, least = self.places == self._most, max(self._most // LEAST, 1)
        self._windows += 1
        if self._windows > 1:
            self._sum, self._sum_s = self._sum + count, self._sum_s + seconds
        if self._windows < (SUSTAINED if is_all else SETTLED):
            return
        rate = self._sum / self._sum_s
        if is_all:
            self._rate_of_all, self._before = rate, self._most
            self._set(self._fewer)
        elif rate < KEPT * self._rate_of_all:
            self._hold(self._before, RETRY * self._sum_s)
        elif self.places > least:
            self._before = self.places
            self._set(max(self.places // 2, least))
        else:
            self._hold(self.places, AGAIN_S)

    def _hold(self, places: int, seconds: float) -> None:
        self._held_s = seconds
        self._set(places)


STRANGER_BYTES = 1 << 20
OBJECT_BYTES, CELL_BYTES = 64, 32  # of a list or an object of JSON in memory, and of what is in it
ERROR_BYTES = 1280  # of what pydantic and FastAPI say of a value that is wrong
# A value of a route of the owner takes this long: FastAPI lists all that are wrong. Others are listed until one is wrong.
OWN_UNITS = 50
# How long JSON takes to read: a value 2, a list or object 2, a key 10. So many units take up to 0.4 s.
CELL_UNITS, OBJECT_UNITS, KEY_UNITS, MOST_UNITS = 2, 2, 10, 5_700_000
UNREAD_S = 5.0  # of an answer that ends for requests of others
WINDOW_S = 0.5  # of what the limit is told
LESS_JSON = "send less, or a file as a part of a form or as it is"


class Unread(NamedTuple):
    """An answer that its client does not read: the bytes held in memory and those left to be sent.

    `since` is the time since which the bytes that are left have not become fewer.
    """

    held: int
    left: int
    since: float


class Place:
    """A place of a request at Triton, until it is left."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def __enter__(self) -> None:
        observe.COMPUTING.inc()

    def __exit__(self, *_: object) -> None:
        observe.COMPUTING.dec()
        self._admission.release()


class Admission:
    """The places of a worker, and the memory that its requests share."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.max_bytes = settings.max_bytes  # of a request
        self.json_bytes = min(settings.json_bytes, settings.max_bytes)
        self._places = asyncio.Semaphore(settings.concurrency)
        self._limit = Limit(settings.concurrency)
        self._withheld = 0  # of the places, by the limit
        self._watched_since = 0.0  # while requests are refused
        self._answered = self._refused = 0  # since then
        self._waiting = 0
        self.held_bytes = 0  # by requests that are read or computed, and answers that are not read
        self._unread: dict[asyncio.Transport, Unread] = {}

    async def acquire(self) -> Place:
        """Return a place for a request to Triton, or raise Refusal 429 if none is free in time."""
        with observe.span("queue"):
            await (self._count_wait() if self._places.locked() else self._places.acquire())
        return Place(self)

    def release(self) -> None:
        """Take back a place of a request that Triton has answered."""
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
        """Whether no place is left for a request, not even one to wait in.

        If some places are withheld, no request may wait, because it would only be late.
        """
        is_all = self._limit.places == self._settings.concurrency
        waiting = self._settings.waiting if is_all else 0
        return self._places.locked() and self._waiting >= waiting

    def check(self) -> None:
        """Raise Refusal 429 if no request may wait.

        It costs the least to refuse a request before it is read.
        """
        if self.is_full:
            raise self.refusal()

    def refusal(self) -> Refusal:
        """Return the refusal of a request for which no place is left, and count it for the limit."""
        self._refused += 1
        if self._settings.adapt and not self._watched_since:
            self._watch()
        return too_many()

    def _watch(self) -> None:
        """Let the limit adapt after each window, until nothing is refused and all places are back."""
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

    async def _count_wait(self) -> None:
        self.check()
        self._waiting += 1
        try:
            wait_s = min(self._settings.wait_s, self._settings.timeout_s)
            with observe.WAITING.track_inprogress(), anyio.fail_after(wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise self.refusal() from None
        finally:
            self._waiting -= 1

    def hold(self, more: int, size: int) -> None:
        """Count `more` bytes of memory for a request, which takes `size` bytes with them.

        Raise Refusal 413 if the request takes too much memory, or 429 if all requests together do.
        """
        self.held_bytes += more
        if size > self._settings.memory_bytes:
            raise Refusal(413, "the request takes too much memory; send fewer values")
        self._make_room(UNREAD_S)
        if self.held_bytes > self._settings.memory_bytes:
            raise too_many()

    def hold_unread(self, connection: asyncio.Transport, size: int) -> None:
        """Count a part of an answer that is not read at once.

        Until the last of such an answer is read, all of it is in memory. To make room, other connections that are not
        read are ended. If requests fill the memory, it exceeds its limit by this part.
        """
        self.held_bytes += size
        before = self._unread.get(connection)
        held = size + (before.held if before else 0)
        left = connection.get_write_buffer_size()
        self._unread[connection] = Unread(held, left, time.monotonic())
        self._make_room(0, spared=connection)

    def free_unread(self, connection: asyncio.Transport) -> None:
        """Stop counting the unread bytes of a connection, which are read or whose connection has ended."""
        if unread := self._unread.pop(connection, None):
            self.held_bytes -= unread.held

    def _make_room(self, unread_s: float, spared: asyncio.Transport | None = None) -> None:
        """While memory is full, end the connection whose answer is unread for longest, if for `unread_s` seconds."""
        if self.held_bytes <= self._settings.memory_bytes:
            return
        now = time.monotonic()
        for connection, unread in self._unread.items():
            left = connection.get_write_buffer_size()
            if left < unread.left:  # somebody reads it
                self._unread[connection] = unread._replace(left=left, since=now)
        others = self._unread.keys() - {spared}
        for connection in sorted(others, key=lambda one: self._unread[one].since):
            if now - self._unread[connection].since < unread_s:
                return
            self.free_unread(connection)
            connection.abort()
            if self.held_bytes <= self._settings.memory_bytes:
                return


class Body:
    """The body of a request. It counts as memory until the request is answered.

    JSON counts with its objects, many times the size of its text, and has a limit of its own. If it is typed, pydantic reads
    it, or FastAPI on a route of the owner: so it leaves room for an error of each value, for one request at a time.
    A stranger sends no valid key although the gateway asks for keys.
    """

    def __init__(
        self,
        admission: Admission,
        headers: Mapping[str, str],
        *,
        is_json: bool,
        is_typed: bool,
        is_own: bool = False,
        is_stranger: bool = False,
    ) -> None:
        """Raise Refusal if the length alone is too much."""
        self._admission, self._is_stranger = admission, is_stranger
        self._is_json, self._is_typed = is_json, is_typed
        self._cell_units = OWN_UNITS if is_own else CELL_UNITS
        self._length = self._size = self._room = 0
        self._json_length = self._units = 0
        self._content: bytes | bytearray = bytearray()
        length = headers.get("content-length", "")
        if length.isdecimal():
            self.check_length(int(length))

    def add(self, part: bytes) -> None:
        """Keep a part, or raise Refusal 413 or 429 if it does not fit."""
        self._content += part  # one large block, which the allocator gives back when it is freed
        self._length += len(part)
        self.check_length(self._length)
        self._hold(len(part))
        if self._is_json:
            self.count(part)

    def count(self, part: bytes) -> None:
        """Count the values of JSON, of the body or of a part of a form.

        Raise Refusal 413 or 429 if they are too many.
        """
        self._json_length += len(part)
        if self._json_length > self._admission.json_bytes:
            raise self._too_long(self._admission.json_bytes)
        part = part.replace(b"\\\\", b"")  # a quote that is still escaped then is in a text
        objects, cells = part.count(b"[") + part.count(b"{"), part.count(b",")
        keys = part.count(b":") - part.count(b'\\":')  # which JSON in a text has
        self.spend(OBJECT_UNITS * objects + self._cell_units * cells + KEY_UNITS * keys)
        self._room += ERROR_BYTES * (objects + cells) if self._is_typed else 0
        self._hold(OBJECT_BYTES * objects + CELL_BYTES * cells)

    def spend(self, units: int) -> None:
        """Count how long JSON takes to read and convert.

        Raise Refusal 413 if that would keep other requests waiting.
        """
        self._units += units
        if self._units > MOST_UNITS:
            raise Refusal(413, f"the JSON has too many values; {LESS_JSON}")

    def _hold(self, more: int) -> None:
        self._size += more
        self._admission.hold(more, self._size + self._room)

    def check_length(self, length: int) -> None:
        """Raise Refusal 401 or 413 if a request has too many bytes."""
        if self._is_stranger and length > STRANGER_BYTES:
            raise Refusal(
                401, f"a request without a key may have {STRANGER_BYTES} bytes; send a key"
            )
        most = self._admission.json_bytes if self._is_json else self._admission.max_bytes
        if length > most:
            raise self._too_long(most)

    def _too_long(self, most: int) -> Refusal:
        if most == self._admission.max_bytes:
            return Refusal(413, f"a request may have {most} bytes; send fewer")
        return Refusal(413, f"JSON may have {most} bytes; {LESS_JSON}")

    def content(self) -> bytes:
        """Return the bytes that have come, once all have."""
        self._content = content = bytes(self._content)
        return content

    def close(self) -> None:
        """Free the bytes, and count them as memory no more."""
        self._admission.held_bytes -= self._size
        self._content, self._size = b"", 0


def too_many() -> Refusal:
    """Return the refusal of a request that comes with too many others."""
    return Refusal(429, "too many requests at once; try again", retry_after_s=1)
