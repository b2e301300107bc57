"""A request from its head to its line in the log, and the keys by which clients may ask.

The module reads, answers, gives up, counts and logs a request.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from triton_ensemble.gateway import observe
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.serve.local.key_file import explain, read_keys

KEYS_LOG = logging.getLogger("gateway")
CHANGING_NS = 1_000_000_000  # after a change of their file


class Keys:
    """The keys of a file, or of the environment. Without either, everybody may ask."""

    def __init__(self, settings: Settings) -> None:
        self._file = Path(settings.api_keys_file) if settings.api_keys_file else None
        self._given = [key.strip().encode() for key in settings.api_keys.split(",") if key.strip()]
        self._read_at = 0
        self._problem = ""  # of the file, once it is in the log
        self._keys()

    @property
    def are_asked(self) -> bool:
        """Whether a request needs a key."""
        return bool(self._file or self._given)

    def check(self, call: Call) -> None:
        """Raise Refusal 401 unless a request has one of the keys."""
        if not self.are_in(call):
            raise Refusal(401, "no key, or none that is known; send it as X-API-Key")

    def are_in(self, call: Call) -> bool:
        """Return whether a request has a key, in X-API-Key or as a Bearer token, or none is asked."""
        if call.has_key is None:
            call.has_key = not self.are_asked or self._is_known(call.headers)
        return call.has_key

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        key = headers.get("x-api-key") or (token if kind.lower() == "bearer" else "")
        # Each is compared, in constant time: how long it takes tells nothing.
        sent = key.strip().encode("latin-1")  # as a header's bytes were read
        return any([hmac.compare_digest(sent, one) for one in self._keys()])

    def _keys(self) -> list[bytes]:
        if self._file:
            try:
                self._read(self._file)
            except (OSError, ValueError) as error:
                self._warn(f"{explain(error)}; the keys that were read before hold")
        return self._given

    def _read(self, file: Path) -> None:
        """Read the file if it has changed, or may be changing.

        The time of a file is coarse, and `cat new > keys` empties it first.
        """
        changed = file.stat().st_mtime_ns
        changing = abs(time.time_ns() - changed) < CHANGING_NS
        if changed == self._read_at and not changing:
            return
        keys = read_keys(file)
        self._warn("" if keys or changing else "has no key; nobody may ask")
        if keys or not changing:
            self._given = keys
        self._read_at = 0 if changing else changed

    def _warn(self, problem: str) -> None:
        """Log what is wrong with the file, once."""
        if problem and problem != self._problem:
            KEYS_LOG.warning("GATEWAY_API_KEYS_FILE: %s: %s", self._file, problem)
        self._problem = problem


ID = re.compile(r"[\x21-\x7e]{1,128}")
IDS = Random()  # its own: a route may seed the one of the module
CUT = "the request ended before its end"
FAILED = Refusal(500, "the gateway failed at this request; the log says why, by its id")
GONE = 499  # the client left before the response, as nginx has it
WATCH_S = 0.05  # most responses are written sooner: to watch for a client that leaves costs as much as to read its request
ROUTES = ("classify", "completions", "embeddings", "models", "rerank")
OPENAI = ("/v2/rerank", *(f"/v1/{route}" for route in ROUTES))  # whose errors have another form
LOG = logging.getLogger("gateway.access")
PATH_CHARS = 256  # of a path in the log


class Call:
    """A request: its headers, its id (X-Request-ID if it has one), and what becomes of it.

    A request is given up, and so cancelled, if its body is late or its client has left.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self._send = scope, receive, send
        self.method, self.path = scope["method"], scope["path"][:PATH_CHARS]
        # Of a header that is there twice the first counts, as it does to Starlette.
        self.headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"][::-1]}
        is_model = self.method == "GET" and "/v1/models/" in self.path
        self.is_openai = is_model or scope["path"].endswith(OPENAI)
        given = self.headers.get("x-request-id", "")
        self.id = given if ID.fullmatch(given) else f"{IDS.getrandbits(128):032x}"
        self.seen: dict[str, object] = {}  # what else the log says of it
        self.has_key: bool | None = None  # once its key has been compared
        self.failed: int | None = None  # the status of a stream that failed after it began as a 200
        self.body: Body | None = None  # once it is admitted
        self.refusal: Refusal | None = None  # of its head or its body
        self.respond: Callable[[], Awaitable[Response]] | None = None  # if it asks the pipeline
        self.given_up: Refusal | None = None
        self._is_over = self._is_watched = self._is_replayed = False
        self.status, self._size = GONE, 0
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Future[Message] | None = None
        self._began = time.perf_counter()

    @property
    def has_begun(self) -> bool:
        """Whether the head of the response is written."""
        return self.status != GONE

    async def read(self, add: Callable[[bytes], None], seconds: float, late: Refusal) -> None:
        """Pass the parts of the body to `add`.

        Raise Refusal 400 if not all of them come. If they take longer than `seconds`, the refusal is `late`.
        """
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up, late)
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, CUT)
            if part := message.get("body", b""):
                add(part)
            more = message.get("more_body", False)
        self._timer.cancel()

    async def replay(self) -> Message:
        """Return the body, which is empty if it is refused, and then what the server says."""
        if self._is_replayed:
            return await self.receive()
        self._is_replayed = True
        content = self.body.content() if self.body and not self.refusal else b""
        return {"type": "http.request", "body": content, "more_body": False}

    def watch(self) -> None:
        """Give the request up once its client leaves, and Triton's request with it."""
        if not self._is_watched:
            self._is_watched = True
            self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._begin_to_watch)

    def _begin_to_watch(self) -> None:
        self._watch = asyncio.ensure_future(self.receive())  # nothing else follows a body
        self._watch.add_done_callback(lambda _: self._give_up(Refusal(GONE, "the client has left")))

    def _give_up(self, refusal: Refusal) -> None:
        if not self._is_over and self._task:
            self.given_up = refusal
            self._task.cancel()

    async def send(self, message: Message) -> None:
        """Send a part of the response, whose head gets the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [each for each in message.get("headers", ()) if each[0] != b"x-request-id"]
            message["headers"] = [*headers, (b"x-request-id", self.id.encode())]
        self._size += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Send what answers a request that gets no outputs."""
        await self.make_response(refusal)(self.scope, self.receive, self.send)

    def make_response(self, refusal: Refusal) -> Response:
        """Return what answers a request that gets no outputs."""
        body = refusal.body(self.id, as_openai=self.is_openai)
        return Response(body, refusal.status, refusal.headers, media_type="application/json")

    def end(self, route: str) -> None:
        """Count the request, and log a line without its content: id, method, path, status, and what else was seen."""
        self._is_over = True
        if self.body:
            self.body.close()
        if self._timer:
            self._timer.cancel()
        if self._watch:
            self._watch.cancel()
        seconds, status = time.perf_counter() - self._began, self.failed or self.status
        observe.count(route, status, seconds)
        if (route in observe.QUIET and status < 400) or not LOG.isEnabledFor(logging.INFO):
            return
        line = {"id": self.id, "method": self.method, "path": self.path, "status": status}
        more = {"bytes": self._size, **self.seen, "ms": round(seconds * 1000, 1)}
        text = orjson.dumps(line | more).decode()
        # LOG.info would look for the line of code that logs, which takes as long as the rest.
        LOG.handle(LOG.makeRecord(LOG.name, logging.INFO, "", 0, text, (), None))
