"""The workflows of generated projects and of this repository: of the right form, for the right machines, and run where that can be done here."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support import ROOT, Project
from workflows_support import (
    OWN,
    of_ci,  # noqa: F401
    read,
    workflows,
)


def test_actions_are_pinned_by_commit(of_ci: Callable[..., Project]) -> None:
    generated = of_ci(ci="github", gpu_count=2).path.glob(".github/workflows/*.yml")
    used = [
        line for path in [*OWN, *generated] for line in re.findall("uses: .*", path.read_text())
    ]
    assert len(used) > 10
    assert [line for line in used if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []
    assert len({line.partition("@")[0] for line in used}) == len(set(used))  # one version of each


def test_a_job_may_do_no_more_than_it_needs(of_ci: Callable[..., Project]) -> None:
    project = of_ci(ci="github", gpu_count=2)
    ci, update = (read(project / name) for name in workflows(project))
    assert ci["permissions"] == {"contents": "read"}
    may = {name: job.get("permissions") for name, job in ci["jobs"].items()}
    publishes = {"contents": "read", "packages": "write", "id-token": "write"}
    assert may == {"test": None, "speed": None, "gpu": None, "image": publishes}
    assert update["permissions"] == {}
    may = {name: job["permissions"] for name, job in update["jobs"].items()}
    writes = {"contents": "write", "pull-requests": "write"}
    assert may == {"update": {"contents": "read"}, "pull-request": writes}
    for job in [*ci["jobs"].values(), *update["jobs"].values()]:
        assert job["steps"][0]["with"]["persist-credentials"] is False


@pytest.mark.parametrize(
    ("ci", "name", "shared", "start"),
    [
        (
            "github",
            ".github/workflows/update.yml",
            ".github/workflows/update-project.yml",
            "jobs:\n",
        ),
        ("gitlab", ".gitlab-ci.yml", ".gitlab/update-project.yml", ".update:\n"),
    ],
    ids=["github", "gitlab"],
)
def test_the_update_that_a_team_shares_is_that_of_a_project(
    of_ci: Callable[..., Project], ci: str, name: str, shared: str, start: str
) -> None:
    own = (of_ci(ci=ci, gpu_count=0) / name).read_text().partition(start)[2]
    runs_on = "${{ fromJSON(inputs.runs_on) }}"
    text = (ROOT / shared).read_text().partition(start)[2].replace(runs_on, "ubuntu-24.04")
    assert text == own


def test_each_image_is_scanned_and_signed_between_its_test_and_its_tag(
    of_ci: Callable[..., Project],
) -> None:
    ci = read(of_ci(ci="github", extras=("gateway", "ray")) / ".github/workflows/ci.yml")
    steps = ci["jobs"]["image"]["steps"]
    order = [
        next(
            (
                word
                for word in ("ci build", "ci test", "trivy", "ci sign", "ci tag")
                if word in step.get("run", "") + step.get("uses", "")
            ),
            "",
        )
        for step in steps
    ]
    words = ["ci build", "ci test", *["trivy"] * 3, "ci sign", "ci tag"]
    assert [word for word in order if word] == words
    scanned = [step["with"]["image-ref"] for step in steps if "trivy" in step.get("uses", "")]
    [sign] = [step for step in steps if "ci sign" in step.get("run", "")]
    assert scanned == [f"${{{{ env.{name} }}}}" for name in ("IMAGE", "GATEWAY_IMAGE", "RAY_IMAGE")]
    assert sign["if"] == "vars.SIGN_IMAGES"


def test_the_gate_on_speed_is_off_until_a_variable_names_its_base(
    of_ci: Callable[..., Project],
) -> None:
    speed = read(of_ci(ci="github") / ".github/workflows/ci.yml")["jobs"]["speed"]
    assert speed["if"].startswith("vars.BENCH_GATE && ")
    assert speed["steps"][0]["with"]["fetch-depth"] == 0
    gate = speed["steps"][-1]
    assert gate["env"] == {"BENCH_GATE": "${{ vars.BENCH_GATE }}"}
    job = read(of_ci(ci="gitlab") / ".gitlab-ci.yml")["speed"]
    assert job["rules"][0]["if"].startswith("$BENCH_GATE && ")
    assert job["script"][-1] == gate["run"] == 'make bench GATE="$BENCH_GATE"'


def test_github_keeps_forks_off_the_gpu(of_ci: Callable[..., Project]) -> None:
    ci = read(of_ci(ci="github", gpu_count=2) / ".github/workflows/ci.yml")
    gpu = [job for job in ci["jobs"].values() if "gpu" in job["runs-on"]]
    assert [job["runs-on"] for job in gpu] == [["self-hosted", "gpu"]] * 2
    assert ci["jobs"]["gpu"]["if"] == (
        "github.event_name != 'pull_request' && !github.event.repository.fork"
        " && !startsWith(github.ref, 'refs/tags/v')"
    )
    image = "startsWith(github.ref, 'refs/tags/v') && !github.event.repository.fork"
    assert ci["jobs"]["image"]["if"] == image
    assert "pull_request_target" not in ci[True]


def test_gitlab_keeps_forks_off_the_gpu(of_ci: Callable[..., Project]) -> None:
    ci = read(of_ci(ci="gitlab", gpu_count=2) / ".gitlab-ci.yml")
    assert [name for name, job in ci.items() if isinstance(job, dict) and "tags" in job] == [
        "gpu",
        "publish",
    ]
    assert ci["gpu"]["tags"] == ["gpu"]
    assert ci["gpu"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH'}]
    assert ci["publish"]["rules"] == [
        {"if": '$CI_COMMIT_TAG =~ /^v/ && $CI_PIPELINE_SOURCE == "push"'}
    ]


def test_the_labels_of_the_machine_with_the_gpu_are_asked_for(
    of_ci: Callable[..., Project],
) -> None:
    project = of_ci(gpu_count=1, gpu_runner="linux-gpu,8")
    ci = read(project / ".github/workflows/ci.yml")
    assert ci["jobs"]["gpu"]["runs-on"] == ["linux-gpu", "8"]
    assert 'gpu_runner: "linux-gpu,8"' in (project / "pipeline.yml").read_text()


@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_without_a_gpu_there_is_no_job_for_one(of_ci: Callable[..., Project], ci: str) -> None:
    project = of_ci(ci=ci, gpu_count=0)
    for name in workflows(project):
        assert "gpu" not in (project / name).read_text().lower().replace("a gpu. a tag", "")
    assert "gpu_runner" not in (project / "pipeline.yml").read_text()


def test_a_gpu_has_one_job_at_a_time(of_ci: Callable[..., Project]) -> None:
    """Others wait, and are not cancelled."""
    github = read(of_ci(ci="github", gpu_count=2) / ".github/workflows/ci.yml")["jobs"]
    one = {"group": "gpu", "queue": "max"}
    assert [github[name].get("concurrency") for name in ("test", "gpu", "image")] == [
        None,
        one,
        one,
    ]
    gitlab = read(of_ci(ci="gitlab", gpu_count=2) / ".gitlab-ci.yml")
    groups = [gitlab[name].get("resource_group") for name in ("test", "gpu", "publish")]
    assert groups == [None, "gpu", "gpu"]


def test_one_tag_is_published_at_a_time(of_ci: Callable[..., Project]) -> None:
    """Stores that ignore `If-None-Match` can't tell apart two pushes that begin at once."""
    github = read(of_ci(ci="github") / ".github/workflows/ci.yml")["jobs"]["image"]
    assert github["concurrency"] == {"group": "image", "queue": "max"}
    gitlab = read(of_ci(ci="gitlab") / ".gitlab-ci.yml")["publish"]
    assert gitlab["resource_group"] == "publish"


@pytest.mark.parametrize("gpu_count", [0, 2])
def test_an_image_is_tested_before_it_gets_the_tag(
    of_ci: Callable[..., Project], gpu_count: int
) -> None:
    """docker/ runs these jobs."""
    github = read(of_ci(ci="github", gpu_count=gpu_count) / ".github/workflows/ci.yml")["jobs"]
    assert github["image"]["if"].startswith("startsWith(github.ref, 'refs/tags/v')")
    steps = "\n".join(step.get("run", "") for step in github["image"]["steps"])
    gitlab = read(of_ci(ci="gitlab", gpu_count=gpu_count) / ".gitlab-ci.yml")["publish"]
    for script in (steps, "\n".join(gitlab["script"])):
        found = re.findall(" ci (?:build|test|tag)|--wait ", script)
        assert [word.split()[-1] for word in found] in (
            ["build", "test", "tag"],
            ["build", "--wait", "tag"],
        )


@pytest.mark.parametrize(
    ("extras", "lines"), [((), 95), (("monitoring", "gateway", "kubernetes", "kserve", "ray"), 130)]
)
def test_the_workflow_is_short(
    of_ci: Callable[..., Project], extras: tuple[str, ...], lines: int
) -> None:
    text = (of_ci(ci="github", extras=extras, gpu_count=2) / ".github/workflows/ci.yml").read_text()
    assert len(text.splitlines()) <= lines


def test_our_own_keep_forks_off_the_gpu() -> None:
    assert read(ROOT / ".github/workflows/gpu.yml")[True].keys() == {
        "push",
        "schedule",
        "workflow_dispatch",
    }
    others = [path for path in OWN if path.name != "gpu.yml"]
    assert "self-hosted" not in "".join(path.read_text() for path in others)
