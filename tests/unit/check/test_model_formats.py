"""The findings on model files by their bytes: another format than the backend's, a part of a file, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hand_made import onnx_model
from model_bytes import SMALLEST, zipped

from triton_ensemble.check.examples import A, write
from triton_ensemble.check.rules.engine import check

ONNX, TORCH, *_ = SMALLEST.values()
BACKENDS = dict(zip(SMALLEST, ("onnxruntime", "pytorch", "openvino", "tensorrt"), strict=True))
SAVED = zipped("m/data.pkl", "m/data/0", "m/version")  # by torch.save
DOCUMENT = b'<?xml version="1.0"?>\n<!-- a -->\n<net name="m">\n<layers/></net>\n'
COMPILE = "write it by torch._inductor.aoti_compile_and_package(torch.export.export(model, inputs))"
AGAIN = "make it, or copy it, again"


def said(folder: Path, file: str, content: bytes | None = None, more: str = "") -> list[str]:
    """Return what the rule finds of a model with this file, whose backend is that of its name."""
    field = 'platform: "torch_aoti"' if file.endswith("pt2") else f'backend: "{BACKENDS[file]}"'
    repository = write(A.replace('backend: "python"', field) + more, folder)
    if content is not None:
        (repository / "m/1" / file).write_bytes(content)
    found = [each for each in check(repository) if each.rule == "model-format"]
    return [f"{each.what}; {each.instead}".removeprefix(f"'m/1/{file}' ") for each in found]


WRONG = {
    "an ONNX file as an engine": ("model.plan", onnx_model(1), "is ONNX, which backend tensorrt does not read; build its engine: trtexec --onnx=model.onnx --saveEngine=model.plan"),
    "TorchScript as ONNX": ("model.onnx", TORCH, "is TorchScript, which backend onnxruntime does not read; export the model as ONNX, or name it model.pt and serve it by pytorch"),
    "ONNX as TorchScript": ("model.pt", ONNX, "is ONNX, which backend pytorch does not read; export the model as TorchScript, or name it model.onnx and serve it by onnxruntime"),
    "OpenVINO's as ONNX": ("model.onnx", DOCUMENT, "is OpenVINO's XML, which backend onnxruntime does not read; export the model as ONNX, or name it model.xml and serve it by openvino"),
    "an old engine as XML": ("model.xml", b"ptrt", "is a TensorRT engine, which backend openvino does not read; export the model as OpenVINO's XML, or name it model.plan and serve it by tensorrt"),
    "an archive as an engine": ("model.plan", zipped("a"), "is a zip archive, which backend tensorrt does not read; export the model as a TensorRT engine"),
    "a pickle as TorchScript": ("model.pt", b"\x80\x04\x95", "is a pickle, which backend pytorch does not read; write it by torch.jit.save(torch.jit.script(model), path)"),
    "torch.save of old": ("model.pt", b"\x80\x02\x8a\nl\xfc", "is a pickle, which backend pytorch does not read; write it by torch.jit.save(torch.jit.script(model), path)"),
    "torch.save": ("model.pt", SAVED, "is a file of torch.save or torch.export, which backend pytorch does not read; write it by torch.jit.save(torch.jit.script(model), path)"),
    "Keras's as ONNX": ("model.onnx", b"\x89HDF\r\n\x1a\n", "is HDF5, which backend onnxruntime does not read; export the model as ONNX"),
    "torch.export as a package": ("model.pt2", zipped("m/models/model.json"), f"is a file of torch.save or torch.export, which backend pytorch does not read; {COMPILE}"),
    "TorchScript as a package": ("model.pt2", TORCH, f"is TorchScript, which backend pytorch does not read; {COMPILE}"),
    "a package as TorchScript": ("model.pt", zipped("m/data/aotinductor/model/a.so"), "is an AOTInductor package, which backend pytorch does not read; name it model.pt2, and serve it by the platform torch_aoti"),
    "a pointer": ("model.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is only Git LFS's pointer to the file; run: git lfs pull"),
    "nothing": ("model.pt", b"", f"is an empty file; {AGAIN}"),
    "half of ONNX": ("model.onnx", onnx_model(1)[:-1], f"is cut off; {AGAIN}"),
    "a length without its bytes": ("model.xml", b"\x08\x08:\x01", f"is cut off; {AGAIN}"),
    "half of TorchScript": ("model.pt", TORCH[:-1], f"is cut off; {AGAIN}"),
    "half of OpenVINO's": ("model.xml", DOCUMENT[:-9], f"is cut off; {AGAIN}"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_its_backend_can_not_read_is_named(name: str, tmp_path: Path) -> None:
    file, content, words = WRONG[name]
    assert said(tmp_path, file, content) == [words]


@pytest.mark.parametrize(
    ("file", "content", "more"),
    [
        *((file, content, "") for file, content in SMALLEST.items()),
        ("model.onnx", b"\x18\0\0\0ORTM", ""),
        ("model.onnx", b"\x08\x08\x12\x7fencrypted", ""),
        ("model.onnx", b"\x08\x08:\x02\0\0\x0fgroup", ""),
        ("model.xml", onnx_model(1), ""),
        ("model.xml", DOCUMENT.replace(b"</net>", b"</net\n>"), ""),
        ("model.xml", b"\xef\xbb\xbf" + DOCUMENT + b"\n<!-- made by hand -->\n", ""),
        ("model.xml", b"\x08\x01\x12\x04\x0a\x02\x12\x00", ""),  # of TensorFlow
        ("model.pt", zipped("own/model"), ""),
        ("model.pt", SAVED[:-12] + b"\xff\xff" + SAVED[-10:], ""),  # more names than are read
        ("model.pt2", zipped("m/data/aotinductor/model/a.so"), ""),
        ("model.plan", b"A placeholder; see models/m.py\n", ""),
        ("model.plan", ONNX, 'runtime: "libown.so"'),
        ("model.plan", ONNX, 'cc_model_filenames { key: "8.0" value: "a.plan" }'),
        ("model.plan", ONNX, 'model_repository_agents { agents { name: "decrypt" } }'),
        ("model.plan", ONNX, "version_policy { specific { versions: 2 } }"),
    ],
)
def test_a_file_that_may_be_read_is_let_through(
    file: str, content: bytes, more: str, tmp_path: Path
) -> None:
    assert said(tmp_path, file, content, more) == []


def test_only_regular_files_of_the_repository_are_read(tmp_path: Path) -> None:
    """A pipe would keep the check waiting for ever."""
    (tmp_path / ".copier-answers.yml").write_text("ensemble_name: m\nsteps: []\n")
    [line] = said(tmp_path, "model.plan", ONNX)
    assert line.endswith("write `trtexec: true` at its step in pipeline.yml")
    file = tmp_path / "model_repository/m/1/model.plan"
    file.rename(tmp_path / "elsewhere").touch()
    file.symlink_to(tmp_path / "elsewhere")
    assert said(tmp_path, "model.plan") == []
    file.unlink()
    os.mkfifo(file)
    assert said(tmp_path, "model.plan") == []


@pytest.mark.parametrize("start", [b"\x08\x08:\xff\xff\xff\xff\x0f", ONNX, TORCH])
def test_little_of_a_big_file_is_read(start: bytes, tmp_path: Path) -> None:
    said(tmp_path, "model.plan", start)
    os.truncate(tmp_path / "model_repository/m/1/model.plan", 1 << 36)
    began = time.process_time()
    assert len(said(tmp_path, "model.plan")) == 1
    assert time.process_time() - began < 1
