"""The messages of `make serve` while it serves, and `make serve RELOAD=1`: edit, and the next request has it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from support import SOURCES, Generate, Project, variables

ADDRESSES = ("HTTP_PORT=0", "GRPC_PORT=0", "METRICS_PORT=0")


class Serving(NamedTuple):
    """A `make serve` that runs, and the file that it prints to."""

    project: Project
    output: Path
    process: subprocess.Popen[bytes]

    def says(self, pattern: str, after: int = 0) -> re.Match[str]:
        """Wait for what is printed, from a position on. Return the match."""
        end = time.monotonic() + 60
        while not (
            match := re.compile(pattern, re.MULTILINE).search(self.output.read_text(), after)
        ):
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < end, f"{pattern!r} is not in\n{self.output.read_text()}"
            time.sleep(0.05)
        return match

    def infer(self) -> str:
        command = (sys.executable, "-m", "triton_ensemble", "infer")
        done = self.project.run(*command, TRITON_URL=self.says(r"^http://\S+")[0])
        return done.stdout + done.stderr

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.project / name).read_text()
        assert old in text
        (self.project / name).write_text(text.replace(old, new))


@contextmanager
def serving(project: Project, output: Path, *options: str) -> Iterator[Serving]:
    with output.open("wb") as file:
        process = subprocess.Popen(
            project.make_command("serve", *ADDRESSES, *options),
            cwd=project.path,
            env=variables(PYTHONPATH=f"src:{SOURCES}"),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        serving = Serving(project, output, process)
        serving.says("/metrics$")
        yield serving
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return generate()


@pytest.fixture(scope="module")
def reloading(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(project, tmp_path_factory.mktemp("serve") / "output", "RELOAD=1") as served:
        yield served


Change = Callable[[str, str, str], int]


@pytest.fixture
def change(reloading: Serving) -> Iterator[Change]:
    """Return what edits a file and where the output then stood. The project is as before when the test ends."""
    before: dict[str, str] = {}

    def edit(name: str, old: str, new: str) -> int:
        before.setdefault(name, (reloading.project / name).read_text())
        printed = len(reloading.output.read_text())
        reloading.edit(name, old, new)
        return printed

    yield edit
    for name, text in before.items():
        printed = len(reloading.output.read_text())
        (reloading.project / name).write_text(text)
        # A module that steps share is in each model, of which label is the last.
        reloading.says("label: reloaded" if name == "steps/labels.py" else ": reloaded", printed)


def kill(serving: Serving, model: str, after: int = 0) -> None:
    """Kill the process of a model's first instance, of the Triton whose log is printed after a position."""
    log = Path(serving.says(r"log: (\S+)$", after)[1])
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().decode()
        except OSError:
            continue
        if str(log.parent) in command and f"{model}_0_0" in command:
            os.kill(int(file.parent.name), signal.SIGKILL)


def test_a_step_that_changes_answers_otherwise(reloading: Serving, change: Change) -> None:
    printed = change("steps/labels.py", '[b"0"', '[b"zero"')
    change("steps/labels.py", 'b"7"', 'b"seven"')
    assert reloading.says(r"(.*) changed$", printed)[1] == "steps/labels.py"
    assert re.fullmatch(r"label: reloaded in \d.\d s", reloading.says("^label: .*$", printed)[0])
    assert "LABEL: seven" in reloading.infer()


def test_what_a_step_logs_and_prints_comes_at_once(reloading: Serving, change: Change) -> None:
    lines = 'logging.getLogger("label").info("12 rows"); print("é")'
    body = "        best = "
    printed = change("steps/label.py", body, f"        import logging; {lines}\n{body}")
    reloading.says("^label: reloaded", printed)
    assert "LABEL: 7" in reloading.infer()
    reloading.says("^12 rows$", printed)
    reloading.says("^é$", printed)


def test_an_error_has_the_path_of_the_owners_file(reloading: Serving, change: Change) -> None:
    body = "        best = "
    printed = change("steps/label.py", body, f"        LOGITS.nosuch\n{body}")
    reloading.says("^label: reloaded", printed)
    assert "step label failed" in reloading.infer()
    lines = r'^step label failed\nTraceback .*\n  File "steps/label.py", line \d+, in __call__\n'
    reloading.says(lines, printed)
    reloading.says("^AttributeError: .*nosuch", printed)
    assert "triton_adapter" not in reloading.output.read_text()


def test_a_step_that_does_not_load_leaves_the_one_before(
    reloading: Serving, change: Change
) -> None:
    printed = change("steps/label.py", "        best = ", "        best = = ")
    said = reloading.says("^label: (.*)$", printed)[1]
    line = r"can't be loaded, so the former version stays: SyntaxError: invalid syntax \(steps/label.py, line \d+\)"
    assert re.fullmatch(line, said)
    assert "LABEL: 7" in reloading.infer()


@pytest.mark.slow
def test_a_model_file_is_made_anew(reloading: Serving, change: Change) -> None:
    printed = change("models/classify.py", "OPSET = 17", "OPSET = 16")
    reloading.says("^classify: reloaded", printed)
    assert "LABEL: 7" in reloading.infer()


@pytest.mark.slow
def test_a_model_script_that_fails_says_so_and_may_be_mended(
    reloading: Serving, change: Change
) -> None:
    printed = change("models/classify.py", "OPSET = 17", "OPSET = nosuch")
    reloading.says("^models/classify.py: failed", printed)
    assert "LABEL: 7" in reloading.infer()


@pytest.mark.slow
def test_a_dead_process_is_loaded_anew(reloading: Serving) -> None:
    printed = len(reloading.output.read_text())
    kill(reloading, "label")
    said = reloading.says("^label: its process .*$", printed)[0]
    assert said == (
        "label: its process has died (killed by SIGKILL); it is reloaded; to see why: make step NAME=label"
    )
    reloading.says("^label: reloaded", printed)
    assert "LABEL: 7" in reloading.infer()


@pytest.mark.slow
def test_without_reload_a_dead_process_has_triton_started_anew(
    project: Project, tmp_path: Path
) -> None:
    with serving(project, tmp_path / "output") as served:
        urls = served.says(r"^http://\S+\ngrpc://\S+\n")[0]
        assert "LABEL: 7" in served.infer()
        kill(served, "preprocess")
        died = served.says("^preprocess: its process .*$")
        assert died[0] == (
            "preprocess: its process has died (killed by SIGKILL); Triton restarts; "
            "to see why: make step NAME=preprocess"
        )
        ready = served.says(r"^image_classification is ready; .*\n", died.end())
        assert served.says(r"^http://\S+\ngrpc://\S+\n", ready.end())[0] == urls
        assert "LABEL: 7" in served.infer()


@pytest.mark.slow
def test_a_process_that_dies_at_each_start_ends_it(project: Project, tmp_path: Path) -> None:
    with serving(project, tmp_path / "output") as served:
        end = 0
        for _ in range(3):
            ready = served.says("^image_classification is ready; .*$", end)
            kill(served, "preprocess", ready.start())
            end = ready.end()
        line = "^a process died within 10 s of 3 starts in a row; correct the step, then run: make serve$"
        served.says(line, end)


@pytest.mark.slow
def test_a_saved_pipeline_is_applied(generate: Generate, tmp_path: Path) -> None:
    """One that is half written is a line, and Triton goes on with what it has."""
    with serving(generate(), tmp_path / "output", "RELOAD=1") as served:
        before = served.infer()
        served.edit("pipeline.yml", "max_batch_size: 8", "max_batch_size: [")
        refused = served.says(r"^pipeline\.yml:\d+: .*").end()
        url = served.says(r"^http://\S+")[0]
        with urlopen(f"{url}/v2/health/ready") as answer:
            assert answer.status == 200
        served.edit("pipeline.yml", "max_batch_size: [", "max_batch_size: 16")
        applied = served.says(r"pipeline\.yml is applied", refused).end()
        anew = served.says(r"^Triton restarts$", applied).end()
        served.says(r"/metrics$", anew)
        assert served.infer() == before
    config = served.project / "model_repository/classify/config.pbtxt"
    assert "max_batch_size: 16" in config.read_text()
