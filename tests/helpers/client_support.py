"""Shared by tests: a project's client on a real Triton: each transport, and what a call may come to."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from step_code import step_code
from support import Generate, Project, step, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton


@contextlib.contextmanager
def package(project: Project) -> Iterator[ModuleType]:
    """Yield the project's package, imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project / "src")
        yield importlib.import_module(project.package)


@contextlib.contextmanager
def served(project: Project, *server_args: str) -> Iterator[LocalTriton]:
    succeed(project.make("repository"))
    config = next(project.path.glob("model_repository/*/config.pbtxt"))
    ensembles = (
        path.parent.name
        for path in config.parent.parent.glob("*/config.pbtxt")
        if 'platform: "ensemble"' in path.read_text()
    )
    ensemble = next(ensembles, config.parent.name)
    with LocalTriton(project / "model_repository", ensemble, server_args=server_args) as triton:
        yield triton


class Served:
    """A served project, its package, and calls of it by each transport."""

    def __init__(self, project: Project, triton: LocalTriton, module: ModuleType) -> None:
        self.project, self.triton, self.module = project, triton, module
        self.urls = {"http": triton.http_url, "grpc": triton.grpc_url, "asyncio": triton.grpc_url}

    def call(self, transport: str, name: str, *arguments: Any, **given: Any) -> Any:
        """Call a method of a client, with `options` for its constructor. Return all answers if there are several."""
        options = given.pop("options", {})
        if transport == "asyncio":
            return asyncio.run(self._run_awaitable(name, options, arguments, given))
        with self.module.Client(self.urls[transport], **options) as client:
            result = getattr(client, name)(*arguments, **given)
            return list(result) if hasattr(result, "__next__") else result

    async def _run_awaitable(self, name: str, options: Any, arguments: Any, given: Any) -> Any:
        async with self.module.AsyncClient(self.urls["asyncio"], **options) as client:
            result = getattr(client, name)(*arguments, **given)
            if hasattr(result, "__anext__"):
                return [answer async for answer in result]
            return await result


@contextlib.contextmanager
def serving(project: Project, *server_args: str) -> Iterator[Served]:
    with served(project, *server_args) as triton, package(project) as module:
        yield Served(project, triton, module)


options = pytest.mark.parametrize("options", [{}, {"shared_memory": True}], ids=["sent", "shared"])


TYPES = {
    "project_name": "types",
    "extras": ["shared-memory"],
    "max_batch_size": 2,
    "tensors": {
        "B": "BOOL[1]",
        "I": "INT64[2]",
        "U": "UINT8[-1]",
        "H": "FP16[1]",
        "class": "STRING[1, 2]",
        "timeout": {"type": "FP64", "dims": [1], "optional": True},
        "B2": "BOOL[1]",
        "I2": "INT64[2]",
        "U2": "UINT8[-1]",
        "H2": "FP16[1]",
        "import": "STRING[1, 2]",
    },
    "steps": [
        step("same", ["B", "I", "U", "H", "class", "timeout"], ["B2", "I2", "U2", "H2", "import"])
    ],
}
SAME = step_code("""
def __call__(self, B, I, U, H, class_, timeout):
    if timeout is not None and timeout.max() > 5:
        from triton_step import InvalidRequest
        raise InvalidRequest("too much")
    return {"B2": B, "I2": I, "U2": U, "H2": H, "import": class_}
""")


@pytest.fixture(scope="module")
def types(generate: Generate) -> Iterator[Served]:
    project = generate(**TYPES)
    (project / "steps/same.py").write_text(SAME)
    with serving(project) as server:
        yield server


STREAM = {
    "project_name": "stream",
    "max_batch_size": 2,
    "tensors": {"N": "INT32[1]", "I": "INT32[1]"},
    "steps": [step("count", ["N"], ["I"], decoupled=True)],
}
COUNT = step_code(
    """
def __call__(self, N):
    if N.min() < 0:
        raise InvalidRequest("N: below 0")
    if N.max() > 99:
        raise ZeroDivisionError
    for i in range(N.max()):
        yield {"I": N * 0 + i}
        time.sleep(0.05)
""",
    "import time",
    "from triton_step import InvalidRequest",
)


@pytest.fixture(scope="module")
def stream(generate: Generate) -> Iterator[Served]:
    project = generate(**STREAM)
    (project / "steps/count.py").write_text(COUNT)
    with serving(project) as server:
        yield server


BUSY = step_code(
    """
def __call__(self, A):
    time.sleep(0.3)
    return {"B": A}
""",
    "import time",
)
