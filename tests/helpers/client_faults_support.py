"""Shared by tests: a project's client where the server goes away, is started anew, or is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from client_support import package
from step_code import step_code
from support import Generate, Project, step

ONE = {
    "project_name": "one",
    "extras": ["shared-memory"],
    "max_batch_size": 4,
    "tensors": {"A": "FP32[-1]", "B": "FP32[-1]"},
    "steps": [step("same", ["A"], ["B"])],
}
SAME = step_code("""
def __call__(self, A):
    return {"B": A}
""")
ROW = np.zeros((1, 40_000), np.float32)


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    made = generate(**ONE)
    (made / "steps/same.py").write_text(SAME)
    return made


@pytest.fixture(scope="module")
def module(project: Project) -> Iterator[ModuleType]:
    with package(project) as imported:
        yield imported


def regions() -> set[str]:
    """Return the clients' shared memory that this process maps. /dev/shm has that of others too."""
    return set(re.findall(r"/dev/shm/client-.*", Path("/proc/self/maps").read_text()))
