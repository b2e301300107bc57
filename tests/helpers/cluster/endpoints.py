"""An endpoint as clusters have it: TLS, and a token, before a Triton. For REST and for gRPC, of the standard library and grpcio."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
from support import run, succeed


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
            method = behind.stream_stream(call.method)
            known = ("authorization", f"Bearer {token}") in call.invocation_metadata
            return grpc.stream_stream_rpc_method_handler(
                (lambda messages, _: method(messages)) if known else _refused
            )

    behind = grpc.insecure_channel(urlsplit(server).netloc)
    proxy = grpc.server(ThreadPoolExecutor(4), handlers=[Handler()])
    pair = (made.key.read_bytes(), made.chain.read_bytes())
    port = proxy.add_secure_port("localhost:0", grpc.ssl_server_credentials([pair]))
    proxy.start()
    yield f"grpcs://localhost:{port}"
    proxy.stop(None)
    behind.close()


def _refused(_: Any, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "no such token")


ENDPOINTS: dict[str, Callable[[str, Certificate, str], Any]] = {"rest": rest, "grpc": rpc}
