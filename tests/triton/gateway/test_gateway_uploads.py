"""Requests to a gateway, good and bad, as docs/gateway-reference.md says: drawn at random, before a real Triton."""

from __future__ import annotations

import gzip
import json
import re
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from socket import SHUT_WR, create_connection
from typing import NamedTuple

import pytest
from gateway_service import BOUNDARY, Service, form, gateway, metric, wait_until
from hypothesis import example, given
from hypothesis import strategies as st
from support import ROOT, Generate, serve

BODY_S = 0.3
MIB = 1 << 20
MAX_ROWS = 64
STATUSES = {200, 400, 408, 413, 415}
FORM = f'multipart/form-data; boundary="{BOUNDARY}"'
SAMPLES = ROOT / "examples/image-classification/samples"
LABELS = {"digit-7.jpg": "7", "digit-7.png": "7", "digit-6.jpg": "6"}
IMAGES = {(SAMPLES / name).read_bytes(): label for name, label in LABELS.items()}


@pytest.fixture(scope="module")
def service(generate: Generate) -> Iterator[Service]:
    """Run a gateway of one process that takes two MiB, and two at once: if refused ones counted on, it would soon take none."""
    limits = {"MAX_BYTES": 2 * MIB, "MEMORY_BYTES": 4 * MIB, "BODY_S": BODY_S}
    environment = {f"GATEWAY_{name}": str(limit) for name, limit in limits.items()}
    project = generate.complete(extras=["gateway"])
    with (
        serve(project) as server,
        gateway(project, server.urls["http"], "--workers=1", **environment) as service,
    ):
        yield service


@pytest.fixture(autouse=True)
def _it_works_afterwards(service: Service) -> Iterator[None]:
    """No request failed by a 500, none is left, and the next is answered."""
    yield
    assert metric(service, "gateway_requests_total", status="500") == 0
    assert metric(service, "gateway_computing") == metric(service, "gateway_waiting") == 0
    assert service.ask("GET", "/readyz").status == 200


def png(side: int) -> bytes:
    """Return a file that says it is a square image, and holds nothing of it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = (head, b"IDAT" + zlib.compress(b""), b"IEND")
    chunks = (struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


class File(NamedTuple):
    """A file, and what may answer it: labels, or None where its row may be refused."""

    name: str
    content: bytes
    labels: set[str | None]


NAMES = st.text(
    st.characters(exclude_characters='"\\', exclude_categories=["Cs", "Cc"]), min_size=1
)
IMAGE = st.sampled_from([*IMAGES])
GOOD = IMAGE.map(lambda image: (image, {IMAGES[image]}))
# A decoder may do without the last byte.
SHORT = IMAGE.map(lambda image: (image[:-1], {IMAGES[image], None}))
WRONG = (
    st.binary()
    | st.text().map(str.encode)
    | IMAGE.map(lambda image: image[: len(image) // 2])
    | IMAGE.map(gzip.compress)
    | st.integers(30_000, 2**31 - 1).map(png)
).map(lambda content: (content, {None}))
FILES = st.builds(lambda name, file: File(name, *file), NAMES, GOOD | SHORT | WRONG)


@pytest.mark.slow
@given(st.lists(FILES, min_size=1, max_size=9) | st.lists(FILES, min_size=60, max_size=70))
def test_each_file_is_answered_or_refused_by_its_name(service: Service, files: list[File]) -> None:
    answer = service.upload(*[("IMAGE", file.name, file.content) for file in files])
    content = answer.json()
    if len(files) > MAX_ROWS:
        assert answer.status == 413
    elif answer.status == 400:
        assert all(None in file.labels for file in files)
        assert content["row"] == 0
    else:
        labels = [row and row[0] for row in content["LABEL"]]
        assert all(label in file.labels for label, file in zip(labels, files, strict=True))
        refused = [(row, files[row].name) for row, label in enumerate(labels) if label is None]
        assert [(error["row"], error["file"]) for error in content.get("errors", [])] == refused


VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]) | st.just("\t"))
HEADERS = st.dictionaries(
    st.sampled_from(["Accept", "Authorization", "Content-Encoding", "Traceparent", "X-Request-ID"]),
    VALUES,
)
TEXTS = st.text() | st.just({"base64": "AA=="}) | st.dictionaries(st.text(), st.text(), max_size=2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS, st.lists, max_leaves=9
)
FORMS = st.lists(st.tuples(st.just("IMAGE") | NAMES, st.just("") | NAMES, st.binary() | IMAGE))
CONTENTS = (  # by content type
    IMAGE.map(lambda image: (FORM, form(("IMAGE", "a", image))))
    | FORMS.map(lambda parts: (FORM, form(*parts)))
    | (JSON | st.dictionaries(st.just("IMAGE") | st.text(), JSON)).map(
        lambda value: ("application/json", json.dumps(value).encode())
    )
    | st.tuples(st.just(FORM) | VALUES, st.binary())
)


class Said(NamedTuple):
    status: int
    content: bytes


def sent(service: Service, data: bytes, *, closed: bool = False) -> Said | None:
    """Send bytes. Return what is answered, or None where the connection ends without it."""
    with (
        create_connection(("127.0.0.1", service.port), timeout=10 * BODY_S) as connection,
        suppress(ConnectionError, HTTPException),
    ):
        connection.sendall(data)
        if closed:
            connection.shutdown(SHUT_WR)
        response = HTTPResponse(connection)
        response.begin()
        return Said(response.status, response.read())
    return None


def request(headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /predict HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode("latin-1") + body


ONE = (FORM, form(("IMAGE", "a", next(iter(IMAGES)))))


@example({"Traceparent": "é"}, ONE)
@example({"Tracestate": "a\tb"}, ONE)
@example({"Tracestate": "a" * 9000}, ONE)  # more than gRPC takes
@given(HEADERS, CONTENTS)
def test_whatever_is_sent_has_an_answer(
    service: Service, headers: dict[str, str], content: tuple[str, bytes]
) -> None:
    kind, body = content
    always = {"Content-Type": kind, "Content-Length": str(len(body))}
    answer = sent(service, request(headers | always, body))
    assert answer
    assert answer.status in STATUSES, answer
    assert answer.status == 200 or {"error", "id"} <= json.loads(answer.content).keys()


@given(CONTENTS, st.floats(0, 1), st.integers(-9, 9))
def test_who_hangs_up_or_miscounts_is_let_go(
    service: Service, content: tuple[str, bytes], part: float, more: int
) -> None:
    """The connection is closed for writing after a part of the request, whose length is wrong."""
    kind, body = content
    length = str(max(0, len(body) + more))
    data = request({"Content-Type": kind, "Content-Length": length}, body)
    answer = sent(service, data[: round(part * len(data))], closed=True)
    assert answer is None or answer.status in STATUSES


def test_slow_clients_are_let_go_and_keep_nobody_waiting(service: Service) -> None:
    """They stop somewhere in the head or in the body, or send a byte now and then."""
    data = request({"Content-Type": FORM, "Content-Length": str(len(ONE[1]))}, ONE[1])
    ends = range(0, len(data) - 100, len(data) // 50)

    def slow(end: int) -> bytes:
        with create_connection(("127.0.0.1", service.port), timeout=BODY_S / 10) as connection:
            connection.sendall(data[:end])
            until = time.monotonic() + 10 * BODY_S
            for at in range(end, end + 100 * (end % 2)):
                with suppress(TimeoutError):
                    return connection.recv(12)
                assert time.monotonic() < until, end
                connection.sendall(data[at : at + 1])
            connection.settimeout(until - time.monotonic())
            return connection.recv(12)

    with ThreadPoolExecutor(len(ends)) as pool:
        answers = [pool.submit(slow, end) for end in ends]
        while not all(answer.done() for answer in answers):
            assert service.upload(("IMAGE", "a", next(iter(IMAGES)))).status == 200
    assert {answer.result() for answer in answers} == {b"", b"HTTP/1.1 408"}


CHUNKED = {"Content-Type": FORM, "Transfer-Encoding": "chunked"}
LONG = b"a" * MIB
ENDLESS = {  # what a connection begins with, and what it goes on with
    "a body of a length": (request({"Content-Length": str(1 << 40)}, b""), LONG),
    "chunks": (request(CHUNKED, b""), b"%x\r\n%s\r\n" % (MIB, LONG)),
    "an extension of a chunk": (request(CHUNKED, b"1;"), LONG),
    "headers after the chunks": (request(CHUNKED, b"0\r\n"), b"a: b\r\n" * (MIB // 6)),
    "headers": (request({}, b"")[:-2], b"a: b\r\n" * (MIB // 6)),
    "a header": (request({}, b"")[:-2] + b"a: ", LONG),
    "a path": (b"GET /", LONG),
    "lines before a request": (b"", b"\r\n" * (MIB // 2)),
    "requests": (b"", request({"Content-Length": "0"}, b"") * (MIB // 64)),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_has_no_end_takes_no_memory(service: Service, kind: str) -> None:
    process = Path(f"/proc/{service.process.pid}")

    def peak() -> int:
        return int(re.findall(r"VmHWM:\s*(\d+) kB", (process / "status").read_text())[0]) * 1024

    begin, more = ENDLESS[kind]
    (process / "clear_refs").write_text("5")  # the peak is what it has now
    before = peak()
    with create_connection(("127.0.0.1", service.port), timeout=10 * BODY_S) as connection:
        with suppress(OSError):  # it is closed, or read no more
            connection.sendall(begin)
            for _ in range(100):
                connection.sendall(more)
        assert peak() - before < 50 * MIB
        with suppress(ConnectionError):
            assert connection.recv(MIB)[:10] in (b"", b"HTTP/1.1 4")


def test_ten_thousand_files(service: Service) -> None:
    answer = service.upload(*[("IMAGE", "", b"")] * 10_000)
    assert (answer.status, "parts" in answer.json()["error"]) == (413, True)


@pytest.mark.parametrize(("method", "path"), [("GET", "/healthz/"), ("POST", "/predict/")])
def test_a_request_is_sent_to_no_other_host(service: Service, method: str, path: str) -> None:
    answer = service.ask(method, path, Host="evil.example")
    assert answer.status == 404
    assert b"evil" not in answer.content


def test_a_long_path_is_cut_in_the_log(service: Service) -> None:
    assert service.ask("GET", "/" + "a" * 60_000, X_Request_ID="long").status == 404
    wait_until(lambda: '"id":"long"' in service.log.read_text())
    line = next(line for line in service.log.read_text().splitlines() if '"id":"long"' in line)
    assert len(line) < 1000
    assert json.loads(line)["path"].startswith("/aaa")
