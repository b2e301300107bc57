"""Each request meets the owner's middleware, has one answer and one line in the log, whichever route it is for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from gateway_service import BOUNDARY, Service, form, gateway, metric, wait_until
from support import ROOT, Generate, serve

OWN = """

@app.middleware("http")
async def mine(request, call_next):
    response = await call_next(request)
    response.headers["X-Mine"] = "yes"
    return response
"""
PAGE = "https://a.example"
SETTINGS = {
    "MAX_BYTES": "20000",
    "MAX_ROWS": "9",
    "API_KEYS": "secret",
    "ROOT_PATH": "/api",
    "CORS": PAGE,
}
OPENAI = {
    "embeddings": {"input": "IMAGE", "output": "SCORE"},
    "classify": {"input": "IMAGE", "probabilities": "SCORE", "label": "LABEL"},
}
KEY = {"X-API-Key": "secret"}
FORM = {"Content-Type": f'multipart/form-data; boundary="{BOUNDARY}"'}
JSON = {"Content-Type": "application/json"} | KEY
IMAGE = (ROOT / "examples/image-classification/samples/digit-7.jpg").read_bytes()
GOOD = form(("IMAGE", "7.jpg", IMAGE))
LONG = b" " * 20001
TEXT = json.dumps("P2 32 32 255" + " 0" * 1024)  # an image that a text can be: PGM's plain form
VECTOR = b'{"input": %s}' % TEXT.encode()
TEXTS = "/v1/embeddings"


class Case(NamedTuple):
    """A request, a list as its body in chunks, and the status of its answer."""

    status: int
    body: Any = GOOD
    headers: dict[str, str] = FORM | KEY
    path: str = "/predict"
    method: str = "POST"


CASES = {
    "a form": Case(200),
    "a bearer": Case(200, headers=FORM | {"Authorization": "Bearer secret"}),
    "a wrong key": Case(401, headers=FORM | {"X-API-Key": "other"}),
    "chunks": Case(200, [GOOD[:9], GOOD[9:]]),
    "an offer of HTTP/2": Case(200, headers=FORM | KEY | {"Connection": "Upgrade", "Upgrade": "h2c"}),
    "it waits to be asked": Case(200, headers=FORM | KEY | {"Expect": "100-continue"}),
    "an image is asked for": Case(200, headers=FORM | KEY | {"Accept": "image/*"}),
    "a trace": Case(200, headers=FORM | KEY | {"Traceparent": "\xe9"}),
    "a query": Case(200, path="/predict?a=b"),
    "behind a proxy": Case(200, path="/api/predict"),
    "a row that is refused": Case(200, form(("IMAGE", "7.jpg", IMAGE), ("IMAGE", "no.txt", b"text"))),
    "all rows refused": Case(400, form(("IMAGE", "no.txt", b"text"))),
    "nothing": Case(400, b"", JSON),
    "no JSON": Case(400, b"{", JSON),
    "another input": Case(400, b'{"I": [["a"]]}', JSON),
    "many rows": Case(413, b'{"IMAGE": [%s["a"]]}' % (b'["a"], ' * 64), JSON),
    "compressed": Case(415, b"a", JSON | {"Content-Encoding": "gzip"}),
    "a method": Case(405, None, {}, method="GET"),
    "many bytes": Case(413, LONG, JSON),
    "many bytes in chunks": Case(413, [LONG], JSON),
    "another type": Case(415, b"a", KEY | {"Content-Type": "text/csv"}),
    "a vector": Case(200, VECTOR, JSON, TEXTS),
    "vectors as base64": Case(
        200, b'{"input": [%s, %s], "encoding_format": "base64"}' % (2 * (TEXT.encode(),)), JSON, TEXTS
    ),
    "a vector and a query": Case(200, VECTOR, JSON, f"{TEXTS}?a=b"),
    "a vector behind a proxy": Case(200, VECTOR, JSON, f"/api{TEXTS}"),
    "classes": Case(200, VECTOR, JSON, "/v1/classify"),
    "another length": Case(400, b'{"input": %s, "dimensions": 7}' % TEXT.encode(), JSON, TEXTS),
    "token ids": Case(400, b'{"input": [[1, 2]]}', JSON, TEXTS),
    "many texts": Case(413, b'{"input": [%s"a"]}' % (b'"a", ' * 64), JSON, TEXTS),
    "a text that is refused": Case(400, b'{"input": ["a", "b"]}', JSON, TEXTS),
    "no JSON of OpenAI": Case(422, b"{", JSON, TEXTS),
    "many bytes of texts": Case(413, LONG, JSON, TEXTS),
    "a form of texts": Case(415, path=TEXTS),
    "a text behind a proxy": Case(400, b'{"input": ["a"]}', JSON, "/api/v1/embeddings"),
    "a text without a key": Case(401, b'{"input": ["a"]}', {}, TEXTS),
    "a vector by GET": Case(405, None, KEY, TEXTS, "GET"),
    "a path": Case(404, None, {}, "/nothing", "GET"),
}  # fmt: skip


@pytest.fixture(scope="module")
def service(generate: Generate) -> Iterator[Service]:
    project = generate.complete(extras=["gateway"], openai=OPENAI)
    step = project / "steps/images.py"
    step.write_text(step.read_text().replace('"PNG")', '"PNG", "PPM")'))
    app = project / "gateway/app.py"
    app.write_text(app.read_text() + OWN)
    settings = {f"GATEWAY_{name}": value for name, value in SETTINGS.items()}
    with serve(project) as server, gateway(project, server.urls["http"], **settings) as service:
        yield service


@pytest.mark.parametrize("name", CASES)
def test_a_request_meets_the_middleware_and_is_logged(service: Service, name: str) -> None:
    case, mine = CASES[name], re.sub(r"\W", "-", name)
    given = case.headers | {"X-Request-ID": mine, "Origin": PAGE}
    answer = service.ask(case.method, case.path, case.body, **given)
    assert answer.status == case.status, answer.content
    assert answer.headers["X-Mine"] == "yes"
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert answer.headers.get_all("X-Request-ID") == [mine]
    assert answer.status == 200 or answer.json()["id"] == mine
    wait_until(lambda: f'"id":"{mine}"' in service.log.read_text())
    [line] = [text for text in service.log.read_text().splitlines() if f'"id":"{mine}"' in text]
    logged = json.loads(line)
    path = case.path.partition("?")[0]
    assert (logged["method"], logged["status"]) == (case.method, case.status)
    assert path.endswith(logged["path"]) or logged["path"].endswith(path)


@pytest.mark.parametrize("given", ["a b", "a" * 129, ""])
def test_an_id_that_is_none_has_another_in_its_place(service: Service, given: str) -> None:
    answer = service.ask("GET", "/healthz", X_Request_ID=given)
    assert re.fullmatch("[0-9a-f]{32}", str(answer.headers["X-Request-ID"]))


def test_requests_are_counted_by_route_and_status(service: Service) -> None:
    before = {
        route: metric(service, "gateway_requests_total", route=route)
        for route in ("/predict", "other")
    }
    service.ask("POST", "/predict", GOOD, **FORM, **KEY)
    service.ask("POST", "/api/predict", GOOD, **FORM)
    service.ask("GET", "/nothing")
    counted = {
        route: metric(service, "gateway_requests_total", route=route) - before[route]
        for route in before
    }
    assert counted == {"/predict": 2, "other": 1}
