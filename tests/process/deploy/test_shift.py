"""`make shift`, `rollback` and `unload`, and the servers that follow: by the model control API, or by ROLL."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper
from step_code import step_code
from support import ROOT, SOURCES, Generate, Project, serve, step, succeed, variables
from versions_of_a_step import Load, answered, command, copied, published, refused

from triton_ensemble.serve.local.command import EXPLICIT
from triton_ensemble.serve.local.local_triton import LocalTriton

FP32 = {"type": "FP32", "dims": [2]}
CALLER = step_code(
    """
def __call__(self, A):
    return {"D": self.one(B=A)["C"]}
""",
    init="self.one = context.calls.one",
)


@pytest.fixture(scope="module")
def first(git_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return published(git_template, tmp_path_factory.mktemp("shift"))


@pytest.fixture
def project(first: Project, tmp_path: Path) -> Project:
    return copied(first, tmp_path)


@pytest.fixture(scope="module")
def second(first: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return that project with version 2 published too."""
    project = copied(first, tmp_path_factory.mktemp("second"))
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    return project


@pytest.mark.slow
def test_no_request_fails_while_a_server_is_shifted_and_rolled_back(
    project: Project,
) -> None:
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
        assert answered(project, server.urls["http"]) == 2


@pytest.mark.slow
def test_roll_is_run_where_no_server_takes_it(second: Project, tmp_path: Path) -> None:
    """It gets the files as they are now, and no word of `make unload` that its own `make` would take."""
    project = copied(second, tmp_path)
    roll = "cp pipeline.yml rolled.txt && echo x$$VERSION$$NAME$$MAKEFLAGS"
    printed = succeed(command(project, "unload", "NAME=one", "VERSION=2", f"ROLL={roll}"))
    assert "no server runs here" in printed
    assert "\nx\n" in printed
    assert printed.endswith("ROLL succeeded: the servers serve it\n")
    rolled = (project / "rolled.txt").read_text()
    assert "versions: [1]" in rolled
    assert rolled == (project / "pipeline.yml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passes", "end"), [("2", "it succeeded with them"), ("3", "it fails with them too")]
)
def test_a_roll_that_fails_is_run_with_the_files_as_they_were(
    second: Project, tmp_path: Path, passes: str, end: str
) -> None:
    project, rolled = copied(second, tmp_path), tmp_path / "rolled"
    before = (project / "pipeline.yml").read_text()
    roll = f"cat pipeline.yml >> {rolled}; test $$(grep -c ^project_name {rolled}) = {passes}"
    line = refused(project, "unload", "NAME=one", "VERSION=2", f"ROLL={roll}")
    assert line.startswith("ROLL has failed (exit status 1); the files are as they were, and ")
    assert end in line
    assert rolled.read_text() == before.replace("[1, 2]", "[1]") + before


@pytest.mark.slow
def test_a_roll_that_is_interrupted_leaves_the_files_as_they_were(
    second: Project, tmp_path: Path
) -> None:
    """Ctrl-C reaches the command while its ROLL, a shell, runs."""
    project = copied(second, tmp_path)
    line = refused(project, "unload", "NAME=one", "VERSION=2", "ROLL=kill -INT $$PPID; sleep 2")
    said = "ROLL was interrupted; the files are as they were, and the servers may serve either version; "
    assert line == f"{said}run it again: kill -INT $PPID; sleep 2"
    assert not list(project.path.glob(".make-update-*"))


WAITS = """import time
from pathlib import Path

from triton_step import Context

PIPELINE, WAITING = Path({pipeline!r}), Path({waiting!r})


class Step:
    def __init__(self, context: Context) -> None:
        if not WAITING.exists() and "version: 2" in PIPELINE.read_text():
            WAITING.touch()
            while "version: 2" in PIPELINE.read_text():
                time.sleep(0.1)

    def __call__(self, B):
        return {{"C": B * 0 + 2}}
"""


@pytest.mark.slow
def test_an_interrupt_while_a_server_loads_says_that_it_may_serve_either(
    project: Project, tmp_path: Path
) -> None:
    pipeline, waiting = project / "pipeline.yml", tmp_path / "waiting"
    code = WAITS.format(pipeline=str(pipeline), waiting=str(waiting))
    (project / "steps" / "one.py").write_text(code)
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    with serve(project, "CONTROL=explicit") as server:
        url = server.urls["grpc"]
        shift = subprocess.Popen(
            project.make_command("shift", "NAME=one", "VERSION=2"),
            cwd=project.path,
            env=variables(PYTHONPATH=f"src:{SOURCES}", TRITON_URL=url),
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        while not waiting.exists():
            assert shift.poll() is None
            time.sleep(0.1)
        os.killpg(shift.pid, signal.SIGINT)
        line, *_ = shift.communicate(timeout=60)[1].splitlines()
        assert (
            line
            == f"{url}: interrupted; the files are as they were, and it may serve either: run it again"
        )
        assert "version: 1" in pipeline.read_text()
        again = command(project, "shift", "NAME=one", "VERSION=2", TRITON_URL=url)
        assert "serves it" in succeed(again)
        assert answered(project, url) == 2


NOTED = """#!/bin/sh
echo $(basename $0) $* >> ../log
"""


@pytest.mark.slow
def test_the_documented_roll_of_an_image_changes_its_tag(
    generate: Generate, tmp_path: Path
) -> None:
    """As docs/versions.md has it. A cluster and a Docker engine are what note their commands here."""
    page = (ROOT / "docs/versions.md").read_text()
    [roll] = re.findall(r"^(tag=.*?)^```", page, re.MULTILINE | re.DOTALL)
    project = copied(generate(project_name="myproj", extras=["kubernetes"]), tmp_path)
    make = f'#!/bin/sh\nexec {shutil.which("make")} {" ".join(project.make_command()[1:])} "$@"\n'
    for name, text in {"docker": NOTED, "kubectl": NOTED, "make": make}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    succeed(project.run("sh", "-ec", roll, PATH=path))
    [tag] = re.findall(
        r'newTag: "(\d{10})" #', (project / "deploy/kubernetes/kustomization.yaml").read_text()
    )
    log = (tmp_path / "log").read_text().splitlines()
    assert f"--tag registry.example.com/myproj:{tag}" in next(x for x in log if "build" in x)
    assert log[-3:] == [
        f"docker push registry.example.com/myproj:{tag}",
        "kubectl apply -k deploy/kubernetes",
        "kubectl rollout status deployment/myproj",
    ]


SHAPES: dict[str, dict[str, Any]] = {
    "nested ensemble": {
        "steps": [
            step("net", ["A"], ["B"], "onnxruntime"),
            {
                **step("inner", {"x": "B"}, {"y": "C"}, "ensemble"),
                "tensors": dict.fromkeys(["x", "y"], "FP32[2]"),
                "steps": [step("one", {"B": "x"}, {"C": "y"})],
            },
        ]
    },
    "BLS": {
        "project_name": "calls-one",  # its client is imported beside the other
        "tensors": dict.fromkeys(["A", "D"], "FP32[2]"),
        "steps": [
            step("caller", ["A"], ["D"], calls=["one"]),
            step("one", {"B": FP32}, {"C": FP32}),
        ],
    },
}


def check_shift_and_back(project: Project, step: str) -> None:
    """Check that a running server answers by version 2 of a step's model after a shift, and by 1 after a rollback."""
    with serve(project, "CONTROL=explicit") as server:
        url = {"TRITON_URL": server.urls["grpc"]}
        assert answered(project, server.urls["http"]) == 1
        assert "serves it" in succeed(command(project, "shift", f"NAME={step}", "VERSION=2", **url))
        assert answered(project, server.urls["http"]) == 2
        assert "serves it" in succeed(command(project, "rollback", **url))
        assert answered(project, server.urls["http"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_inside_of_another_is_shifted(
    git_template: Path, tmp_path: Path, shape: str
) -> None:
    project = published(git_template, tmp_path, **SHAPES[shape])
    if shape == "BLS":
        (project / "steps/caller.py").write_text(CALLER)
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    check_shift_and_back(project, "one")


def adding(file: Path, number: int) -> Path:
    """Write an ONNX model that adds a number to A. Return its file."""
    known: tuple[int, Sequence[str | int]] = (TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph(
        [helper.make_node("Add", ["A", "number"], ["B"])],
        "adding",
        [helper.make_tensor_value_info("A", *known)],
        [helper.make_tensor_value_info("B", *known)],
        [helper.make_tensor("number", TensorProto.FLOAT, [1], [number])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file.write_bytes(model.SerializeToString())
    return file


@pytest.mark.slow
def test_an_onnx_model_is_shifted(generate: Generate, tmp_path: Path) -> None:
    tensors = dict.fromkeys(["A", "B"], "FP32[2]")
    project = generate(
        project_name="adds", tensors=tensors, steps=[step("net", ["A"], ["B"], "onnxruntime")]
    )
    project.commit()
    for version in (1, 2):
        file = adding(tmp_path / f"{version}.onnx", version)
        succeed(command(project, "publish", "NAME=net", f"VERSION={version}", f"FILE={file}"))
    check_shift_and_back(project, "net")


@pytest.mark.slow
def test_a_server_with_a_key_for_administrators_is_asked_with_it(
    second: Project, tmp_path: Path
) -> None:
    project = copied(second, tmp_path)
    succeed(command(project, "repository"))
    closed = "--grpc-restricted-protocol=model-repository,model-config:admin-key=secret"
    flags = (*EXPLICIT["server_args"], closed)
    (tmp_path / "key").write_text("secret\n")
    with LocalTriton(project / "model_repository", "two_versions", server_args=flags) as triton:
        url = {"TRITON_URL": triton.grpc_url}
        printed = succeed(command(project, "shift", "NAME=one", "VERSION=2", **url))
        assert "still serves the former version" in printed
        assert answered(project, triton.http_url) == 1
        key = {"ADMIN_KEY_FILE": str(tmp_path / "key")}
        succeed(command(project, "rollback", **url))
        printed = succeed(command(project, "shift", "NAME=one", "VERSION=2", **url, **key))
        assert "serves it" in printed
        assert answered(project, triton.http_url) == 2


@pytest.mark.slow
def test_a_server_that_does_not_say_what_it_serves(second: Project, tmp_path: Path) -> None:
    project = copied(second, tmp_path)
    succeed(command(project, "repository"))
    flags = (*EXPLICIT["server_args"], "--grpc-restricted-protocol=model-config:admin-key=secret")
    with LocalTriton(project / "model_repository", "two_versions", server_args=flags) as triton:
        url = {"TRITON_URL": triton.grpc_url}
        printed = succeed(command(project, "shift", "NAME=one", "VERSION=2", **url))
        assert "has loaded it, and does not say which versions it serves" in printed
        assert answered(project, triton.http_url) == 2


@pytest.mark.slow
def test_a_server_with_a_response_cache_is_started_anew(git_template: Path, tmp_path: Path) -> None:
    project = published(git_template, tmp_path, ensemble={"cache": True})
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    with serve(project, "CONTROL=explicit") as server:
        url = {"TRITON_URL": server.urls["grpc"]}
        printed = succeed(command(project, "shift", "NAME=one", "VERSION=2", "ROLL=true", **url))
        assert "two_versions: has a cache, which would keep old answers" in printed
        assert "ROLL succeeded" in printed
        assert answered(project, server.urls["http"]) == 1
