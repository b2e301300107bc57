"""The environment of a project: made by uv if the machine has it, else by venv and pip; of a Python that fits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from package_index import add_wheel, serve_index
from support import ROOT, UV, Project, succeed

PYTHONS = ("python3", "python3.12", "python3.11", "python3.10")
NO_PYTHON = (
    "Python 3.10, 3.11 or 3.12 was not found. Install uv (https://docs.astral.sh/uv), which installs one, or name one: "
    "make PYTHON=/path/to/python3.12\n"
)
# All that installs.
INSTALLING = (".venv/.dev", ".venv/.push", ".venv/.tir", ".venv/.gateway", ".venv/.ray")


@pytest.fixture
def uv() -> str:
    if not UV:
        pytest.skip("neither PATH nor .venv-uv has uv")
    return UV


@pytest.fixture
def project(default_project: Project, tmp_path: Path) -> Project:
    return Project(Path(shutil.copytree(default_project.path, tmp_path / "p")))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH whose Pythons are as unfit as 3.14; a fitting one comes later, under a name that make tries first."""
    for folder in ("unfit", "other"):
        (tmp_path / folder).mkdir()
    for name in PYTHONS:
        (tmp_path / "unfit" / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "unfit" / name).chmod(0o755)
    (tmp_path / "other/python3").symlink_to(os.path.realpath(sys.executable))
    return f"{tmp_path}/unfit:{tmp_path}/other:/usr/bin:/bin"


def test_uv_finds_a_python_behind_one_that_does_not_fit(
    project: Project, uv: str, path: str
) -> None:
    succeed(project.run("make", ".venv/bin/python", UV=uv, PATH=path))
    version = "import sys; print((3, 10) <= sys.version_info < (3, 13))"
    assert succeed(project.run(".venv/bin/python", "-c", version)) == "True\n"


def test_a_line_says_how_to_get_a_python(project: Project, path: str) -> None:
    done = project.run("make", "infer", PATH=path)
    assert (done.returncode, done.stdout) == (2, NO_PYTHON)
    assert done.stderr.count("\n") == 1  # make's own
    assert not (project / ".venv").exists()


@pytest.mark.parametrize("maker", ["uv", "venv"])
def test_a_named_python_has_to_fit(project: Project, path: str, maker: str) -> None:
    """It is asked before anything is made."""
    unfit = path.split(":")[0] + "/python3"
    done = project.run("make", f"PYTHON={unfit}", "infer", UV="uv" * (maker == "uv"))
    line = f"{unfit} is not Python 3.10, 3.11 or 3.12; name one: make PYTHON=/path/to/python3.12\n"
    assert (done.returncode, done.stdout) == (2, line)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Serve a package index of one wheel, `only-here`; yield its address, and the line of a lock."""
    folder = tmp_path_factory.mktemp("index")
    digest = add_wheel(folder, "only-here", "1.0")
    with serve_index(folder) as address:
        yield address, f"only-here==1.0 --hash=sha256:{digest}\n"


def install(project: Project, lock: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Install a lock of one package, as set-up does."""
    (project / "requirements.lock").write_text(lock)
    (project / "vendor/project.json").write_text('{"packages": {}, "gpu_count": 0}')
    more |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0"}
    return project.run("make", ".venv/.packages", f"PYTHON={sys.executable}", **more)


def has_package(project: Project) -> bool:
    return project.run(".venv/bin/python", "-c", "import only_here").returncode == 0


def test_uv_takes_the_index_that_pip_is_told_of(
    project: Project, uv: str, index: tuple[str, str], tmp_path: Path
) -> None:
    """By PIP_INDEX_URL, or by a file of settings."""
    address, lock = index
    succeed(install(project, lock, UV=uv, PIP_INDEX_URL=address))
    assert has_package(project)
    assert not (project / ".venv/bin/pip").exists()
    shutil.rmtree(project / ".venv")
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {address}\n")
    settings = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "UV_NO_CACHE": "1"}
    succeed(install(project, lock, UV=uv, **settings))
    assert has_package(project)


@pytest.mark.slow
def test_pip_installs_into_what_uv_has_made(
    project: Project, uv: str, index: tuple[str, str]
) -> None:
    """Such an environment has no pip at first."""
    address, lock = index
    succeed(project.run("make", ".venv/bin/python", UV=uv))
    succeed(install(project, lock, PIP_INDEX_URL=address))
    assert has_package(project)


@pytest.mark.slow
def test_venv_and_pip_without_uv(project: Project, index: tuple[str, str]) -> None:
    address, lock = index
    succeed(install(project, lock, PIP_INDEX_URL=address))
    assert has_package(project)
    assert (project / ".venv/bin/pip").exists()


def test_uv_refuses_a_package_with_another_hash(
    project: Project, uv: str, index: tuple[str, str]
) -> None:
    address, lock = index
    wrong = lock[:-5] + "0000\n"
    done = install(project, wrong, UV=uv, PIP_INDEX_URL=address, UV_NO_CACHE="1")
    assert done.returncode
    assert "Hash mismatch" in done.stderr
    assert not (project / ".venv/.packages").exists()


@pytest.mark.parametrize(
    ("uv", "installer"),
    [
        ("my-uv", "UV='my-uv' UV_DEFAULT_INDEX='here' my-uv pip install --python .venv"),
        ("", "/bin/python -m pip --disable-pip-version-check install --quiet"),
    ],
)
def test_all_that_installs_does_it_in_one_way(project: Project, uv: str, installer: str) -> None:
    listed = project.run("make", "--dry-run", *INSTALLING, UV=uv, PIP_INDEX_URL="here")
    installs = [line for line in listed.stdout.splitlines() if " install " in line]
    assert len(installs) == 7, listed
    assert all(installer in line for line in installs)


def test_the_lock_is_renewed_by_uv(project: Project, tmp_path: Path) -> None:
    """It is uv of the machine; its own Python may be any, so it is told which."""
    fake = tmp_path / "uv"
    fake.write_text(f'#!/bin/sh\necho "$UV_DEFAULT_INDEX" "$@" >> {tmp_path}/said\n')
    fake.chmod(0o755)
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to(sys.executable)
    lock = "LOCK=$(UV_SETTINGS) $(VENV)/bin/python -m triton_ensemble.environment.lock"
    succeed(project.run("make", lock, "lock", UV=str(fake), PIP_INDEX_URL="here"))
    said = (tmp_path / "said").read_text().splitlines()
    assert [line.partition(" --quiet")[0] for line in said] == ["here pip compile"] * 2
    assert all(f"--python {project.path}/.venv/bin/python" in line for line in said)


def test_the_rule_of_this_repository_is_the_same() -> None:
    """Its Makefile and that of projects name the same Pythons."""
    ours, theirs = (ROOT / name for name in ("Makefile", "template/Makefile.jinja"))
    for line in ours.read_text().splitlines():
        if line.startswith(("SUPPORTED :=", "PYTHON ?=")):
            assert line in theirs.read_text().splitlines()
