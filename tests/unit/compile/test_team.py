"""A team's folder in a fork of the template: what it makes of projects, and what is wrong with it in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from copier.errors import UserMessageError
from support import Project, call
from team_support import TEAM, TEAM_YML, lacking, set_up, write_team
from update_support import Copy, copy, origin

from triton_ensemble.compile.rules import Rules

__all__ = ["copy", "origin"]


@pytest.fixture
def project(origin: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the default project of a fork with a team, set up."""
    write_team(origin)
    project = copy()
    set_up(project.path, monkeypatch)
    return project


def test_a_project_has_the_words_and_files_of_its_team(project: Project) -> None:
    assert lacking(project.path) == []
    assert (project / "steps/score.py").read_text().endswith(TEAM["examples/fraud/steps/score.py"])
    assert (project / "samples/one.json").exists()
    assert [name for name in project.files() if name.startswith("vendor/team/")] == [
        "vendor/team/examples/fraud/pipeline.yml",
        "vendor/team/files/.github/CODEOWNERS",
        "vendor/team/rules/short_name.py",
        "vendor/team/team.yml",
    ]


def test_a_changed_pipeline_keeps_them(project: Project) -> None:
    path = project / "pipeline.yml"
    answers = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(answers | {"extras": ["kserve"], "ci": "gitlab"}))
    assert call(project, "apply").status == 0
    kserve = (project / "deploy/kserve/base/kustomization.yaml").read_text()
    assert 'commonAnnotations: {"example.com/contact": "fraud@example.com"}' in kserve
    gitlab = (project / ".gitlab-ci.yml").read_text()
    assert "  image: harbor.example.com/hub/python:3.12-bookworm\n" in gitlab
    assert '  tags: ["self-hosted", "cpu"]\n' in gitlab
    assert "$CI_REGISTRY" not in gitlab
    assert (project / ".github/CODEOWNERS").exists()
    assert 'include:\n  - { project: "example/template", ref: "0123456789abcdef' in gitlab


def test_words_of_a_team_stand_in_ci_monitoring_and_ray(project: Project) -> None:
    answers = yaml.safe_load((project / "pipeline.yml").read_text())
    for ci in ("github", "gitlab"):
        more = {"extras": ["monitoring", "gateway", "ray"], "ci": ci, "gpu_count": 1}
        (project / "pipeline.yml").write_text(yaml.safe_dump(answers | more))
        assert call(project, "apply").status == 0
        jobs = yaml.safe_load((project / CI[ci]).read_text())
        steps = {name: list(commands(job)) for name, job in jobs.get("jobs", jobs).items()}
        assert steps["test"][0] == steps["gpu"][0] == './ci/proxy "$PROXY"'
        assert steps["test"][-1] == "make report"
        [job] = {"image", "publish"} & steps.keys()
        assert steps[job][0] == './ci/proxy "$PROXY"'
        login = next(
            i for i, each in enumerate(steps[job]) if "docker login" in each or " ci build" in each
        )
        assert "./ci/scan" in steps[job]
        assert steps[job].index("./ci/scan") >= login - 1
    groups = yaml.safe_load((project / "deploy/monitoring/alerts.yml").read_text())["groups"]
    labels = [rule["labels"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert labels
    assert {label["team"] for label in labels} == {"fraud"}
    dashboards = yaml.safe_load((project / "deploy/monitoring/grafana-dashboards.yml").read_text())
    assert dashboards["providers"][0]["folder"] == "Fraud"
    ray = yaml.safe_load((project / "deploy/ray/service.yaml").read_text())
    cluster = ray["spec"]["rayClusterConfig"]
    templates = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    assert ray["metadata"]["annotations"] == {"example.com/contact": "fraud@example.com"}
    for each in (ray, *(group["template"] for group in templates)):
        assert each["metadata"]["labels"]["example.com/team"] == "fraud"


CI = {"github": ".github/workflows/ci.yml", "gitlab": ".gitlab-ci.yml"}


def commands(job: Any) -> Iterator[str]:
    """Iterate over the shell commands of a job, of GitHub or GitLab."""
    if isinstance(job, dict):
        yield from (step["run"] for step in job.get("steps", []) if "run" in step)
        yield from (step for step in job.get("script", []) if isinstance(step, str))


def test_a_rule_of_the_team_refuses_a_change_before_it_is_applied(project: Project) -> None:
    path = project / "pipeline.yml"
    answers = yaml.safe_load(path.read_text())
    answers["steps"].append(
        {
            "name": "long-long-name",
            "backend": "python",
            "inputs": ["SCORE"],
            "outputs": ["MORE"],
            "fuse": False,
        }
    )
    answers["tensors"]["MORE"] = "FP32[1]"
    path.write_text(yaml.safe_dump(answers, sort_keys=False))
    before = project.changes()
    for command in ("check", "apply"):
        said = call(project, command)
        assert said.status == 1
        assert (
            "error: short-name: step long-long-name: the name long-long-name is longer than 12; shorten it"
            in (said.out + said.err)
        )
    assert project.changes() == before


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "rules/short_name.py",
            "def find(repository):\n    yield repository.nope\n",
            "vendor/team/rules/short_name.py:2: error: team-rule: raises AttributeError: "
            "'Repository' object has no attribute 'nope'; correct it in the team's template",
        ),
        (
            "rules/short_name.py",
            "\ndef find(:\n",
            "vendor/team/rules/short_name.py:2: error: team-rule: raises SyntaxError: ",
        ),
        (
            "rules/short_name.py",
            "",
            "vendor/team/rules/short_name.py:1: error: team-rule: has no function `find`; ",
        ),
        (
            "team.yml",
            TEAM_YML.replace("[placeholder,", "[placeholdr,"),
            "vendor/team/team.yml:33: error: team-rule: errors has placeholdr, which is not a rule; "
            "did you mean placeholder?",
        ),
    ],
)
def test_a_team_rule_that_fails_is_one_line(
    project: Project, name: str, text: str, line: str
) -> None:
    (project / "vendor/team" / name).write_text(text)
    said = call(project, "check")
    assert said.status == 1
    assert line in said.out
    assert "Traceback" not in said.out + said.err


def test_the_code_of_another_project_s_team_does_not_run(project: Project, tmp_path: Path) -> None:
    (project / "vendor/team/rules/short_name.py").write_text("raise SystemExit(9)\n")
    elsewhere = Project(tmp_path)
    assert call(elsewhere, "check", str(project / "model_repository")).status == 0


def of_team(folder: Path, text: str) -> Rules:
    """Return the rules of a project whose team.yml is a text."""
    for name, content in {**TEAM, "team.yml": text}.items():
        path = folder / "team" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Rules(vendor=folder)


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ({"triton_release": "26.09"}, 'triton_release is "26.09"; did you mean 26.07?'),
        ({"ci": "none"}, 'ci is "none"; write one of github, gitlab'),
        (
            {"extras": ["shared-memory"]},
            'extras 1 is "shared-memory"; write one of monitoring, gateway, kubernetes, kserve, ray',
        ),
        (
            {"starting_pipeline": "my-own", "flow": "a vllm: A FP32[1] -> B FP32[1]"},
            'flow: line 1: step a: backend is "vllm"; write one of python, onnxruntime',
        ),
    ],
)
def test_an_answer_that_the_team_does_not_offer_is_refused(
    tmp_path: Path, answers: dict[str, object], line: str
) -> None:
    assert of_team(tmp_path, TEAM_YML).problem(answers) == line


def test_a_default_of_ours_that_the_team_does_not_offer_becomes_one_that_it_does(
    tmp_path: Path,
) -> None:
    answers = of_team(tmp_path, "choices: {ci: [gitlab], extras: [kserve]}\n").answer({})
    assert (answers["ci"], answers["extras"]) == ("gitlab", [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\n", "1: has the field `a`, which is unknown"),
        ("- a\n", '1: is ["a"]; write a mapping'),
        (
            "settings:\n  registri: a\n",
            "2: settings has the field `registri`, which is unknown; did you mean registry?",
        ),
        (
            "files: []\nsettings: {\nregistry: 1\n",
            "2: it: is not YAML; check its brackets, quotes and indentation",
        ),
        (
            "settings: &a\n  labels: *a\n",
            "4: it: is not YAML; check its brackets, quotes and indentation",
        ),
        (
            "defaults:\n  gpu_count: -1\n",
            "2: defaults gpu_count is -1; write a whole number, 0 or more",
        ),
        (
            "settings:\n  ci:\n    setup: [1]\n",
            "3: settings ci setup 1 is 1; write a text",
        ),
        (
            "settings:\n  pre_commit:\n  - {repo: local}\n",
            "2: settings pre_commit 1 needs its `hooks`",
        ),
        (
            "settings:\n  update_workflow: a/b\n",
            '2: settings update_workflow is "a/b"; write PROJECT@REF, like your-team/triton-ensemble-template@main',
        ),
        ("choices:\n  extras: [kserv]\n", '2: choices extras 1 is "kserv"; did you mean kserve?'),
        (
            "files: [../a]\n",
            '1: files has "../a"; write a path in team/files, like .github/CODEOWNERS',
        ),
        ("examples:\n  fraud: {code: true}\n", "2: examples fraud needs its `help`"),
        (
            "examples:\n  other: {help: a}\n",
            "2: example other lacks a pipeline; add team/examples/other/pipeline.yml",
        ),
    ],
)
def test_a_wrong_team_yml_is_refused_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert of_team(tmp_path, text).problem({}) == f"team/team.yml:{line}"


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"team.yml": "a: 1\n"}, "team/team.yml:1: has the field `a`, which is unknown"),
        ({"team.yml": "files: [a]\n"}, "team/team.yml: lists a in `files`; add team/files/a"),
        ({"team.yml": "files: [a]\n", "files/a": "{{ nope }}"}, "'nope' is undefined"),
    ],
)
def test_copier_refuses_a_wrong_folder_before_it_writes(
    origin: Path, copy: Copy, tmp_path: Path, files: dict[str, str], line: str
) -> None:
    write_team(origin, files)
    with pytest.raises(UserMessageError, match=line):
        copy()
    assert not (tmp_path / "p").exists()
