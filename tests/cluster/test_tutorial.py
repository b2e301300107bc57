"""The tutorial that ends on a cluster, as far as it goes without one."""

from __future__ import annotations

from pathlib import Path

from follower import Follower


def test_it_goes_as_it_says(git_template: Path, tmp_path: Path) -> None:
    Follower(tmp_path, git_template).follow("tutorial-cluster")
