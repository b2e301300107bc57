"""`make sizes`: what the model files need of a pod's memory and disk, and a patch where deploy/ gives less."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import Generate, Project, step, succeed


@pytest.fixture
def project(generate: Generate, tmp_path: Path) -> Project:
    """Return a project for a cluster whose classifier has 6 GiB, in a file without blocks."""
    made = generate.complete(extras=["kubernetes", "kserve"])
    own = Project(Path(shutil.copytree(made.path, tmp_path / "p")))
    with (own / "model_repository/classify/1/model.onnx").open("r+b") as file:
        file.truncate(6 << 30)
    return own


def sizes(project: Project, *options: str) -> str:
    return succeed(project.run(sys.executable, "-m", "triton_ensemble", "sizes", *options))


@pytest.mark.slow
def test_the_patch_that_is_printed_ends_the_warning(project: Project) -> None:
    printed = sizes(project)
    assert "model files: 6145 MiB in 4 models" in printed
    short = sizes(project, "--short").splitlines()
    assert short == [
        "deploy/kubernetes: gives its pods too few resources: memory 4160 MiB of 7233; run: make sizes",
        "deploy/kserve: gives its pods too few resources: memory 4160 MiB of 7233, "
        "ephemeral-storage 5120 MiB of 8193; run: make sizes",
    ]
    _, *parts = printed.split("\ndeploy/")
    for part in parts:
        folder = part.partition(",")[0]
        file = project / "deploy" / folder / "kustomization.yaml"
        patch = part.partition("kustomization.yaml:\n")[2]
        file.write_text(f"{file.read_text()}\npatches:\n{patch}")
        assert yaml.safe_load(file.read_text())["patches"]
    assert sizes(project, "--short") == ""


def test_a_model_that_vllm_fetches_is_named(generate: Generate, tmp_path: Path) -> None:
    llm = step("llm", ["A"], ["B"], "vllm", decoupled=True)
    made = generate(
        tensors={"A": "STRING[1]", "B": "STRING[-1]"}, steps=[llm], gpu_count=1, max_batch_size=0
    )
    own = Project(Path(shutil.copytree(made.path, tmp_path / "p")))
    file = own / "model_repository/llm/1/model.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"model": "org/chat-8b"}')
    line = (
        "llm: vLLM fetches org/chat-8b when Triton starts; add its size to what is needed below\n"
    )
    assert line in sizes(own)
    file.write_text('{"model": "/models/llm/1/chat"}')
    assert "fetches" not in sizes(own)


def test_a_reader_that_leaves_gets_no_traceback(project: Project) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "triton_ensemble", "sizes"]
    process = subprocess.run(
        command, cwd=project.path, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, "")


def test_a_bucket_is_copied_to_tmp(project: Project) -> None:
    file = project / "deploy/kubernetes/kustomization.yaml"
    file.write_text(f"{file.read_text()}\ncomponents: [components/s3]\n")
    [line, _] = sizes(project, "--short").splitlines()
    assert "ephemeral-storage 5120 MiB of 8193, /tmp 4096 MiB of 7169" in line
