"""README.md and that of a generated project: their size, their links, and the commands that they begin with."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from docs_blocks import read_blocks
from support import COPIER, PIPELINES, ROOT, UNUSUAL, UV, VENV, Generate, Project, run, succeed

import triton_ensemble

README = (ROOT / "README.md").read_text()


def test_links_of_the_readme_lead_to_files() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_readme_has_the_version() -> None:
    version = triton_ensemble.__version__.partition(".dev")[0]
    assert f"version {version} " in README


def test_the_readme_is_what_a_minute_reads() -> None:
    """A README has what somebody reads before deciding, and docs/ has the rest."""
    read = re.sub(r"<!--.*?-->", "", README)
    assert len(read.split()) <= 700
    assert max(map(len, re.sub(r"^\|.*", "", README, flags=re.MULTILINE).splitlines())) <= 120


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return an environment that has what ours has, and that a test may install into."""
    succeed(run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=tmp_path))
    [packages] = tmp_path.glob("venv/lib/python*/site-packages")
    [ours] = VENV.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"{ours}\n")
    for name in ("copier", "pip"):
        (tmp_path / "venv/bin" / name).write_text(
            f'#!/bin/sh\nexec {tmp_path}/venv/bin/python -m {name} "$@"\n'
        )
        (tmp_path / "venv/bin" / name).chmod(0o755)
    return tmp_path / "venv"


@pytest.mark.slow
def test_demo(git_template: Path, environment: Path, tmp_path: Path) -> None:
    """The project makes its environment itself. That of this repository is the one the tests run in."""
    ready = f"--assume-old={environment / '.ready'}"
    options = (ready, f"VENV={environment}", f"DEMO={tmp_path / 'demo'}", "HTTP_PORT=1")
    printed = succeed(run("make", *options, "demo", cwd=git_template, PIP_NO_INDEX="1"))
    assert re.findall(r"LABEL: (.*)", printed) == ["7", "7", "2", "6"]


@pytest.mark.slow
def test_lock(generate: Generate, environment: Path) -> None:
    """Both locks have what the commands need, at one version each, and leave the toolkit to vendor/."""
    project = generate(**PIPELINES["my own"])
    succeed(project.run("make", f"VENV={environment}", "lock", UV=UV or ""))
    versions: dict[str, dict[str, str]] = {}
    for name in ("requirements.lock", "requirements-dev.lock"):
        lock = (project / name).read_text()
        assert re.findall(r"^#.*", lock, re.MULTILINE)[-1].split("#")[-1].strip() == "make lock"
        assert "--hash=sha256:" in lock
        assert "://" not in lock
        versions[name] = dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.MULTILINE))
    run_time, development = versions.values()
    assert {"nvidia-pytriton", "numpy", "pyyaml", "tritonclient"} <= run_time.keys()
    assert {"mypy", "pytest", "ruff"} <= development.keys()
    assert "triton-ensemble" not in run_time.keys() | development.keys()
    shared = run_time.keys() & development.keys()
    assert [name for name in shared if run_time[name] != development[name]] == []


def test_what_curl_can_not_send(generate: Generate) -> None:
    readme = (generate(**UNUSUAL["BF16"]) / "README.md").read_text()
    assert "curl can't, because Triton does not support FP16 and BF16 in JSON" in readme
    assert "curl --" not in readme


def test_the_first_screen_of_a_generated_readme(default_project: Project) -> None:
    """The purpose, three commands, a line for a shell and one for Python stand before any table."""
    lines = (default_project / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    first = "\n".join(lines[:45])
    assert [
        command.split("#")[0].strip() for command in read_blocks(first, "sh")[0].splitlines()
    ] == [
        "make infer",
        "make serve",
        "make test",
    ]
    assert "curl --data-binary @samples/digit-7.jpg" in first
    assert "with Client(" in first
    assert "\n|" not in first


def test_copier_is_new_enough() -> None:
    """The oldest version that copier.yml allows is not above the one that tests run with."""
    wanted = re.search(r'_min_copier_version: "(.*)"', (ROOT / "copier.yml").read_text())
    assert wanted
    version = succeed(run(str(COPIER), "--version", cwd=ROOT)).split()[-1]
    assert [int(n) for n in version.split(".")] >= [int(n) for n in wanted[1].split(".")]
