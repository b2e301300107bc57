"""Engines of TensorRT: which are built, where they go, and what a server says of those of another GPU or release.

No GPU is here. `trtexec`, `nvidia-smi` and `docker` are test doubles, found first on PATH: trtexec writes down how it
was called, and a file. What TensorRT makes of its flags was never seen.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT, SOURCES, Generate, Project, step, succeed, variables

from triton_ensemble.serve.local.local_triton import LocalTriton

A100, A30 = ("NVIDIA A100-SXM4-80GB", "8.0"), ("NVIDIA A30", "8.0")
H100 = ("NVIDIA H100 PCIe", "9.0")
TENSORS = {"PIXELS": "FP32[3, 8, 8]", "IDS": "INT64[-1]", "V": "FP32[4]"}
RANGE = {"min": [1], "opt": [64], "max": [512]}
ANSWERS: dict[str, Any] = {
    "starting_pipeline": "my-own",
    "gpu_count": 1,
    "triton_release": "26.07",
    "tensors": TENSORS,
    "steps": [
        step("see", {"x": "PIXELS"}, {"ids": "IDS"}, "tensorrt", trtexec=True),
        step(
            "embed",
            {"ids:0": "IDS"},
            {"v": "V"},
            "tensorrt",
            trtexec={"shapes": {"ids:0": RANGE}, "flags": ["--fp16"]},
        ),
    ],
}
BUILD = (sys.executable, "-m", "triton_ensemble.serve.container.engines")
SERVE = (
    "import sys; from pathlib import Path; from triton_ensemble.serve.container import serve;"
    "serve.PROJECT = Path.cwd(); serve.main(sys.argv[1:])"
)
TRTEXEC = f"""#!{sys.executable}
import json, sys
from pathlib import Path
flags = dict(flag.partition("=")[::2] for flag in sys.argv[1:])
with open(Path(__file__).with_name("calls"), "a") as calls:
    calls.write(json.dumps(flags) + "\\n")
if b"broken" in Path(flags["--onnx"]).read_bytes():
    sys.exit("[11/23/2026-20:00:00] [E] In node 0: UNSUPPORTED_NODE")
Path(flags["--timingCacheFile"]).write_text("timings")
Path(flags["--saveEngine"]).write_text(json.dumps(flags))
"""
DOCKER = f"""#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path
Path(__file__).with_name("docker-calls").write_text(json.dumps(sys.argv))
at = sys.argv.index("--entrypoint")
sys.exit(subprocess.call([{sys.executable!r}, *sys.argv[at + 3:]]))
"""


class Machine:
    """A folder of test doubles, first on PATH: a machine with GPUs, and Triton's image on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._write("trtexec", TRTEXEC)
        self._write("docker", DOCKER)
        self._write("tritonserver", "#!/bin/sh\necho serving\n")
        self.has(A100)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def has(self, *gpus: tuple[str, str]) -> None:
        lines = "".join(f"echo '{name}, {capability}'\n" for name, capability in gpus)
        self._write("nvidia-smi", f"#!/bin/sh\n{lines}")

    def variables(self, release: str = "26.07") -> dict[str, str]:
        path = f"{self.folder}:/usr/bin:/bin"
        return {"PATH": path, "NVIDIA_TRITON_SERVER_VERSION": release}

    def calls(self) -> list[dict[str, str]]:
        """Return the flags of each call of trtexec since the last look."""
        file = self.folder / "calls"
        calls = (
            [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        )
        file.unlink(missing_ok=True)
        return calls


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    return Machine(tmp_path / "bin")


@pytest.fixture
def project(generate: Generate) -> Project:
    project = generate.complete(**ANSWERS)
    return project


def built(project: Project, machine: Machine, **more: str) -> list[str]:
    """Build engines. Return the models that trtexec was called for."""
    succeed(project.run(*BUILD, **machine.variables() | more))
    return sorted(Path(call["--onnx"]).parent.parent.name for call in machine.calls())


def engines(project: Project) -> list[str]:
    """Return the engines that the model repository has."""
    plans = (project / "model_repository").glob("*/*/*.plan")
    return sorted(str(path.relative_to(project / "model_repository")) for path in plans)


def start(project: Project, machine: Machine, release: str = "26.07") -> tuple[int, str, str]:
    """Start the container's server. Return its status, output and errors."""
    command = [sys.executable, "-c", SERVE, "--model-repository=model_repository"]
    environment = variables(PYTHONPATH=str(SOURCES), **machine.variables(release))
    # Files: what hides the key of administrators outlives the server for a moment, and would hold pipes open.
    out, err = machine.folder / "out", machine.folder / "err"
    with out.open("w") as printed, err.open("w") as said:
        done = subprocess.run(
            command, cwd=project.path, env=environment, stdout=printed, stderr=said
        )
    return done.returncode, out.read_text(), err.read_text()


def test_an_engine_is_built_for_the_shapes_of_the_pipeline(
    project: Project, machine: Machine
) -> None:
    assert built(project, machine) == ["embed", "see"]
    succeed(project.run(*BUILD, **machine.variables("26.07.1")))
    (project / "engines/26.07/NVIDIA-A100-SXM4-80GB/embed/1/model.8.0.plan").write_text("cut of")
    succeed(project.run(*BUILD, **machine.variables()))
    [embed] = machine.calls()
    shapes = {name: embed[f"--{name}Shapes"] for name in ("min", "opt", "max")}
    assert shapes == {"min": "'ids:0':1x1", "opt": "'ids:0':4x64", "max": "'ids:0':8x512"}
    assert {"--fp16", "--skipInference", "--timingCacheFile"} <= embed.keys()
    assert embed["--onnx"].endswith("model_repository/embed/1/model.onnx")


def test_the_files_are_those_of_the_page(project: Project, machine: Machine) -> None:
    built(project, machine)
    page = (ROOT / "docs/gpu.md").read_text()
    named = set(re.findall(r"^(engines/\S+)  ", page, re.MULTILINE))
    written = {path for path in project.files() if re.match("engines/.*/(embed/|timing)", path)}
    assert named == written


def test_it_is_built_anew_where_something_changed_and_nowhere_else(
    project: Project, machine: Machine
) -> None:
    assert built(project, machine) == ["embed", "see"]
    assert built(project, machine) == []
    script, facts = project / "models/see.py", project / "vendor/project.json"
    script.write_text(script.read_text().replace("placeholder", "other"))
    succeed(project.make("repository"))
    assert built(project, machine) == ["see"]
    facts.write_text(facts.read_text().replace("--fp16", "--bf16"))
    assert built(project, machine) == ["embed"]
    machine.has(H100, A100, A100)
    assert built(project, machine) == ["embed", "see"]  # for the H100
    facts.write_text(facts.read_text().replace('"26.07"', '"26.08"'))
    newer = machine.variables("26.08")
    assert built(project, machine, **newer) == ["embed", "embed", "see", "see"]
    assert len(list((project / "engines").glob("*/*/timing.cache"))) == 4


def test_the_model_repository_has_engines_of_its_onnx_files_alone(
    project: Project, machine: Machine
) -> None:
    built(project, machine)
    machine.has(H100)
    built(project, machine)
    assert engines(project) == []
    succeed(project.make("repository"))
    both = [f"{model}/1/model.{at}.plan" for model in ("embed", "see") for at in ("8.0", "9.0")]
    assert engines(project) == both
    script = project / "models/see.py"
    script.write_text(script.read_text().replace("placeholder", "other"))
    succeed(project.make("repository"))
    assert engines(project) == both[:2]
    assert not [*(project / "model_repository/see/1").glob("model.*.json")]
    # A model that leaves the pipeline leaves no folder behind.
    facts = json.loads((project / "vendor/project.json").read_text())
    facts["engines"] = {}
    (project / "vendor/project.json").write_text(json.dumps(facts))
    succeed(project.make("repository"))
    assert engines(project) == []


def test_two_engines_for_what_triton_takes_one_for_are_refused(
    project: Project, machine: Machine
) -> None:
    machine.has(A100, A30)
    built(project, machine)
    done = project.make("repository")
    assert done.returncode
    assert done.stderr.splitlines()[0] == (
        "engines/26.07/NVIDIA-A100-SXM4-80GB/see/1/model.8.0.plan and "
        "engines/26.07/NVIDIA-A30/see/1/model.8.0.plan are for one compute capability, "
        "by which Triton takes a file; remove one of them"
    )


@pytest.mark.slow
def test_make_engines_builds_in_the_image_of_the_release(
    project: Project, machine: Machine
) -> None:
    printed = succeed(project.make("engines", **machine.variables()))
    assert "embed/1 on NVIDIA A100-SXM4-80GB (compute capability 8.0): building ..." in printed
    assert engines(project) == ["embed/1/model.8.0.plan", "see/1/model.8.0.plan"]
    words = json.loads((machine.folder / "docker-calls").read_text())
    assert words[1:5] == ["run", "--rm", "--gpus", "all"]
    assert words[words.index("--entrypoint") + 2] == "nvcr.io/nvidia/tritonserver:26.07-py3"
    again = succeed(project.make("engines", **machine.variables()))
    assert again.count("is current") == 2


def test_what_keeps_engines_from_being_built_is_one_line(
    project: Project, machine: Machine
) -> None:
    def refusal(**more: str) -> str:
        done = project.run(*BUILD, **machine.variables() | more)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        return done.stderr

    wrong = refusal(NVIDIA_TRITON_SERVER_VERSION="25.01")
    assert wrong == "engines: TRITON_IMAGE is of release 25.01; name one of 26.07\n"
    (project / "model_repository/see/1/model.onnx").write_text("broken")
    assert refusal().startswith("see: trtexec failed: In node 0: UNSUPPORTED_NODE; log: ")
    assert [path.stem for path in (project / "engines").glob("*/*/see/1/*")] == ["model.8.0"]
    machine.has()
    assert "found no GPU" in refusal()
    machine.has(A100)
    (machine.folder / "trtexec").unlink()
    assert "has no trtexec; name one that has" in refusal()


def test_a_server_refuses_engines_of_another_gpu_or_release(
    project: Project, machine: Machine
) -> None:
    code, _, said = start(project, machine)
    missing = "has no engine for NVIDIA A100-SXM4-80GB (compute capability 8.0); run `make engines`"
    assert code == 1
    assert said.startswith(f"see: {missing}")
    succeed(project.make("engines", **machine.variables()))
    assert start(project, machine)[:2] == (0, "serving\n")
    assert (
        "its engine is of release 26.07, and this is 26.08;" in start(project, machine, "26.08")[2]
    )
    machine.has(A30)
    code, printed, said = start(project, machine)
    assert (code, printed, len(said.splitlines())) == (0, "serving\n", 2)
    assert (
        "embed: its engine was built on NVIDIA A100-SXM4-80GB, and may be slower on NVIDIA A30"
        in said
    )
    machine.has(H100)
    assert start(project, machine)[0] == 1
    machine.has(H100, A100)  # a model may be on one of them alone
    assert start(project, machine)[:2] == (0, "serving\n")
    machine.has(A100)
    plan = project / "model_repository/see/1/model.8.0.plan"
    plan.write_text("cut of")
    assert "see: 1/model.8.0.plan is damaged" in start(project, machine)[2]


@pytest.mark.slow
def test_an_adopted_model_brings_its_onnx_file(generate: Generate, machine: Machine) -> None:
    steps = [dict(given, adopted=True) for given in ANSWERS["steps"]]
    project = generate(**ANSWERS | {"steps": steps})
    done = project.make("repository")
    assert "models/see/1/model.onnx: is missing; put it there" in done.stderr
    for name in ("embed", "see"):
        (project / f"models/{name}/1").mkdir(parents=True)
        (project / f"models/{name}/1/model.onnx").write_text(name)
    succeed(project.make("engines", **machine.variables()))
    assert engines(project) == ["embed/1/model.8.0.plan", "see/1/model.8.0.plan"]


@pytest.mark.slow
def test_without_a_gpu_the_onnx_file_itself_answers(project: Project) -> None:
    script = project / "models/embed.py"
    text = script.read_text()
    assert "np.zeros(1, dtype=dtype)" in text
    script.write_text(text.replace("np.zeros(1, dtype=dtype)", "np.full(1, 7, dtype=dtype)"))
    succeed(project.make("repository"))
    with LocalTriton(project / "model_repository", "my_pipeline") as triton:
        note = "a stand-in for tensorrt runs its model.onnx by ONNX Runtime"
        assert triton.notes == [f"{name}: {note}" for name in ("embed", "see")]
        with project.client(triton.http_url) as client:
            answer = client.infer({"PIXELS": np.ones((2, 3, 8, 8), np.float32)})
        assert answer["V"].tolist() == [[7] * 4] * 2


def test_the_readme_names_the_command_where_there_are_engines(
    project: Project, default_project: Project
) -> None:
    assert "| `make engines` |" in (project / "README.md").read_text()
    assert "make engines" not in (default_project / "README.md").read_text()
