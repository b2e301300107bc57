"""The application: routes that ask the pipeline, health, metrics, the page, and the description of it all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
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

from triton_ensemble.client import Package
from triton_ensemble.gateway import describe, observe, page
from triton_ensemble.gateway.depends import Key
from triton_ensemble.gateway.exchange import Answering
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.openai import Route as OpenAi
from triton_ensemble.gateway.ordinary import Ordinary
from triton_ensemble.gateway.refusal import Refusal, make_invalid
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.project import Project
from triton_ensemble.samples.files import choose_probe, samples

BYTES = describe.make_object({"base64": describe.TEXT})  # that are not UTF-8
Text: TypeAlias = Annotated[str | dict[str, str], WithJsonSchema({"anyOf": [describe.TEXT, BYTES]})]


def service(module: ModuleType, inputs: type, answer: type, *routes: OpenAi) -> FastAPI:
    """Return the REST service of a project's client, whose requests and answers have these types, with routes of OpenAI's API.

    The environment has its settings (see Settings) and the server's TRITON_URL. Raises SettingsError.
    """
    settings, client = Settings.read(), cast(Package, module)
    project = Project.load(Path.cwd())
    requests = samples(project)
    gateway = Gateway(client, settings, choose_probe(requests))
    app = FastAPI(
        title=client.tensors.MODEL,
        lifespan=_run_application,
        responses=describe.ANY,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to whatever host a request names
        telemetry=observe.TELEMETRY if observe.EXPORTED else None,
    )
    app.state.gateway, app.state.settings = gateway, settings
    app.root_path = settings.root_path  # as an argument it is deprecated
    about = {"decoupled": project.decoupled, "keys": gateway.keys.are_asked}
    described = [describe.predict(client, inputs, answer, requests, **about)]
    answers: dict[str, Answering] = {"/predict": gateway.answer}
    for one in routes:
        described += [one.describe()] * len(one.paths)
        answers |= dict.fromkeys(one.paths, partial(one.answer, gateway))
    app.state.tensor_paths = {
        f"{root}{path}" for path in answers for root in ("", settings.root_path)
    }
    for (path, how), description in zip(answers.items(), described, strict=True):
        app.router.add_api_route(
            path,
            name=path.rpartition("/")[2],
            endpoint=gateway.stream if project.decoupled else partial(gateway.apply, how),
            methods=["POST"],
            response_model=None,
            response_class=Response,
            dependencies=[Key] if gateway.keys.are_asked else [],  # which describes it
            **description,
        )
    if not observe.EXPORTED:  # spans and metrics have the names of routes that FastAPI itself finds
        app.add_middleware(Asks, routes=cast(list[Route], app.router.routes[-len(answers) :]))
    if not gateway.keys.are_asked:
        describe_all = app.openapi
        app.openapi = lambda: describe.drop_keys(describe_all())  # type: ignore[method-assign]
    page.add(app, project, gateway.keys)
    _add_probes(app, gateway)
    for error in (Refusal, HTTPException, RequestValidationError):
        app.exception_handler(error)(_answer_error)
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
        app.state.ordinary = Ordinary(app, gateway, answers, settings)
    return app


@asynccontextmanager
async def _run_application(app: FastAPI) -> AsyncIterator[dict[str, object]]:
    """Run the gateway with its application, and yield what the protocol has of both."""
    ordinary: Ordinary | None = getattr(app.state, "ordinary", None)
    async with app.state.gateway.run():
        is_whole = ordinary and ordinary.is_of(app)
        state = {name: getattr(app.state, name) for name in ("gateway", "settings", "tensor_paths")}
        yield {**state, "ordinary": ordinary if is_whole else None}


def _add_probes(app: FastAPI, gateway: Gateway) -> None:
    """Add what is asked by machines: whether it lives and answers, and what it counts."""
    not_ready: describe.Responses = {503: describe.content("It does not answer")}
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


class Asks:
    """ASGI middleware: the endpoints of `routes` take their requests as they are, for what FastAPI would do takes as long again."""

    def __init__(self, app: ASGIApp, routes: list[Route]) -> None:
        self._app, self._routes = app, {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        path = scope["path"].removeprefix(scope.get("root_path", "")) if is_post else ""
        if not (route := self._routes.get(path)):
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive)
        try:
            response = await route.endpoint(request)
        except Refusal as refusal:
            response = await _answer_error(request, refusal)
        await response(scope, receive, send)


async def _alive() -> dict[str, str]:
    return {"status": "alive"}


async def _metrics() -> Response:
    return Response(observe.metrics(), media_type=CONTENT_TYPE_LATEST)


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer a request that gets no outputs, that no route takes, or that an owner's route can't take or raises for."""
    asked: Asked = request.state.asked
    if isinstance(error, RequestValidationError):
        return asked.refuse(make_invalid(error.errors()))
    if isinstance(error, Refusal):
        return asked.refuse(error)
    assert isinstance(error, HTTPException)
    refusal = Refusal(error.status_code, error.detail)
    refusal.headers.update(error.headers or {})
    return asked.refuse(refusal)
