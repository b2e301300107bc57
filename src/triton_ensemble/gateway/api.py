"""The application: routes that ask the pipeline, health, metrics, the page, the owner's routes, and the description of it all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, TypeAlias, cast

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.security import APIKeyHeader
from numpy.typing import ArrayLike
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from triton_ensemble.facts.client import Arrays, Package
from triton_ensemble.facts.project import Project
from triton_ensemble.gateway import describe, observe, page
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.call import FAILED, Call
from triton_ensemble.gateway.gateway import LOG, Gateway
from triton_ensemble.gateway.openai import Route
from triton_ensemble.gateway.refusal import Refusal, make_invalid
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.testing.files import choose_probe, samples

BYTES = describe.make_object({"base64": describe.TEXT})  # that are not UTF-8
Text: TypeAlias = Annotated[str | dict[str, str], WithJsonSchema({"anyOf": [describe.TEXT, BYTES]})]
Handler: TypeAlias = Callable[[Call, Body], Awaitable[Response]]  # once the body is complete


class Calls:
    """ASGI middleware before all others: it follows each request from its head to its line in the log.

    It reads the body, so what comes after it holds no more than is admitted.
    """

    def __init__(
        self, app: ASGIApp, gateway: Gateway, handlers: Mapping[str, Handler], root_path: str
    ) -> None:
        self._app, self._gateway, self._handlers, self._root = app, gateway, handlers, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(scope, receive, send)
        scope.setdefault("state", {}).update(call=call, id=call.id)
        path = scope["path"].removeprefix(self._root)
        handler = self._handlers.get(path) if call.method == "POST" else None
        if handler:
            observe.name_span(scope, path)
        if not f"{scope['path']}/".startswith(f"{self._root}/"):  # a proxy may have dropped it
            scope["path"] = self._root + scope["path"]
        try:
            await self._read(call, handler)
            await self._app(scope, call.replay, call.send)
        except BaseException as error:
            await _refuse(call, error)
        finally:
            call.end(path if handler else getattr(scope.get("route"), "path", "other"))

    async def _read(self, call: Call, handler: Handler | None) -> None:
        gateway = self._gateway
        try:
            call.body = body = gateway.admit(call) if handler else gateway.admit_other(call)
            await gateway.read(call, body)
            call.respond = partial(handler, call, body) if handler else None
        except Refusal as refusal:  # which Handlers sends
            call.refusal = refusal


class Handlers:
    """ASGI middleware after all others: it answers requests to the pipeline, as what FastAPI would do takes as long again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call: Call | None = scope["state"]["call"] if scope["type"] == "http" else None
        if call and call.refusal:
            await call.make_response(call.refusal)(scope, receive, send)
        elif call and call.respond:
            call.watch()
            try:
                response = await call.respond()
            except Refusal as refusal:
                response = call.make_response(refusal)
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Service(FastAPI):
    """FastAPI's application below Calls, whatever middleware its owner adds to it."""

    def build_middleware_stack(self) -> ASGIApp:
        settings: Settings = self.state.settings
        owned, self.user_middleware = self.user_middleware, []
        stack: ASGIApp = Handlers(super().build_middleware_stack())
        self.user_middleware = owned
        for middleware in reversed(owned):
            stack = middleware.cls(stack, *middleware.args, **middleware.kwargs)
        calls = Calls(stack, self.state.gateway, self.state.handlers, settings.root_path)
        if not settings.cors:
            return calls
        return CORSMiddleware(
            calls,
            allow_origins=[origin.strip() for origin in settings.cors.split(",")],
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )


async def _refuse(call: Call, error: BaseException) -> None:
    """Answer a request that gets no outputs or that the gateway fails at, and raise any other error."""
    refusal = error if isinstance(error, Refusal) else call.given_up
    if refusal is None:
        if not isinstance(error, Exception) or call.has_begun:
            raise error
        LOG.exception("%s: failed", call.id)
        refusal = FAILED
    if not call.has_begun:
        await call.refuse(refusal)


def service(module: ModuleType, inputs: type, answer: type, *routes: Route) -> FastAPI:
    """Return the REST service of a project's client, whose requests and answers have these types, with routes of OpenAI's API.

    The environment has its settings (see Settings) and the server's TRITON_URL. Raise SettingsError for a value that
    can't be used.
    """
    settings, client = Settings.read(), cast(Package, module)
    project = Project.load(Path.cwd())
    requests = samples(project)
    gateway = Gateway(client, settings, choose_probe(requests))
    app = Service(
        title=client.tensors.MODEL,
        lifespan=_run_application,
        responses=describe.ANY,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to whatever host a request names
        telemetry=observe.TELEMETRY,
    )
    app.state.gateway, app.state.settings = gateway, settings
    app.root_path = settings.root_path  # as an argument it is deprecated
    about = {"decoupled": project.decoupled, "keys": gateway.keys.are_asked}
    described = {"/predict": describe.predict(client, inputs, answer, requests, **about)}
    handlers: dict[str, Handler] = {
        "/predict": gateway.stream if project.decoupled else gateway.predict
    }
    for one in routes:
        described |= dict.fromkeys(one.paths, one.describe())
        handlers |= dict.fromkeys(one.paths, partial(one.answer, gateway))
    for path, description in described.items():
        app.router.add_api_route(
            path,
            name=path.rpartition("/")[2],
            endpoint=_describe_only,
            methods=["POST"],
            response_model=None,
            response_class=Response,
            dependencies=[Key] if gateway.keys.are_asked else [],  # which describes it
            **description,
        )
    if not gateway.keys.are_asked:
        describe_all = app.openapi
        app.openapi = lambda: describe.drop_keys(describe_all())  # type: ignore[method-assign]
    page.add(app, project, gateway.keys)
    _add_probes(app, gateway)
    if routes:
        app.include_router(models)
    for error in (Refusal, HTTPException, RequestValidationError):
        app.exception_handler(error)(_answer_error)
    app.exception_handler(Exception)(_raise)
    app.state.handlers = handlers
    return app


@asynccontextmanager
async def _run_application(app: FastAPI) -> AsyncIterator[dict[str, object]]:
    """Run the gateway with its application, and yield what a connection has of both."""
    gateway: Gateway = app.state.gateway
    async with gateway.run():
        yield {"admission": gateway.admission, "settings": app.state.settings}


async def _describe_only() -> None:
    """Stand for a route whose requests are answered before, so that FastAPI describes it."""


def _add_probes(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes for machines: whether the service lives and answers, and what it counts."""
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


async def _alive() -> dict[str, str]:
    return {"status": "alive"}


async def _metrics() -> Response:
    return Response(observe.metrics(), media_type=CONTENT_TYPE_LATEST)


async def _raise(_: Request, error: Exception) -> Response:
    """Leave an error to Calls, which logs and answers it."""
    raise error


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer a request that no route takes, or that an owner's route can't take or raises for."""
    call: Call = request.state.call
    if isinstance(error, RequestValidationError):
        return call.make_response(make_invalid(error.errors()))
    if isinstance(error, Refusal):
        return call.make_response(error)
    assert isinstance(error, HTTPException)
    refusal = Refusal(error.status_code, error.detail)
    refusal.headers.update(error.headers or {})
    return call.make_response(refusal)


HEADER = APIKeyHeader(name="X-API-Key", scheme_name=describe.KEY, auto_error=False)  # describes it


async def _require_key(request: Request, _: Annotated[str | None, Depends(HEADER)]) -> None:
    request.app.state.gateway.keys.check(request.state.call)


Key = Depends(_require_key)  # asks for one of the gateway's API keys, if there are any


class BoundPipeline:
    """The pipeline as a request with a key asks it: its calls have its id and trace, places, and the time that each may take."""

    def __init__(self, request: Request) -> None:
        self._gateway: Gateway = request.app.state.gateway
        self._call: Call = request.state.call

    @property
    def model(self) -> str:
        """The name of the pipeline."""
        return str(self._gateway.tensors.MODEL)

    async def __call__(
        self, inputs: Mapping[str, ArrayLike] | None = None, /, **named: ArrayLike
    ) -> Arrays:
        """Return the outputs by name, arrays of shape [batch, *dims] with texts as bytes.

        Raise Refusal, which answers the request as /predict would: one row that is refused refuses all.
        """
        return await self._gateway.outputs(self._call, {**(inputs or {}), **named})

    def stream(
        self, inputs: Mapping[str, ArrayLike] | None = None, /, **named: ArrayLike
    ) -> AsyncGenerator[Arrays, None]:
        """Yield the answers of a decoupled pipeline as they come, or raise Refusal."""
        return self._gateway.iter_answers(self._call, {**(inputs or {}), **named})

    async def send_events(self, events: AsyncGenerator[bytes, None]) -> Response:
        """Answer by server-sent events, which end if the client does not read them."""
        return await self._gateway.send_events(self._call, events)


def _make_pipeline(request: Request, _: Annotated[None, Key]) -> BoundPipeline:
    return BoundPipeline(request)


Pipeline = Annotated[BoundPipeline, Depends(_make_pipeline)]
models = APIRouter(responses=describe.OPENAI)


@models.get("/v1/models", summary="The one model")
async def list_models(pipeline: Pipeline) -> dict[str, object]:
    """List the pipeline as a model."""
    return {"object": "list", "data": [await get_model(pipeline.model, pipeline)]}


@models.get("/v1/models/{name:path}", summary="The model of a name")
async def get_model(name: str, pipeline: Pipeline) -> dict[str, object]:
    """Return the pipeline as a model."""
    if name != pipeline.model:
        raise Refusal(404, f"there is no model {name}; write {pipeline.model}")
    return {"id": name, "object": "model", "created": 0, "owned_by": "triton"}
