"""The server under test: the local Triton, or the server at TRITON_URL.

If that is an HTTP address, TRITON_GRPC_URL may name its gRPC address. Its metrics are those at TRITON_METRICS_URL,
by default on port 8002 of the same host.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from triton_ensemble.facts.client import (
    Arrays,
    Client,
    package,
    protocols,
)
from triton_ensemble.serve.container.compose import Container
from triton_ensemble.serve.local import environment
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.ports import not_asked
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.testing.causes import Cause, tell
from triton_ensemble.testing.files import samples
from triton_ensemble.testing.under_test import PROJECT

LOGGED = "the server's log says why"
PROTOCOLS = protocols(PROJECT)


def read_given_urls() -> dict[str, str]:
    """Return the URLs of the environment by protocol.

    Raise ValueError for a URL that no client can call, or for TRITON_GRPC_URL without TRITON_URL.
    """
    urls: dict[str, str] = {}
    if url := os.environ.get("TRITON_URL"):
        for given in (url, os.environ.get("TRITON_GRPC_URL") or url):
            package(PROJECT).Client(given).close()
            urls[urlsplit(given).scheme.removesuffix("s")] = given
    elif os.environ.get("TRITON_GRPC_URL"):
        raise ValueError("TRITON_GRPC_URL is set and TRITON_URL is not; set TRITON_URL too")
    if urls and urls.keys().isdisjoint(PROTOCOLS):
        raise ValueError(
            f"{url}: {PROJECT.ensemble} answers over gRPC alone; write grpc://host:port"
        )
    return urls


def pytest_configure() -> None:
    """Refuse URLs of the environment that no client can call."""
    try:
        read_given_urls()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header() -> str:
    """Say which server is tested, and that a server at the usual port is not."""
    if given := read_given_urls():
        return f"triton: {', '.join(given.values())}, as the environment names it"
    return f"triton: a local one, started for these tests{not_asked('http')}"


@pytest.fixture
def sample_rows() -> Arrays:
    """Return three rows for the steps that read the pipeline's inputs: the first of the first sample, three times.

    Without a batch dimension it is all of that sample. Texts are not made up: what decodes them may
    refuse any others.
    """
    sample = samples(PROJECT)[0]
    if sample.made_up and any(tensor.datatype == "BYTES" for tensor in PROJECT.inputs):
        pytest.skip(f"samples/ has no request; record one: {PROJECT.sample_command()}")
    if not PROJECT.batched:
        return sample.inputs
    return {name: array[:1].repeat(3, 0) for name, array in sample.inputs.items()}


@pytest.fixture(scope="session")
def triton() -> Iterator[LocalTriton | None]:
    """Yield the local Triton, or None if TRITON_URL names another server."""
    if read_given_urls():
        yield None
        return
    if problem := next(environment.problems(), None):
        pytest.exit(f"tests of a running Triton: {problem}", returncode=1)
    with LocalTriton(PROJECT.repository, PROJECT.ensemble) as triton:
        yield triton


@pytest.fixture(scope="session")
def urls(triton: LocalTriton | None) -> dict[str, str]:
    """Return the server's URLs: of http, grpc and metrics."""
    if triton:
        return {"http": triton.http_url, "grpc": triton.grpc_url, "metrics": triton.metrics_url}
    metrics = f"http://{urlsplit(os.environ['TRITON_URL']).hostname}:8002/metrics"
    return {**read_given_urls(), "metrics": os.environ.get("TRITON_METRICS_URL") or metrics}


@pytest.fixture(scope="session", params=PROTOCOLS)
def client(request: pytest.FixtureRequest, urls: dict[str, str]) -> Iterator[Client]:
    """Return a client of the ensemble, once for each protocol that the ensemble answers over."""
    if request.param not in urls:
        pytest.skip(f"no {request.param} address; set TRITON_GRPC_URL")
    with package(PROJECT).Client(urls[request.param], timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def count(urls: dict[str, str]) -> Callable[[str, str], float]:
    """Return a reader of the server's metrics: `count(name, model)` is a counter, over all versions of a model."""
    direct = build_opener(ProxyHandler({}))  # whatever http_proxy says

    def counter(name: str, model: str) -> float:
        try:
            with direct.open(urls["metrics"], timeout=5) as response:
                text = response.read().decode()
        except OSError as error:
            pytest.skip(f"{urls['metrics']}: {error}; set TRITON_METRICS_URL")
        line = name + r'\{.*\bmodel="' + re.escape(model) + r'".*\} (\S+)'
        return sum(map(float, re.findall(line, text, re.MULTILINE)))

    return counter


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show the traceback of a step with each test that fails by it, and keep the log.

    For a container, show its log. A server that can't start fails one test.
    """
    needs_server = "urls" in getattr(item, "fixturenames", ())
    if needs_server and call.excinfo and isinstance(call.excinfo.value, ServerError):
        tell(item, Cause("urls", "Triton can't start"))
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    triton = getattr(item, "funcargs", {}).get("triton")
    if isinstance(triton, LocalTriton) and report.failed and LOGGED in report.longreprtext:
        triton.keep_log = True
        time.sleep(0.5)  # Python models log through a queue: an answer can be there before its line
        report.sections.append(("Triton's log", triton.traceback()))
    container = getattr(item, "funcargs", {}).get("started")
    if isinstance(container, Container) and report.failed:
        report.sections.append(("Triton's log", container.log()))
