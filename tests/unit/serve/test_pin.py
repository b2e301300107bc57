"""`make pin`: images by their digests in the kustomization.yaml files of an owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.facts.catalog import table
from triton_ensemble.serve.container import kinds, pin

DIGEST = "sha256:" + 64 * "a"
OTHER = "sha256:" + 64 * "b"
BEFORE = """\
# Yours
resources: [base]

images:
  - name: m
    newName: registry.example.com/m # comment
    newTag: "1" # or digest: sha256:...
  # another
  - name: m-gateway
  - { name: m-models, newTag: "1" }
  - {name: other, newTag: "2"}

# At the end.
patches:
  - patch: |
      - { op: add, path: /a, value: "b" }
"""
AFTER = f"""\
# Yours
resources: [base]

images:
  - name: m
    newName: ghcr.io/o/m # comment
    digest: {DIGEST} # or digest: sha256:...
  # another
  - name: m-gateway
    newName: ghcr.io/o/m-gateway
    digest: {DIGEST}
  - {{ name: m-models, newName: ghcr.io/o/m-models, digest: {OTHER} }}
  - {{name: other, newTag: "2"}}

# At the end.
patches:
  - patch: |
      - {{ op: add, path: /a, value: "b" }}
"""
IMAGES = {
    "": f"ghcr.io/o/m@{DIGEST}",
    "-mounted": f"ghcr.io/o/m-mounted@{OTHER}",
    "-gateway": f"ghcr.io/o/m-gateway@{DIGEST}",
    "-models": f"ghcr.io/o/m-models@{OTHER}",
    "-mine": "m-mine:123",
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "deploy/kubernetes/kustomization.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(BEFORE)
    return path


def test_entries_get_their_digests_and_the_rest_stays(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert pin.pin_all("m", IMAGES) == 0
        assert file.read_text() == AFTER
    [line, *_] = capsys.readouterr().out.splitlines()
    assert line == f"deploy/kubernetes/kustomization.yaml: m is ghcr.io/o/m@{DIGEST}"


@pytest.mark.parametrize("component", ["s3", "image-volume", "./s3/"])
def test_where_models_come_from_elsewhere_the_image_has_none(file: Path, component: str) -> None:
    file.write_text(f"{BEFORE}components: [components/{component}]\n")
    assert pin.pin_all("m", IMAGES) == 0
    assert f"newName: ghcr.io/o/m-mounted # comment\n    digest: {OTHER} #" in file.read_text()


def test_a_second_folder_of_kserve_gets_the_image_without_models(file: Path) -> None:
    folder = file.parent.rename(file.parents[1] / "kserve-next")
    (folder / file.name).write_text(BEFORE.replace("[base]", "[../kserve/base]"))
    assert pin.pin_all("m", IMAGES) == 0
    assert "newName: ghcr.io/o/m-mounted #" in (folder / file.name).read_text()


def test_kserve_gets_no_image_with_models(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = file.parent.rename(file.parents[1] / "kserve")
    assert pin.pin_all("m", {"": IMAGES[""]}) == 0
    assert (
        capsys.readouterr().out == "deploy/kserve/kustomization.yaml: takes none of these images\n"
    )
    assert (folder / file.name).read_text() == BEFORE


def test_a_project_may_be_named_mounted(file: Path) -> None:
    file.write_text(BEFORE.replace("name: m\n", "name: m-mounted\n"))
    assert pin.pin_all("m-mounted", IMAGES) == 0
    assert file.read_text().count(DIGEST) == 1


def test_line_ends_stay(file: Path) -> None:
    file.write_bytes(BEFORE.replace("\n", "\r\n").encode())
    assert pin.pin_all("m", IMAGES) == 0
    assert file.read_bytes() == AFTER.replace("\n", "\r\n").encode()


def test_a_tag_is_not_pinned(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pin.pin_all("m", {"": "m:1"}) == 1
    assert capsys.readouterr().err == "pin: no image has a digest; write IMAGE=NAME@sha256:...\n"
    assert file.read_text() == BEFORE


def test_a_project_without_manifests_is_told_so(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.unlink()
    assert pin.pin_all("m", IMAGES) == 1
    [line] = capsys.readouterr().err.splitlines()
    *most, last = [each for each in ("kubernetes", "kserve", "ray") if each in table("extras")]
    lacks = f"pipeline.yml: extras lacks {', '.join(most)} and {last}; add one"
    assert line.startswith(lacks)


@pytest.mark.parametrize("image", [f"@{DIGEST}", "m@sha256:", f"m@{DIGEST[:-1]}"])
def test_a_digest_that_is_not_one_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], image: str
) -> None:
    assert pin.pin_all("m", IMAGES | {"-gateway": image}) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pin: {image} lacks a name, or a digest of 64 hex digits; write ")
    assert file.read_text() == BEFORE


FORM = "write entries of images without anchors and merge keys, and with newTag or digest"
NAMES = "images is not a list of entries with a name"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("images: [", "while parsing a flow node"),
        ("", NAMES),
        ("images: [m]", NAMES),
        ("images: {name: m}", NAMES),
        ("images: [{newTag: a}]", NAMES),
        ("a: &a {name: m}\nimages: [{<<: *a}]", FORM),
        ("a: &a {images: [{name: m}]}\n<<: *a", FORM),
        ("a: &a {newTag: b}\nimages: [{<<: *a, name: m}]", FORM),
        ("resources: [base]", "images lacks m; add an entry `name: m`"),
        *(
            (f"{BEFORE}resources: [../../{image.listed}]", f"images lacks m{image.suffix}; add")
            for image in kinds.IMAGES.values()
            if image.listed and image.suffix not in BEFORE
        ),
        (BEFORE.replace("m-gateway", "g") + "components: [components/gateway]", "images lacks m-g"),
        ("a: &a b\nimages: [{name: m, newTag: *a}]", FORM),
        ("images: [&a {name: m, newTag: a}, *a]", FORM),
        ("images: [{name: m, newTag: a, digest: b}]", FORM),
    ],
)
def test_a_file_that_can_not_be_pinned_is_named_and_stays(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    file.write_text(text)
    assert pin.pin_all("m", IMAGES) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"deploy/kubernetes/kustomization.yaml: can't be pinned: {problem}")
    assert file.read_text() == text


def test_a_file_that_can_not_be_read_is_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.unlink()
    file.mkdir()
    assert pin.pin_all("m", IMAGES) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("deploy/kubernetes/kustomization.yaml: can't be pinned: ")
