"""The extra `tir`: what its rule finds, and when its SDK is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Project

from triton_ensemble.check.examples import A, write
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.rules.engine import check
from triton_ensemble.environment.needs import list_parts
from triton_ensemble.facts.answers import FILE
from triton_ensemble.facts.project import ProjectError
from triton_ensemble.launch import Environment
from triton_ensemble.targets import run_target


def find(steps: list[Any], config: str, folder: Path) -> list[Finding]:
    """Return what the rule finds in a project whose one model is m."""
    files = {FILE: json.dumps({"steps": steps}), "model_repository/m/config.pbtxt": config}
    repository = write(files | {"deploy/tir/endpoint.yml": "name: m\n"}, folder)
    return [each for each in check(repository) if each.rule == "tir-image"]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (f"{A}model_metrics {{ }}\n", 4),
        (A.replace("python", "tensorrtllm"), 1),
        (f"{A}response_cache {{ enable: true }}\n", 1),
    ],
)
def test_what_tirs_own_image_lacks(tmp_path: Path, config: str, line: int) -> None:
    [finding] = find([], config, tmp_path)
    assert (finding.file.name, finding.line) == ("config.pbtxt", line)


def test_packages_that_tirs_own_image_lacks(tmp_path: Path) -> None:
    steps = [{"name": "m", "backend": "python", "requirements": ["regex", "torch"]}]
    [finding] = find(steps, A, tmp_path)
    assert (finding.file.name, finding.line) == ("endpoint.yml", 1)
    assert "regex, torch, which step m needs" in finding.what


@pytest.mark.parametrize(
    ("variables", "parts"),
    [
        ({"PRINT": "1"}, ["packages", "toolkit", "tir"]),  # of a shell
        ({"PRINT": "1", "MAKEFLAGS": "PRINT=1"}, ["packages", "toolkit"]),
    ],
)
def test_what_only_prints_needs_no_sdk(variables: dict[str, str], parts: list[str]) -> None:
    assert list_parts(["tir"], variables) == parts


def test_print_that_means_no_installs_what_tir_needs(
    default_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.chdir(default_project.path)
    monkeypatch.setattr(Environment, "list_outdated", lambda _, parts: asked.append(parts))
    for name, value in {"MAKEFLAGS": "PRINT=0", "PRINT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SETUP", raising=False)
    with pytest.raises(ProjectError, match="extras does not have tir"):
        run_target(["tir"], lambda words: 0)
    assert asked == [["packages", "toolkit", "tir"]]
