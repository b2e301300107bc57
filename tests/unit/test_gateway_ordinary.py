"""Which requests to the pipeline are answered before the application: none that the owner's code has a part in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from triton_ensemble.gateway.ordinary import Ordinary
from triton_ensemble.gateway.settings import Settings

GATEWAY: Any = None
ANSWER: Any = None


def nothing() -> None: ...


def made(**settings: Any) -> tuple[FastAPI, Ordinary]:
    app = FastAPI()
    app.post("/predict")(nothing)
    answers = {"/predict": ANSWER, "/v1/embeddings": ANSWER}
    return app, Ordinary(app, GATEWAY, answers, Settings(**settings))


def test_other_routes_change_nothing() -> None:
    app, ordinary = made()
    app.get("/mine")(nothing)
    assert ordinary.is_of(app)


CHANGES: dict[str, Callable[[FastAPI], Any]] = {
    "a middleware": lambda app: app.add_middleware(GZipMiddleware),
    "a handler of errors": lambda app: app.exception_handler(ValueError)(nothing),
    "a dependency": lambda app: app.router.dependencies.append(Depends(nothing)),
    "another dependency": lambda app: app.dependency_overrides.update({nothing: made}),
    "a route before it": lambda app: app.router.routes.reverse(),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_the_owner_has_a_part_in_them(kind: str) -> None:
    app, ordinary = made()
    CHANGES[kind](app)
    assert not ordinary.is_of(app)


def test_pages_elsewhere_have_a_part_in_them() -> None:
    app, ordinary = made(cors="*")
    assert not ordinary.is_of(app)


def test_both_forms_of_the_path_are_known() -> None:
    _, ordinary = made(root_path="/api")
    for url in (b"/predict", b"/api/predict", b"/v1/embeddings", b"/api/v1/embeddings"):
        assert ordinary.takes(b"POST", url)
    for url in (b"/predict?a", b"/v1/models"):
        assert not ordinary.takes(b"POST", url)
    assert not ordinary.takes(b"GET", b"/predict")
