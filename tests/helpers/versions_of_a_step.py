"""A project whose step `one` answers 1, 2 ...: an answer says which version it is of."""

from __future__ import annotations

import shutil
import subprocess
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
from step_code import step_code
from support import NOWHERE, Project, step, succeed

STEP = step_code("""
def __call__(self, B):
    return {{"C": B * 0 + {version}}}
""")
ANSWERS: dict[str, Any] = {
    "project_name": "two-versions",
    "tensors": dict.fromkeys(["A", "B", "C"], "FP32[2]"),
    "steps": [step("net", ["A"], ["B"], "onnxruntime"), step("one", ["B"], ["C"])],
}


def command(project: Project, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the project, which finds no server unless TRITON_URL names one."""
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
    """Return the files that git knows or would add."""
    listed = succeed(project.run("git", "ls-files", "-co", "--exclude-standard")).split()
    return {name: (project / name).read_bytes() for name in listed if (project / name).is_file()}


def write_step(project: Project, version: int) -> None:
    (project / "steps" / "one.py").write_text(STEP.format(version=version))


def published(template: Path, folder: Path, **answers: Any) -> Project:
    """Return a project whose step `one` has version 1 published, and 2 in the working tree."""
    copier.run_copy(str(template), folder / "p", data=ANSWERS | answers, defaults=True, quiet=True)
    project = Project(folder / "p")
    write_step(project, 1)
    project.commit()
    write_step(project, 2)
    succeed(command(project, "publish", "NAME=one", "VERSION=1", "FROM=HEAD"))
    return project


def copied(project: Project, folder: Path) -> Project:
    return Project(Path(shutil.copytree(project.path, folder / "p", symlinks=True)))


def answered(project: Project, url: str) -> int:
    """Return what the ensemble answers to zeros."""
    with project.client(url) as client:
        [answer] = client.infer({"A": np.zeros((1, 2), np.float32)}).values()
    return round(float(answer[0, 0]))


class Load:
    """Calls of the ensemble by several clients at once, until the block ends."""

    def __init__(self, project: Project, url: str) -> None:
        self.errors: list[str] = []
        self.answers: list[tuple[float, float, int]] = []  # begin, end, version
        self._project, self._url, self._ended = project, url, Event()

    def ask(self, client: Any) -> None:
        with client:
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
            # Their import is one at a time.
            made = [self._project.client(self._url) for _ in range(clients)]
            asking: list[Future[None]] = [pool.submit(self.ask, client) for client in made]
            try:
                yield
            finally:
                self._ended.set()
        for each in asking:
            each.result()

    def by_version(self) -> Counter[int]:
        return Counter(version for _, _, version in self.answers)
