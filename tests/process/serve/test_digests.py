"""Images by digest: asked of a registry, kept in a file of the owner's, and used by builds and compose."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Generate
from web import Handler, serve_http

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.container import digests
from triton_ensemble.serve.container.settings import Settings

MANIFEST = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"


class Registry(Handler):
    """A registry that wants a token, which anybody gets, and has `a/b:1` alone. A real one is in docker/."""

    def do_GET(self) -> None:
        host = self.headers["Host"]
        scope = f'realm="http://{host}/token",service="r",scope="repository:a/b:pull"'
        if self.path.startswith("/token"):
            self.respond(200, b'{"token": "T"}' if "repository%3Aa%2Fb" in self.path else b"{}")
        elif self.headers["Authorization"] != "Bearer T":
            self.respond(401, headers={"WWW-Authenticate": f"Bearer {scope}"})
        else:
            self.respond(200 if self.path == "/v2/a/b/manifests/1" else 404, MANIFEST)


@pytest.fixture
def registry() -> Iterator[str]:
    with serve_http(Registry) as place:
        yield place


@pytest.mark.parametrize(
    ("image", "url"),
    [
        (
            "nvcr.io/nvidia/tritonserver:26.07-py3",
            "nvcr.io/v2/nvidia/tritonserver/manifests/26.07-py3",
        ),
        ("prom/prometheus:v3.5.0", "registry-1.docker.io/v2/prom/prometheus/manifests/v3.5.0"),
        ("debian:12", "registry-1.docker.io/v2/library/debian/manifests/12"),
        ("r.example.org:5000/a:1", "r.example.org:5000/v2/a/manifests/1"),
    ],
)
def test_an_image_is_asked_of_its_registry(image: str, url: str) -> None:
    assert digests.address(image) == f"https://{url}"


def test_what_answers_is_pinned_and_what_does_not_is_named(
    registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known, unknown, nowhere = f"{registry}/a/b:1", f"{registry}/a/b:2", "127.0.0.1:9/c:1"
    lock = tmp_path / "images.lock"
    lock.write_text(f"{unknown}@sha256:before\n{registry}/a/b:0@sha256:old\n")
    assert digests.pin(lock, [known, unknown, nowhere]) == 1
    comment, *lines = lock.read_text().splitlines()
    assert comment.startswith("# Yours: `make digests`")
    assert lines == [f"{known}@{DIGEST}", f"{unknown}@sha256:before"]
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{unknown}: its registry does not answer, its digest stays: ")
    assert second.startswith(f"{nowhere}: its registry does not answer, it stays a tag: ")
    assert digests.pin(lock, [known]) == 0


def test_a_file_without_an_answer_is_not_made(tmp_path: Path) -> None:
    assert digests.pin(tmp_path / "images.lock", ["127.0.0.1:9/c:1"]) == 1
    assert not (tmp_path / "images.lock").exists()


@pytest.mark.parametrize(
    ("pinned", "digest"),
    [("nvcr.io/nvidia/tritonserver:26.07-py3", "@sha256:1"), ("a/b:26.07-py3", "")],
)
def test_a_project_takes_the_digest_of_its_tag_and_no_other(
    generate: Generate, pinned: str, digest: str
) -> None:
    project = generate(triton_release="26.07")
    (project / "deploy/images.lock").write_text(f"{digests.HEAD}{pinned}@sha256:1\n")
    images = Settings.read(Facts.load(project.path), {"PROMETHEUS_IMAGE": "mine"}).images
    assert images["TRITON_IMAGE"] == f"nvcr.io/nvidia/tritonserver:26.07-py3{digest}"
    assert images["PROMETHEUS_IMAGE"] == "mine"


def test_make_names_each_registry_that_does_not_answer(generate: Generate) -> None:
    """Behind a proxy where nobody listens, each image of the compose file has a line, and so has Triton's."""
    project = generate()
    run = project.make(
        "digests", HTTPS_PROXY="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9"
    )
    assert run.returncode != 0
    lines = [line for line in run.stderr.splitlines() if "does not answer, it stays a tag" in line]
    compose = (project / "deploy/compose.yaml").read_text()
    images = re.findall(r"_IMAGE:-(.*)}", compose)
    assert len(images) == 2
    assert [line.partition(": ")[0] for line in lines][1:] == images
    assert lines[0].startswith("nvcr.io/nvidia/tritonserver:")
    assert "Traceback" not in run.stderr
