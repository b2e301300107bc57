"""An update: what a project owns stays as it is. The rest becomes what a fresh copy would be."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import copier
import pexpect  # type: ignore[import-untyped]
import pytest
import yaml
from apply_support import run_broken
from delivery_support import borrow
from support import AUTHOR, COPIER, SOURCES, Project, mark_ready, run, step, succeed
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
    release(
        origin, "v1.1.0", managed="src/step_types.py.jinja", stub="../hooks/stubs/step.py.jinja"
    )
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
    """Copier leaves generated tests as they are, which follow pipeline.yml until they are changed."""
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
        ("ci: github\nci: none\n", "pipeline.yml:2: 'ci' is written twice; drop one"),
        ("", "pipeline.yml:1: has no answers"),
        ("max_batch_size: -1\n", "max_batch_size"),
        ("tensors: {A: 'FLOAT[1]'}\n", "tensor A: has the type FLOAT"),
        ("tensor: {}\n", "tensor: is not a question; did you mean tensors?"),
        (yaml.safe_dump({"steps": [ONE | {"gpus": [7]}, TWO]}), "step one: gpus: instance group"),
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
    project = copy(**answers(ONE, TWO))
    before = managed(project)
    release(origin, "v1.1.0", managed="Makefile.jinja", types="src/step_types.py.jinja")
    killed = run_broken(project, "update", at=3)
    assert killed.returncode == -signal.SIGKILL
    assert project.changes()
    venv = tmp_path / "venv"
    borrow(venv)
    mark_ready(project, venv, "packages")
    process = run(
        "make", f"VENV={venv}", "UV=true", "setup", cwd=project.path, PYTHONPATH=str(SOURCES)
    )
    assert (
        process.stderr
        == "a command that was killed is undone; 5 files are as they were before it\n"
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
    succeed(make_update(project, "--undo"))  # and leaves pipeline.yml, which was not applied before
    assert project.changes() == ""


@pytest.mark.slow
def test_a_folder_with_a_colon(origin: Path, copy: Copy, tmp_path: Path) -> None:
    project = Project(Path(shutil.move(copy(**answers(ONE, TWO)).path, tmp_path / "a:b")))
    release(origin, "v1.1.0", managed="Makefile.jinja")
    succeed(make_update(project))
    assert (project / "Makefile").read_text().endswith("# v1.1.0\n")


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
def test_a_renamed_step_whose_code_was_not_moved_is_noticed(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    (project / "steps/one.py").write_text("# mine\n")
    with (project / "tests/test_steps.py").open("a") as file:
        file.write("# mine\n")
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


# The table of files.


def rows(project: Project) -> list[str]:
    """Run `make update`. Return its table, without blanks in front, where lines that go on are one."""
    printed = succeed(make_update(project))
    first, *rest = printed.splitlines()
    assert "files changed" in first
    lines = [*takewhile(lambda line: line.startswith("  "), rest)]  # notes follow
    assert [line for line in lines if len(line) > 80] == []
    table: list[str] = []
    for line in lines:
        if line.startswith("   "):
            table[-1] += f" {line.strip()}"
        else:
            table.append(line.strip())
    project.commit()
    return table


def replaced(project: Project, name: str, *pairs: tuple[str, str]) -> None:
    text = (project / name).read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (project / name).write_text(text)


@pytest.mark.slow
def test_a_step_that_its_owner_moves_is_neither_new_nor_left(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    succeed(project.run("git", "mv", "steps/one.py", "steps/first.py"))
    change(project, **answers({**ONE, "name": "first"}, TWO))
    process = make_update(project)
    moved, by_owner, *changed = succeed(process).splitlines()[1:]
    assert moved == "  moved    model_repository/one/ -> model_repository/first/: 3 files"
    assert by_owner == "  moved    steps/one.py -> steps/first.py: by you; OneOutputs in it is"
    assert changed[0] == "           FirstOutputs now"
    assert {line.split()[0] for line in changed[1:]} == {"changed"}
    assert "git mv" not in process.stderr


@pytest.mark.slow
def test_a_new_step_is_named_as_a_stub(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    change(project, **answers(ONE, TWO, THREE))
    table = rows(project)
    assert table[:2] == [
        "new      model_repository/three/: 3 files",
        "new      steps/three.py: a stub, until you fill it in",
    ]


@pytest.mark.slow
def test_changes_of_mind_about_the_example(copy: Copy) -> None:
    """Real names of a model's tensors change two configs. What others import is called nothing else."""
    project = copy()
    names = (("pixels: PIXELS", "float_input: PIXELS"), ("logits: LOGITS", "probabilities: LOGITS"))
    replaced(project, "pipeline.yml", *names)
    project.commit()
    assert rows(project) == [
        "changed  .copier-answers.yml",
        "changed  model_repository/classify/config.pbtxt",
        "changed  model_repository/image_classification/config.pbtxt",
    ]
    (project / "models/network.py").write_text("from models.classify import build as build\n")
    replaced(project, "pipeline.yml", ("name: classify", "name: network"))
    project.commit()
    assert "moved    model_repository/classify/ -> model_repository/network/" in (
        table := rows(project)
    )
    assert not [row for row in table if row.startswith("kept")]
    text, _, _ = (project / "pipeline.yml").read_text().partition("  - name: label")
    lines = [line for line in text.splitlines(keepends=True) if line[2:7] not in ("LABEL", "SCORE")]
    (project / "pipeline.yml").write_text("".join(lines))
    project.commit()
    assert "gone     model_repository/label/: 3 files" in (table := rows(project))
    assert table[-1] == (
        "kept     steps/label.py: yours, but no step uses it now; tests/test_label.py, "
        "tests/test_reference.py import it, and LabelOutputs in it is gone"
    )
    said = project.run(sys.executable, "-m", "pytest", "tests/test_label.py").stdout
    assert (
        "steps/label.py is of no step in pipeline.yml, and LabelOutputs of src/step_types.py is gone; "
        "remove the file, and what imports it\n"
    ) in said


@pytest.mark.slow
def test_other_sizes_leave_a_steps_own_folder_with_it(copy: Copy) -> None:
    """The tokenizer is that of the step, also where its model is no longer the example's."""
    project = copy(starting_pipeline="text-embedding")
    replaced(project, "pipeline.yml", ("384", "768"))
    project.commit()
    assert not [row for row in rows(project) if "steps/tokenize" in row]
