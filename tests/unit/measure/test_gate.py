"""`make bench GATE=...`: its interval, the commit that it compares with, and what is wrong with that."""

from __future__ import annotations

import dataclasses
import random
import re
from argparse import Namespace
from pathlib import Path

import pytest
from support import Project, run, succeed

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.measure.commits import read_commit, write_files
from triton_ensemble.measure.gate import read_base
from triton_ensemble.measure.paired import compare, find_rank
from triton_ensemble.measure.runs import Run


def test_the_ranks_are_those_of_tables_of_the_sign_test() -> None:
    ranks = {pairs: find_rank(pairs)[0] for pairs in (8, 20, 100)}
    assert ranks == {8: 1, 20: 4, 100: 37}
    assert find_rank(8)[1] == 1 - 2 / 2**8


def test_the_interval_has_the_ratio_of_drifting_pairs() -> None:
    noise = random.Random(0)
    base = [100.0 + 3 * i for i in range(20)]
    now = [value * 0.9 * noise.uniform(0.95, 1.05) for value in base]
    slower = compare("requests/s", base, now)
    assert slower.low < 0.9 < slower.high < 1
    worse = {f: (compare(f, base, now).is_worse, compare(f, now, base).is_worse) for f in FIGURES}
    assert worse == {"requests/s": (True, False), "p99 ms": (False, True)}


FIGURES = ("requests/s", "p99 ms")
FILES = ("vendor/project.json", "steps/label.py", "model_repository/label/config.pbtxt")


@pytest.fixture
def repository(default_project: Project, tmp_path: Path) -> Facts:
    """Return a part of the default project, in a folder of a git repository with two commits."""
    root = tmp_path / "repository" / "pipeline"
    for name in (".gitignore", *FILES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((default_project / name).read_bytes())
    Project(root.parent).commit()
    (root / "steps/label.py").write_text("new = True\n")
    Project(root.parent).commit()
    return Facts.load(root)


def git(folder: Path, words: str) -> str:
    return succeed(run("git", *words.split(), cwd=folder)).strip()


def name_base(gate: str, *concurrency: int) -> Namespace:
    return Namespace(gate=gate, concurrency=[*concurrency], rows=1)


def test_the_base_has_the_files_of_its_commit_and_model_files_that_git_lacks(
    repository: Facts, tmp_path: Path
) -> None:
    for model in ("label", "gone"):
        (repository.repository / model / "1").mkdir(parents=True)
        (repository.repository / model / "1/model.onnx").write_bytes(b"placed by hand")
    commit, callers = read_base(repository, name_base("HEAD~1"))
    assert (commit, callers) == (git(repository.root, "rev-parse HEAD~1"), 8)
    write_files(repository, commit, tmp_path / "base")
    assert "new" not in (tmp_path / "base/steps/label.py").read_text()
    git(repository.root, "branch main-line HEAD~1")
    git(repository.root, "checkout -q main-line")
    Project(repository.root.parent).commit()
    assert read_base(repository, name_base("@{-1}", 3)) == (commit, 3), "that both branches have"
    placed = (tmp_path / "base/model_repository").glob("*/1/model.onnx")
    assert [path.parts[-3] for path in placed] == ["label"]


def test_a_run_names_its_commit_unless_something_changed(repository: Facts) -> None:
    (repository.root / "bench").mkdir()
    (repository.root / "bench/base.json").touch()
    assert read_commit(repository.root) == git(repository.root, "rev-parse HEAD")
    (repository.root / "steps/new.py").touch()
    assert read_commit(repository.root) == read_commit(Path("/")) == ""


RUN = Run("image_classification", 1, 5.0, "local", 2, [])
UNKNOWN = "GATE={}: this clone does not have a {}; fetch it by git, or name another"


@pytest.mark.parametrize(
    ("gate", "commit", "callers", "said"),
    [
        ("no.json", "", [], "GATE=no.json: not found; measure the base at its commit: make bench "),
        ("file", "", [], "GATE=file: names no commit, because files had changes or the server was"),
        ("file", "1" * 40, [8], UNKNOWN.format("file", "commit 111111111")),
        ("file", "", [1, 2], "GATE compares at one number of callers; write --concurrency N"),
        ("HEAD~9", "", [], UNKNOWN.format("HEAD~9", "file or commit of that name")),
        ("--help", "", [], UNKNOWN.format("--help", "file or commit of that name")),
    ],
)
def test_what_is_not_a_base(
    repository: Facts,
    monkeypatch: pytest.MonkeyPatch,
    gate: str,
    commit: str,
    callers: list[int],
    said: str,
) -> None:
    monkeypatch.chdir(repository.root)
    dataclasses.replace(RUN, commit=commit).write(Path("file"))
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        read_base(repository, name_base(gate, *callers))
