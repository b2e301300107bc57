"""One caller whose request makes a step raise, among many others: by no door does it change another's answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, TypeAlias

import numpy as np
import pytest
from client_support import Served, package, served
from gateway_service import Answer, Service, gateway
from support import Generate, first_fast, step

STEP = """
import asyncio
import time
import numpy as np
from triton_step import InvalidRequest


class Panic(BaseException): ...  # as Rust's libraries raise it: pyo3's PanicException


ERRORS = {
    "raise": RuntimeError,
    "exit": SystemExit,
    "cancel": asyncio.CancelledError,
    "interrupt": KeyboardInterrupt,
    "close": GeneratorExit,
    "panic": Panic,
    "refuse": InvalidRequest,
}


def sizes(texts):
    time.sleep(0.003)  # meanwhile others come, and share the next call
    for text in texts.flat:
        if error := ERRORS.get(text.decode()):
            raise error("poisoned")
    return np.array([[len(text)] for text in texts.flat], np.float32)


class Step:
    def __init__(self, context): ...

"""
CALLS = {
    "batches": '    def __call__(self, TEXT): return {"SIZE": sizes(TEXT)}',
    "tasks": """
    async def __call__(self, TEXT):
        return {"SIZE": await asyncio.create_task(self.later(TEXT))}

    async def later(self, TEXT):
        return sizes(TEXT)
""",
    "sequences": '    def __call__(self, position, /, TEXT): return {"SIZE": sizes(TEXT)}',
    "streams": '    def __call__(self, TEXT): yield {"SIZE": sizes(TEXT)[0]}',
}
FIELDS: dict[str, dict[str, Any]] = {
    "sequences": {"sequence": {"direct": {}}},
    "streams": {"decoupled": True},
}
OPENAI = {"embeddings": {"input": "TEXT", "output": "SIZE"}}
GOOD, REQUESTS = 20, 200
Ask: TypeAlias = Callable[[str], float | str]  # returns the answer to a text, or what failed


@pytest.fixture(scope="module")
def server(generate: Generate, request: pytest.FixtureRequest) -> Iterator[Served]:
    """Serve a step that returns how long a text is."""
    kind = request.param
    more = {"openai": OPENAI} if kind == "batches" else {}
    project = generate(
        project_name=kind,
        extras=["gateway"],
        max_batch_size=0 if kind == "streams" else 8,
        tensors={"TEXT": "STRING[1]", "SIZE": "FP32[1]"},
        steps=[step("size", ["TEXT"], ["SIZE"], **FIELDS.get(kind, {}))],
        **more,
    )
    (project / "steps/size.py").write_text(STEP + CALLS[kind])
    with package(project) as module, served(project) as triton:
        yield Served(project, triton, module)


@pytest.fixture(scope="module")
def service(server: Served, request: pytest.FixtureRequest) -> Iterator[Service]:
    with gateway(server.project, server.urls[request.param]) as service:
        yield service


def send(ask: Ask, word: str, callers: int = 1) -> tuple[Counter[float | str], set[float | str]]:
    """Return what good callers are answered, and what those whose text is `word` are meanwhile."""
    ended = Event()

    def poison() -> set[float | str]:
        return {ask(word) for _ in iter(ended.is_set, True)}

    with ThreadPoolExecutor(GOOD + callers) as pool:
        bad = [pool.submit(poison) for _ in range(callers)]
        good = Counter(pool.map(lambda _: ask("good"), range(REQUESTS)))
        ended.set()
    return good, set().union(*(each.result() for each in bad))


Door: TypeAlias = tuple[Callable[[Service, str], Answer], Callable[[Any], float]]  # ask, read
DOORS: dict[str, Door] = {
    "json": (lambda at, word: at.post({"TEXT": [word]}), lambda got: got["SIZE"][0][0]),
    "form": (
        lambda at, word: at.upload(("TEXT", "", word.encode())),
        lambda got: got["SIZE"][0][0],
    ),
    "openai": (
        lambda at, word: at.post({"input": word}, to="/v1/embeddings"),
        lambda got: got["data"][0]["embedding"][0],
    ),
    # It fails in the middle: the rest of a sequence may hold none of the places that others wait for.
    "sequence": (
        lambda at, word: at.post({"TEXT": ["good", word, "good"]}),
        lambda got: got["SIZE"][2][0],
    ),
    "stream": (lambda at, word: at.post({"TEXT": [word]}), lambda got: got["SIZE"][0]),
}
CASES = [
    *(("batches", "http", door) for door in ("json", "form", "openai")),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("batches", "grpc", "json"),
            ("tasks", "http", "json"),
            ("sequences", "http", "sequence"),
            ("streams", "grpc", "stream"),
        )
    ),
]
WORDS = ["raise", "panic", "exit", "cancel", "interrupt", "close", "refuse"]


@pytest.mark.parametrize("word", first_fast(WORDS, 1))
@pytest.mark.parametrize(
    ("server", "service", "door"), CASES, indirect=["server", "service"], scope="module"
)
def test_by_the_gateway(service: Service, door: str, word: str) -> None:
    ask, read = DOORS[door]

    def ask_for(word: str) -> float | str:
        answer = ask(service, word)
        if answer.status != 200:
            return str(answer.status)
        return read(json.loads(answer.content.removeprefix(b"data: ")))

    good, poisoned = send(ask_for, word, 10 if door == "sequence" else 1)
    assert good == {4.0: REQUESTS}
    assert poisoned == {"400" if word == "refuse" else "500"}


@pytest.mark.parametrize("word", first_fast(WORDS, 2))
@pytest.mark.parametrize("transport", ["http", "grpc"])
@pytest.mark.parametrize(
    "server", ["batches", pytest.param("tasks", marks=pytest.mark.slow)], indirect=True
)
def test_at_triton_itself(server: Served, transport: str, word: str) -> None:
    with server.module.Client(server.urls[transport]) as client:

        def ask(word: str) -> float | str:
            text = np.array([[word.encode()]], object)
            try:
                return float(client.send({"TEXT": text})["SIZE"][0, 0])
            except server.module.InferenceError as error:
                return type(error).__name__

        good, poisoned = send(ask, word)
    assert good == {4.0: REQUESTS}
    assert poisoned == {"InvalidInput" if word == "refuse" else "ServerFailure"}
