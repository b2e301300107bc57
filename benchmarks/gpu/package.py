"""Pack what a run on a GPU needs, but torch, onnx, onnxruntime and pytest: `python -m benchmarks.gpu.package PYTHON3.12 ARCHIVE`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import copier
import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks import works
from benchmarks.generation import ROOT, chain, template

PACKAGES = """nvidia-pytriton numpy tritonclient grpcio protobuf python-rapidjson pyyaml jinja2 tqdm
markupsafe jinja2-ansible-filters tokenizers pillow typing-extensions fastapi starlette uvicorn h11
click anyio idna pydantic pydantic-core annotated-types annotated-doc typing-inspection gevent
geventhttpclient greenlet brotli certifi urllib3 zope-event zope-interface
opentelemetry-api importlib-metadata ml-dtypes packaging zipp"""
# No program of the run reads these: libpython and ICU are half of Triton's wheel.
LEFT_OUT = """__pycache__ python/*/test python/*/tests idlelib tkinter turtledemo ensurepip *.a *.pyi
pydoc_data lib2to3 lib-dynload/_test* numpy/core/include numpy/f2py numpy/distutils perf_* config-3.*
nvidia_pytriton.libs/libpython* python_backend_stubs/3.[!1]* python_backend_stubs/3.1[!2]* gevent/*.c
pytriton/[!t]* vendor/*.whl PIL/_avif* libavif* python/bin/[!pw]* benchmarks/*.json benchmarks/*.svg"""
# A Python that runs in any place. Triton's libraries need ICU for rare encodings of XML alone.
COPY_PYTHON = """
prefix=$("$1" -c 'import sys; print(sys.base_prefix)')
mkdir python && cp -a "$prefix/bin" "$prefix/lib" python && cd python/lib/python3.12
rm -r site-packages
"$1" -m pip install -qq --no-deps --no-compile --only-binary=:all: --target=site-packages $2
strip ../../bin/python3.12 ../libpython3.12.so.1.0 lib-dynload/*.so site-packages/*.so
cp "$(which wrk)" ../../bin && cp $(ldd ../../bin/wrk | grep -o '/.*luajit[^ ]*') ..
icu=$(echo site-packages/nvidia_pytriton.libs/libicudata-*)
echo 'char icudt70_dat[64];' | cc -shared -Wl,-soname,${icu##*/} -o $icu -xc -
"""
ON_GPU = {"backend": "python", "device": "gpu"}
VARIANTS: works.Answers = {"cpu": (8, {}), "fused": (4, ON_GPU), "model": (4, works.SEPARATE)}
TORCH = {"device": "gpu", "requirements": ["torch"]}  # its arrays are torch's
CHAINS: dict[str, works.Answers] = {
    "torch-fused": TORCH,
    "torch-apart": TORCH | works.SEPARATE,
    "torch-claims": {**TORCH, "instances": 2, "gpus": [0]},
    "numpy-fused": {},
    "numpy-apart": works.SEPARATE,
}
ADD = """class Step:
    def __init__(self, context):
        self.log = context.logger.info

    def __call__(self, {name}):
        result = {name} + 1
        if self.log and hasattr({name}, "data_ptr"):
            pointers = {name}.data_ptr(), result.data_ptr()
            self.log("{name} on %s: %d, {result}: %d" % ({name}.device, *pointers))
            self.log = None
        return {{"{result}": result}}
"""
NO_DELAY = b"from asyncio import base_events as b; b._set_nodelay = lambda s: s.setsockopt(6, 1, 1)"
WARMUP = {"fuse": False, "warmup": [{"inputs": {"T0": "random"}}]}
LIMITER = 'gpus: [ 0 ]\n    rate_limiter { resources [ { name: "r" count: 1 } ] }\n'
NETWORK = """import os
from benchmarks.onnx_by_torch import InferenceSession

class Step:
    def __init__(self, context):
        self.session = InferenceSession(os.environ["MODEL_FILE"])

    def __call__(self, **given):
        return {{"{result}": self.session.run(None, given)[0]}}
"""


def list_projects() -> dict[str, works.Answers]:
    """Return the answers of each project: KIND-VARIANT."""
    found = {"image-cpu": works.Answers(starting_pipeline="text-to-image", project_name="served")}
    for kind in works.WORKS:
        for variant, (instances, fields) in VARIANTS.items():
            fields = {**works.FUSED, **works.NO_DELAY, **fields}
            found[f"{kind}-{variant}"] = answers = works.pipeline(kind, *[instances] * 3, **fields)
            answers["steps"][1].update({"device": "cpu"} if variant == "cpu" else ON_GPU)
    for variant, fields in CHAINS.items():
        found[f"ten-{variant}"] = answers = chain(10, **(works.FUSED | fields))
        answers["tensors"] = dict.fromkeys(answers["tensors"], "FP32[150528]")  # 224 x 224 x 3
        answers["project_name"] = "served"
    found["ten-torch-claims"]["steps"][0].update(WARMUP)
    return {name: {**answers, "gpu_count": 1} for name, answers in found.items()}


def make_project(source: str, name: str, answers: works.Answers, folder: Path) -> None:
    """Generate a project with its code and model files."""
    copier.run_copy(source, folder, data=answers, defaults=True, quiet=True)
    kind, _, variant = name.partition("-")
    if kind in works.WORKS:
        code = works.HERE / kind if kind == "photo" else works.EXAMPLES[kind] / "steps"
        shutil.copytree(code, folder / "steps", dirs_exist_ok=True)
    if name == "photo-cpu":
        (folder / "steps" / "classify.py").rename(folder / "models" / "classify.py")
    changed = answers["steps"] if kind == "ten" else answers.get("steps", [])[1:2]
    for step in changed if variant != "cpu" else ():
        [given, *_], [result] = step["inputs"], step["outputs"]
        text = (ADD if kind == "ten" else NETWORK).format(name=given, result=result)
        (folder / "steps" / f"{step['name']}.py").write_text(text)
    command = [sys.executable, "-m", "triton_ensemble", "repository"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    for config in folder.glob("model_repository/*/config.pbtxt"):
        config.write_text(config.read_text().replace("gpus: [ 0 ]\n", LIMITER))


def fill(folder: Path, python: str, source: str) -> None:
    """Fill a folder with all that the archive has."""
    packages = [*map(str, ROOT.glob("template/vendor/*.whl"))]
    packages += [f"{name}=={version(name)}" for name in PACKAGES.split()]
    shell = ["sh", "-ec", COPY_PYTHON, "sh", python, " ".join(packages)]
    subprocess.run(shell, cwd=folder, check=True)
    shutil.copytree(ROOT / "benchmarks", folder / "benchmarks")
    commit = subprocess.check_output(["git", "describe", "--always", "--dirty"], cwd=ROOT)
    files = {"commit": commit, "nodelay/sitecustomize.py": NO_DELAY}  # uvicorn's workers wait 40 ms
    files["torch_as_ort/onnxruntime.py"] = b"from benchmarks.onnx_by_torch import *"
    files |= {"data/texts": works.TEXT.encode(), "data/image": b"a red fox"}
    for kind in ("digits", "photo"):
        files[f"data/{kind}"] = works.jpeg(works.pipeline(kind, 1, 1, 1))
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    for name, answers in list_projects().items():
        make_project(source, name, answers, folder / "projects" / name)
    for file in folder.glob("projects/*-cpu/model_repository/*/1/**/model.onnx"):
        model = onnx.load(file)
        for constant in model.graph.initializer:
            if len(constant.dims) > 1:  # rounded to 1/16: the same work, few bytes
                array = np.round(numpy_helper.to_array(constant) * 16) / 16
                constant.CopyFrom(numpy_helper.from_array(array, constant.name))
        onnx.save(model, file)


def pack(folder: Path, archive: Path) -> None:
    """Write the archive; SystemExit if it is too large to travel."""
    left_out = [f"--exclude={pattern}" for pattern in LEFT_OUT.split()]
    compress = "-Ixz -T0 --x86 --lzma2=preset=6,dict=64MiB"
    subprocess.run(["tar", compress, "-cf", archive, *left_out, "."], cwd=folder, check=True)
    size = archive.stat().st_size / 2**20
    print(f"{archive}: {size:.1f} MiB")
    if size > 60:
        raise SystemExit("the archive has more than 60 MiB")


if __name__ == "__main__":
    python, archive = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as source:
        fill(Path(folder), python, template(Path(source)))
        pack(Path(folder), Path(archive).absolute())
