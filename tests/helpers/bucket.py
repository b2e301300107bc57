"""An S3 store on this machine, which records what it is asked: moto, behind a server of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET = "AKIA-of-nobody", "the secret of nobody"


class Quiet(WSGIRequestHandler):  # type: ignore[misc]
    def log(self, *_: Any) -> None:
        """Print nothing."""


class Store:
    """Where buckets are, and each request: `PUT /bucket/key`, and `COPY` where the store itself has the content."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.before_put: Callable[[int], None] = lambda count: None
        self.has_conditions = True
        self.needs_keys = False
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, True, request_handler=Quiet)
        self.port = self._server.port
        self.url = f"http://127.0.0.1:{self.port}"
        self.keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        self.keys |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "us-east-1"}
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, environ: Any, start: Any) -> Any:
        copied = "HTTP_X_AMZ_COPY_SOURCE" in environ
        method = "COPY" if copied else environ["REQUEST_METHOD"]
        self.requests.append(f"{method} {environ['PATH_INFO']}")
        if method == "PUT":
            self.before_put(len(self.put()))
        if "HTTP_IF_NONE_MATCH" in environ and not self.has_conditions:
            start("501 Not Implemented", [("Content-Type", "application/xml")])
            return [b"<Error><Code>NotImplemented</Code><Message>no conditions</Message></Error>"]
        if self.needs_keys and method == "GET" and "HTTP_AUTHORIZATION" not in environ:
            start("403 Forbidden", [("Content-Type", "application/xml")])  # moto answers 500
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        return self._moto(environ, start)

    def put(self, method: str = "PUT") -> list[str]:
        """Return the keys that were uploaded, or copied, since `requests` was cleared."""
        asked = [line.partition(" ")[::2] for line in self.requests]
        return [
            path.split("/", 2)[2] for verb, path in asked if verb == method and path.count("/") > 1
        ]

    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def keys_in(self, bucket: str, prefix: str) -> dict[str, int]:
        """Return the size of each object behind a prefix, by its key."""
        pages = (
            self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        )
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}

    def close(self) -> None:
        self._server.shutdown()


@contextmanager
def store() -> Iterator[Store]:
    """Run a store, with the bucket `models`."""
    running = Store()
    running.client().create_bucket(Bucket="models")
    try:
        yield running
    finally:
        running.close()
