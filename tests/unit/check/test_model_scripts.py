"""The findings on models/NAME.py before it runs: whether it writes the format that the backend reads."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import Generate, step

from triton_ensemble.check.pipeline.check import check_pipeline

FORMATS = {
    "onnxruntime": ("model.onnx", "ONNX"),
    "pytorch": ("model.pt", "TorchScript"),
    "openvino": ("model.xml", "OpenVINO's XML"),
}


def answers(backend: str) -> dict[str, Any]:
    """Return the answers of a pipeline of one step."""
    tensors = {"X": "FP32[4]", "Y": "FP32[4]"}
    return {"tensors": tensors, "steps": [step("m", ["X"], ["Y"], backend)]}


def said(folder: Path, backend: str, script: str) -> list[str]:
    """Return what is found where a project's step has the backend, and this script makes its file."""
    (folder / "models").mkdir()
    (folder / "models" / "m.py").write_text(script)
    path = folder / "pipeline.yml"
    path.write_text(yaml.safe_dump({"project_name": "demo", **answers(backend)}))
    found = check_pipeline(path)
    return [f"{f.file.relative_to(folder)}:{f.line}: {f.what}; {f.instead}" for f in found]


@pytest.mark.parametrize(
    ("wrote", "call"),
    [
        ("ONNX", "onnx.save(model, path)"),
        ("ONNX", "onnx.save(model, str(path))"),
        ("ONNX", "torch.onnx.export(model, (x,), f=path)"),
        ("ONNX", "onnx.save(model, path); extract_model(path, path, [], [])"),
        ("TorchScript", "torch.jit.save(model, path)"),
        ("OpenVINO's XML", "ov.save_model(model, path)"),
    ],
)
@pytest.mark.parametrize("backend", FORMATS)
def test_another_format_is_a_warning_before_it_is_written(
    backend: str, wrote: str, call: str, tmp_path: Path
) -> None:
    file, wanted = FORMATS[backend]
    line = f"models/m.py:2: build(path) writes {wrote} into {file}; write {wanted}, as backend {backend} needs"
    found = said(tmp_path, backend, f"def build(path):\n    {call}\n")
    assert found == [line] * (wrote != wanted)


@pytest.mark.parametrize("backend", FORMATS)
def test_a_stub_of_another_backend_is_noticed(
    backend: str, generate: Generate, tmp_path: Path
) -> None:
    script = (generate(project_name="demo", **answers(backend)) / "models/m.py").read_text()
    for i, other in enumerate(FORMATS):
        (folder := tmp_path / str(i)).mkdir()
        assert len(said(folder, other, script)) == (other != backend)


@pytest.mark.parametrize(
    "script",
    [
        "def build(path):\n    path.write_bytes(model)\n",
        "def build(path):\n    save(model, path)\n",
        "def build(path):\n    onnx.save(model, path); torch.jit.save(model, path)\n",
        "def build(path):\n    onnx.save(model, path); convert(path)\n",
        "def build(path):\n    onnx.save(model, 'm.onnx'); convert('m.onnx', path)\n",
        "def build(path):\n    if path.suffix == '.onnx':\n        onnx.save(model, path)\n",
        "def build(path):\n    onnx.save(model, other)\n",
        "def build():\n    onnx.save(model, path)\n",
        "def build(path): ...\ndef build(path):\n    onnx.save(model, path)\n",
        "from elsewhere import build\n",
        "def build(path:\n",
        "",
    ],
)
def test_a_script_that_may_write_any_format_is_not_found_fault_with(
    script: str, tmp_path: Path
) -> None:
    assert said(tmp_path, "pytorch", script) == []


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_stub_of_vllm_spreads_the_model_over_the_gpus(generate: Generate, gpus: int) -> None:
    project = generate(**answers("vllm"), gpu_count=gpus)
    runpy.run_path(str(project / "models/m.py"))["build"](project / "model.json")
    engine = json.loads((project / "model.json").read_text())
    assert engine.get("tensor_parallel_size", 1) == gpus
