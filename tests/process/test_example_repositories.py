"""Starting pipelines as repositories of their own, which people can read before they copy one."""

from __future__ import annotations

import sys
from pathlib import Path

from support import run, succeed


def test_a_starting_pipeline_is_rendered_as_published(git_template: Path, tmp_path: Path) -> None:
    script = git_template / "scripts/example_repositories.py"
    printed = succeed(run(sys.executable, str(script), "made", "tabular", cwd=tmp_path))
    assert printed == "made/tabular\n"
    files = [path for path in (tmp_path / "made/tabular").rglob("*") if path.is_file()]
    assert tmp_path / "made/tabular/steps/features.py" in files
    assert [path for path in files if str(git_template).encode() in path.read_bytes()] == []
    answers = (tmp_path / "made/tabular/.copier-answers.yml").read_text()
    assert "_src_path: gh:org/triton-ensemble-template\n" in answers
