"""Shared by tests: the local Triton, for real: what it serves, what it says when it can't, what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_ensemble.serve.local.local_triton import LocalTriton

TENSORS = """
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
"""
IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN") for request in requests]
        tensors = [pb_utils.Tensor("OUT", tensor.as_numpy()) for tensor in inputs]
        return [pb_utils.InferenceResponse([tensor]) for tensor in tensors]
"""


def write_model(repository: Path, name: str, config: str, **files: str) -> Path:
    """Write a model with one version. Return its version folder."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    for file, text in files.items():
        (version / f"{file}.py").write_text(text)
    return version


def write_python(repository: Path, name: str, code: str = IDENTITY, tensors: str = TENSORS) -> None:
    write_model(repository, name, f'backend: "python"\n{tensors}', model=code)


def write_ensemble(repository: Path, name: str, *models: str) -> None:
    """Write a chain of models that each read IN and write OUT."""
    names = ["IN", *(f"T{i}" for i in range(1, len(models))), "OUT"]
    steps = "".join(
        f'step {{ model_name: "{model}" model_version: -1 '
        f'input_map {{ key: "IN" value: "{names[i]}" }} '
        f'output_map {{ key: "OUT" value: "{names[i + 1]}" }} }}\n'
        for i, model in enumerate(models)
    )
    config = f'platform: "ensemble"\n{TENSORS}ensemble_scheduling {{\n{steps}}}\n'
    (write_model(repository, name, config) / "README").write_text("Triton wants a version folder.")


@pytest.fixture(autouse=True)
def logs_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the logs of failed starts out of /tmp."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


@pytest.fixture
def identity(repository: Path) -> Path:
    write_python(repository, "a")
    return repository


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTriton]:
    """Yield one server with a chain of two Python models, for tests that only ask it something."""
    repository = tmp_path_factory.mktemp("served")
    write_python(repository, "a")
    write_python(repository, "b")
    write_ensemble(repository, "chain", "a", "b")
    with LocalTriton(repository, "chain") as triton:
        yield triton
