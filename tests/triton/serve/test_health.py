"""The health check of a container, on a real Triton: with Python alone, from a copy of the files that it names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_support import BUSY, STREAM, TYPES, Served, serving
from support import PIPELINES, UNUSUAL, Generate, Project, serve, step


def health(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the line of the check, run by the wheel alone, without site-packages."""
    [wheel] = (folder / "vendor").glob("*.whl")
    command = (sys.executable, "-S", "-m", "triton_ensemble.serve.container.health", *arguments)
    alone = {"PYTHONPATH": str(wheel), "PATH": os.environ["PATH"]}
    process = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True)
    assert process.stderr == ""
    assert process.stdout.count("\n") == 1
    return process.returncode, process.stdout.strip()


def copied(project: Project, folder: Path) -> Path:
    """Copy what a container needs of a project for its health check."""
    shutil.copytree(project / "vendor", folder / "vendor")
    if (project / "samples").exists():
        shutil.copytree(project / "samples", folder / "samples")
    return folder


@pytest.fixture(scope="module")
def digits(default_project: Project) -> Iterator[Served]:
    with serving(default_project) as server:
        yield server


def test_it_answers(digits: Served, tmp_path: Path) -> None:
    folder = copied(digits.project, tmp_path)
    assert health(folder, "--url", digits.urls["http"]) == (0, "image_classification answers")


def test_a_server_that_answers_others_is_not_asked(digits: Served, tmp_path: Path) -> None:
    """Its own request is not an answer to others."""
    folder = copied(digits.project, tmp_path)
    watched = ("--metrics", digits.triton.metrics_url, "--since", str(tmp_path / "since"))
    check = ("--url", digits.urls["http"], *watched)
    asked = (0, "image_classification answers")
    assert [health(folder, *check) for _ in range(2)] == [asked, asked]
    image = np.array([[(folder / "samples/digit-7.png").read_bytes()]], object)
    digits.call("http", "image_classification", IMAGE=image)
    assert health(folder, *check) == (0, "image_classification answers others")
    assert health(folder, *check) == asked


def test_it_sends_the_sample_for_probes(digits: Served, tmp_path: Path) -> None:
    folder = copied(digits.project, tmp_path)
    (folder / "samples/probe.json").write_text('{"inputs": {"IMAGE": [["no image"]]}}')
    assert "IMAGE, row 0: its 8 bytes" in health(folder, "--url", digits.urls["http"])[1]


@pytest.mark.slow
def test_it_sees_what_the_server_does_not(default_project: Project, tmp_path: Path) -> None:
    """A model's Python process has died."""
    folder = copied(default_project, tmp_path)
    with serving(default_project) as server:
        commands = {
            int(path.parent.name): command(path) for path in Path("/proc").glob("[0-9]*/cmdline")
        }
        own = server.triton._id
        [stub] = [n for n, line in commands.items() if "stub" in line and own in line and "/label/" in line]  # fmt: skip
        os.kill(stub, signal.SIGKILL)
        with server.module.Client(server.urls["http"]) as client:
            assert client.ready()
        code, line = health(folder, "--url", server.urls["http"])
    assert code == 1
    assert "does not answer: status 500" in line
    assert "Stub process 'label_0_0' is not healthy." in line


def command(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended meanwhile
        return ""


@pytest.mark.parametrize("given", ["http", "grpc", "nowhere"])
def test_it_says_why_not(digits: Served, tmp_path: Path, given: str) -> None:
    """The sample is wrong, what answers speaks no HTTP, or none answers at the port."""
    folder = copied(digits.project, tmp_path)
    urls = {**digits.urls, "nowhere": "http://127.0.0.1:1"}
    if given == "http":
        (folder / "samples/a.json").write_text('{"inputs": {"IMAGE": [["no image"]]}}')
    code, line = health(folder, "--url", urls[given].replace("grpc:", "http:"))
    assert code == 1
    assert {"http": "IMAGE, row 0: its 8 bytes", "grpc": "does not answer HTTP; is that the gRPC port?", "nowhere": "refused"}[given] in line  # fmt: skip


BROKEN = {
    "[": "a.json: is not a sample request: Expecting value: line 1",
    '{"IMAGE": []}': 'a.json: is not a sample request: it has no "inputs"; write {"inputs": {NAME: [...]}}',
    '{"inputs": {"IMAGE": [[{"fil": "cat.jpg"}]]}}': "a.json: is not a sample request: IMAGE: it has no 'file'",
    '{"inputs": {"IMAGE": [[{"file": "cat.jpg"}]]}}': "a.json: is not a sample request: IMAGE: [Errno 2]",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_sample_that_is_none_is_named(
    default_project: Project, tmp_path: Path, text: str
) -> None:
    """The server is not named, as it is not asked."""
    folder = copied(default_project, tmp_path)
    (folder / "samples/a.json").write_text(text)
    code, line = health(folder, "--url", "http://127.0.0.1:1")
    assert code == 1
    assert BROKEN[text] in line


@pytest.mark.parametrize("url", ["localhost:8000", "grpc://localhost:8001"])
def test_an_address_of_no_http_is_named(default_project: Project, tmp_path: Path, url: str) -> None:
    code, line = health(copied(default_project, tmp_path), "--url", url)
    assert (code, line) == (1, f"--url {url} is not an HTTP address; write http://host:port")


@pytest.mark.slow
def test_a_header_opens_a_restricted_api(default_project: Project, tmp_path: Path) -> None:
    folder = copied(default_project, tmp_path)
    with serving(default_project, "--http-restricted-api=inference:x-key=secret") as server:
        url = ("--url", server.urls["http"])
        assert health(folder, *url, "--header", "x-key=secret")[0] == 0
        assert "status 403" in health(folder, *url)[1]


SLOW = BUSY.replace("0.3", "0.7")  # twice as long as the check waits


@pytest.mark.slow
def test_a_busy_server_is_able_to_answer(generate: Generate, tmp_path: Path) -> None:
    """One that answers nobody is not, by the metrics of the last check too, where `--since` keeps them."""
    project = generate(
        project_name="slow",
        tensors={"A": "FP32[4]", "B": "FP32[4]"},
        steps=[step("wait", ["A"], ["B"], batching=False)],
    )
    (project / "steps/wait.py").write_text(SLOW)
    folder = copied(project, tmp_path)
    with serving(project) as server, ThreadPoolExecutor(3) as pool:
        metrics = ("--metrics", server.triton.metrics_url, "--since", str(tmp_path / "since"))
        check = ("--url", server.urls["http"], "--timeout", "0.3")
        assert health(folder, *check, *metrics) == (1, "slow does not answer: not in 0.3 s")
        row = np.zeros((1, 4), np.float32)
        others = [pool.submit(server.call, "http", "slow", A=row) for _ in range(3)]
        assert all(other.result() for other in others)
        busy = pool.submit(server.call, "http", "slow", A=row)
        assert health(folder, *check, *metrics) == (0, "slow answers others")
        assert health(folder, *check)[0] == 1
        assert busy.result()


@pytest.mark.slow
def test_a_request_of_many_megabytes(generate: Generate, tmp_path: Path) -> None:
    """Triton's HTTP server parses some 5 MB of a form and dies."""
    project = generate(
        project_name="large",
        tensors={"A": "FP32[3, 1440, 1200]", "B": "FP32[4]"},
        steps=[step("shrink", ["A"], ["B"])],
    )
    with serve(project) as server:
        assert health(copied(project, tmp_path), "--url", server.urls["http"])[0] == 0


INTERFACE_VARIES: dict[str, Any] = {
    "project_name": "varies",
    "tensors": {"A": "FP32[-1, 4]", "C": "FP32[1]"},
    "inputs": {"A": None},
    "steps": [
        {
            "name": "net",
            "backend": "onnxruntime",
            "inputs": {"x": {"tensor": "A", "dims": [3, 4]}},
            "outputs": {"y": "C"},
        }
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "answers",
    [
        TYPES,
        STREAM,
        UNUSUAL["sequence"],
        UNUSUAL["decoupled"],
        UNUSUAL["optional input first"],
        PIPELINES["awkward names"],
        INTERFACE_VARIES,
    ],
    ids=lambda answers: answers["project_name"],
)
def test_it_sends_zeros_where_there_is_no_sample(
    generate: Generate, tmp_path: Path, answers: dict[str, Any]
) -> None:
    project = generate(**answers)
    with serve(project) as server:
        assert health(copied(project, tmp_path), "--url", server.urls["http"])[0] == 0
