"""The project's application as a server loads it: what is wrong with its code is one line, where and what."""

from __future__ import annotations

import importlib
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from triton_ensemble.gateway.call import Call
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.server.process import ServerError

ROUTES = "gateway/routes.py"
AGAIN_S = 2.0  # until a worker that can't load the application is started again
LOG = logging.getLogger("gateway")


class ApplicationError(ServerError):
    """Raised for code of gateway/ that can't be served: the line of the file, and what is wrong."""


def application() -> FastAPI:
    """Return the application of the project in the working directory; raises ApplicationError."""
    try:
        app: FastAPI = importlib.import_module("gateway.app").app
    except Exception as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error).partition("\n")[0]
        raise ApplicationError(f"{_where(error)}: {type(error).__name__}: {reason}") from error
    for line in _list_hidden(app):
        raise ApplicationError(line)
    return app


def worker() -> FastAPI:
    """Return the application for a worker process. If that fails, uvicorn soon starts another process in its place."""
    try:
        return application()
    except ApplicationError as error:
        LOG.error(error)
        time.sleep(AGAIN_S)
        sys.exit(1)  # STARTUP_FAILURE of uvicorn would end the other workers, too


def make_reloaded() -> ASGIApp:
    """Return the application for a server that reloads it when files change; while it can't load, each answer says why."""
    try:
        return application()
    except ApplicationError as error:
        LOG.error(error)
        refusal = Refusal(500, str(error))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(scope, receive, send)
        await call.refuse(refusal)
        call.end("other")

    return answer


def _where(error: Exception) -> str:
    """Return the last line of the project, not of a library, in an error's traceback."""
    lines = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((Path(error.filename), error.lineno))
    root = Path.cwd()
    ours = [(path.relative_to(root), n) for path, n in lines if path.is_relative_to(root)]
    # The project's environment is in .venv.
    own = [f"{path}:{n}" for path, n in ours if not path.parts[0].startswith(".")]
    return own[-1] if own else "gateway/"


def _list_hidden(app: FastAPI) -> Iterator[str]:
    """Yield a line for each of the owner's routes that a route of the gateway hides from all requests."""
    ours = [route for route in app.routes if isinstance(route, Route)]
    for route in iter_route_contexts(app.routes):
        for method in sorted(() if route.original_route in ours else route.methods or ()):
            asked = {"type": "http", "path": route.path, "method": method}
            if any(one.matches(asked)[0] is Match.FULL for one in ours):
                yield f"{ROUTES}: {method} {route.path} is the gateway's own; write another path"
