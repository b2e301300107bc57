"""The application: `POST /predict`, health, metrics, the page, and the description of it all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, TypeAlias, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import TypedDict

from triton_ensemble.client import Package
from triton_ensemble.gateway import describe, observe, page
from triton_ensemble.gateway.depends import Key
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.ordinary import PATH, Ordinary
from triton_ensemble.gateway.refusal import OPENAI, Refusal
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.project import Project
from triton_ensemble.samples.files import choose_probe, samples


class Base64(TypedDict):
    """Bytes that are not UTF-8 text."""

    base64: str


BYTES = {"type": "object", "properties": {"base64": {"type": "string"}}, "required": ["base64"]}
Text: TypeAlias = Annotated[str | Base64, WithJsonSchema({"anyOf": [{"type": "string"}, BYTES]})]


def service(module: ModuleType, inputs: type, answer: type) -> FastAPI:
    """Return the REST service of a project's client, whose requests and answers have these types.

    The environment has its settings (see Settings) and the server's TRITON_URL. Raises SettingsError.
    """
    settings, client = Settings.read(), cast(Package, module)
    project = Project.load(Path.cwd())
    requests = samples(project)
    gateway = Gateway(client, settings, choose_probe(requests))
    name = client.tensors.MODEL
    app = FastAPI(
        title=name,
        lifespan=_run_application,
        responses=describe.ANY,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to whatever host a request names
        telemetry=observe.TELEMETRY if observe.EXPORTED else None,
    )
    app.state.gateway = gateway
    app.root_path = settings.root_path  # as an argument it is deprecated
    shown = [] if gateway.keys.are_asked else requests  # the description is for everybody
    description = describe.predict(client, inputs, answer, shown, decoupled=project.decoupled)
    app.router.add_api_route(
        PATH,
        gateway.stream if project.decoupled else gateway.predict,
        methods=["POST"],
        summary=f"Ask {name}",
        response_model=None,
        response_class=Response,
        dependencies=[Key] if gateway.keys.are_asked else [],  # which describes it
        **description,
    )
    if not observe.EXPORTED:  # spans and metrics have the names of routes that FastAPI itself finds
        app.add_middleware(Predict, route=cast(Route, app.router.routes[-1]))
    page.add(app, project, gateway.keys)
    _add_probes(app, gateway)
    app.exception_handler(Refusal)(_answer_refusal)
    app.exception_handler(HTTPException)(_not_routed)
    app.exception_handler(RequestValidationError)(_invalid)
    app.add_middleware(observe.Observed)
    if settings.cors:
        origins = [origin.strip() for origin in settings.cors.split(",")]
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )
    if settings.root_path:
        app.add_middleware(Rooted, root_path=settings.root_path)
    if not project.decoupled:
        app.state.ordinary = Ordinary(app, gateway, settings)
    return app


@asynccontextmanager
async def _run_application(app: FastAPI) -> AsyncIterator[dict[str, object]]:
    """Run the gateway with its application, and yield what the protocol has of both."""
    ordinary: Ordinary | None = getattr(app.state, "ordinary", None)
    async with app.state.gateway.run():
        is_whole = ordinary and ordinary.is_of(app)
        yield {"gateway": app.state.gateway, "ordinary": ordinary if is_whole else None}


def _add_probes(app: FastAPI, gateway: Gateway) -> None:
    """Add what is asked by machines: whether it lives and answers, and what it counts."""
    not_ready: describe.Responses = {503: describe.refusal("It does not answer")}
    app.get("/healthz", summary="Is the service alive?")(_alive)
    app.get(
        "/readyz",
        summary="Does the pipeline answer?",
        response_model=None,
        responses=not_ready,
    )(gateway.ready)
    app.head("/healthz", include_in_schema=False)(_alive)
    app.head("/readyz", include_in_schema=False, response_model=None)(gateway.ready)
    app.get("/metrics", include_in_schema=False, response_model=None)(_metrics)
    app.get("/statistics.json", include_in_schema=False, response_model=None)(gateway.statistics)


class Rooted:
    """ASGI middleware: a path that a proxy has dropped the root path of has it again, or redirects would be without it."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app, self._root_path = app, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = self._root_path
        if scope["type"] == "http" and not f"{scope['path']}/".startswith(f"{root}/"):
            scope["path"] = root + scope["path"]
        await self._app(scope, receive, send)


class Predict:
    """ASGI middleware: the endpoint of `route` takes its requests as they are, for what FastAPI would do takes as long again."""

    def __init__(self, app: ASGIApp, route: Route) -> None:
        self._app, self._route = app, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_of_route(scope):
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        try:
            response = await self._route.endpoint(Request(scope, receive))
        except Refusal as refusal:
            response = refusal.response(scope["state"]["id"])
        await response(scope, receive, send)

    def _is_of_route(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return path == self._route.path and scope["method"] in (self._route.methods or ())


async def _alive() -> dict[str, str]:
    return {"status": "alive"}


async def _metrics() -> Response:
    return Response(observe.metrics(), media_type=CONTENT_TYPE_LATEST)


async def _answer_refusal(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    tags = getattr(request.scope.get("route"), "tags", ())
    return refusal.response(request.state.id, as_openai=OPENAI in tags)


async def _not_routed(request: Request, error: Exception) -> Response:
    """Answer a request that no route takes, or for which an owner's route raises, like other requests without outputs."""
    assert isinstance(error, HTTPException)
    refusal = Refusal(error.status_code, error.detail)
    refusal.headers.update(error.headers or {})
    return await _answer_refusal(request, refusal)


async def _invalid(request: Request, error: Exception) -> Response:
    """Answer a request that an owner's route can't take."""
    assert isinstance(error, RequestValidationError)
    lines = [
        f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
        for one in error.errors()
    ]
    return await _answer_refusal(request, Refusal(422, "; ".join(lines)))
