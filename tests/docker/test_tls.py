"""The example of docs/containers.md that serves others than this machine, by TLS and with a key, run as it stands."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import ROOT, Generate, Project, run, succeed

from docker import stand_in
from docker.checkouts import compose_project, image_of, serving
from docker.stand_in import docker

NAME = "triton.example.org"
KEY = "Bearer A-LONG-RANDOM-TEXT"


def example(language: str, text: str) -> str:
    """Return the code of the page's section that has a text."""
    page = (ROOT / "docs/containers.md").read_text()
    [section] = re.findall(r"^## Beyond this machine\n(.*?)^## ", page, re.M | re.S)
    blocks = re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S)
    return next(str(block) for block in blocks if text in block)


@pytest.fixture(scope="module")
def project(generate: Generate, _engine: None) -> Project:
    """Return a project with the example's files, for a name and a port of this machine."""
    project = generate(project_name="beyond")
    folder = project / "deploy/proxy"
    folder.mkdir()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    succeed(run("openssl", "req", "-x509", *key, *subject, cwd=folder))
    (folder / "key.pem").chmod(0o644)
    (folder / "Caddyfile").write_text(example("text", NAME).replace(NAME, "localhost"))
    override = example("yaml", "caddy:2").replace("caddy:2", stand_in.caddy())
    override = override.replace('"443:443"', '"127.0.0.1:0:443"')
    (project / "deploy/compose.override.yaml").write_text(override)
    return project


@pytest.fixture(scope="module")
def address(project: Project, options: list[str]) -> Iterator[str]:
    """Yield host and port of the proxy."""
    with serving(project, *options):
        name = f"name={compose_project(project)}[-_]proxy"
        port = docker("port", docker("ps", "--quiet", "--filter", name), "443")
        yield f"localhost:{port.rpartition(':')[2]}"
    docker("image", "rm", image_of(project))


SEND = """
import sys
from beyond import Client, Tls
url, certificate, key = sys.argv[1:]
headers = {"authorization": key} if key else {}
with Client(url, headers=headers, tls=Tls(root_certificates=certificate), retries=0) as client:
    print(client.beyond(IMAGE=[[open("samples/digit-7.jpg", "rb").read()]]).LABEL)
"""


def send(project: Project, url: str, key: str) -> subprocess.CompletedProcess[str]:
    """Send a sample by the project's client, which trusts the certificate alone."""
    certificate = str(project / "deploy/proxy/cert.pem")
    return project.run(sys.executable, "-c", SEND, url, certificate, key)


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_who_has_the_key_is_answered_over_tls(project: Project, address: str, scheme: str) -> None:
    assert "7" in succeed(send(project, f"{scheme}://{address}", KEY))


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
@pytest.mark.parametrize("key", ["", "Bearer guessed"])
def test_who_has_none_is_refused(project: Project, address: str, scheme: str, key: str) -> None:
    refused = send(project, f"{scheme}://{address}", key)
    assert refused.returncode != 0
    assert "401" in refused.stderr or "UNAUTHENTICATED" in refused.stderr


def test_what_the_proxy_shows_is_tls(address: str) -> None:
    context = ssl.create_default_context()
    host, _, port = address.partition(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        pytest.raises(ssl.SSLError, match=r"self.signed"),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
