"""Which Triton a replica has, where there is a choice."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from support import Project

from triton_ensemble.deploy.ray import triton
from triton_ensemble.facts.project import Project as Served


def test_an_api_that_leaks_is_not_taken(
    default_project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "tritonserver.py").touch()  # what 25.01 brought is not in it
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton_ensemble.deploy.ray.in_process", raising=False)
    with caplog.at_level(logging.INFO, "gateway"):
        server = triton.choose_server(Served.load(default_project.path))
    assert isinstance(server, triton.Child)
    assert "tritonserver before 25.01 keeps a kilobyte of each answer" in caplog.text
    assert "the Triton of this replica: the local one" in caplog.text
