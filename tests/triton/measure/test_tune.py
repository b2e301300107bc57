"""`make tune`: its edits of pipeline.yml, the configs it tries, and all of it on a real Triton."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest
import yaml
from client_support import serving
from step_code import step_code
from support import (
    SOURCES,
    UNUSUAL,
    Generate,
    Project,
    serve,
    step,
    succeed,
    variables,
)
from tritonclient import grpc  # type: ignore[import-untyped]


def instances(url: str) -> int:
    """Return how many the server has of the step."""
    with grpc.InferenceServerClient(url.removeprefix("grpc://")) as client:
        return int(client.get_model_config("only").config.instance_group[0].count)


WAITS = step_code(
    """
def __call__(self, A: NDArray[np.float32]) -> OnlyOutputs:
    time.sleep(0.02 * len(A))
    return {"B": A}
""",
    "import time",
    "import numpy as np",
    "from numpy.typing import NDArray",
    "from step_types import OnlyOutputs",
)


@pytest.fixture(scope="module")
def waiting(generate: Generate) -> Project:
    """Return a project with a step of 20 ms a row, which no batch makes faster: a second instance doubles the throughput."""
    project = generate(
        project_name="waits",
        tensors={"A": "FP32[1]", "B": "FP32[1]"},
        steps=[step("only", ["A"], ["B"], batching=False)],
    )
    (project / "steps/only.py").write_text(WAITS)
    return project


def tune(project: Project, seconds: int, **more: str) -> str:
    return succeed(project.make("tune", f"TIME={seconds}", "CONCURRENCY=8", **more))


@pytest.mark.slow
def test_settings_are_found_and_written(waiting: Project) -> None:
    before = (waiting / "pipeline.yml").read_text()
    printed = tune(waiting, 90)
    after = (waiting / "pipeline.yml").read_text()
    (waiting / "pipeline.yml").write_text(before)
    assert re.search(r"^only.instances: 1 -> 2$", printed, re.MULTILINE)
    assert re.search(r" only.instances: 2.*  <- best$", printed, re.MULTILINE)
    assert "The next command applies it." in printed
    assert yaml.safe_load(after)["steps"][0]["instances"] == 2
    kept = [line for line in after.splitlines() if "instances: 2" not in line]
    assert [line for line in before.splitlines() if line not in kept] == []


@pytest.mark.slow
def test_settings_that_fail_a_live_test_are_not_written(waiting: Project) -> None:
    before = (waiting / "pipeline.yml").read_text()
    mine = waiting / "tests/test_live_mine.py"
    mine.write_text(
        "import os\nfrom tritonclient import grpc\n\n\ndef test_one_instance():\n"
        "    address = os.environ['TRITON_URL'].removeprefix('grpc://')\n"
        "    with grpc.InferenceServerClient(address) as client:\n"
        "        config = client.get_model_config('only').config\n"
        "        assert config.instance_group[0].count == 1\n"
        "        assert not config.HasField('dynamic_batching')\n"
    )
    printed = tune(waiting, 90)
    mine.unlink()
    assert "(refused: smoke test: FAILED tests/test_live_mine.py::test_one_instance" in printed
    assert "No other settings are better by more than noise" in printed
    assert (waiting / "pipeline.yml").read_text() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["TIME=0"], "triton-ensemble tune: error: argument --time: '0' is not a positive number"),
        (["P99=-1"], "triton-ensemble tune: error: argument --p99: '-1' is not a positive number"),
        (["TIME=1"], "Nothing was measured: TIME=1 is too short; give TIME=300"),
        (["TIME=8", "CONCURRENCY=8"], "Nothing was measured: TIME=8 is too short; give TIME=300"),
    ],
)
def test_too_little_time_is_one_line(waiting: Project, options: list[str], line: str) -> None:
    process = waiting.make("tune", *options)
    assert process.returncode
    assert process.stderr.splitlines()[:-1] == [line]  # the last is make's


def test_a_decoupled_pipeline_says_why_not(generate: Generate) -> None:
    process = generate(**UNUSUAL["decoupled"]).make("tune")
    assert process.stderr.startswith("a decoupled pipeline does not have one latency to tune for: ")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_all_as_it_was(waiting: Project, number: signal.Signals) -> None:
    """It measures a server of somebody else, which goes on."""
    before = waiting.contents()
    with serving(waiting, "--model-control-mode=explicit", "--load-model=*") as server:
        url = server.urls["grpc"]
        with subprocess.Popen(
            [sys.executable, "-m", "triton_ensemble", "tune", "--time=300", "--concurrency=8"],
            cwd=waiting.path,
            env=variables(PYTHONPATH=f"src:{SOURCES}", TRITON_URL=url),
            stderr=subprocess.PIPE,
        ) as process:
            while instances(url) == 1:
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)
            process.send_signal(number)
            assert process.communicate(timeout=30)[1] == b""
        assert process.returncode == 130
        assert instances(url) == 1
    after = waiting.contents()
    assert {name for name in before if before[name] != after[name]} == set()


@pytest.mark.slow
def test_a_server_that_takes_no_configs(waiting: Project) -> None:
    with serve(waiting) as server:
        process = waiting.make("tune", "CONCURRENCY=1", TRITON_URL=server.urls["grpc"])
    assert "start one for tuning only, with --model-control-mode=expl" in process.stderr
    assert len(process.stderr.splitlines()) == 2  # the other is make's
