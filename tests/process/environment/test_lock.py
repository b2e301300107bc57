"""Locks fit what is declared: renewed by `make update`, complete before an install, without CUDA where an index says so."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from package_index import add_wheel, serve_index
from support import COPIER, SOURCES, UV, VENV, Generate, Project, run, step, succeed

from triton_ensemble.environment.lock import list_lacking

TORCHSCRIPT: dict[str, Any] = {
    "starting_pipeline": "my-own",
    "tensors": dict.fromkeys("AB", "FP32[4]"),
    "steps": [step("net", ["A"], ["B"], "pytorch")],
}
LOCK = "requirements.lock"
PYTHONS = ("cp310-cp310", "cp311-cp311", "cp312-cp312")
OF_CPU = [
    (version, f"{python}-{platform}")
    for python in PYTHONS
    for version, platform in (
        ("2.13.0+cpu", "manylinux_2_28_x86_64"),
        ("2.13.0+cpu", "win_amd64"),
        ("2.13.0", "macosx_11_0_arm64"),
    )
]


@pytest.fixture(scope="module")
def torch_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a package index with torch for CPUs, and with what must not be taken from there."""
    folder = tmp_path_factory.mktemp("index")
    for version, tag in OF_CPU:
        add_wheel(folder, "torch", version, tag)
    add_wheel(folder, "numpy", "1.26.4+cpu")
    with serve_index(folder) as address:
        yield address


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `venv`, which borrows our packages and gets those of its own."""
    folder = tmp_path_factory.mktemp("environments")
    succeed(run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder))
    [packages] = folder.glob("venv/lib/python*/site-packages")
    [ours] = VENV.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"{SOURCES}\nimport site; site.addsitedir({str(ours)!r})\n")
    return folder


def make(project: Project, environments: Path, *words: str, **more: str) -> Any:
    """Run `make` in a project, with the toolkit of the working tree."""
    options = ("--no-print-directory", "SETUP=", f"VENV={environments}/venv")
    return run("make", *options, *words, cwd=project.path, PYTHONPATH=str(SOURCES), **more)


def versions(lock: str) -> set[tuple[str, str]]:
    """Return packages with their versions. One may have several, by Python version."""
    return {*re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)}


@pytest.mark.parametrize(
    ("requirement", "is_there"),
    [
        ("torch", True),
        ("torch==2.13.0", True),
        ("torch>=2.14", False),
        ("Py_YAML[extra]>6 ; python_version > '3'", True),
        ("regex", False),
        ("a @ https://example.com/a.whl#sha256=0", True),
        ("b @ git+https://example.com/b@0", False),
    ],
)
def test_what_a_lock_lacks(requirement: str, is_there: bool) -> None:
    lock = "torch==2.13.0+cpu ; sys_platform == 'linux' \\\n    --hash=sha256:0\npy-yaml==6.0.1\n"
    lock += "a @ https://example.com/a.whl#sha256=0 \\\n    --hash=sha256:0\n"
    assert list_lacking(lock, [requirement]) == [requirement] * (not is_there)


def test_the_first_lock_has_what_the_default_project_declares(default_project: Project) -> None:
    command = (sys.executable, "-m", "triton_ensemble.environment.lock", "--lacking")
    assert succeed(default_project.run(*command)) == ""


def set_up(project: Project, venv: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the part of `make setup` that installs the lock, into a new environment, with what indexes have alone."""
    command = ("make", "setup", f"VENV={venv}", f"PYTHON={sys.executable}")
    options = {"PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1"}
    return run(*command, cwd=project.path, **options, **more)


@pytest.mark.slow
def test_a_lock_is_renewed_without_uv_in_an_environment_without_pip(
    default_project: Project, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    succeed(run(sys.executable, "-m", "venv", "--without-pip", str(venv), cwd=tmp_path))
    lock = default_project / LOCK
    before = lock.read_text()
    lock.write_text("")
    renew = (str(venv / "bin/python"), "-m", "triton_ensemble.environment.lock")
    succeed(default_project.run(*renew, UV=""))
    assert versions(lock.read_text()) >= {each for each in versions(before) if each[0] == "numpy"}


@pytest.mark.slow
def test_set_up_asks_before_it_installs_cuda_for_a_cpu(generate: Generate, tmp_path: Path) -> None:
    done = set_up(generate(**TORCHSCRIPT), tmp_path / "venv", UV=UV or "")
    assert done.returncode
    assert done.stderr.startswith(
        "requirements.lock: lacks torch==2.13.0; for a CPU, name the index of its CPU wheels as `torch_index` in "
        "pipeline.yml, as docs/environment.md, Packages, says; to take those for GPUs, an environment of over 5 GB, run: make lock\n"
    )


@pytest.mark.slow
def test_torch_for_a_cpu(
    generate: Generate, environments: Path, torch_index: str, tmp_path: Path
) -> None:
    """The local backend's torch is of the index that pipeline.yml names. All else is not, and no NVIDIA package is there."""
    project = generate(**TORCHSCRIPT, torch_index=torch_index)
    assert "NVIDIA" not in succeed(make(project, environments, "lock"))
    lock = (project / LOCK).read_text()
    locked = versions(lock)
    assert {("torch", "2.13.0"), ("torch", "2.13.0+cpu"), ("numpy", "1.26.4")} <= locked
    assert [name for name, _ in locked if name.startswith("nvidia-")] == ["nvidia-pytriton"]
    assert "://" not in lock
    # Set-up and the image's build take it from there, by its hash.
    own = "\n\n".join(re.findall(r"^torch==.*(?:\n    --hash.*)+", lock, re.MULTILINE))
    (project / LOCK).write_text(f"{own}\n")
    (project / "vendor/project.json").write_text('{"packages": {}, "gpu_count": 0}')
    cases = itertools.product(("", UV or ""), (("", False), (torch_index, True)))
    for number, (uv, (index, fits)) in enumerate(cases):
        venv = tmp_path / f"venv-{number}"
        (project / "pipeline.yml").write_text(f"torch_index: {index}\n")
        done = set_up(project, venv, UV=uv, UV_NO_CACHE="1", COLUMNS="80")
        told = "name the index that has it as `torch_index` in pipeline.yml"
        assert (told in done.stderr) is not fits, done
        is_there = run(f"{venv}/bin/python", "-c", "import torch", cwd=tmp_path).returncode == 0
        assert is_there is fits


@pytest.mark.slow
def test_torch_without_an_index_says_what_it_costs(generate: Generate, environments: Path) -> None:
    project = generate(**TORCHSCRIPT)
    printed = succeed(make(project, environments, "lock"))
    assert re.fullmatch(
        r"requirements.lock: has \d\d NVIDIA packages, for GPUs: an environment of over 5 GB; for a CPU, name the "
        r"index of its CPU wheels as `torch_index` in pipeline.yml, as docs/environment.md, Packages, says, then run: make lock\n",
        printed,
    )


@pytest.mark.slow
def test_an_update_renews_the_locks(git_template: Path, environments: Path, tmp_path: Path) -> None:
    """A package that was locked before keeps its version. Where no index answers, a line says what is left to do."""
    answers = (
        "--data",
        "starting_pipeline=my-own",
        "--data",
        "flow=only python: A FP32[4] -> B FP32[4]",
    )
    command = (str(COPIER), "copy", "--quiet", "--defaults", *answers, str(git_template), "p")
    succeed(run(*command, cwd=tmp_path))
    project = Project(tmp_path / "p")
    pipeline = (project / "pipeline.yml").read_text()
    declared = re.sub(r"(backend: python\n)", r"\1    requirements: [regex]\n", pipeline)
    (project / "pipeline.yml").write_text(declared)
    project.commit()
    before = (project / LOCK).read_text()
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "UV_DEFAULT_INDEX": "http://127.0.0.1:9"}
    updated = make(project, environments, "update", **nowhere)
    lacks = "requirements.lock: lacks regex; renewing it, as `make lock` does"
    assert lacks in succeed(updated)
    left = r"requirements.lock: is not renewed, as (pip|uv) says above; then run: make lock\n$"
    assert re.search(left, updated.stderr)
    assert (project / LOCK).read_text() == before
    project.commit()
    assert lacks in succeed(make(project, environments, "update"))
    old, new = versions(before), versions((project / LOCK).read_text())
    assert {name for name, _ in new - old} == {"regex"}
    assert old <= new
    project.commit()
    assert lacks not in succeed(make(project, environments, "update"))
