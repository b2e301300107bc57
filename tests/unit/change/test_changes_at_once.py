"""Two commands that change a project at once: an update does not start beside another."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from triton_ensemble.change import update
from triton_ensemble.change.stage import alone


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot lock a folder")
def test_an_update_is_refused_while_another_command_changes_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".copier-answers.yml").write_text("{}\n")
    update.add_arguments(parser := argparse.ArgumentParser())
    with alone(tmp_path):
        assert update.run(parser.parse_args([])) == 1
    said = capsys.readouterr().err
    assert said == "another command changes this project; wait for its end\n"
