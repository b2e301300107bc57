"""The toolkit's wheel: reproducible, installed by its hash from the project and from nowhere else, replaced by updates."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from delivery_support import environment
from support import ROOT, Project, run, succeed

from scripts.wheel import build, record

[WHEEL] = (ROOT / "template/vendor").glob("*.whl")
INSTALLED = "from importlib.metadata import version; print(version('triton-ensemble'))"


def setup(project: Project, *variables: str, **more: str) -> str:
    """Run `make setup`. Return the version of the toolkit that is installed then."""
    succeed(run("make", "setup", *variables, cwd=project.path, **more))
    return succeed(run(".venv/bin/python", "-c", INSTALLED, cwd=project.path)).strip()


def repacked(wheel: Path, folder: Path, version: str) -> Path:
    """Return a copy of the wheel under another version."""
    old = wheel.name.split("-")[1]
    target = folder / wheel.name.replace(old, version)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            text = source.read(name)
            if name.endswith("/METADATA"):
                text = text.replace(f"Version: {old}".encode(), f"Version: {version}".encode())
            if not name.endswith("/RECORD"):
                archive.writestr(name.replace(f"-{old}.", f"-{version}."), text)
        archive.writestr(f"triton_ensemble-{version}.dist-info/RECORD", "")
    return target


def pinned(project: Project, wheel: Path) -> None:
    """Name a wheel in vendor/requirements.txt by its hash."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    line = f"./vendor/{wheel.name} --hash=sha256:{digest}\n"
    (project / "vendor/requirements.txt").write_text(line)


def test_the_wheel_is_that_of_the_sources(tmp_path: Path) -> None:
    assert record(build(tmp_path)) == record(WHEEL), "run: make wheel"


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (build(tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_the_sources_of_a_release_give_its_wheel(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "hatchling", "build", "--directory")
    succeed(run(*command, str(tmp_path), "--target", "sdist", cwd=ROOT))
    [sources] = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(sources, tmp_path, filter="data")
    succeed(run(*command, str(tmp_path), "--target", "wheel", cwd=tmp_path / sources.name[:-7]))
    [wheel] = tmp_path.glob("*.whl")
    assert record(wheel) == record(build(tmp_path / "built"))


def test_the_hash_beside_the_wheel_is_its_own(default_project: Project) -> None:
    [path, digest] = re.findall(
        r"^\./(\S+\.whl)\S* --hash=sha256:(\w+)$",
        (default_project / "vendor/requirements.txt").read_text(),
        re.MULTILINE,
    )[0]
    assert hashlib.sha256((default_project / path).read_bytes()).hexdigest() == digest


def test_the_wheel_requires_three_packages_and_holds_the_rules() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("/METADATA")]
        text = archive.read(metadata).decode()
    required = re.findall(r"^Requires-Dist: (?!.*extra ==)(\S+)", text, re.MULTILINE)
    assert sorted(required) == ["numpy", "pyyaml", "tritonclient[grpc]"]
    assert {"triton_ensemble/py.typed", "triton_step/py.typed"} <= {*names}
    assert "triton_ensemble/hooks/answers.jinja" in names
    assert "triton_ensemble/hooks/catalog/types.yml" in names


@pytest.mark.slow
def test_set_up_installs_a_changed_wheel_of_the_same_version(
    default_project: Project, tmp_path: Path
) -> None:
    project = Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))
    environment(project)
    version = setup(project)
    [wheel] = (project / "vendor").glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("triton_ensemble/changed.py", "")
    pinned(project, wheel)
    assert setup(project) == version
    succeed(run(".venv/bin/python", "-c", "import triton_ensemble.changed", cwd=project.path))


@pytest.mark.slow
def test_a_wheel_with_another_hash_is_refused(default_project: Project, tmp_path: Path) -> None:
    project = Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))
    environment(project)
    [wheel] = (project / "vendor").glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("triton_ensemble/changed.py", "")
    done = run("make", "setup", cwd=project.path)
    assert done.returncode
    assert "DO NOT MATCH THE HASHES" in done.stderr


@pytest.mark.slow
def test_no_index_is_asked_for_the_toolkit_unless_the_variable_says_so(
    default_project: Project, tmp_path: Path
) -> None:
    """An index offers a higher version."""
    project = Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))
    environment(project)
    offered = tmp_path / "offered"
    offered.mkdir()
    repacked(WHEEL, offered, "99.0.0")
    version = WHEEL.name.split("-")[1]
    assert setup(project, PIP_FIND_LINKS=str(offered)) == version
    from_index = ("TOOLKIT=triton-ensemble==99.0.0",)
    index = {"PIP_FIND_LINKS": str(offered), "PIP_NO_INDEX": "1"}
    assert setup(project, *from_index, **index) == "99.0.0"


@pytest.mark.slow
def test_set_up_names_what_the_lock_lacks(default_project: Project, tmp_path: Path) -> None:
    project = Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))
    environment(project)
    next((project / ".venv").rglob("borrowed.pth")).unlink()
    done = run("make", "setup", cwd=project.path)
    assert done.returncode
    names = "numpy, pyyaml, tritonclient[grpc], jinja2, jinja2-ansible-filters, packaging, tqdm"
    lacking = f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock"
    assert lacking in done.stdout
