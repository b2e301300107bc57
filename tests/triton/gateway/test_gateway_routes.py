"""The owner's routes in gateway/routes.py: how they ask the pipeline, and what is wrong with them, in a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_service import gateway, metric, started, wait_until
from support import (
    NOWHERE,
    ROOT,
    Generate,
    Project,
    Server,
    first_fast,
    free_port,
    run,
    serve,
    succeed,
)

TRITON = f"grpc://127.0.0.1:{NOWHERE}"
HEAD = "from fastapi import APIRouter\n\nrouter = APIRouter()\n"
TAKEN = '\n\n@router.{}("{}")\nasync def mine() -> str:\n    return "mine"\n'
BROKEN = {
    "def f(:\n": "gateway/routes.py:1: SyntaxError: invalid syntax",
    "\nfrom numpy import nothing\n": "gateway/routes.py:2: ImportError: cannot import name 'nothing' from 'numpy'",
    "def f():\n    return nothing\n\nf()\n": "gateway/routes.py:2: NameError: name 'nothing' is not defined",
    "": "gateway/app.py:7: ImportError: cannot import name 'router' from 'gateway.routes'",
    HEAD + TAKEN.format("post", "/predict"): "gateway/routes.py: POST /predict is the gateway's own; write another path",
    HEAD + TAKEN.format("get", "/"): "gateway/routes.py: GET / is the gateway's own; write another path",
    HEAD + TAKEN.format("get", "/static/a"): "gateway/routes.py: GET /static/a is the gateway's own; write another path",
}  # fmt: skip


@pytest.fixture
def routes(generate: Generate) -> Path:
    """Return the file of a project of its own."""
    project = generate(extras=["gateway"])
    return project / "gateway/routes.py"


@pytest.mark.parametrize("code", first_fast(BROKEN))
def test_what_is_wrong_with_them_is_a_line(routes: Path, code: str) -> None:
    routes.write_text(code)
    project = Project(routes.parents[1])
    options = (f"--port={free_port()}", "--workers=2")
    with started(project, *options, TRITON_URL=TRITON) as process:
        said = process.communicate(timeout=20)[1].decode()
    assert process.returncode == 1
    assert said.startswith(BROKEN[code])
    assert said.count("\n") == 1


@pytest.mark.slow
def test_what_is_wrong_while_they_are_edited_is_answered_until_they_are_repaired(
    routes: Path,
) -> None:
    good, line = routes.read_text(), "gateway/routes.py:1: SyntaxError: invalid syntax"
    with gateway(Project(routes.parents[1]), TRITON) as service:
        routes.write_text("def f(:\n")
        wait_until(lambda: service.ask("GET", "/healthz").status == 500)
        answer = service.ask("POST", "/predict", X_Request_ID="mine")
        assert (answer.status, answer.json()) == (500, {"error": line, "id": "mine"})
        routes.write_text(good)
        wait_until(service.is_alive)


OWN = """

@router.post("/twice", dependencies=[Key])
async def twice(pipeline: Pipeline, images: list[str]) -> int:
    rows = [[image.encode()] for image in images]
    first, second = await asyncio.gather(pipeline(IMAGE=rows), pipeline({"IMAGE": rows}))
    return len(first["LABEL"]) + len(second["LABEL"])
"""


@pytest.fixture(scope="module")
def documented(generate: Generate) -> Iterator[Server]:
    """Serve a project with the route of docs/gateway.md, and others."""
    project = generate(extras=["gateway"])
    [_, code] = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/gateway.md").read_text(), re.DOTALL
    )
    (project / "gateway/routes.py").write_text(f"import asyncio\n\n{code}{OWN}")
    for tool in (["ruff", "format", "--check"], ["mypy"]):
        succeed(run(sys.executable, "-m", *tool, "gateway", cwd=project.path))
    succeed(project.make("repository"))
    with serve(project) as server:
        yield server


def test_a_route_asks_the_pipeline_as_predict_does(documented: Server) -> None:
    image = (documented.project / "samples/digit-7.jpg").read_bytes()
    with gateway(documented.project, documented.urls["grpc"]) as service:
        assert service.upload(("file", "7.jpg", image), to="/digit").json() == {"digit": "7"}
        answer = service.upload(("file", "7.jpg", b"text"), to="/digit", X_Request_ID="mine")
        assert (answer.status, answer.json()["id"]) == (400, "mine")
        assert "not a complete JPEG or PNG" in answer.json()["error"]
        assert metric(service, "gateway_rows_total", outcome="answered") == 1
        assert service.post(["a"] * 65, to="/twice").status == 413
        assert service.post([], to="/twice").json()["error"].startswith("IMAGE has no rows")


@pytest.mark.slow
def test_what_a_route_can_not_take_is_a_line_with_an_id(documented: Server) -> None:
    with gateway(documented.project, documented.urls["grpc"]) as service:
        answer = service.post(["a", 1, 2], to="/twice", X_Request_ID="mine")
        line = "body.1: Input should be a valid string; body.2: Input should be a valid string"
        assert (answer.status, answer.json()) == (422, {"error": line, "id": "mine"})
        description = service.ask("GET", "/openapi.json")
        refused = description.json()["paths"]["/twice"]["post"]["responses"]["4XX"]["content"]
        assert refused["application/json"]["schema"]["required"] == ["error", "id"]
        assert b"ValidationError" not in description.content


def test_a_route_asks_for_keys_and_has_no_more_places(documented: Server) -> None:
    limits = {"GATEWAY_CONCURRENCY": "1", "GATEWAY_WAITING": "0", "GATEWAY_API_KEYS": "secret"}
    with gateway(documented.project, documented.urls["grpc"], **limits) as service:
        assert service.upload(("file", "7.jpg", b""), to="/digit").status == 401
        assert service.ask("GET", "/version").status == 401
        assert service.ask("GET", "/version", X_API_Key="secret").status == 200
        answer = service.post(["a"], to="/twice", X_API_Key="secret")  # asks twice at once
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
