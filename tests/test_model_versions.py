"""`make publish`, `shift`, `rollback` and `unload`: versions of a model beside each other, on a real Triton."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import copier
import numpy as np
import pytest
from support import NOWHERE, Generate, Project, serve, step, succeed

# The versions of step `one` answer 1, 2 ...: an answer says which version it is of.
STEP = """from triton_step import Context


class Step:
    def __init__(self, context: Context) -> None:
        pass

    def __call__(self, B):
        return {{"C": B * 0 + {version}}}
"""
ANSWERS: dict[str, Any] = {
    "project_name": "two-versions",
    "tensors": dict.fromkeys(["A", "B", "C"], "FP32[2]"),
    "steps": [step("net", ["A"], ["B"], "onnxruntime"), step("one", ["B"], ["C"])],
}


def command(project: Project, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return project.make(*arguments, **{"GRPC_PORT": NOWHERE, "HTTP_PORT": NOWHERE, **more})


def refused(project: Project, *arguments: str) -> str:
    """Return the line of a command that changes nothing."""
    before = tracked(project)
    process = command(project, *arguments)
    assert process.returncode, process.stdout
    assert tracked(project) == before
    assert "Traceback" not in process.stderr
    lines = process.stderr.splitlines()
    return "\n".join(line for line in lines if not line.startswith("make: "))


def tracked(project: Project) -> dict[str, bytes]:
    """Return the files that git knows or would add, but for the store, which only grows."""
    listed = succeed(project.run("git", "ls-files", "-co", "--exclude-standard")).split()
    return {
        name: (project / name).read_bytes()
        for name in listed
        if not name.startswith("versions/") and (project / name).is_file()
    }


def write_step(project: Project, version: int) -> None:
    (project / "steps" / "one.py").write_text(STEP.format(version=version))


@pytest.fixture(scope="module")
def first(git_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose step `one` has version 1 published, and 2 in the working tree."""
    folder = tmp_path_factory.mktemp("versions") / "p"
    copier.run_copy(str(git_template), folder, data=ANSWERS, defaults=True, quiet=True)
    project = Project(folder)
    write_step(project, 1)
    project.commit()
    write_step(project, 2)
    succeed(command(project, "publish", "NAME=one", "VERSION=1", "FROM=HEAD"))
    return project


@pytest.fixture(scope="module")
def second(first: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return that project with version 2 published too, and committed."""
    project = copied(first, tmp_path_factory.mktemp("second"))
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    project.commit()
    return project


def copied(project: Project, folder: Path) -> Project:
    return Project(Path(shutil.copytree(project.path, folder / "p", symlinks=True)))


@pytest.fixture
def project(second: Project, tmp_path: Path) -> Project:
    return copied(second, tmp_path)


class Load:
    """Calls of the ensemble by several clients at once, until the block ends."""

    def __init__(self, project: Project, url: str) -> None:
        self.errors: list[str] = []
        self.answers: list[tuple[float, float, int]] = []  # begin, end, version
        self._project, self._url, self._ended = project, url, Event()

    def ask(self) -> None:
        with self._project.client(self._url) as client:
            while not self._ended.is_set():
                begin = time.monotonic()
                try:
                    answer = client.infer({"A": np.zeros((1, 2), np.float32)})["C"]
                    self.answers.append((begin, time.monotonic(), round(float(answer[0, 0]))))
                except Exception as error:
                    self.errors.append(repr(error))
                time.sleep(0.01)  # the candidate's tests need the processor too

    @contextmanager
    def running(self, clients: int = 2) -> Iterator[None]:
        with ThreadPoolExecutor(clients) as pool:
            asking: list[Future[None]] = [pool.submit(self.ask) for _ in range(clients)]
            try:
                yield
            finally:
                self._ended.set()
        for each in asking:
            each.result()

    def by_version(self) -> Counter[int]:
        return Counter(version for _, _, version in self.answers)


@pytest.mark.slow
def test_no_request_fails_while_a_server_is_shifted_and_rolled_back(
    first: Project, tmp_path: Path
) -> None:
    project = copied(first, tmp_path)
    with serve(project, "CONTROL=explicit") as server:
        url = {"TRITON_URL": server.urls["grpc"]}
        succeed(command(project, "publish", "NAME=one", "VERSION=2", **url))
        load = Load(project, server.urls["http"])
        with load.running():
            time.sleep(1)
            shifted = succeed(command(project, "shift", "NAME=one", "VERSION=2", **url))
            now = time.monotonic()
            time.sleep(1)
            back = succeed(command(project, "rollback", **url))
            again = time.monotonic()
            time.sleep(1)
        print(shifted, back, load.by_version(), f"{len(load.errors)} errors", sep="\n")
        assert load.errors == []
        assert load.by_version().keys() == {1, 2}
        assert "serves it" in shifted
        assert {v for begin, end, v in load.answers if now < begin and end < now + 1} == {2}
        assert {v for begin, _, v in load.answers if begin > again} == {1}
        succeed(command(project, "shift", "NAME=one", "VERSION=2", **url))
        unloaded = succeed(command(project, "unload", "NAME=one", "VERSION=1", **url))
        assert "serves it" in unloaded
    with serve(project) as server:
        [answer] = project.client(server.urls["http"]).answers({"A": np.zeros((1, 2), np.float32)})
        assert answer["C"][0, 0] == 2


def test_publishing_leaves_the_ensemble_where_it_is(project: Project) -> None:
    text = (project / "pipeline.yml").read_text()
    assert "versions: [1, 2]" in text
    assert "version: 1" in text
    succeed(command(project, "repository"))
    for version in (1, 2):
        frozen = project / f"model_repository/one/{version}/steps/one.py"
        assert frozen.read_text() == STEP.format(version=version)


def test_an_update_finds_nothing_to_do(project: Project) -> None:
    succeed(command(project, "shift", "NAME=one", "VERSION=2"))
    project.commit()
    said = succeed(project.run(sys.executable, "-m", "triton_ensemble", "update"))
    assert "is up to date with pipeline.yml" in said
    assert project.changes() == ""


def test_what_is_edited_later_is_in_no_version(project: Project) -> None:
    write_step(project, 3)
    process = command(project, "repository")
    assert process.returncode == 0
    assert "make publish NAME=one VERSION=3" in process.stderr
    frozen = project / "model_repository/one/2/steps/one.py"
    assert frozen.read_text() == STEP.format(version=2)


def test_a_published_version_never_changes(project: Project) -> None:
    said = succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    assert "is published already, with the same files" in said
    write_step(project, 3)
    line = refused(project, "publish", "NAME=one", "VERSION=2")
    assert (
        line == "one: version 2 is published with other files, and never changes; write VERSION=3"
    )


def test_a_version_that_does_not_load_is_not_published(project: Project) -> None:
    (project / "steps" / "one.py").write_text("import nowhere\n")
    line = refused(project, "publish", "NAME=one", "VERSION=3")
    assert line.startswith("Triton does not load it: ")
    assert "nowhere" in line


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


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("publish NAME=nothing VERSION=1", "nothing: is no step; write NAME=one of net, one"),
        ("publish NAME=two_versions VERSION=1", "is the ensemble, whose version says nothing"),
        ("publish NAME=net VERSION=2", "make publish NAME=net VERSION=1 FROM=HEAD"),
        ("publish NAME=one VERSION=01", "'01' is no version; write VERSION=1, 2, 3 ..."),
        ("publish NAME=one", "the following arguments are required: VERSION"),
        ("publish NAME=one VERSION=3 FILE=x.onnx", "step one: has no model file; leave FILE out"),
        ("shift NAME=one VERSION=3", "version 3 is not published (published: 1, 2)"),
        ("shift NAME=one VERSION=1", "the ensemble asks for version 1 already"),
        ("unload NAME=one VERSION=1", "the ensemble asks for version 1; shift it to another first"),
        ("unload NAME=one VERSION=3", "version 3 is not loaded (loaded: 1, 2)"),
        ("rollback", "no step was shifted yet; see `make shift`"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(second: Project, words: str, line: str) -> None:
    said = refused(second, *words.split())
    assert line in said
    assert len(said.splitlines()) == 1


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
    assert "versions/models" not in project.changes()


CUT_SHORT = """
import os, signal, sys
from triton_ensemble.cli import main
from triton_ensemble.versions import change
whole, calls = change.swap, []
def swap(*paths):
    whole(*paths)
    calls.append(paths)
    if len(calls) == 2:
        {end}
change.swap = swap
sys.exit(main(["unload", "one", "2"]))
"""


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
