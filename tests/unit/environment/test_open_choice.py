"""A lock that lacks PyTorch is renewed only once its owner has chosen between a CPU's 1.3 GB and 5 GB."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from triton_ensemble.environment import lock
from triton_ensemble.environment.needs import read_torch_index
from triton_ensemble.launch import Environment

CHOICE = "requirements.lock: lacks torch==2.13.0; for a CPU, name the index of its CPU wheels as `torch_index` in pipeline.yml, "


@pytest.fixture
def renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows when the lock is renewed, in a project without GPUs that needs torch."""
    calls: list[str] = []
    (tmp_path / "vendor").mkdir()
    facts = {"packages": {"local": ["torch==2.13.0"]}, "gpu_count": 0}
    (tmp_path / "vendor/project.json").write_text(json.dumps(facts))
    (tmp_path / "requirements.lock").write_text("numpy==1.26.4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    monkeypatch.setattr(lock, "renew", lambda: calls.append("renewed"))
    return calls


@pytest.mark.parametrize(("argument", "status"), [("--lacking", 0), ("--set-up", 1)])
def test_neither_an_update_nor_set_up_takes_packages_for_gpus(
    renewed: list[str], capsys: pytest.CaptureFixture[str], argument: str, status: int
) -> None:
    assert lock.main([argument]) == status
    assert capsys.readouterr().err.startswith(CHOICE)
    assert renewed == []


def test_an_update_lets_the_next_command_set_up(renewed: list[str]) -> None:
    """The environment is outdated if the project needs other packages: the next command stops where the choice is open."""
    before = Environment().compute_key("packages")
    facts = {"packages": {"local": []}, "gpu_count": 0}
    Path("vendor/project.json").write_text(json.dumps(facts))
    assert Environment().compute_key("packages") != before


@pytest.mark.parametrize("text", ["", "torch_index: 'https://host/cpu' # mine\n"])
def test_a_choice_is_taken(renewed: list[str], monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Also of a pipeline.yml that is not applied."""
    Path("pipeline.yml").write_text(text)
    monkeypatch.setenv("TORCH_INDEX", "" if text else "https://host/cpu")
    assert lock.main(["--set-up"]) == 0
    assert renewed == ["renewed"]
    assert read_torch_index(os.environ) == "https://host/cpu"


def test_damaged_facts_are_a_line(renewed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("vendor/project.json").write_text('{"packages": {"local": "torch"}, "gpu_count": 0}')
    assert lock.main(["--set-up"]) == 1
    line = 'vendor/project.json: packages.local is "torch", not a list; restore it: git checkout vendor/project.json'
    assert capsys.readouterr().err == f"{line}\n"
    assert renewed == []
