"""An update: what a project owns stays as it is; the rest becomes what a fresh copy would be."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import copier
import pexpect  # type: ignore[import-untyped]
import pytest
import yaml
from apply_support import KILLED
from support import AUTHOR, COPIER, Project, run, step, succeed
from update_support import (  # noqa: F401
    ONE,
    TENSORS,
    THREE,
    TWO,
    Copy,
    answers,
    change,
    copy,
    make_update,
    managed,
    origin,
    release,
    update,
)

from triton_ensemble.change.owned import FOLLOWS


def without_version(project: Project) -> dict[str, bytes]:
    contents = managed(project)
    del contents[".copier-answers.yml"]
    return contents


OWNED = [
    "deploy/kserve/kustomization.yaml",
    "pipeline.yml",
    "steps/one.py",
    "models/two.py",
    "tests/test_steps.py",
    "tests/test_reference.py",
    "requirements.lock",
    "requirements-dev.lock",
    "deploy/kserve/rest.ipynb",
]


@pytest.mark.slow
def test_owned_files_stay_as_they_are(origin: Path, copy: Copy) -> None:
    project = copy(**answers(ONE, TWO), extras=["kserve"])
    edited, deleted = OWNED[:4], OWNED[4:]
    for name in edited:
        (project / name).write_text(f"# mine: {name}\n")
    for name in deleted:
        (project / name).unlink()
    project.commit()
    release(origin, "v1.1.0", managed="src/step_types.py.jinja", stub="../stubs/step.py.jinja")
    update(project, max_batch_size=4)
    assert [(project / name).read_text() for name in edited] == [f"# mine: {n}\n" for n in edited]
    assert not [name for name in deleted if (project / name).exists()]
    assert (project / "src/step_types.py").read_text().endswith("# v1.1.0\n")
    assert "max_batch_size: 4" in (project / "model_repository/one/config.pbtxt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        {},
        answers(ONE, TWO, THREE),
        {"extras": ["gateway", "kserve", "ray"], "ci": "gitlab", "gpu_count": 1},
        {"max_batch_size": 0, "ensemble_name": "other"},
    ],
    ids=["nothing", "step", "extras", "settings"],
)
def test_copier_gives_the_same_files(origin: Path, copy: Copy, data: dict[str, Any]) -> None:
    """Also the answers; but it lets generated tests be, which follow pipeline.yml until they are changed."""
    project = copy(**answers(ONE, TWO))
    for name in ("Makefile", "README.md", "model_repository/one/config.pbtxt"):
        (project / name).write_text("# mine\n" + (project / name).read_text())
    change(project, **data)
    other = Project(Path(shutil.copytree(project.path, project.path.with_name("other"))))
    release(
        origin, "v1.1.0", one="Makefile.jinja", two="src/step_types.py.jinja", three="CLAUDE.md"
    )
    succeed(make_update(project))
    update(other, **yaml.safe_load((project / "pipeline.yml").read_text()))
    ours, theirs = managed(project), managed(other)
    assert ours.keys() == theirs.keys()
    assert [p for p in ours if ours[p] != theirs[p] and FOLLOWS not in ours[p]] == []


@pytest.mark.slow
def test_ray_comes_by_an_update_and_its_settings_follow_the_answers(copy: Copy) -> None:
    project = copy(**answers(ONE))
    assert not (project / "deploy/ray").exists()
    change(project, extras=["monitoring", "gateway", "ray"])
    succeed(make_update(project))
    project.commit()
    settings = project / "deploy/ray/serve.yaml"
    settings.write_text(settings.read_text().replace("max_replicas: 4", "max_replicas: 9"))
    owned = project / "deploy/ray/kustomization.yaml"
    owned.write_text("# mine\n")
    change(project, gpu_count=2)
    succeed(make_update(project))
    [app] = yaml.safe_load(settings.read_text())["applications"]
    [deployment] = app["deployments"]
    assert deployment["autoscaling_config"]["max_replicas"] == 9
    assert deployment["ray_actor_options"]["num_gpus"] == 2
    assert owned.read_text() == "# mine\n"
    assert {"vendor/ray.txt", "gateway/app.py", "deploy/ray/Dockerfile"} <= {*project.files()}


@pytest.mark.slow
def test_pipeline_yml_drives_an_update(copy: Copy, tmp_path: Path) -> None:
    """A user who has added a step to pipeline.yml runs what `make update` runs."""
    project = copy(**answers(ONE, TWO))
    changed = yaml.safe_load((project / "pipeline.yml").read_text()) | answers(ONE, TWO, THREE)
    (project / "pipeline.yml").write_text(yaml.safe_dump(changed, sort_keys=False))
    project.commit()
    succeed(make_update(project))
    fresh = copy("fresh", **changed)
    assert {name for name in managed(project) if name not in fresh.files()} == set()
    kept = {*OWNED, ".copier-answers.yml"}
    differing = {
        name for name, data in fresh.contents().items() if (project / name).read_bytes() != data
    }
    assert differing <= kept
    assert "class Step" in (project / "steps/three.py").read_text()


@pytest.mark.slow
def test_what_pipeline_yml_leaves_out_is_the_default_again(copy: Copy) -> None:
    with_ensemble = copy(**answers(ONE, TWO))
    project = copy("alone", **answers(ONE, TWO), ensemble=False)
    assert not (project / "model_repository/one_to_two").exists()
    pipeline = project / "pipeline.yml"
    pipeline.write_text(pipeline.read_text().replace("ensemble: false\n", ""))
    project.commit()
    printed = project.run(
        sys.executable, "-m", "triton_ensemble", "check", "model_repository"
    ).stdout
    assert "pipeline.yml:1: warning: pipeline-changed: ensemble was left out" in printed
    succeed(make_update(project))
    assert [*managed(project)] == with_ensemble.files()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("steps: [unclosed\n", "pipeline.yml:2: column 1: expected ',' or ']'"),
        (
            "a:\n\t- b\n",
            "pipeline.yml:2: column 1: found character '\\t' that cannot start any token",
        ),
        ("- a\n", "pipeline.yml:1: has no answers"),
        ("ci: github\nci: none\n", "pipeline.yml:2: 'ci' stands twice; drop one"),
        ("", "pipeline.yml:1: has no answers"),
        ("max_batch_size: -1\n", "max_batch_size"),
        ("tensors: {A: 'FLOAT[1]'}\n", "tensor A: has the type FLOAT"),
        ("tensor: {}\n", "tensor: is not a question; did you mean tensors?"),
        (yaml.safe_dump({"steps": [ONE | {"gpus": [7]}, TWO]}), "step one: names `gpus`"),
    ],
)
def test_a_pipeline_yml_that_is_wrong_is_one_line(copy: Copy, text: str, line: str) -> None:
    project = copy(**answers(ONE, TWO))
    (project / "pipeline.yml").write_text(text)
    project.commit()
    process = make_update(project)
    assert process.returncode
    [said] = process.stderr.splitlines()
    assert said.startswith(line)
    assert project.changes() == ""


@pytest.mark.slow
def test_an_answer_to_a_question_that_is_no_more_stops_nothing(origin: Path, copy: Copy) -> None:
    """It is left out. In pipeline.yml it is refused, as the test above has it."""
    project = copy(**answers(ONE, TWO))
    recorded = project / ".copier-answers.yml"
    recorded.write_text(f"{recorded.read_text()}gpu_runners: self-hosted\n")
    makefile = project / "Makefile"
    makefile.write_text("# mine\n" + makefile.read_text())
    project.commit()
    release(origin, "v1.1.0", managed="Makefile.jinja")
    succeed(make_update(project))
    assert "gpu_runners" not in recorded.read_text()
    assert makefile.read_text().startswith("# mine\n")
    assert makefile.read_text().endswith("# v1.1.0\n")


@pytest.mark.slow
def test_a_command_undoes_an_update_that_was_killed(
    origin: Path, copy: Copy, tmp_path: Path
) -> None:
    """Before it installs a wheel that may be of another version than its hash."""
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    project = copy(**answers(ONE, TWO))
    before = managed(project)
    release(origin, "v1.1.0", managed="Makefile.jinja", types="src/step_types.py.jinja")
    killed = project.run(sys.executable, "-c", KILLED, "3", "update")
    assert killed.returncode == -signal.SIGKILL
    assert project.changes()
    venv = tmp_path / "venv"
    (venv / ".packages").touch()
    process = run(
        "make",
        f"VENV={venv}",
        "INSTALL=grep -q _ vendor/requirements.txt #",
        str(venv / ".toolkit"),
        cwd=project.path,
        PYTHONPATH="",
    )
    assert (
        process.stderr
        == "update: one that was killed is undone; 5 files are as they were before it\n"
    )
    assert managed(project) == before


@pytest.mark.slow
def test_the_version_can_stay(origin: Path, copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    settings = (project / "pipeline.yml").read_text()
    (project / "pipeline.yml").write_text(settings.replace("size: 8", "size: 4"))
    project.commit()
    release(origin, "v1.1.0", managed="src/step_types.py.jinja")
    succeed(make_update(project, "--vcs-ref=:current:"))
    assert "max_batch_size: 4" in (project / "model_repository/one/config.pbtxt").read_text()
    assert "v1.1.0" not in (project / "src/step_types.py").read_text()


@pytest.mark.slow
def test_one_question_can_be_asked_again(copy: Copy) -> None:
    """The last answer is filled in."""
    project = copy(**answers(ONE, TWO))
    command = ["update", "--skip-answered", "--ask", "steps"]
    environment = {**os.environ, **AUTHOR, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
    terminal = pexpect.spawn(
        str(COPIER),
        command,
        cwd=project.path,
        dimensions=(60, 200),
        env=environment,
        encoding="utf-8",
    )
    terminal.expect("Which steps are there")
    terminal.expect("two")
    terminal.send("\x1b\r")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert project.changes() in ("", " M .copier-answers.yml\n")  # the prompt sorts the fields


@pytest.mark.slow
def test_a_conflict_is_named_and_fails(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    config, settings = project / "model_repository/one/config.pbtxt", project / "pipeline.yml"
    config.write_text(config.read_text().replace("max_batch_size: 8", "max_batch_size: 12"))
    settings.write_text(settings.read_text().replace("max_batch_size: 8", "max_batch_size: 16"))
    project.commit()
    process = make_update(project)
    assert process.returncode == 1
    assert (
        "model_repository/one/config.pbtxt: you and the template changed the same" in process.stdout
    )


def change_owned(project: Project, step: str) -> None:
    """Write a step, and change the generated tests, which then no longer follow pipeline.yml."""
    (project / step).write_text("# mine\n")
    with (project / "tests/test_steps.py").open("a") as file:
        file.write("# mine\n")


@pytest.mark.slow
def test_a_removed_step_keeps_its_code_and_is_named(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO, THREE))
    change_owned(project, "steps/three.py")
    change(project, **answers(ONE, TWO))
    printed = succeed(make_update(project))
    assert "  gone     model_repository/three/: 3 files\n" in printed
    assert (
        "  kept     steps/three.py: yours, but no step uses it now; tests/test_steps.py" in printed
    )
    assert (project / "steps/three.py").read_text() == "# mine\n"
    assert not (project / "model_repository/three").exists()


@pytest.mark.slow
def test_a_removed_step_that_comes_back_finds_its_code(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO, THREE))
    (project / "steps/three.py").write_text("# mine\n")
    for steps in ((ONE, TWO), (ONE, TWO, THREE)):
        project.commit()
        update(project, **answers(*steps))
    assert (project / "steps/three.py").read_text() == "# mine\n"
    assert (project / "model_repository/three/config.pbtxt").exists()


@pytest.mark.slow
def test_a_renamed_step_whose_code_was_not_moved_is_noticed(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    change_owned(project, "steps/one.py")
    change(project, **answers({**ONE, "name": "first"}, TWO))
    process = make_update(project)
    kept = "  kept     steps/one.py: yours, but no step uses it now; tests/test_steps.py\n"
    assert kept in succeed(process)
    [command] = re.findall("git mv .*", process.stdout)
    succeed(project.run(*command.split()))
    assert (project / "steps/first.py").read_text() == "# mine\n"
    assert not (project / "steps/one.py").exists()


@pytest.mark.slow
def test_an_adopted_model_becomes_a_step_and_goes(copy: Copy) -> None:
    """Its folder stays, and the update that drops it names it."""
    project = copy(**answers({**ONE, "adopted": True}, {**TWO, "adopted": True}))
    for path in ("models/one/1/model.py", "models/two/1/model.onnx"):
        (project / path).parent.mkdir(parents=True)
        (project / path).write_text("# mine\n")
    succeed(project.make("repository"))
    change(project, **answers(ONE))
    printed = succeed(make_update(project))
    for name in ("one", "two"):
        assert f"  kept     models/{name}/: yours, but no step uses it now\n" in printed
    succeed(project.make("repository"))
    assert "TritonPythonModel" in (project / "model_repository/one/1/model.py").read_text()
    assert (project / "models/one/1/model.py").read_text() == "# mine\n"
    assert not (project / "model_repository/two").exists()
    assert (project / "models/two/1/model.onnx").read_text() == "# mine\n"


@pytest.mark.slow
def test_what_was_built_for_a_removed_step_goes_with_the_next_make_repository(copy: Copy) -> None:
    """A folder without a config stops Triton."""
    project = copy(**answers(ONE, TWO, THREE))
    succeed(project.make("repository"))
    assert (project / "model_repository/three/1/steps/three.py").exists()
    change(project, **answers(ONE))
    update(project, **answers(ONE))
    project.commit()
    succeed(project.make("repository"))
    folders = [path.name for path in (project / "model_repository").iterdir() if path.is_dir()]
    assert sorted(folders) == ["my_pipeline", "one"]


@pytest.mark.slow
def test_steps_that_part_and_join_again_keep_their_code(copy: Copy) -> None:
    """Only the model repository differs."""
    joined = step("one", ["A"], ["B"]), step("next", ["B"], ["C"])
    project = copy(**answers(*joined))
    (project / "steps/one.py").write_text(f"# mine\n{(project / 'steps/one.py').read_text()}")

    def models(*steps: Any) -> set[str]:
        change(project, steps=list(steps))
        update(project, steps=list(steps))
        project.commit()
        succeed(project.run(sys.executable, "-m", "triton_ensemble", "repository"))
        return {path.name for path in (project / "model_repository").glob("*/")} - {".built"}

    together = models(*joined)
    before = without_version(project)
    assert together == {"my_pipeline", "one_to_next"}
    assert models({**joined[0], "fuse": False}, joined[1]) == {"my_pipeline", "one", "next"}
    assert (project / "steps/one.py").read_text().startswith("# mine\n")
    assert models(*joined) == together
    after = without_version(project)
    assert after == before


@pytest.mark.slow
def test_refused_answers_change_nothing(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    with pytest.raises(copier.errors.UserMessageError, match="reads Z, which is not in"):
        update(project, **answers(step("one", ["Z"], ["B"]), TWO) | {"tensors": TENSORS})
    assert project.changes() == ""
