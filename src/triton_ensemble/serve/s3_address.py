"""Addresses of folders in buckets, as Triton reads them: `s3://BUCKET/PREFIX`, `s3://https://HOST:PORT/BUCKET/PREFIX`.

Triton reads a name that its own pattern does not have as another bucket, or sends it to another host, and says so
after a minute at best. So such names are refused.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from triton_ensemble.facts.terminal import OneLine

FORM = re.compile(r"s3://(?:(?P<scheme>https?://)?(?P<host>[\w.-]+):(?P<port>\d+)/)?(?P<path>.*)")
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX = re.compile(r"[0-9a-zA-Z._-]+(/[0-9a-zA-Z._-]+)*")
FORMS = "s3://BUCKET/PREFIX or s3://https://HOST:PORT/BUCKET/PREFIX"
PORTS = {"http": 80, "https": 443}
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class AddressError(OneLine, ValueError):
    """Raised for a text that is not an address of a folder in a bucket, with what is wrong and what to write."""

    def __init__(self, message: str) -> None:
        super().__init__(re.sub(r"(?<=//)\S*@", "***@", message))  # keys and passwords


@dataclass(frozen=True)
class Address:
    """A folder in a bucket. `endpoint` is `http://HOST:PORT` or `https://HOST:PORT`, and empty for AWS."""

    bucket: str
    prefix: str
    endpoint: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address, or raise AddressError if Triton would read another one.

        A host without a scheme speaks HTTP.
        """
        match = FORM.fullmatch(text)
        if not match or "://" in match["path"]:
            raise AddressError(f"{text}: is not an address in S3; write {FORMS}, the port too")
        bucket, _, prefix = match["path"].partition("/")
        if not BUCKET.fullmatch(bucket):
            what = "is not one that Triton can read" if bucket else "is missing"
            instead = "3 to 63 small letters, digits, `-` and `.`"
            raise AddressError(f"{text}: the bucket's name {what}; write {FORMS}, of {instead}")
        scheme, host, port = match["scheme"] or "http://", match["host"], match["port"]
        address = cls(bucket, prefix.removesuffix("/"), f"{scheme}{host}:{port}" if host else "")
        return address.check_characters() if host and address.prefix else address

    @classmethod
    def parse_target(cls, text: str) -> Address:
        """Read an address to write to. If it names no host, it is at the endpoint of the environment."""
        endpoint = next(filter(None, map(os.environ.get, ENDPOINTS)), "")
        return cls.parse(text).use_endpoint(endpoint).check_characters()

    def check_characters(self) -> Address:
        """Return this address, or raise AddressError if Triton can't read its prefix at every endpoint."""
        if PREFIX.fullmatch(self.prefix):
            return self
        what = f"the prefix {self.prefix!r} is none" if self.prefix else "a prefix is missing"
        raise AddressError(
            f"{self}: {what}; write letters, digits, `.`, `-`, `_`, `/` between names"
        )

    def use_endpoint(self, endpoint: str) -> Address:
        """Return the same folder at an endpoint, if the address does not name one.

        Raise AddressError if the endpoint is not a URL.
        """
        if self.endpoint or not endpoint:
            return self
        url = urlsplit(endpoint)
        if url.scheme not in PORTS or not url.hostname:
            raise AddressError(
                f"AWS_ENDPOINT_URL: {endpoint} is not a URL; write https://HOST:PORT"
            )
        return replace(
            self, endpoint=f"{url.scheme}://{url.hostname}:{url.port or PORTS[url.scheme]}"
        )

    def __truediv__(self, name: str) -> Address:
        return replace(self, prefix=f"{self.prefix}/{name}")

    def __str__(self) -> str:
        return "/".join(filter(None, ("s3:/", self.endpoint, self.bucket, self.prefix)))
