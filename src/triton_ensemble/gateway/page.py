"""The page at /, by which people try the pipeline, and /docs.

They load static/, the wiring and the samples. Nothing is loaded from elsewhere, and no inline script or
style is run.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TypedDict

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from triton_ensemble.adapter.typed import read_json
from triton_ensemble.facts.project import Project
from triton_ensemble.facts.reading import is_outside, iter_files
from triton_ensemble.gateway.call import Keys
from triton_ensemble.gateway.refusal import Refusal

STATIC = Path(__file__).parent / "static"
FACTS = "gateway/pipeline.json"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # asked again, by its ETag: an update changes page and scripts together
}


class ShownTensor(TypedDict):
    """An input or output, as the page draws it."""

    name: str
    type: str
    dims: list[int]


class Input(ShownTensor):
    """An input, as the page's form and code have it."""

    sizes: list[int]  # of a request that each step takes
    optional: bool
    argument: str  # of the client's method


class ShownStep(TypedDict):
    """A step, by the tensors and models that it uses."""

    name: str
    backend: str
    reads: list[str]
    writes: list[str]
    calls: list[str]


class Pipeline(TypedDict):
    """The content of gateway/pipeline.json."""

    name: str
    batch: int
    decoupled: bool
    sequential: bool
    python: dict[str, str]
    inputs: list[Input]
    outputs: list[ShownTensor]
    tensors: dict[str, str]
    steps: list[ShownStep]
    fused: dict[str, list[str]]


class _Static(StaticFiles):
    """Files with the headers of the page."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


class Page:
    """The data that the page asks for: facts and samples of a project, for people with a key."""

    def __init__(self, project: Project, keys: Keys) -> None:
        self._project, self._keys = project, keys

    async def pipeline(self, request: Request) -> Response:
        """Answer the inputs, outputs and wiring, and the names of samples.

        Raise Refusal 401 if the request lacks a known key, 404 if the file of the wiring is missing, or 500 if it is
        damaged.
        """
        self._keys.check(request.state.call)
        try:
            facts = read_json(self._project.root / FACTS, Pipeline)
        except FileNotFoundError:
            raise Refusal(404, f"{FACTS} is not there; take it back from git") from None
        except ValueError as error:
            raise Refusal(500, f"{FACTS}: {error}; take it back from git") from None
        samples = self._project.sample_files() or self._project.sample_stubs()
        return JSONResponse({**facts, "samples": [path.stem for path in samples]}, headers=HEADERS)

    async def sample(self, request: Request, name: str) -> Response:
        """Answer a file of samples/, a request or a file that one names, as bytes to read.

        Raise Refusal 401 if the request lacks a known key, or 404 if there is no such file.
        """
        self._keys.check(request.state.call)
        samples = self._project.samples
        files = (each for each in iter_files(samples) if not is_outside(each, self._project.root))
        known = {path.relative_to(samples).as_posix() for path in files}
        if name not in known:
            raise Refusal(404, f"samples/ has no {name}")
        return FileResponse(samples / name, media_type="application/octet-stream", headers=HEADERS)


def add(app: FastAPI, project: Project, keys: Keys) -> None:
    """Add the page of a project to its service."""
    page, static = Page(project, keys), _Static(directory=STATIC)

    async def file(request: Request, name: str) -> Response:
        return await static.get_response(name, request.scope)

    # As a mount it would be lost behind a proxy that drops the root path.
    app.add_api_route(
        "/static/{name:path}",
        file,
        methods=["GET", "HEAD"],
        include_in_schema=False,
        response_model=None,
    )
    for path, html in {"/": "page.html", "/docs": "docs.html"}.items():
        app.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)(
            partial(_send_file, html)
        )
    app.get("/pipeline.json", include_in_schema=False, response_model=None)(page.pipeline)
    app.get("/samples/{name:path}", include_in_schema=False, response_model=None)(page.sample)


async def _send_file(file: str) -> FileResponse:
    return FileResponse(STATIC / file, headers=HEADERS)
