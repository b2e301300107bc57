"""`apply`: a changed pipeline.yml reaches the managed files, and nothing of their owner is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from apply_support import (  # noqa: F401
    COMMAND,
    CONFIG,
    START,
    answer,
    apply,
    as_made,
    edit,
    owned,
    read,
    run_broken,
    small_disk,
    state,
    without_text,
)
from support import (
    ROOT,
    SOURCES,
    UNUSUAL,
    Generate,
    Project,
    Said,
    call,
    mark_ready,
    mounted,
    run,
    step,
    succeed,
    variables,
)
from update_support import (  # noqa: F401
    ONE,
    THREE,
    TWO,
    Copy,
    answers,
    copy,
    make_update,
    managed,
    origin,
    release,
    update,
)

from triton_ensemble.change.kept import is_remembered
from triton_ensemble.change.stage import PREFIX
from triton_ensemble.compile.rules import rules_with


@pytest.fixture
def project(generate: Generate) -> Project:
    return generate(**START)


CHANGES: dict[str, dict[str, Any]] = {
    "batch size": {"max_batch_size": 4},
    "tensor renamed": {
        "tensors": {"A": "FP32[4]", "M": "FP32[4]", "C": "FP32[4]"},
        "steps": [step("one", ["A"], ["M"]), step("two", ["M"], ["C"], "onnxruntime")],
    },
    "step added in the middle": {
        "tensors": dict.fromkeys("ABMC", "FP32[4]"),
        "steps": [ONE, step("mid", ["B"], ["M"]), step("two", ["M"], ["C"], "onnxruntime")],
    },
    "input added": {
        "tensors": dict.fromkeys("ABCX", "FP32[4]"),
        "steps": [step("one", ["A", "X"], ["B"]), TWO],
    },
    "sequence added": {"steps": [ONE | {"sequence": {"direct": {}}}, TWO]},
    "calls added": {"steps": [ONE | {"calls": ["two"]}, TWO]},
    "step removed": answers(ONE),
    "backend switched": {"steps": [ONE, step("two", ["B"], ["C"], "pytorch")]},
    "extra added": {"extras": ["gateway", "kubernetes"]},
    "extra removed": {"extras": []},
    "CI switched": {"ci": "gitlab"},
    "GPU count": {"gpu_count": 1},
    "another project name": {"project_name": "q"},
    "an output kept": {"outputs": ["B", "C"]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_typical_change_takes_one_command(
    name: str, project: Project, generate: Generate
) -> None:
    """The files are those of a new project of these answers. The owner's files are unchanged."""
    before, stub = owned(project), (project / "models/two.py").read_bytes()
    answer(project, **CHANGES[name])
    text = (project / "pipeline.yml").read_bytes()
    assert "pipeline.yml is applied, " in apply(project)
    assert (project / "pipeline.yml").read_bytes() == text
    have, want = without_text(managed(project)), as_made(generate, **CHANGES[name])
    if name == "step removed":
        before["models/two.py"] = stub  # which no step has now
    assert {path for path, content in before.items() if have.pop(path) != content} == set()
    assert have == {path: content for path, content in want.items() if path not in before}
    again = state(project)
    assert apply(project) == ""
    assert state(project) == again


def test_a_changed_test_that_no_longer_fits_is_named(
    project: Project, default_project: Project, generate: Generate
) -> None:
    """A generated test is renewed. One that its owner changed, or that came with an example, stays and is named."""
    answer(project, steps=[ONE | {"sequence": {"direct": {}}}, TWO])
    assert "tests/test_steps.py:" not in apply(project)
    edit(project, "tests/test_steps.py")
    answer(project, max_batch_size=4)
    assert "tests/test_steps.py:" not in apply(project)
    answer(project, steps=[ONE | {"calls": ["two"]}, TWO])
    now = "steps/one.py takes A FP32[4] and returns B FP32[4] and calls two now"
    assert f"\ntests/test_steps.py: {now}; change its test\n" in apply(project)
    example = generate()
    answer(example, **changes_of_default(read(default_project))["another name of a tensor"])
    now = "steps/label.py takes DIGITS FP32[10] and returns LABEL STRING[1], SCORE FP32[1] now"
    assert f"\ntests/test_label.py: {now}; change its test\n" in apply(example)


def test_a_model_script_of_another_backend_is_renewed_or_named(
    project: Project, default_project: Project, generate: Generate
) -> None:
    """A stub is renewed. A script that its owner changed, or that came with an example, stays and is named."""
    answer(project, steps=[ONE, step("two", ["B"], ["C"], "pytorch")])
    assert "models/two.py: " not in apply(project)
    assert "torch.jit.save" in (project / "models/two.py").read_text()
    edit(project, "models/two.py")
    answer(project, steps=[ONE, TWO])
    now = "two has backend onnxruntime now; let build(path) write its model.onnx"
    assert f"\nmodels/two.py: {now}\n" in apply(project)
    answer(project, steps=[ONE, TWO | {"backend": "tensorrt", "trtexec": True}], gpu_count=1)
    assert "models/two.py: " not in apply(project)  # it still makes an ONNX file
    example = generate()
    answer(example, **changes_of_default(read(default_project))["another backend of a step"])
    now = "classify has backend openvino now; let build(path) write its model.xml"
    assert f"\nmodels/classify.py: {now}\n" in apply(example)


def refuse(project: Project, *words: str, **more: str) -> str:
    """Run a command that fails and changes nothing. Return its one line."""
    before = state(project)
    said = call(project, *words, **more)
    assert said.status == 1, said
    assert state(project) == before
    assert said.out == ""
    return said.err.removesuffix("\n")


def test_the_gpus_of_a_vllm_follow_until_its_script_is_changed(generate: Generate) -> None:
    project = generate(**UNUSUAL["decoupled"])
    script, line = project / "models/llm.py", '"tensor_parallel_size": {},'
    answer(project, gpu_count=2)
    assert "models/llm.py: " not in apply(project)
    assert line.format(2) in script.read_text()
    script.write_text(script.read_text().replace("facebook/opt-125m", "mine"))
    answer(project, gpu_count=4)
    what = "models/llm.py: you changed it, so it does not follow pipeline.yml; its line is now: "
    assert f"\n{what}{line.format(4)}" in apply(project)
    assert line.format(2) in script.read_text()


def test_a_change_touches_what_it_must(default_project: Project, generate: Generate) -> None:
    """A batch size is in each config and in the client. A setting of a step is in its config alone."""
    configs = [path for path in default_project.files() if path.endswith("config.pbtxt")]
    most = {".copier-answers.yml", "pipeline.yml", "src/image_classification/tensors.py"}
    assert changed_files(generate(), max_batch_size=16) == {*most, *configs}
    steps = read(default_project)["steps"]
    steps[1]["instances"] = 2
    assert changed_files(generate(), steps=steps) == {
        ".copier-answers.yml",
        "pipeline.yml",
        f"model_repository/{steps[1]['name']}/config.pbtxt",
    }


@pytest.mark.slow
def test_the_docs_count_the_files_of_each_change(generate: Generate) -> None:
    page = (ROOT / "docs/daily.md").read_text().partition("## Changing the pipeline")[2]
    project = generate()
    project.commit()
    counts = {}
    for name, data in changes_of_default(read(project)).items():
        answer(project, **data)
        apply(project)
        succeed(project.run("git", "add", "--all"))
        changed = succeed(project.run("git", "diff", "--cached", "--name-only", "-M"))
        counts[name] = str(len(changed.splitlines()))
        succeed(project.run("git", "reset", "-q", "--hard"))
    assert counts == dict(re.findall(r"^\| (.+?) \| (\d+) \|", page, re.MULTILINE))


def changes_of_default(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return changes of the default project's answers, by their names in docs/daily.md."""
    tensors, (first, classify, last) = made["tensors"], made["steps"]
    scale = step("scale", ["PIXELS"], ["SCALED"])
    return {
        "`instances` of a step": {"steps": [first, classify | {"instances": 2}, last]},
        "`max_batch_size`": {"max_batch_size": 16},
        "another name of a tensor": yaml.safe_load(
            yaml.safe_dump(made).replace("LOGITS", "DIGITS")
        ),
        "a step in the middle": {
            "tensors": tensors | {"SCALED": "FP32[64]"},
            "steps": [first, scale, classify | {"inputs": {"pixels": "SCALED"}}, last],
        },
        "the last step removed": {
            "tensors": {name: tensors[name] for name in ("IMAGE", "PIXELS", "LOGITS")},
            "steps": [first, classify],
        },
        "another backend of a step": {"steps": [first, classify | {"backend": "openvino"}, last]},
        "the extra `gateway`": {"extras": ["monitoring", "gateway"]},
        "another CI": {"ci": "gitlab"},
        "`gpu_count`": {"gpu_count": 1},
        "another `project_name`": {"project_name": "digits"},
        "one more of `outputs`": {"outputs": ["LABEL", "SCORE", "LOGITS"]},
    }


def changed_files(project: Project, **data: Any) -> set[str]:
    """Apply other answers. Return the paths of the files that differ then."""
    before = managed(project)
    answer(project, **data)
    apply(project)
    return {path for path, content in managed(project).items() if content != before.get(path)}


# What is refused.


def test_a_refused_change_writes_nothing_and_says_where(project: Project) -> None:
    answer(project, max_batch_size=4)
    apply(project)
    answer(project, steps=[step("one", ["A"], ["NO"]), TWO])
    line = next(
        number
        for number, text in enumerate((project / "pipeline.yml").read_text().splitlines(), 1)
        if "NO" in text
    )
    said = refuse(project, "apply").splitlines()
    assert said[0].startswith(f"pipeline.yml:{line}: error: "), said
    assert said[-1] == "pipeline.yml is not applied: correct it first"
    answer(project, steps=[ONE, TWO], max_batch_size=8)
    assert "CONFIG" not in apply(project)
    assert "max_batch_size: 8" in (project / CONFIG).read_text()


def test_a_pipeline_yml_that_is_not_yaml_is_refused_with_its_line(project: Project) -> None:
    with (project / "pipeline.yml").open("a") as file:
        file.write("steps: [\n")
    assert refuse(project, "apply").startswith("pipeline.yml:")
    assert refuse(project, "sample").startswith("pipeline.yml:")


def test_a_pipeline_yml_that_is_missing_is_named(project: Project) -> None:
    (project / "pipeline.yml").unlink()
    assert "pipeline.yml: No such file or directory; " in refuse(project, "apply")


DAMAGED = {
    "missing": None,
    "empty": "",
    "a list": "- a\n",
    "a conflict": "<<<<<<< ours\nowned: []\n=======\n",
    "no owned files": "steps: []\n",
    "not UTF-8": "\udcff",
}


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_answers_are_refused(how: str, project: Project) -> None:
    path, text = project / ".copier-answers.yml", DAMAGED[how]
    path.unlink() if text is None else path.write_text(text, errors="surrogateescape")
    answer(project, max_batch_size=4)
    line = ".copier-answers.yml: can't be read; restore it from an older commit"
    assert refuse(project, "apply") == line


def test_branches_with_other_answers_are_merged(project: Project, generate: Generate) -> None:
    project.commit()
    merged = (project / "pipeline.yml").read_text().replace("size: 8", "size: 4")
    for branch, size in (("theirs", 4), ("ours", 16)):
        succeed(project.run("git", "checkout", "-q", "-B", branch, "HEAD"))
        answer(project, max_batch_size=size)
        apply(project)
        project.commit()
        succeed(project.run("git", "checkout", "-q", "--detach", "HEAD~1"))
    succeed(project.run("git", "checkout", "-q", "ours"))
    assert project.run("git", "merge", "theirs").returncode
    assert refuse(project, "apply").startswith("pipeline.yml:")
    (project / "pipeline.yml").write_text(merged)
    said = refuse(project, "apply")
    assert said.startswith(".copier-answers.yml: has a conflict; merge pipeline.yml by hand, then")
    assert (
        "error: pipeline-unreadable: has a conflict; merge pipeline.yml"
        in call(project, "check").out
    )
    paths = [".copier-answers.yml", "model_repository", "src"]
    assert f"git checkout --ours {paths[0]} && make apply" in said
    succeed(project.run("git", "checkout", "--ours", *paths))
    assert "pipeline.yml is applied" in apply(project)
    config = "model_repository/one/config.pbtxt"
    assert managed(project)[config] == as_made(generate, max_batch_size=4)[config]


def test_answers_that_lack_one_are_refused_or_do(project: Project) -> None:
    """No traceback follows from a line that is missing."""
    path = project / ".copier-answers.yml"
    whole = yaml.safe_load(path.read_bytes())
    before = managed(project)
    for name in ("_commit", "_src_path", "interface", "steps", "tensors", "extras"):
        if name not in whole:
            continue
        path.write_text(yaml.safe_dump({key: whole[key] for key in whole if key != name}))
        answer(project, max_batch_size=4)
        said = call(project, "apply")
        assert said.status == 0 or ".copier-answers.yml" in said.err, (name, said)
        for file, content in before.items():
            (project / file).write_bytes(content)


def test_an_answer_that_no_question_has_is_refused(project: Project) -> None:
    """Or it would be a change for ever."""
    answer(project, colour="red")
    said = call(project, "apply")
    assert said.status or apply(project) == "", said


# What its owner wrote.


def test_edits_of_managed_files_are_merged(project: Project) -> None:
    edit(project, CONFIG, "# mine")
    edit(project, "Makefile", "# mine, too")
    (project / "README.md").unlink()
    answer(project, max_batch_size=4, extras=["gateway", "kubernetes"])
    assert "conflict" not in apply(project)
    assert "# mine\n" in (project / CONFIG).read_text()
    assert "max_batch_size: 4\n" in (project / CONFIG).read_text()
    assert "# mine, too\n" in (project / "Makefile").read_text()
    assert not (project / "README.md").exists()
    assert not (project / ".apply/conflicts").exists()


def conflict(project: Project, size: int = 4) -> str:
    """Change a line that pipeline.yml changes too, then apply. Return what that says."""
    text = (project / CONFIG).read_text()
    old = f"max_batch_size: {read(project).get('max_batch_size', 8)}\n"
    assert old in text
    (project / CONFIG).write_text(text.replace(old, "max_batch_size: 3  # mine\n"))
    answer(project, max_batch_size=size)
    return apply(project)


def test_a_conflict_keeps_the_owners_lines_until_it_is_resolved(project: Project) -> None:
    said = conflict(project)
    other = project / ".apply/conflicts" / CONFIG
    line = f"{CONFIG}: you and pipeline.yml changed the same lines, and yours stay"
    [found] = [text for text in said.splitlines() if text.startswith(line)]
    assert f"merge .apply/conflicts/{CONFIG} into it, then remove that file" in found
    assert "max_batch_size: 3  # mine\n" in (project / CONFIG).read_text()
    assert "<<<<" not in (project / CONFIG).read_text()
    assert "max_batch_size: 4\n" in other.read_text()
    checked = call(project, "check")
    assert checked.status == 1
    assert f"{CONFIG}:1: error: apply-conflict: " in checked.out
    assert refuse(project, "apply", "--check").startswith(f"{CONFIG}: pipeline.yml changed lines")
    assert apply(project) == ""
    other.replace(project / CONFIG)
    assert "apply-conflict" not in call(project, "check").out
    assert call(project, "apply", "--check") == Said(0, "", "")


def test_a_conflict_in_another_file_stops_an_image_alone(project: Project) -> None:
    path = "deploy/compose.yaml"
    text = (project / path).read_text()
    changed = next(line for line in text.splitlines() if "GATEWAY_IMAGE" in line)
    (project / path).write_text(text.replace(changed, f"{changed} # mine"))
    answer(project, extras=[])
    assert f"{path}: you and pipeline.yml changed the same lines" in apply(project)
    assert f"{changed} # mine\n" in (project / path).read_text()
    assert "apply-conflict" not in call(project, "check").out
    assert refuse(project, "apply", "--check").startswith(f"{path}: ")


def test_a_conflict_ends_with_the_step_that_it_is_of(project: Project) -> None:
    answer(project, **answers(ONE, TWO, THREE))
    apply(project)
    path = "model_repository/three/config.pbtxt"
    text = (project / path).read_text()
    (project / path).write_text(text.replace("max_batch_size: 8", "max_batch_size: 3"))
    answer(project, max_batch_size=4)
    assert f"merge .apply/conflicts/{path}" in apply(project)
    answer(project, **answers(ONE, TWO))
    apply(project)
    assert not (project / path).exists()
    assert (project / ".apply/kept" / path).is_file()
    assert "apply-conflict" not in call(project, "check").out
    assert call(project, "apply", "--check").status == 0


def test_a_conflict_moves_with_its_file(project: Project) -> None:
    conflict(project)
    answer(project, steps=[step("first", ["A"], ["B"]), TWO])
    apply(project)
    path = "model_repository/first/config.pbtxt"
    assert "max_batch_size: 3  # mine\n" in (project / path).read_text()
    assert f"{path}:1: error: apply-conflict: " in call(project, "check").out
    assert not (project / ".apply/conflicts" / CONFIG).exists()


JSON = "vendor/project.json"


def test_an_edited_json_file_is_replaced_and_kept(project: Project) -> None:
    made = (project / JSON).read_text()
    for number in (1, 2):
        (project / JSON).write_text(made.replace("{", f'{{"mine": {number}, ', 1))
        requirements = [f"regex=={number}.0"]
        answer(project, steps=[step("one", ["A"], ["B"], requirements=requirements), TWO])
        line = f"{JSON}: had edits of yours, which are kept in .apply/kept/{JSON}"
        assert line in apply(project).splitlines()
        assert "mine" not in (project / JSON).read_text()
        assert f'"mine": {number}' in (project / ".apply/kept" / JSON).read_text()
        made = (project / JSON).read_text()
    assert find(project, '"mine": 1'), "an earlier edit is lost"


def find(project: Project, text: str) -> list[str]:
    """Return the files that have a text."""
    return [path for path, data in project.contents().items() if text.encode() in data]


def test_an_edited_file_of_a_step_that_goes_is_kept(project: Project) -> None:
    path = "model_repository/two/config.pbtxt"
    edit(project, path)
    answer(project, **answers(ONE))
    assert f"{path}: had edits of yours, which are kept in .apply/kept/{path}" in apply(project)
    assert not (project / "model_repository/two").exists()
    assert "# mine\n" in (project / ".apply/kept" / path).read_text()
    assert "models/two.py" in project.files()


def test_a_step_that_is_renamed_keeps_edits_of_its_config(project: Project) -> None:
    edit(project, CONFIG)
    (project / "steps/one.py").write_text("# code of mine\n")
    answer(project, steps=[step("first", ["A"], ["B"]), TWO])
    said = apply(project)
    assert "git mv -f steps/one.py steps/first.py" in said
    assert "# mine\n" in (project / "model_repository/first/config.pbtxt").read_text()
    assert not (project / "model_repository/one").exists()
    assert (project / "steps/one.py").read_text() == "# code of mine\n"


def test_edits_of_the_client_move_with_the_projects_name(project: Project) -> None:
    edit(project, "src/p/client.py")
    (project / "src/p/more.py").write_text("# an own file\n")
    answer(project, project_name="q", ensemble_name="q")
    said = apply(project)
    assert "src/p/" in said
    assert "# mine\n" in (project / "src/q/client.py").read_text()
    assert sorted(path.name for path in (project / "src/p").iterdir()) == ["more.py"]
    assert apply(project) == ""


def test_an_own_file_where_a_new_one_goes_stays(project: Project) -> None:
    path = project / "model_repository/three/config.pbtxt"
    path.parent.mkdir()
    path.write_text("# an own file\n")
    answer(project, **answers(ONE, TWO, THREE))
    assert "merge .apply/conflicts/model_repository/three/config.pbtxt" in apply(project)
    assert path.read_text() == "# an own file\n"


def test_a_removed_managed_file_that_the_lines_after_need_is_no_error(project: Project) -> None:
    (project / JSON).unlink()
    answer(project, max_batch_size=4)
    assert "pipeline.yml is applied" in apply(project)


def test_comments_of_pipeline_yml_stay_and_are_no_change(project: Project) -> None:
    text = (project / "pipeline.yml").read_text() + "# a comment\n"
    (project / "pipeline.yml").write_text(text)
    assert apply(project) == ""
    answer(project, max_batch_size=4)
    apply(project)
    apply(project, "--undo")
    assert (project / "pipeline.yml").read_text() == text


# The way back.


def test_undo_brings_all_back_once(project: Project) -> None:
    edit(project, CONFIG)
    apply(project)  # it remembers the text
    before = managed(project)
    answer(project, **answers(ONE, TWO, THREE), project_name="q", extras=[])
    mine = (project / "pipeline.yml").read_text()
    said = apply(project)
    assert "pipeline.yml is applied" in said
    assert "conflicts" not in said
    applied = managed(project)
    assert "files are as they were; yours is .apply/kept/pipeline.yml" in apply(project, "--undo")
    assert managed(project) == before
    assert not (project / "src/q").exists()
    assert (project / ".apply/kept/pipeline.yml").read_text() == mine
    line = "there is nothing to undo: the last change is undone, or none was made"
    assert refuse(project, "apply", "--undo") == line
    (project / "pipeline.yml").write_text(mine)
    apply(project)
    assert managed(project) == applied


def test_undo_after_an_edit_of_a_file_is_refused(project: Project) -> None:
    before = managed(project)
    answer(project, max_batch_size=4)
    apply(project)
    applied = (project / CONFIG).read_bytes()
    edit(project, CONFIG)
    assert (
        refuse(project, "apply", "--undo") == f"{CONFIG}: was changed since then; undo that first"
    )
    (project / CONFIG).write_bytes(applied)
    edit(project, "steps/one.py", "# code of mine", 0)
    apply(project, "--undo")
    assert (project / "steps/one.py").read_text().startswith("# code of mine\n")
    without = {path: content for path, content in managed(project).items() if path in before}
    assert {path for path in before if without[path] != before[path]} <= {
        "steps/one.py",
        "pipeline.yml",  # rendered: its text was not known
    }


def test_undo_of_a_conflict_takes_it_away(project: Project) -> None:
    apply(project)
    conflict(project)
    apply(project, "--undo")
    assert "max_batch_size: 3  # mine\n" in (project / CONFIG).read_text()
    assert call(project, "apply", "--check").status == 0
    assert read(project).get("max_batch_size", 8) == 8


def test_undo_leaves_an_earlier_conflict_open(project: Project) -> None:
    conflict(project)
    other = (project / ".apply/conflicts" / CONFIG).read_bytes()
    answer(project, max_batch_size=16)
    apply(project)
    apply(project, "--undo")
    assert (project / ".apply/conflicts" / CONFIG).read_bytes() == other


def test_a_refused_or_failed_apply_leaves_the_way_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = managed(project)
    answer(project, max_batch_size=4)
    apply(project)
    applied = managed(project)
    answer(project, max_batch_size=-1)
    refuse(project, "apply")
    answer(project, **answers(ONE, TWO, THREE), max_batch_size=4)
    (project / "model_repository/three/config.pbtxt").mkdir(parents=True)
    assert "is a folder" in call(project, "apply").err
    (project / "model_repository/three/config.pbtxt").rmdir()
    (project / "model_repository/three").rmdir()
    (project / "pipeline.yml").write_bytes(applied["pipeline.yml"])
    assert managed(project) == applied
    apply(project, "--undo")
    assert without_text(managed(project)) == without_text(before)


@pytest.mark.parametrize("name", ["model_repository", "deploy", ".apply", ".apply/kept"])
def test_no_link_leads_what_is_applied_out_of_the_project(project: Project, name: str) -> None:
    out, link = project.path.with_name("out"), project / name
    link.parent.mkdir(exist_ok=True)
    if link.is_dir():
        link.rename(out)
    out.mkdir(exist_ok=True)
    link.symlink_to(out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    answer(project, max_batch_size=4, extras=["monitoring"])
    said = call(project, "apply")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert (said.status, said.err.count("\n"), "; remove " in said.err) == (1, 1, True)


# Ends that nobody asked for.


def kill(project: Project, at: int, *words: str) -> bool:
    """Kill a command at a move of a file. Return whether it had so many."""
    process = run_broken(project, *words, at=at)
    assert process.returncode in (0, -signal.SIGKILL), process.stderr
    return process.returncode != 0


@pytest.mark.parametrize(
    "at", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 4, 7, 10))]
)
def test_a_killed_apply_is_undone_and_done_by_the_next_command(project: Project, at: int) -> None:
    apply(project)
    edit(project, CONFIG)
    copy = Project(Path(shutil.copytree(project.path, project.path.with_name("copy"))))
    for each in (project, copy):
        answer(each, **answers(ONE, TWO, THREE), max_batch_size=4)
    assert kill(project, at, "apply")
    said = call(project, "apply")
    assert said.status == 0
    assert "a command that was killed " in said.err
    apply(copy)
    assert managed(project) == managed(copy)
    assert not list(project.path.glob(f"{PREFIX}*"))
    apply(project, "--undo")
    apply(copy, "--undo")
    assert managed(project) == managed(copy)


@pytest.mark.parametrize(
    "at", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 5, 9))]
)
def test_a_killed_undo_is_all_or_nothing(project: Project, at: int) -> None:
    apply(project)
    before = managed(project)
    answer(project, **answers(ONE, TWO, THREE), max_batch_size=4)
    apply(project)
    applied = managed(project)
    assert kill(project, at, "apply", "--undo")
    said = call(project, "apply")
    assert said.status == 0, said
    assert managed(project) in (applied, before)
    if managed(project) == applied:
        apply(project, "--undo")
        assert without_text(managed(project)) == without_text(before)


def test_an_interruption_changes_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(project, max_batch_size=4)
    before = state(project)
    monkeypatch.setattr(
        "triton_ensemble.change.project.compare_renderings",
        lambda *_: signal.raise_signal(signal.SIGINT),
    )
    assert call(project, "apply") == Said(130, "", "interrupted; the project is as it was\n")
    assert state(project) == before


def test_a_second_command_waits_for_the_first(project: Project, generate: Generate) -> None:
    answer(project, **CHANGES["step removed"])
    environment = variables(PYTHONPATH=str(SOURCES))
    both = [
        subprocess.Popen(
            COMMAND, cwd=project.path, env=environment, text=True, stdout=-1, stderr=-1
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("pipeline.yml is applied" in out for out, _ in said) == 1
    waiting = "another command changes this project; waiting for its end\n"
    assert {err for _, err in said} <= {"", waiting}
    assert apply(project) == ""


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 8192, 32768])
def test_a_full_disk_changes_nothing(project: Project, small_disk: Path, left: int) -> None:
    full = Project(Path(shutil.copytree(project.path, small_disk / "p")))
    apply(full)
    edit(full, CONFIG)
    answer(full, **CHANGES["another project name"], extras=[])
    before = managed(full)
    room = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - left))
    said = call(full, "apply")
    assert said.status == 1
    assert "No space left on device; make room there and in " in said.err
    assert managed(full) == before
    assert not list(full.path.glob(f"{PREFIX}*"))
    (small_disk / "filler").unlink()
    assert "pipeline.yml is applied" in apply(full)


# Where it runs.


def test_in_ci_nothing_is_applied_by_itself(project: Project) -> None:
    answer(project, max_batch_size=4)
    line = "pipeline.yml: is not applied; run `make apply` and commit"
    assert refuse(project, "infer", CI="true") == line
    assert refuse(project, "apply", "--unless-ci", CI="true") == line
    assert refuse(project, "apply", "--check") == line
    assert call(project, "apply", CI="true").status == 0
    assert call(project, "apply", "--unless-ci", CI="true") == Said(0, "", "")
    assert call(project, "apply", "--check", CI="true").status == 0


@pytest.mark.parametrize("git", [False, True])
def test_neither_git_nor_a_commit_is_needed_and_the_index_stays(
    project: Project, git: bool
) -> None:
    if git:
        project.commit()
        edit(project, "README.md")
        succeed(run("git", "add", "README.md", cwd=project.path))
    edit(project, CONFIG)
    answer(project, **CHANGES["another project name"])
    index = (project / ".git/index").read_bytes() if git else b""
    apply(project)
    apply(project, "--undo")
    apply_again = call(project, "apply")
    assert apply_again.status == 0
    assert git == (project / ".git").exists()
    if git:
        assert (project / ".git/index").read_bytes() == index
        assert ".apply" not in project.changes()
        staged = succeed(run("git", "diff", "--cached", "--name-only", cwd=project.path))
        assert staged == "README.md\n"


def test_a_read_only_checkout_that_is_applied_works(project: Project, tmp_path: Path) -> None:
    view = tmp_path / "view"
    view.mkdir()
    with mounted(view, "--bind", str(project.path)):
        if run("mount", "-o", "remount,ro,bind", str(view), cwd=tmp_path).returncode:
            pytest.skip("this user may not mount a disk")
        before = managed(project)
        assert call(Project(view), "apply") == Said(0, "", "")
        assert call(Project(view), "apply", "--check") == Said(0, "", "")
        answer(project, max_batch_size=4)
        said = call(Project(view), "apply")
        assert (said.status, said.out) == (1, "")
        assert "Read-only file system; the project is as it was" in said.err
        (project / "pipeline.yml").write_bytes(before["pipeline.yml"])
        assert managed(project) == before


def test_a_check_of_a_change_writes_nothing(project: Project) -> None:
    before = managed(project)
    answer(project, max_batch_size=4)
    said = call(project, "check")
    assert said.status == 0
    assert "warning: pipeline-changed: max_batch_size changed and is not applied yet" in said.out
    answer(project, steps=[step("one", ["A"], ["NO"]), TWO])
    assert call(project, "check").status == 1
    (project / "pipeline.yml").write_bytes(before["pipeline.yml"])
    assert managed(project) == before


def test_a_check_of_a_change_asks_the_steps_and_samples_for_it(project: Project) -> None:
    sample = project / "samples/mine.json"
    sample.write_text('{\n  "inputs": {"A": [[1, 2, 3, 4]]}\n}\n')
    renamed = read(project)["tensors"]
    renamed = {"Q" if name == "A" else name: spec for name, spec in renamed.items()}
    answer(project, tensors=renamed, steps=[ONE | {"inputs": ["Q"]}, TWO])
    said = call(project, "check")
    assert said.status == 1
    assert "samples/mine.json:2: error: sample-inputs: lacks the input Q and has A" in said.out
    assert "steps/one.py:" not in said.out  # a stub is written anew
    code = project / "steps/one.py"
    code.write_text(code.read_text().replace("# A stub: ", "# "))
    said = call(project, "check")
    assert "steps/one.py:" in said.out
    assert "error: step-signature: lacks the input Q that pipeline.yml gives it" in said.out
    assert "pipeline.yml is applied" in apply(project)  # they are their owner's to adapt


def test_a_check_of_a_change_names_an_open_conflict(project: Project) -> None:
    conflict = project / ".apply/conflicts" / CONFIG
    conflict.parent.mkdir(parents=True)
    conflict.write_text("")
    answer(project, max_batch_size=4)
    said = call(project, "check")
    assert said.status == 1
    assert f"{CONFIG}:1: error: apply-conflict: " in said.out


def test_a_pipeline_is_not_remembered_as_checked_without_jinja(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "pipeline.yml"
    path.write_text(f"{path.read_text()}# a comment\n")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "jinja2", None)
        rules_with.cache_clear()
        assert call(project, "apply") == Said(0, "", "")
    rules_with.cache_clear()
    assert not is_remembered(project.path)
    assert call(project, "apply") == Said(0, "", "")
    assert is_remembered(project.path)


def test_make_applies_and_undoes(project: Project) -> None:
    answer(project, max_batch_size=4)
    assert "pipeline.yml is applied" in succeed(project.make("apply"))
    undone = succeed(project.make("apply", "UNDO=1"))
    assert "files are as they were" in undone
    answer(project, max_batch_size=2)
    refused = project.make("image", "DOCKER=false", CI="true")
    assert refused.returncode
    assert "pipeline.yml: is not applied; run `make apply` and commit\n" in refused.stderr


@pytest.mark.slow
def test_a_change_that_needs_a_package_can_be_taken_back_without_it(project: Project) -> None:
    """Applying installs nothing. The command that needs the package stops until its owner has chosen one."""
    (project / ".venv/bin").mkdir(parents=True)
    python = project / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    mark_ready(project, ".venv", "packages", "toolkit")
    before = (project / "pipeline.yml").read_text()
    needing = yaml.safe_dump(read(project) | CHANGES["backend switched"])

    def make(*words: str, text: str) -> subprocess.CompletedProcess[str]:
        (project / "pipeline.yml").write_text(text)
        return project.run("make", *words, UV="true")

    lacks = "requirements.lock: lacks torch==2.13.0; "
    assert f"{lacks}`make setup` adds it" in succeed(make("apply", text=needing))
    assert lacks in make("repository", text=needing).stderr
    succeed(make("apply", "UNDO=1", text=needing))
    assert lacks in make("repository", text=needing).stderr
    succeed(make("check", text=before))
    succeed(make("repository", text=before))


def test_an_extra_that_is_new_takes_one_command(project: Project) -> None:
    answer(project, extras=[])
    command = ("gateway-image", "DOCKER=echo")
    lacking = project.make(*command)
    line = "pipeline.yml: extras does not have gateway; add it, and run the command again"
    assert line in lacking.stderr.splitlines()
    answer(project, extras=["gateway"])
    built = succeed(project.make(*command)).splitlines()[-1]
    assert built.startswith("build --file deploy/gateway.Dockerfile")
    assert " PYTHON_IMAGE=python:" in built


def test_make_image_and_push_stop_at_a_conflict(project: Project) -> None:
    conflict(project)
    for target in ("image", "push"):
        process = project.make(target, "DOCKER=false")
        assert process.returncode
        assert f"{CONFIG}: pipeline.yml changed lines that you changed too" in process.stderr


# Beside `copier update` and `make update`.


@pytest.mark.slow
def test_pipeline_yml_wins_over_other_answers_of_an_update(copy: Copy) -> None:
    project = copy(**START)
    apply(project)
    update(project, max_batch_size=4)
    assert apply(project).splitlines()[0] == (
        ".copier-answers.yml: max_batch_size changed, and pipeline.yml, which did not, is applied; "
        "write the new answer into pipeline.yml to keep it"
    )
    assert project.changes() == ""
    answer(project, max_batch_size=4)
    assert ".copier-answers.yml: " not in apply(project)
