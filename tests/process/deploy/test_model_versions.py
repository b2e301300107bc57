"""`make publish`, `shift`, `rollback` and `unload`: versions of a model beside each other, on a real Triton."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import gettempdir

import pytest
from support import NOWHERE, Generate, Project, call, step, succeed
from versions_of_a_step import STEP, command, copied, published, refused, tracked, write_step

from triton_ensemble.change.stage import alone
from triton_ensemble.deploy.versions import rollback


@pytest.fixture(scope="module")
def first(git_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return published(git_template, tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def second(first: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return that project with version 2 published too, and committed."""
    project = copied(first, tmp_path_factory.mktemp("second"))
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    project.commit()
    return project


@pytest.fixture
def project(second: Project, tmp_path: Path) -> Project:
    return copied(second, tmp_path)


@pytest.mark.slow
def test_publishing_leaves_the_ensemble_where_it_is(project: Project) -> None:
    text = (project / "pipeline.yml").read_text()
    assert "versions: [1, 2]" in text
    assert "version: 1" in text
    succeed(command(project, "repository"))
    for version in (1, 2):
        frozen = project / f"model_repository/one/{version}/steps/one.py"
        assert frozen.read_text() == STEP.format(version=version)


@pytest.mark.slow
def test_an_update_finds_nothing_to_do(project: Project) -> None:
    succeed(command(project, "shift", "NAME=one", "VERSION=2"))
    project.commit()
    said = succeed(project.run(sys.executable, "-m", "triton_ensemble", "update"))
    assert "is up to date with pipeline.yml" in said
    assert project.changes() == ""


@pytest.mark.slow
def test_what_is_edited_later_is_in_no_version(project: Project) -> None:
    write_step(project, 3)
    process = command(project, "repository")
    assert process.returncode == 0
    assert "make publish NAME=one VERSION=3" in process.stderr
    frozen = project / "model_repository/one/2/steps/one.py"
    assert frozen.read_text() == STEP.format(version=2)


@pytest.mark.slow
def test_a_published_version_never_changes(project: Project) -> None:
    said = succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    assert "is already published, with the same files" in said
    write_step(project, 3)
    line = refused(project, "publish", "NAME=one", "VERSION=2")
    assert (
        line == "one: version 2 is published with other files, and never changes; write VERSION=3"
    )


@pytest.mark.slow
def test_a_version_that_does_not_load_is_not_published(project: Project) -> None:
    (project / "steps" / "one.py").write_text("import nowhere\n")
    line = refused(project, "publish", "NAME=one", "VERSION=3")
    assert line.startswith("Triton does not load it: ")
    assert line.endswith("No module named 'nowhere' (steps/one.py, line 1)")


@pytest.mark.slow
def test_a_version_that_fails_a_test_is_not_shifted_to(project: Project) -> None:
    succeed(command(project, "golden"))
    line = refused(project, "shift", "NAME=one", "VERSION=2")
    assert line.startswith("one: version 2 is not shifted to: a live test fails: ")
    assert line.endswith("; if its answers are right: GOLDEN=1")
    golden = (project / "tests" / "golden.json").read_bytes()
    succeed(command(project, "shift", "NAME=one", "VERSION=2", "GOLDEN=1"))
    assert (project / "tests" / "golden.json").read_bytes() != golden
    succeed(command(project, "rollback"))
    assert (project / "tests" / "golden.json").read_bytes() == golden


@pytest.mark.slow
def test_a_refused_shift_does_not_say_that_golden_answers_are_new(project: Project) -> None:
    sample = next((project / "samples").glob("*.json"))
    inputs = json.loads(sample.read_text())["inputs"]
    sample.write_text(json.dumps({"inputs": inputs, "outputs": {"C": [[1, 1]]}}))
    process = command(project, "shift", "NAME=one", "VERSION=2", "GOLDEN=1")
    assert process.returncode
    assert "is not shifted to: a live test fails" in process.stderr
    assert process.stdout == ""
    sample.write_text(json.dumps({"inputs": inputs}))
    said = succeed(command(project, "shift", "NAME=one", "VERSION=2", "GOLDEN=1"))
    assert "\ntests/golden.json: 1 samples, new or changed: " in said


@pytest.mark.slow
def test_a_rollback_that_fails_tests_is_done_and_names_them(project: Project) -> None:
    succeed(command(project, "shift", "NAME=one", "VERSION=2"))
    sample = next((project / "samples").glob("*.json"))
    inputs = json.loads(sample.read_text())["inputs"]
    sample.write_text(json.dumps({"inputs": inputs, "outputs": {"C": [[2, 2]]}}))
    said = succeed(command(project, "rollback"))
    assert "one: the ensemble asks for version 1; it was 2" in said
    assert "    version: 1" in (project / "pipeline.yml").read_text()
    lines = said.split("\nlive tests fail now; ")[1].splitlines()
    assert lines[0] == "change what they expect, or run: make shift NAME=one VERSION=2"
    assert f"samples/{sample.name}: C[0, 0]: expected 2, got 1.0" in lines[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("publish NAME=nothing VERSION=1", "nothing: is not a step; write NAME=one of net, one"),
        ("publish NAME=two_versions VERSION=1", "is the ensemble, which does not have versions"),
        ("publish NAME=net VERSION=2", "make publish NAME=net VERSION=1 FROM=HEAD"),
        ("publish NAME=one VERSION=01", "'01' is not a version number; write VERSION=1, 2, 3 ..."),
        ("publish NAME=one", "VERSION: is missing; write VERSION=1, 2, 3 ..."),
        ("shift VERSION=2", "no NAME is given; write NAME=one of net, one"),
        ("publish NAME=one VERSION=3 FROM=HEAD FILE=x", "FROM and FILE: write one of them"),
        ("publish NAME=one VERSION=3 FROM=nowhere", "git: not a valid object name: nowhere"),
        ("publish NAME=one VERSION=3 FILE=x.onnx", "step one: has no model file; leave FILE out"),
        ("shift NAME=one VERSION=3", "version 3 is not published (published: 1, 2)"),
        ("shift NAME=one VERSION=1", "the ensemble already asks for version 1"),
        ("unload NAME=one VERSION=1", "the ensemble asks for version 1; shift it to another first"),
        ("unload NAME=one VERSION=3", "version 3 is not loaded (loaded: 1, 2)"),
        ("rollback", "no step was shifted yet; see `make shift`"),
        ("rollback NAME=one", "no step was shifted yet; see `make shift`"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(second: Project, words: str, line: str) -> None:
    said = refused(second, *words.split())
    assert line in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
def test_a_rollback_whose_tests_are_interrupted_is_done(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed(command(project, "shift", "NAME=one", "VERSION=2"))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollback, "failures", interrupt)
    said = call(project, "rollback", GRPC_PORT=NOWHERE)
    assert said.status == 0
    assert said.out.endswith("\nthe live tests were interrupted; run: make test\n")
    assert "    version: 1" in (project / "pipeline.yml").read_text()


def git(project: Project, *arguments: str) -> str:
    return succeed(project.run("git", *arguments))


@pytest.mark.slow
def test_branches_that_publish_the_same_version_are_told_to_keep_both(
    first: Project, tmp_path: Path
) -> None:
    project = copied(first, tmp_path)
    project.commit()
    for branch, version in (("theirs", 3), ("ours", 2)):
        git(project, "checkout", "-qb", branch)
        write_step(project, version)
        succeed(command(project, "publish", "NAME=one", "VERSION=2"))
        project.commit()
        git(project, "checkout", "-q", "-")
    git(project, "checkout", "-q", "ours")
    assert project.run("git", "merge", "theirs").returncode
    line = refused(project, "repository")
    assert line == (
        "versions.json:12: has a conflict; keep the entries of both branches, one as a version with a new "
        "number, without the lines <<<<<<<, ======= and >>>>>>>; then: git add versions.json"
    )
    entries = [json.loads(git(project, "show", f":{side}:versions.json")) for side in (2, 3)]
    ours, theirs = (each["one"]["versions"] for each in entries)
    (project / "versions.json").write_text(
        json.dumps({"one": {"versions": {**ours, "3": theirs["2"]}}})
    )
    git(project, "add", "versions.json")
    write_step(project, 3)
    succeed(command(project, "shift", "NAME=one", "VERSION=3"))
    code = project / "model_repository/one"
    assert (code / "2/steps/one.py").read_text() == STEP.format(version=2)
    assert (code / "3/steps/one.py").read_text() == STEP.format(version=3)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["is missing", "is damaged"])
def test_a_file_that_the_store_lacks_is_named(project: Project, damage: str) -> None:
    record = json.loads((project / "versions.json").read_text())
    digest = record["one"]["versions"]["2"]["files"]["steps/one.py"]
    blob = project / "versions" / "code" / digest
    blob.unlink()
    if damage == "is damaged":
        blob.write_text("something else")
    line = refused(project, "repository")
    said = f"versions/code/{digest}: {damage}, which is steps/one.py of one's version 2; copy it "
    assert line.startswith(said)


@pytest.mark.slow
def test_a_model_file_is_published_by_its_digest(project: Project, tmp_path: Path) -> None:
    succeed(command(project, "repository"))
    made = (project / "model_repository/net/1/model.onnx").read_bytes()
    succeed(command(project, "publish", "NAME=net", "VERSION=1"))
    other = tmp_path / "other.onnx"
    other.write_bytes(made + b"\x7a\x01x")  # a field that ONNX does not know
    succeed(command(project, "publish", "NAME=net", "VERSION=2", f"FILE={other}"))
    assert (project / "model_repository/net/1/model.onnx").read_bytes() == made
    assert (project / "model_repository/net/2/model.onnx").read_bytes() == other.read_bytes()
    again = command(project, "publish", "NAME=net", "VERSION=2", f"FILE={other}")
    assert succeed(again) == "net: version 2 is already published, with the same files\n"
    assert "versions/models" not in project.changes()


CUT_SHORT = """
import os, signal, sys
from pathlib import Path
from triton_ensemble.cli import main
whole, calls = Path.replace, []
def replace(path, target):
    whole(path, target)
    calls.append(target)
    if len(calls) == 2:
        {end}
Path.replace = replace
sys.exit(main(["unload", "one", "2"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_an_interrupted_change_is_undone(project: Project, end: str) -> None:
    before = tracked(project)
    process = project.run(sys.executable, "-c", CUT_SHORT.format(end=end), GRPC_PORT=NOWHERE)
    if end.startswith("raise"):
        assert process.returncode == 130
        assert process.stderr.startswith("interrupted; ")
    else:
        assert tracked(project) != before
        refused_later = command(project, "unload", "NAME=one", "VERSION=1")
        assert refused_later.returncode
    assert tracked(project) == before


@pytest.mark.slow
def test_a_full_disk_is_named(project: Project) -> None:
    before = tracked(project)
    code = CUT_SHORT.format(end="raise OSError(28, os.strerror(28))")
    process = project.run(sys.executable, "-c", code, GRPC_PORT=NOWHERE)
    assert process.returncode == 1
    assert process.stderr == (
        f"{project.path}: No space left on device; make room there and in {gettempdir()}, then run it again\n"
    )
    assert tracked(project) == before


@pytest.mark.slow
def test_two_at_once_do_not_undo_each_other(project: Project) -> None:
    with alone(project.path):
        line = refused(project, "unload", "NAME=one", "VERSION=2")
    assert line == "another command changes this project; wait for its end"
    succeed(command(project, "unload", "NAME=one", "VERSION=2"))


@pytest.mark.slow
def test_a_fused_step_is_told_to_part(generate: Generate) -> None:
    project = generate(
        project_name="joined",
        tensors=dict.fromkeys(["A", "B", "C"], "FP32[2]"),
        steps=[step("one", ["A"], ["B"]), step("two", ["B"], ["C"])],
    )
    project.commit()
    line = refused(project, "publish", "NAME=one", "VERSION=1")
    assert "step one: shares the model" in line
    assert "`fuse: false`" in line


@pytest.mark.slow
def test_an_edit_of_json_is_refused_and_kept(project: Project) -> None:
    """It can't be merged by line. A new file in its place would lose it."""
    path = project / "vendor/project.json"
    edited = path.read_text().replace("{\n", '{\n  "mine": 1,\n', 1)
    path.write_text(edited)
    line = refused(project, "unload", "NAME=one", "VERSION=2")
    assert line.startswith("vendor/project.json: has edits of yours in lines that versions change")
    assert path.read_text() == edited
