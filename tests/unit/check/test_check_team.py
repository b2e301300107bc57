"""The additions of a team to the check: rules of its own, and warnings that are errors for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from team_support import set_up

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.team import add_team_findings
from triton_ensemble.cli import main

FINDS = """\
from pathlib import Path

from triton_ensemble.facts.config import Problem


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
    set_up(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "vendor/team"


def say(*, root: Path = Path()) -> list[Said]:
    """Return all findings: the file's name, line, rule, what is wrong and severity."""
    repository = Repository.read((root / "model_repository").resolve())
    repository.is_own = True
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


LIST = "errors is not a list of rules"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("- errors\n", 1, LIST),
        ("a: 1\nerrors: 5\n", 2, LIST),
        ("errors: placeholder\n", 1, LIST),
        ("errors: [[placeholder]]\n", 1, LIST),
        ("errors: &a [*a]\n", 1, "is not YAML"),
        ("errors: [5]\n", 1, LIST),
        ("errors: [placeholder\n", 2, "is not YAML"),
        ("errors: 2001-99-99\n", 1, "is not YAML"),
        ("[" * 9999, 1, "is not YAML"),
        ("a: \xe9\n", 1, "is not YAML"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_malformed_team_yml_is_a_finding(team: Path, text: str, line: int, what: str) -> None:
    (team / "team.yml").write_bytes(text.encode("latin-1"))
    assert say()[1:] == [("team.yml", line, "team-rule", what, "error")]


@pytest.mark.parametrize("text", ["", "errors:\n", "errors: []\n", "files: []\n"])
def test_a_team_may_list_no_rules(team: Path, text: str) -> None:
    (team / "team.yml").write_text(text)
    assert len(say()) == 1


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


@pytest.mark.parametrize("lacks", [".venv/ready.json", ".copier-answers.yml", "vendor/*.whl"])
def test_no_rule_runs_in_a_folder_that_its_owner_did_not_set_up(
    team: Path, tmp_path: Path, lacks: str
) -> None:
    (team / "rules/short_name.py").write_text(FINDS)
    [path] = tmp_path.glob(lacks)
    path.unlink()
    assert len(say()) == 1


def test_an_environment_elsewhere_belongs_to_the_project_that_it_names(
    team: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (team / "rules/short_name.py").write_text(FINDS)
    environment = set_up(tmp_path, monkeypatch, "../elsewhere/venv")
    assert len(say()) == 2
    (environment / "ready.json").write_text("")
    assert len(say()) == 1


def test_no_rule_runs_for_a_path_that_was_given(
    team: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (team / "rules/short_name.py").write_text(FINDS)
    (team.parents[1] / "model_repository/a").mkdir()
    main(["check"])
    assert "short-name" in capsys.readouterr().out
    main(["check", "model_repository"])
    assert "short-name" not in capsys.readouterr().out


def test_a_text_of_a_team_is_rendered_in_a_sandbox(
    team: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "{{ cycler.__init__.__globals__.os.system('touch ran') }}"
    (team / "team.yml").write_text(code)
    (tmp_path / "pipeline.yml").write_text("tensors: {}\nsteps: []\n")
    assert main(["check", "pipeline.yml"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("vendor/team/team.yml: access to attribute '__init__'")
    assert not (tmp_path / "ran").exists()
