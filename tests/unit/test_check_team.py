"""What a team adds to the check: rules of its own, and warnings that are errors for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.team import add_team_findings

FINDS = """\
from pathlib import Path

from triton_ensemble.config import Problem


def find(repository):
    yield Problem(Path("model_repository"), 3, "the name is short", "write a longer name")
"""
OURS = Finding(Path("pipeline.yml"), 1, "placeholder", "is a stub", "replace it", "warning")
Said = tuple[str, int, str, str, str]


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder vendor/team of a project, which is the current folder."""
    (tmp_path / "vendor/team/rules").mkdir(parents=True)
    (tmp_path / "model_repository").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "vendor/team"


def say(*, root: Path = Path()) -> list[Said]:
    """Return all findings: the file's name, line, rule, what is wrong and severity."""
    repository = Repository.read((root / "model_repository").resolve())
    found = add_team_findings(repository, [OURS], ["placeholder"])
    return [(each.file.name, each.line, each.rule, each.what, each.severity) for each in found]


def test_a_rule_of_the_team_warns(team: Path) -> None:
    (team / "rules/short_name.py").write_text(FINDS)
    assert say()[1:] == [("model_repository", 3, "short-name", "the name is short", "warning")]


def test_findings_of_the_rules_that_it_lists_are_errors(team: Path) -> None:
    (team / "rules/short_name.py").write_text(FINDS)
    assert [said[-1] for said in say()] == ["warning", "warning"]
    (team / "team.yml").write_text("errors: [placeholder, short-name]\n")
    assert [said[-1] for said in say()] == ["error", "error"]


def test_a_listed_rule_that_does_not_exist_is_a_finding_at_its_line(team: Path) -> None:
    (team / "team.yml").write_text("# ours\nerrors: [placeholdr]\n")
    what = "errors has placeholdr, which is not a rule"
    assert say()[1:] == [("team.yml", 2, "team-rule", what, "error")]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "has no function `find`"),
        ("\ndef find(:\n", 2, "raises SyntaxError: invalid syntax"),
        ("def find(repository):\n    1 / 0\n", 2, "raises ZeroDivisionError: division by zero"),
    ],
)
def test_a_rule_that_fails_is_a_finding(team: Path, text: str, line: int, what: str) -> None:
    (team / "rules/short_name.py").write_text(text)
    [said] = say()[1:]
    assert said[:3] == ("short_name.py", line, "team-rule")
    assert said[3].startswith(what)
    assert said[4] == "error"


def test_the_code_of_another_project_does_not_run(
    team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (team / "rules/short_name.py").write_text(FINDS)
    monkeypatch.chdir(team)
    assert say(root=tmp_path) == [("pipeline.yml", 1, "placeholder", "is a stub", "warning")]
