"""The tutorials of docs/, done as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest
from follower import Follower
from support import ROOT

PAGES = {path.stem for path in ROOT.glob("docs/tutorial-*.md")}


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(PAGES - {"tutorial-cluster"}))
def test_it_goes_as_it_says(page: str, git_template: Path, tmp_path: Path) -> None:
    Follower(tmp_path, git_template).follow(page)
