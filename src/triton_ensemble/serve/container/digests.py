"""Pin the images that this project uses by digest, in deploy/images.lock.

A tag may be another image tomorrow. A digest is the image. The image's registry has it, and needs no account.
An image whose registry does not answer keeps the digest that the file has for its tag.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.settings import LOCK

HEAD = "# Yours: `make digests` renews it. Images by digest, each for the tag that the project uses; others are ignored.\n"
TIMEOUT_S = 15
HUB = "registry-1.docker.io"
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def address(image: str) -> str:
    """Return the URL of an image's manifest. `prom/prometheus:v3` is an image of Docker Hub."""
    name, _, tag = image.rpartition(":")
    host, _, path = name.partition("/")
    if not path or not re.search(r"[.:]|^localhost$", host):
        host, path = HUB, name if path else f"library/{name}"
    scheme = "http" if re.match(r"localhost|127\.", host) else "https"
    return f"{scheme}://{host}/v2/{path}/manifests/{tag}"


def digest(image: str) -> str:
    """Return the digest of an image `NAME:TAG`.

    Raise OSError or ValueError if its registry does not say.
    """
    url, accept = address(image), {"Accept": ", ".join(KINDS)}
    try:
        manifest = _read(url, accept)
    except HTTPError as error:
        with error:
            challenge = error.headers.get("WWW-Authenticate", "")
        if error.code != 401 or not challenge.startswith("Bearer "):
            raise
        manifest = _read(url, accept | {"Authorization": f"Bearer {_fetch_token(challenge)}"})
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def _fetch_token(challenge: str) -> str:
    """Return a token for anybody, from the address that a registry's answer names."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    answer = json.loads(_read(f"{fields.pop('realm')}?{urlencode(fields)}", {}))
    return str(answer.get("token") or answer["access_token"])


def _read(url: str, headers: dict[str, str]) -> bytes:
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT_S) as response:
        return bytes(response.read())


def run(arguments: argparse.Namespace) -> int:
    """Pin the images of this project, and return 1 after a line for each registry that does not answer."""
    project = Project.load(Path.cwd())
    return pin(project.root / LOCK, [*project.images.values()])


def pin(file: Path, images: Sequence[str]) -> int:
    """Write the file, print which registries do not answer, and return the exit status."""
    before = file.read_text().split() if file.exists() else []
    pinned, status = [], 0
    for image in dict.fromkeys(images):
        try:
            pinned.append(f"{image}@{digest(image)}")
        except (OSError, ValueError, KeyError) as error:
            kept = [line for line in before if line.startswith(f"{image}@")]
            pinned += kept
            stays = "its digest stays" if kept else "it stays a tag"
            print(f"{image}: its registry does not answer, {stays}: {error}", file=sys.stderr)
            status = 1
    if pinned:
        file.write_text(HEAD + "".join(f"{line}\n" for line in pinned))
    return status
