"""A request has one answer, whether the owner has added a middleware or not."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPResponse
from socket import create_connection
from typing import Any, NamedTuple

import pytest
from gateway_service import BOUNDARY, Service, form, gateway, wait_until
from PIL import Image
from support import Generate, Project, Server, first_fast, serve

OWN = """

@app.middleware("http")
async def mine(request, call_next):
    response = await call_next(request)
    response.headers["X-Mine"] = "yes"
    return response
"""
SETTINGS: dict[str, dict[str, str]] = {
    "plain": {"MAX_BYTES": "20000", "MAX_ROWS": "9"},
    "keys": {"API_KEYS": "secret", "ROOT_PATH": "/api"},
    "pages": {"CORS": "https://a.example"},
}
OPENAI = {
    "embeddings": {"input": "IMAGE", "output": "SCORE"},
    "classify": {"input": "IMAGE", "probabilities": "SCORE", "label": "LABEL"},
}
KEY = {"X-API-Key": "secret"}
FORM = {"Content-Type": f'multipart/form-data; boundary="{BOUNDARY}"'}
JSON = {"Content-Type": "application/json"}


class Asked(NamedTuple):
    """A request; the length of a body is added, unless it comes in chunks."""

    body: bytes = b""
    headers: dict[str, str] = JSON
    line: str = "POST /predict HTTP/1.1"

    def raw(self) -> bytes:
        named = {"Host": "a", **self.headers}
        if "Transfer-Encoding" not in named:
            named.setdefault("Content-Length", str(len(self.body)))
        lines = [self.line, *(f"{name}: {value}" for name, value in named.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def embedding(body: bytes, headers: dict[str, str] = JSON, root: str = "") -> Asked:
    return Asked(body, headers | KEY, f"POST {root}/v1/embeddings HTTP/1.1")


def as_text(image: bytes) -> str:
    """Return an image, made small, as a text in JSON can be one: PGM's plain form."""
    whole = Image.open(io.BytesIO(image)).convert("L") if image else Image.new("L", (1, 1))
    pixels = whole.resize((32, 32))
    size = f"P2 {pixels.width} {pixels.height} 255"
    return "\n".join([size, *map(str, pixels.tobytes())])


def openai_requests(image: bytes) -> dict[str, Asked]:
    text = as_text(image)
    good = json.dumps({"input": text}).encode()
    classify = "POST /v1/classify HTTP/1.1"
    return {
        "a vector": embedding(good),
        "vectors as base64": embedding(
            json.dumps({"input": [text] * 3, "encoding_format": "base64"}).encode()
        ),
        "classes": Asked(good, JSON | KEY, classify),
        "classes without a key": Asked(good, JSON, classify),
        "a vector behind a proxy": embedding(good, root="/api"),
        "a vector for another page": embedding(good, JSON | {"Origin": "https://a.example"}),
        "a vector and a query": Asked(good, JSON | KEY, "POST /v1/embeddings?a=b HTTP/1.1"),
        "another length": embedding(json.dumps({"input": text, "dimensions": 7}).encode()),
        "a text that is refused": embedding(b'{"input": ["a", "b"]}'),
        "token ids": embedding(b'{"input": [[1, 2]]}'),
        "no JSON of OpenAI": embedding(b"{"),
        "many texts": embedding(b'{"input": [%s"a"]}' % (b'"a", ' * 64)),
        "many bytes of texts": embedding(b" " * 20001),
        "a form of texts": embedding(form(("input", "", b"a")), FORM),
        "a vector by GET": Asked(b"", KEY, "GET /v1/embeddings HTTP/1.1"),
    }


def requests(image: bytes) -> dict[str, Asked]:
    good = form(("IMAGE", "7.jpg", image))
    some = form(("IMAGE", "7.jpg", image), ("IMAGE", "no.txt", b"text"))
    chunks = b"%x\r\n%s\r\n0\r\nTrailer: a\r\n\r\n" % (len(good), good)
    offer = {"Connection": "Upgrade", "Upgrade": "h2c"}
    return {
        "a form": Asked(good, FORM),
        "a form with a key": Asked(good, FORM | KEY),
        "a bearer": Asked(good, FORM | {"Authorization": "Bearer secret"}),
        "a wrong key": Asked(good, FORM | {"X-API-Key": "other"}),
        "chunks": Asked(chunks, FORM | KEY | {"Transfer-Encoding": "chunked"}),
        "an offer of HTTP/2": Asked(good, FORM | KEY | offer),
        "HTTP/1.0": Asked(good, FORM | KEY, "POST /predict HTTP/1.0"),
        "an id": Asked(good, FORM | KEY | {"X-Request-ID": "mine"}),
        "an id that is none": Asked(good, FORM | KEY | {"X-Request-ID": "a b"}),
        "two ids": Asked(good, FORM | KEY | {"X-Request-ID": "mine", "x-request-id": "other"}),
        "a row that is refused": Asked(some, FORM | KEY),
        "all rows refused": Asked(form(("IMAGE", "no.txt", b"text")), FORM | KEY),
        "an image is asked for": Asked(good, FORM | KEY | {"Accept": "image/*"}),
        "no JSON": Asked(b"{", JSON | KEY),
        "nothing": Asked(b"", JSON | KEY),
        "another input": Asked(b'{"I": [["a"]]}', JSON | KEY),
        "many rows": Asked(b'{"IMAGE": [%s["a"]]}' % (b'["a"], ' * 64), JSON | KEY),
        "many bytes": Asked(b" " * 20001, JSON),
        "many bytes in chunks": Asked(
            b"4e21\r\n" + b" " * 20001 + b"\r\n0\r\n\r\n", JSON | {"Transfer-Encoding": "chunked"}
        ),
        "another type": Asked(b"a", KEY | {"Content-Type": "text/csv"}),
        "compressed": Asked(b"a", JSON | KEY | {"Content-Encoding": "gzip"}),
        "a trace": Asked(good, FORM | KEY | {"Traceparent": "\xe9"}),
        "a query": Asked(good, FORM | KEY, "POST /predict?a=b HTTP/1.1"),
        "behind a proxy": Asked(good, FORM | KEY, "POST /api/predict HTTP/1.1"),
        "another page": Asked(good, FORM | KEY | {"Origin": "https://a.example"}),
        "another page without a key": Asked(good, FORM | {"Origin": "https://a.example"}),
        "a method": Asked(b"", {}, "GET /predict HTTP/1.1"),
        "a path": Asked(b"", {}, "GET /nothing HTTP/1.1"),
        "a head": Asked(b"", {}, "HEAD /healthz HTTP/1.1"),
        **openai_requests(image),
        "it waits to be asked": Asked(good, FORM | KEY | {"Expect": "100-continue"}),
    }


def asked(service: Service, request: Asked) -> tuple[int, dict[str, str], Any]:
    """Return the status, headers and content of an answer, without what differs each time."""
    with create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(request.raw())
        response = HTTPResponse(connection, method=request.line.partition(" ")[0])
        response.begin()
        content: Any = response.read()
    headers = {name.lower(): value for name, value in response.getheaders()}
    assert headers.pop("date")
    given = headers["x-request-id"]
    if re.fullmatch("[0-9a-f]{32}", given):
        headers["x-request-id"] = "new"
        content = content.replace(given.encode(), b"new")
    if b"SCORE" in content:
        content = json.loads(content) | {"SCORE": 0}  # with another batch its last digit may differ
    elif b"created" in content:
        content = json.loads(content) | {"created": 0}
    return response.status, headers, content


def lines(service: Service) -> list[str]:
    return [line for line in service.log.read_text().splitlines() if line.startswith("{")]


def new_line(service: Service, before: int) -> dict[str, Any]:
    """Return the line of the log that follows so many, without what differs each time."""
    wait_until(lambda: len(lines(service)) > before)
    logged: dict[str, Any] = json.loads(lines(service)[before])
    kept = {name: value for name, value in logged.items() if name not in ("ms", "bytes")}
    return kept | {"id": re.sub("^[0-9a-f]{32}$", "new", kept["id"])}


@pytest.fixture(scope="module")
def server(generate: Generate) -> Iterator[Server]:
    project = generate.complete(extras=["gateway"], openai=OPENAI)
    step = project / "steps/images.py"
    step.write_text(step.read_text().replace('"PNG")', '"PNG", "PPM")'))
    with serve(project) as server:
        yield server


@pytest.fixture(scope="module", params=first_fast(SETTINGS, 1))
def services(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Service]]:
    """Run a gateway as it is generated, and one to which the owner has added a middleware."""
    other = Project(tmp_path_factory.mktemp("other") / "project")
    shutil.copytree(server.project.path, other.path, symlinks=True)
    app = other / "gateway/app.py"
    app.write_text(app.read_text() + OWN)
    limits = {f"GATEWAY_{name}": value for name, value in SETTINGS[request.param].items()}
    with (
        gateway(server.project, server.urls["http"], **limits) as service,
        gateway(other, server.urls["http"], **limits) as owned,
    ):
        yield [service, owned]


@pytest.mark.parametrize("name", requests(b""))
def test_both_give_the_same_answer(services: list[Service], server: Server, name: str) -> None:
    request = requests((server.project / "samples/digit-7.jpg").read_bytes())[name]
    before = [len(lines(service)) for service in services]
    (status, headers, content), owned = (asked(service, request) for service in services)
    assert owned[1].pop("x-mine") == "yes"
    assert (status, headers, content) == owned
    assert status == 200 or name not in ("a vector", "vectors as base64", "classes")
    if "/healthz" not in request.line:
        logged = [new_line(*each) for each in zip(services, before, strict=True)]
        assert logged[0] == logged[1]


def test_both_count_the_same(services: list[Service]) -> None:
    """After all of the above."""
    counted = []
    for service in services:
        text = service.ask("GET", "/metrics").content.decode()
        found = re.findall(r"^gateway_(?:requests|rows)_total\{(.*?)\} (.*)$", text, re.MULTILINE)
        total: Counter[str] = Counter()
        for labels, count in found:
            if "/healthz" not in labels:
                total[labels.rpartition(",")[2]] += int(float(count))
        counted.append(total)
    assert counted[0] == counted[1]
