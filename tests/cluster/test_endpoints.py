"""The parts of deploy/kserve that run without a cluster: its container on a local Triton, and its notebooks against an endpoint."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
import nbformat
import pytest
from cluster.manifests import built
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from support import SOURCES, UNUSUAL, Generate, Project, run, succeed

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.local.local_triton import LocalTriton


@dataclass(frozen=True)
class Certificate:
    """A certificate for localhost, which is the one to trust, and its key: paths of PEM files."""

    chain: Path
    key: Path


def certificate(folder: Path) -> Certificate:
    """Return a certificate that is made in a folder."""
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    succeed(run("openssl", "req", "-x509", *files, *subject, cwd=folder))
    return Certificate(folder / "cert.pem", folder / "key.pem")


@contextmanager
def rest(server: str, made: Certificate, token: str) -> Iterator[str]:
    """Yield the URL of an endpoint before a Triton at `http://host:port`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {token}":
                self._answer(401, {}, b"no such token")
                return
            behind = HTTPConnection(urlsplit(server).netloc)
            behind.request(self.command, self.path, body, dict(self.headers))
            response = behind.getresponse()
            self._answer(response.status, dict(response.getheaders()), response.read())
            behind.close()

        do_POST = do_GET

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                if name != "Transfer-Encoding":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.chain, made.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
        Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"https://localhost:{proxy.server_port}"
        proxy.shutdown()


@contextmanager
def rpc(server: str, made: Certificate, token: str) -> Iterator[str]:
    """Yield the URL of an endpoint before a Triton at `grpc://host:port`."""

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, call: Any) -> Any:
            """Hand on messages as they are, whatever the method: one in a stream is as good as one alone."""
            method = channel.stream_stream(call.method)
            known = ("authorization", f"Bearer {token}") in call.invocation_metadata
            return grpc.stream_stream_rpc_method_handler(
                (lambda messages, _: method(messages)) if known else _refused
            )

    channel = grpc.insecure_channel(urlsplit(server).netloc)
    proxy = grpc.server(ThreadPoolExecutor(4), handlers=[Handler()])
    pair = (made.key.read_bytes(), made.chain.read_bytes())
    port = proxy.add_secure_port("localhost:0", grpc.ssl_server_credentials([pair]))
    proxy.start()
    yield f"grpcs://localhost:{port}"
    proxy.stop(None)
    channel.close()


def _refused(_: Any, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "no such token")


ENDPOINTS: dict[str, Callable[[str, Certificate, str], Any]] = {"rest": rest, "grpc": rpc}


TOKEN = "sha256~not-the-cluster's"


class Pod(NamedTuple):
    """A project, its containers in deploy/kserve by protocol, and the local Triton that runs as they say."""

    project: Project
    containers: dict[str, dict[str, Any]]
    triton: LocalTriton

    def url(self, protocol: str, port: str) -> str:
        """Return where a port is here that a container has by name. Triton's flags name no other ports."""
        ports = {p["name"]: p["containerPort"] for p in self.containers[protocol]["ports"]}
        here = {8000: "http_url", 8001: "grpc_url", 8002: "metrics_url"}
        return str(getattr(self.triton, here[ports[port]]))


def downloaded(repository: Path, folder: Path) -> Path:
    """Return a copy as KServe makes it of a bucket since 0.17: without empty files, and so without empty folders."""
    for path in repository.rglob("*"):
        if path.is_file() and path.stat().st_size:
            target = folder / path.relative_to(repository)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o444)
    return folder


def flags(project: Project, container: dict[str, Any], folder: Path) -> list[str]:
    """Return what deploy/serve.sh, the entry point of the image, starts Triton with in a container."""
    assert "command" not in container
    python = folder / "python3"
    python.write_text('#!/bin/sh\nshift 2\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    path = f"{folder}:{os.environ['PATH']}"
    words = ("deploy/serve.sh", *container["args"])
    command = run("sh", *words, cwd=project.path, PATH=path, **given)
    return succeed(command).splitlines()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def pod(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    project, folder = generate(extras=["kserve"]), tmp_path_factory.mktemp("pod")
    succeed(project.make("repository"))
    containers = {
        m["spec"]["protocolVersions"][0]: m["spec"]["containers"][0]
        for m in built(project / "deploy/kserve")
        if m["kind"] == "ServingRuntime"
    }
    first, second = (flags(project, container, folder) for container in containers.values())
    assert first == second
    repository, *arguments = first
    assert repository == "--model-repository=/mnt/models"
    models = downloaded(project / "model_repository", folder / "mnt/models")
    ensemble = Facts.load(project.path).ensemble
    with LocalTriton(models, ensemble, server_args=arguments) as triton:
        yield Pod(project, containers, triton)


def test_the_container_of_the_manifests_passes_the_smoke_tests(pod: Pod) -> None:
    urls = {
        "TRITON_URL": pod.url("v2", "http1"),
        "TRITON_GRPC_URL": pod.url("grpc-v2", "h2c"),
        "TRITON_METRICS_URL": pod.url("v2", "metrics"),
    }
    assert [url.partition(":")[0] for url in urls.values()] == ["http", "grpc", "http"]
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_live.py")
    printed = succeed(pod.project.run(*tests, **urls))
    assert re.search(r"[1-9]\d* passed", printed)


@pytest.mark.parametrize("probe", ["readinessProbe", "livenessProbe"])
@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
def test_the_probes_pass(pod: Pod, protocol: str, probe: str, tmp_path: Path) -> None:
    *shell, command = pod.containers[protocol][probe]["exec"]["command"]
    command = command.replace("/opt/triton_ensemble.whl", str(SOURCES))
    command = command.replace("--project /opt", f"--project . --url {pod.triton.http_url}")
    command = command.replace("http://127.0.0.1:8002/metrics", pod.url(protocol, "metrics"))
    command = command.replace("/tmp/", f"{tmp_path}/").replace("python3", sys.executable)
    assert "answers" in succeed(pod.project.run(*shell, command))


def executed(project: Project, protocol: str, **variables: str) -> str:
    """Return what the notebook for a protocol prints, or raise CellExecutionError if it fails."""
    folder = project / "deploy/kserve"
    notebook = nbformat.read(folder / f"{protocol}.ipynb", as_version=4)
    nbformat.validate(notebook)
    inherited = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=inherited | variables)
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return "".join(output.get("text", "") for output in outputs)


def behind(pod: Pod, protocol: str, made: Certificate) -> Any:
    """Return an endpoint before the pod's port for a protocol."""
    port = {"rest": ("v2", "http1"), "grpc": ("grpc-v2", "h2c")}[protocol]
    return ENDPOINTS[protocol](pod.url(*port), made, TOKEN)


protocols = pytest.mark.parametrize("protocol", ["rest", "grpc"])


@protocols
def test_a_notebook_is_answered_over_tls(pod: Pod, certified: Certificate, protocol: str) -> None:
    with behind(pod, protocol, certified) as url:
        printed = executed(
            pod.project, protocol, URL=url, TOKEN=TOKEN, CA_FILE=str(certified.chain)
        )
    first = dict(re.findall(r"^([\w-]+):\n.*\n(\d)", printed, re.M))
    assert first == {"digit-7": "7", "digit-7-png": "7", "digits-2-6": "2"}
    assert "otherwise" not in printed


@protocols
@pytest.mark.parametrize("given", [{"TOKEN": "guessed"}, {}], ids=["wrong", "none"])
def test_who_has_no_token_is_refused(
    pod: Pod, certified: Certificate, protocol: str, given: dict[str, str]
) -> None:
    with (
        behind(pod, protocol, certified) as url,
        pytest.raises(CellExecutionError, match="no such token"),
    ):
        executed(pod.project, protocol, URL=url, CA_FILE=str(certified.chain), **given)


@protocols
def test_a_certificate_that_nobody_trusts_is_refused(
    pod: Pod, certified: Certificate, protocol: str
) -> None:
    with (
        behind(pod, protocol, certified) as url,
        pytest.raises(CellExecutionError, match=r"CERTIFICATE_VERIFY_FAILED|Unavailable"),
    ):
        executed(pod.project, protocol, URL=url, TOKEN=TOKEN)


def test_an_answer_that_is_another_is_named(
    generate: Generate, pod: Pod, certified: Certificate
) -> None:
    project = generate(extras=["kserve"])
    sample = project / "samples/digit-7.json"
    sample.write_text(sample.read_text().replace('"7"', '"8"'))
    with behind(pod, "rest", certified) as url:
        printed = executed(project, "rest", URL=url, TOKEN=TOKEN, CA_FILE=str(certified.chain))
    assert "Not the expected answer: LABEL" in printed


def test_a_stream_is_answered(generate: Generate, certified: Certificate, tmp_path: Path) -> None:
    project = generate.complete(**UNUSUAL["decoupled"], extras=["kserve"])
    with (
        LocalTriton(project / "model_repository", Facts.load(project.path).ensemble) as triton,
        ENDPOINTS["grpc"](triton.grpc_url, certified, TOKEN) as url,
    ):
        printed = executed(project, "grpc", URL=url, TOKEN=TOKEN, CA_FILE=str(certified.chain))
    assert printed.startswith("stub:\nTEXT")
