"""GPUs: where instances are placed, in the container and on this machine, which has none, or says that it has some."""

from __future__ import annotations

import json
import os
import re
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from zipfile import ZipFile

import pytest
import yaml
from docs_blocks import read_blocks
from fake_triton import importable_backends
from gatekeeper import Gatekeeper
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]
from support import ROOT, Generate, Project, step, succeed
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.serve.local.environment import BACKENDS
from triton_ensemble.serve.local.local_repository import LocalRepository, gpu_count
from triton_ensemble.serve.local.log import read_backend_notes

ON_CPU = "GPU instances run on the CPU here"
Smi = Callable[[str], None]


def config_of(path: Path) -> Any:
    return text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Return what makes `nvidia-smi --list-gpus` print a text."""

    def write(listed: str) -> None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{listed}'\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return write


# Which GPUs there are.

TWO = "GPU 0: NVIDIA A100 (UUID: GPU-a)\nGPU 1: NVIDIA A100 (UUID: GPU-b)"
SLICES = "GPU 0: NVIDIA A100 (UUID: GPU-a)\n  MIG 3g.20gb     Device  0: (UUID: MIG-a)\n  MIG 3g.20gb     Device  1: (UUID: MIG-b)"


@pytest.mark.parametrize(
    ("listed", "visible", "count"),
    [
        (TWO, None, 2),
        (TWO, "1", 1),
        (TWO, "", 0),
        (TWO, "-1", 0),
        ("", "0", 0),
        (SLICES, None, 1),
        (SLICES, "MIG-a,MIG-b", 1),
        ("No devices were found", None, 0),
    ],
)
def test_gpus_of_this_machine(
    smi: Smi, monkeypatch: pytest.MonkeyPatch, listed: str, visible: str | None, count: int
) -> None:
    smi(listed)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_count() == count


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu_count() == 0


# What the local Triton is told of them.


def fewer(here: int, wanted: int) -> str:
    theirs = "it serves" if here == 1 else "they serve"
    return f"this machine has {here} of {wanted} GPUs; {theirs} what is for the others too"


@pytest.mark.parametrize(
    ("group", "gpus", "note", "kind", "listed"),
    [
        ("kind: KIND_GPU", 0, f"a: {ON_CPU}", "KIND_CPU", []),
        ("kind: KIND_GPU", 1, None, "KIND_GPU", []),
        ("kind: KIND_GPU gpus: [0, 1]", 0, f"a: {ON_CPU}", "KIND_CPU", []),
        ("kind: KIND_GPU gpus: [0, 1]", 1, fewer(1, 2), "KIND_GPU", [0]),
        ("kind: KIND_GPU gpus: [0, 1]", 2, None, "KIND_GPU", [0, 1]),
        ("kind: KIND_GPU gpus: [1, 3]", 2, fewer(2, 4), "KIND_GPU", [1]),
        ("kind: KIND_GPU gpus: [2, 3]", 2, fewer(2, 4), "KIND_GPU", [0, 1]),
        ("gpus: 0", 0, f"a: {ON_CPU}", "KIND_CPU", []),
        ("gpus: 0", 1, None, "KIND_AUTO", [0]),
        ("kind: KIND_MODEL", 0, None, "KIND_MODEL", []),
        ("kind: KIND_AUTO", 0, None, "KIND_AUTO", []),
    ],
)
def test_instances_where_there_are_gpus(
    tmp_path: Path, smi: Smi, group: str, gpus: int, note: str | None, kind: str, listed: list[int]
) -> None:
    smi("\n".join(f"GPU {number}: A" for number in range(gpus)))
    (tmp_path / "models/a/1").mkdir(parents=True)
    config = f'backend: "python" instance_group {{ {group} count: 1 }}'
    (tmp_path / "models/a/config.pbtxt").write_text(config)
    local = LocalRepository(tmp_path / "models", tmp_path / "links", ["python"])
    assert local.notes == ([note] if note else [])
    [instances] = config_of(tmp_path / "links/a/config.pbtxt").instance_group
    assert (instances.kind, list(instances.gpus)) == (instances.Kind.Value(kind), listed)
    assert (tmp_path / "links/a/1").exists()


@pytest.mark.parametrize(("device", "backend"), [("cpu", "pytorch"), ("cuda", "torch_aoti")])
def test_a_package_for_a_gpu_has_a_stand_in(
    tmp_path: Path, smi: Smi, device: str, backend: str
) -> None:
    smi("")
    (tmp_path / "models/a/1").mkdir(parents=True)
    (tmp_path / "models/a/config.pbtxt").write_text('platform: "torch_aoti"')
    with ZipFile(tmp_path / "models/a/1/model.pt2", "w") as archive:
        archive.writestr("m.wrapper_metadata.json", json.dumps({"AOTI_DEVICE_KEY": device}))
    LocalRepository(tmp_path / "models", tmp_path / "links", ["pytorch"])
    assert config_of(tmp_path / "links/a/config.pbtxt").backend == backend


@pytest.mark.slow
def test_serve_says_that_this_machine_has_fewer_gpus(generate: Generate, smi: Smi) -> None:
    """A line says so, also where no step names a GPU. Its models go where Triton finds room: here, the CPU."""
    smi("GPU 0: A")
    printed = succeed(generate(gpu_count=2).make("infer", HTTP_PORT="1"))
    assert printed.count(fewer(1, 2)) == 1
    assert "LABEL: 7" in printed


# What the local backends do with a GPU that their packages can't use.


@pytest.fixture
def log() -> Iterator[Mock]:
    """Yield Triton's log, for a backend outside of Triton."""
    utils = SimpleNamespace(Logger=Mock())
    with importable_backends(utils):
        yield utils.Logger.log_warn


def loaded(folder: Path, backend: str, kind: str) -> Any:
    """Return an instance of a model, as Triton makes it on a device of this kind."""
    model = runpy.run_path(str(BACKENDS / backend / "model.py"))
    instance = model["TritonPythonModel"]()
    config = json_format.MessageToJson(
        config_of(folder / "config.pbtxt"),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
    instance.initialize(
        {
            "model_config": config,
            "model_instance_kind": kind,
            "model_instance_device_id": "1",
            "model_repository": str(folder),
            "model_version": "1",
        }
    )
    return instance


def warn_without_cuda(model: str, package: str) -> str:
    return (
        f"{model}: this {package} has no CUDA, so its GPU instances run on the CPU; see README.md"
    )


@pytest.mark.slow
def test_an_onnxruntime_without_cuda_says_so(
    default_project: Project, log: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was built without it, or finds no driver. On the CPU it says nothing."""
    ort = pytest.importorskip("onnxruntime")
    succeed(default_project.make("repository"))
    folder = default_project / "model_repository/classify"
    loaded(folder, "onnxruntime", "CPU")
    log.assert_not_called()
    loaded(folder, "onnxruntime", "GPU")
    log.assert_called_once_with(warn_without_cuda("classify", "onnxruntime"))
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: providers)
    asked = loaded(folder, "onnxruntime", "GPU")._providers()
    assert asked == [("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"]
    assert log.call_count == 2


TORCHSCRIPT = """
name: "same"
backend: "pytorch"
input { name: "x" data_type: TYPE_FP32 dims: [2] }
output { name: "y" data_type: TYPE_FP32 dims: [2] }
"""


@pytest.mark.slow
def test_a_torch_without_cuda_says_so(tmp_path: Path, log: Mock) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this torch has CUDA")
    (tmp_path / "same/1").mkdir(parents=True)
    (tmp_path / "same/config.pbtxt").write_text(TORCHSCRIPT)
    torch.jit.script(torch.nn.Identity()).save(tmp_path / "same/1/model.pt")
    assert loaded(tmp_path / "same", "pytorch", "GPU").device.type == "cpu"
    log.assert_called_once_with(warn_without_cuda("same", "torch"))


@pytest.mark.usefixtures("log")
def test_a_step_is_told_its_gpu() -> None:
    from triton_ensemble.adapter.context import device

    assert device({"model_instance_kind": "GPU", "model_instance_device_id": "1"}) == "cuda:1"
    assert device({"model_instance_kind": "CPU", "model_instance_device_id": "0"}) == "cpu"


def test_what_a_backend_says_of_cuda_is_printed_at_the_start() -> None:
    text = warn_without_cuda("same", "torch")
    assert read_backend_notes(f'W1121 09:47:43.1 4242 model.py:57] "{text}"\n' * 2) == [text]


# Where instances go: https://docs.nvidia.com/deeplearning/triton-inference-server, Instance Groups.


def placed(config: Any, gpu_count: int) -> Counter[str]:
    """Count the instances of a model by device. `count` is of each GPU. A group without `gpus` is for all of them."""
    instances: Counter[str] = Counter()
    for group in config.instance_group:
        kind = group.Kind.Name(group.kind)
        assert kind in ("KIND_GPU", "KIND_AUTO") or not group.gpus
        assert set(group.gpus) <= set(range(gpu_count))
        on_gpus = kind == "KIND_GPU" or (kind == "KIND_AUTO" and gpu_count > 0)
        gpus = list(group.gpus) or range(gpu_count)
        for device in [f"gpu {gpu}" for gpu in gpus] if on_gpus else [kind[5:].lower()]:
            instances[device] += max(group.count, 1)
    return instances


PLACED: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "everywhere": ({}, {"gpu 0": 1, "gpu 1": 1, "gpu 2": 1}),
    "two of each": ({"instances": 2, "device": "gpu"}, {"gpu 0": 2, "gpu 1": 2, "gpu 2": 2}),
    "pinned": ({"gpus": [1], "device": "gpu"}, {"gpu 1": 1}),
    "neighbours": ({"gpus": [0, 2], "instances": 3}, {"gpu 0": 3, "gpu 2": 3}),
    "on the CPU": ({"device": "cpu", "instances": 2}, {"cpu": 2}),
    "as it likes": ({"device": "model"}, {"model": 1}),
    "mixed": (
        {
            "instances": [
                {"device": "gpu", "gpus": [0], "instances": 2},
                {"device": "gpu", "gpus": [1, 2]},
                {"device": "cpu", "instances": 4},
            ]
        },
        {"gpu 0": 2, "gpu 1": 1, "gpu 2": 1, "cpu": 4},
    ),
}


def test_each_step_is_placed_as_it_says(generate: Generate) -> None:
    """One pipeline has all: a fan from A, one tensor a step."""
    outputs = {f"OUT{i}": "FP32[4]" for i in range(len(PLACED))}
    steps = [
        step(f"s{i}", {"x": "A"}, {"y": f"OUT{i}"}, "onnxruntime", **fields)
        for i, (fields, _) in enumerate(PLACED.values())
    ]
    project = generate(gpu_count=3, tensors={"A": "FP32[4]", **outputs}, steps=steps)
    for i, (name, (_, want)) in enumerate(PLACED.items()):
        config = config_of(project / f"model_repository/s{i}/config.pbtxt")
        assert placed(config, 3) == want, name


def test_the_example_of_the_page_is_placed_as_it_says(generate: Generate) -> None:
    page = (ROOT / "docs/gpu.md").read_text()
    example, *_ = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    project = generate(**yaml.safe_load(example))
    devices = {
        name: placed(config_of(project / f"model_repository/{name}/config.pbtxt"), 3)
        for name in ("detect", "describe")
    }
    assert devices == {"detect": {"gpu 0": 2, "gpu 1": 2}, "describe": {"gpu 2": 1}}


def test_the_lines_of_the_page_are_those_that_are_printed(template: Path) -> None:
    page = (ROOT / "docs/gpu.md").read_text()
    [refused, *_] = read_blocks(page, "text")
    steps = [step("classify", {"x": "A"}, {"y": "B"}, "onnxruntime", gpus=[2])]
    tensors = {"A": "FP32[4]", "B": "FP32[4]"}
    answers = {"gpu_count": 2, "max_batch_size": 8, "tensors": tensors, "steps": steps}
    assert Gatekeeper(template).line(answers) == refused.strip()
    assert warn_without_cuda("classify", "onnxruntime") in page.splitlines()
