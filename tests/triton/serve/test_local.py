"""Every project starts on the local Triton: by a form of each backend, and without what 24.10 or this machine lacks."""

from __future__ import annotations

import json
import os
import queue
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock
from urllib.request import urlopen

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from fake_triton import importable_backends
from hand_made import ONNX, Files, HandMade, onnx_model
from onnx import TensorProto, helper
from support import ROOT, Generate, Project, assert_logged, step, succeed, variables

from triton_ensemble.serve.local.environment import BACKENDS
from triton_ensemble.serve.local.local_repository import LocalRepository
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError

ALL = ["onnxruntime", "openvino", "python", "pytorch"]


class Served(NamedTuple):
    """A generated project on a local Triton: its URLs without scheme, what was said before it was ready, its log."""

    project: Project
    http: str
    grpc: str
    metrics: str
    notes: list[str]
    log: Path

    def infer(self, model: str, outputs: Any = None, **inputs: Any) -> Any:
        """Return the answer of the server to one request. An input is `(data type, array)`."""
        tensors = []
        for name, (data_type, array) in inputs.items():
            tensor = triton_http.InferInput(name, list(array.shape), data_type)
            tensors.append(tensor.set_data_from_numpy(array))
        with triton_http.InferenceServerClient(self.http) as client:
            return client.infer(model, tensors, outputs=outputs)


@contextmanager
def serve(project: Project) -> Iterator[Served]:
    succeed(project.make("repository"))
    ports = [f"--{api}-port=0" for api in ("http", "grpc", "metrics")]
    command = [sys.executable, "-m", "triton_ensemble", "serve", *ports]
    process = subprocess.Popen(
        command, cwd=project.path, env=variables(), text=True, stdout=-1, stderr=-2
    )
    assert process.stdout
    try:
        lines = [process.stdout.readline().rstrip()]
        while lines[-1] and not lines[-1].endswith("/metrics"):
            lines.append(process.stdout.readline().rstrip())
        assert lines[-1], "\n".join(lines)
        *notes, ready, http, grpc, metrics = lines
        log = Path(ready.rpartition("log: ")[2])
        yield Served(project, http[7:], grpc[7:], metrics, notes, log)
    finally:
        process.terminate()
        process.communicate(timeout=30)


MODERN: dict[str, Any] = {
    "starting_pipeline": "my-own",
    "triton_release": "26.07",
    "gpu_count": 4,
    "ensemble": {"cache": True, "max_inflight_requests": 4},
    "tensors": {
        "TEXT": "STRING[1]",
        "IDS": "INT32[-1]",
        "V": "FP32[16]",
        "W": "FP32[16]",
        "CLASS": {"type": "FP32", "dims": [3], "labels": "names.txt"},
        "VARIES": "FP16[-1, 2]",
        "A": "FP32[1]",
        "B": "INT64[2]",
        "C": "STRING[-1]",
        "D": "BOOL[2]",
        "E": "FP32[4]",
        "F": "FP32[1]",
    },
    "steps": [
        step("tokens", ["TEXT"], ["IDS"], "dali"),
        step(
            "embed",
            {"ids": "IDS"},
            {"v": {"tensor": "V", "dims": [16], "reshape": [4, 4]}},
            "tensorrt",
            device="gpu",
            gpus=[0, 3],
            instances=99,
            versions=[1, 3],
            version=1,
        ),
        {
            "name": "again",
            "model": "embed",
            "version": 3,
            "inputs": {"ids": "IDS"},
            "outputs": {"v": "W"},
        },
        step(
            "classify",
            {"x.1": "V", "y:0": "W"},
            {"class": "CLASS", "varies": "VARIES"},
            "openvino",
            warmup=[{"inputs": {"x.1": "zero", "y:0": "random"}}],
        ),
        step("trees", {"input__0": "VARIES"}, {"output__0": "A"}, "fil"),
        step("same", {"INPUT0": "A"}, {"OUTPUT0": "B"}, "identity"),
        step("own", ["B"], ["C"], "my_backend", device="gpu"),
        step("engine", ["C"], ["E"], "tensorrtllm"),
        step("undeclared", ["B"], ["D"], "onnxruntime", declare=False),
        {
            "name": "inner",
            "backend": "ensemble",
            "inputs": ["E"],
            "outputs": ["F"],
            "tensors": {"E": "FP32[4]", "M": "FP32[2]", "F": "FP32[1]"},
            "steps": [
                step("by_file", {"x": "E"}, {"m": "M"}, "auto", file="model.onnx"),
                step("plan_by_file", {"m": "M"}, {"f": "F"}, "auto", file="model.plan"),
            ],
        },
    ],
}
STAND_INS = {
    "tokens": "dali",
    "embed": "tensorrt",
    "trees": "fil",
    "same": "identity",
    "own": "my_backend",
    "engine": "tensorrtllm",
    "plan_by_file": "tensorrt",
}
CORRELATION = {
    "name": "ID",
    "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}],
}
START = {
    "name": "START",
    "control": [{"kind": "CONTROL_SEQUENCE_START", "fp32_false_true": [0, 1]}],
}
STATE = {"input_name": "S", "output_name": "T", "data_type": "TYPE_FP32", "dims": [2]}
SEQUENCES: dict[str, Any] = {
    "starting_pipeline": "my-own",
    "triton_release": "25.02",
    "tensors": {name: "FP32[2]" for name in "ABCDE"},
    "steps": [
        step(
            "onnx",
            ["A"],
            ["B"],
            "onnxruntime",
            sequence={"direct": {}, "control_input": [START, CORRELATION], "state": [STATE]},
        ),
        step("vino", ["B"], ["C"], "openvino", sequence={"direct": {}, "control_input": [START]}),
        step(
            "flow",
            ["C"],
            ["D"],
            "tensorflow",
            sequence={"oldest": {"max_candidate_sequences": 2}, "control_input": [START]},
        ),
        step("code", ["D"], ["E"], sequence={"direct": {}, "control_input": [START]}),
    ],
}
DECOUPLED: dict[str, Any] = {
    "starting_pipeline": "my-own",
    "max_batch_size": 0,
    "gpu_count": 1,
    "tensors": {"PROMPT": "STRING[1]", "TEXT": "STRING[-1]"},
    "steps": [
        step(
            "llm",
            {"prompt": "PROMPT"},  # not what vLLM names it: zeros stand in for what is not known
            {"text": "TEXT"},
            "vllm",
            decoupled=True,
            declare=False,
        )
    ],
}


@pytest.fixture(scope="module")
def modern(generate: Generate) -> Iterator[Served]:
    with serve(generate(**MODERN)) as served:
        yield served


def inputs(served: Served, rows: int) -> dict[str, Any]:
    return {"TEXT": ("BYTES", np.full((rows, 1), b"", np.object_))}


def test_every_backend_has_a_form_here(modern: Served) -> None:
    answer = modern.infer("my_pipeline", **inputs(modern, 2))
    assert [answer.as_numpy(name).shape for name in ("CLASS", "D", "F")] == [(2, 3), (2, 2), (2, 1)]


def test_a_project_names_the_backends_that_have_no_form_here(modern: Served) -> None:
    stand_ins = json.loads((modern.project / "vendor/project.json").read_text())["stand_ins"]
    assert stand_ins == sorted({*STAND_INS.values()})


def test_what_differs_here_is_said_at_the_start(modern: Served) -> None:
    most = 2 * len(os.sched_getaffinity(0))
    said = [
        f"{model}: a stand-in for {backend} answers with zeros and empty texts"
        for model, backend in STAND_INS.items()
    ]
    assert sorted(modern.notes) == sorted(
        [
            *said,
            f"embed: GPU instances run on the CPU here; {most} instances run here, not 99",
            "own: GPU instances run on the CPU here",
            "my_pipeline: max_inflight_requests is left out here, Triton 24.10 does not have it",
            "undeclared: its inputs and outputs are those of pipeline.yml here",
        ]
    )


@pytest.mark.parametrize(
    ("model", "arguments", "shape", "data_type"),
    [
        ("tokens", {"TEXT": ("BYTES", np.full((3, 1), b"x", np.object_))}, (3, 1), np.int32),
        ("embed", {"ids": ("INT32", np.ones((3, 7), np.int32))}, (3, 16), np.float32),
        ("trees", {"input__0": ("FP16", np.ones((1, 5, 2), np.float16))}, (1, 1), np.float32),
        ("own", {"B": ("INT64", np.ones((2, 2), np.int64))}, (2, 1), np.object_),
    ],
)
def test_a_stand_in_answers_with_nothing_and_logs_it(
    modern: Served, model: str, arguments: Any, shape: tuple[int, ...], data_type: type
) -> None:
    """A dim that varies is 1. The reshaped output of `embed` has its outer shape."""
    answer = modern.infer(model, **arguments)
    [output] = answer.get_response()["outputs"]
    array = answer.as_numpy(output["name"])
    assert (array.shape, array.dtype) == (shape, np.dtype(data_type))
    assert not array.any()
    said = f"{model}: a stand-in for {STAND_INS[model]} answers with zeros and empty texts: "
    assert_logged(modern.log, f"{said}{shape[0]} rows of {output['name']}")


def test_an_equal_request_is_answered_from_the_cache(modern: Served) -> None:
    for _ in range(3):
        modern.infer("my_pipeline", **inputs(modern, 3))
    with urlopen(modern.metrics, timeout=5) as answer:
        hits = re.search(
            r'num_hits_per_model\{model="my_pipeline".*\} (\d+)', answer.read().decode()
        )
    assert hits
    assert int(hits[1]) >= 1


def test_labels(modern: Served) -> None:
    best = triton_http.InferRequestedOutput("class", class_count=1)
    zeros = ("FP32", np.zeros((1, 16), np.float32))
    [name] = modern.infer("classify", [best], **{"x.1": zeros, "y:0": zeros}).as_numpy("class")
    first = (modern.project / "models/names.txt").read_text().splitlines()[0]
    assert re.fullmatch(rf"0\.0+:\d:{first[:-1]}.*", name[0].decode())


def test_both_versions_are_served(modern: Served) -> None:
    with triton_http.InferenceServerClient(modern.http) as client:
        assert client.is_model_ready("embed", "1")
        assert client.is_model_ready("embed", "3")


def test_the_repository_is_left_as_it_is(modern: Served, generate: Generate) -> None:
    fresh = generate(**MODERN)
    configs = [name for name in fresh.files() if name.endswith("config.pbtxt")]
    assert len(configs) == 12
    for name in configs:
        assert (modern.project / name).read_bytes() == (fresh / name).read_bytes()


@pytest.mark.slow
def test_sequences(generate: Generate) -> None:
    row = np.zeros((1, 2), np.float32)
    with (
        serve(generate(**SEQUENCES)) as served,
        triton_http.InferenceServerClient(served.http) as client,
    ):
        tensor = triton_http.InferInput("A", [1, 2], "FP32").set_data_from_numpy(row)
        for start in (True, False):
            answer = client.infer("my_pipeline", [tensor], sequence_id=7, sequence_start=start)
            assert answer.as_numpy("E").shape == (1, 2)


def onnx_sum() -> bytes:
    """Return a model file that adds what it gets to the sum before."""
    names = ("IN", "before", "OUT", "after")
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", 4]) for n in names]
    sums = [helper.make_node("Add", ["IN", "before"], [name]) for name in names[2:]]
    graph = helper.make_graph(sums, "g", tensors[:2], tensors[2:])
    opsets = [helper.make_opsetid("", 17)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made


def torch_sum() -> bytes:
    import torch

    class Sum(torch.nn.Module):
        def forward(self, IN: Any, before: Any) -> Any:
            return IN + before, IN + before

    file, zeros = BytesIO(), torch.zeros(1, 4)
    torch.jit.save(torch.jit.trace(Sum(), (zeros, zeros)), file)  # type: ignore[no-untyped-call]
    return file.getvalue()


SUMS = {"onnxruntime": ("model.onnx", onnx_sum), "pytorch": ("model.pt", torch_sum)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "first", "begin"),
    [
        ("onnxruntime", "zero_data: true", 0),
        ("onnxruntime", 'data_file: "ones"', 1),
        ("pytorch", "zero_data: true", 0),
    ],
)
def test_the_state_of_a_sequence_is_kept(
    tmp_path: Path, backend: str, first: str, begin: int
) -> None:
    """Sequences that share a batch, and begin again, and a request that is its own sequence."""
    spec = "data_type: TYPE_FP32 dims: [4]"
    state = f'input_name: "before" output_name: "after" {spec} initial_state {{ name: "s" {spec} {first} }}'
    config = f"""
        {ONNX.replace("onnxruntime", backend)}
        max_batch_size: 8
        sequence_batching {{
          oldest {{ max_candidate_sequences: 8 max_queue_delay_microseconds: 20000 }}
          state {{ {state} }}
        }}
    """
    file, write = SUMS[backend]
    files: Files = {"a/config.pbtxt": config, f"a/1/{file}": write()}
    ones = np.ones(4, np.float32)
    made = HandMade({**files, "a/initial_state/ones": ones.tobytes()})
    with (
        LocalTriton(made.write(tmp_path / "models"), "a", timeout=30) as server,
        triton_http.InferenceServerClient(server.http_url[7:], concurrency=8) as client,
    ):

        def send(sequence: int, value: int, start: bool = False, end: bool = False) -> Any:
            tensor = triton_http.InferInput("IN", [1, 4], "FP32")
            tensor.set_data_from_numpy(value * ones[None])
            place = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
            return client.async_infer("a", [tensor], **place)

        for _ in range(2):
            for count in range(1, 4):
                sent = [send(id, id, start=count == 1, end=count == 3) for id in range(1, 9)]
                sums = [each.get_result().as_numpy("OUT")[0, 3] for each in sent]
                assert sums == [begin + count * id for id in range(1, 9)]
        [alone] = send(9, 5, start=True, end=True).get_result().as_numpy("OUT")
        assert alone.tolist() == [begin + 5] * 4


@pytest.mark.slow
def test_a_decoupled_stand_in_answers_once(generate: Generate) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    prompt = triton_grpc.InferInput("PROMPT", [1], "BYTES")
    prompt.set_data_from_numpy(np.array([b"a"], np.object_))
    with (
        serve(generate(**DECOUPLED)) as served,
        triton_grpc.InferenceServerClient(served.grpc) as client,
    ):
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("my_pipeline", [prompt], enable_empty_final_response=True)
        result, error = answers.get(timeout=10)
    assert error is None
    assert result.as_numpy("TEXT").tolist() == [b""]
    assert result.get_response().parameters["triton_final_response"].bool_param


Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def logs_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the logs of failed starts out of /tmp."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes the config of a model and files of its version 1, and returns the repository."""

    def model(name: str, config: str, *files: str) -> Path:
        version = tmp_path / "models" / name / "1"
        version.mkdir(parents=True)
        version.with_name("config.pbtxt").write_text(config)
        for file in files:
            (version / file).write_text("")
        return tmp_path / "models"

    return model


def adapted(repository: Path, tmp_path: Path) -> LocalRepository:
    return LocalRepository(repository, tmp_path / "links", ALL)


def test_a_repository_that_needs_nothing_is_served_as_it_is(write: Write, tmp_path: Path) -> None:
    write("a", 'backend: "python" instance_group { kind: KIND_CPU count: 1 }')
    repository = write("b", "no config, which is for Triton to say")
    local = adapted(repository, tmp_path)
    assert (local.flags, local.notes, local.problems) == ([], [], [])
    assert (tmp_path / "links/a").resolve() == repository / "a"


def test_newer_fields_are_left_out(write: Write, tmp_path: Path) -> None:
    family = 'metric_identifier { family: "nv_inference_first_response_histogram_ms" }'
    metrics = f"model_metrics {{ metric_control {{ {family} }} }}"
    repository = write("a", f'backend: "python" {metrics}')
    local = adapted(repository, tmp_path)
    assert local.notes == ["a: model_metrics is left out here, Triton 24.10 does not have it"]
    assert "model_metrics" not in (tmp_path / "links/a/config.pbtxt").read_text()


def test_a_model_file_with_a_blank_in_its_name(tmp_path: Path) -> None:
    """Triton passes the name to a shell, and would wait for the process that this does not start."""
    file = "the team's best.onnx"
    config = f"{ONNX}default_model_filename: {json.dumps(file)}"
    made = HandMade({"a/config.pbtxt": config, f"a/1/{file}": onnx_model(2)})
    with LocalTriton(made.write(tmp_path / "models"), "a", timeout=30):
        pass


def test_a_backend_that_only_the_file_tells(write: Write) -> None:
    repository = write("a", "max_batch_size: 0", "model.plan")
    with pytest.raises(ServerError) as caught:
        LocalTriton(repository, "a").__enter__()
    _, line = str(caught.value).splitlines()
    assert re.search(r"a: Triton takes the backend tensorrt .*; write `backend: tensorrt`", line)


def test_a_backend_that_is_still_to_be_filled_in(generate: Generate) -> None:
    """It is a line of the check, and of the server, which would pass it to a shell."""
    project = generate(
        tensors=dict.fromkeys("AB", "FP32[1]"), steps=[step("net", ["A"], ["B"], "${backend}")]
    )
    checked, served = project.make("check"), project.make("serve")
    [line, *_] = checked.stdout.splitlines()
    what = "the backend is still ${backend}; write the name of one, like tensorrtllm"
    assert line == f"model_repository/net/config.pbtxt:3: error: backend-misspelt: {what}"
    assert f"  net: {what}" in served.stderr.splitlines()
    assert checked.returncode == served.returncode == 2


def test_models_cannot_import_what_pythonpath_has(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = "".join(
        f'{side} {{ name: "{side}" data_type: TYPE_FP32 dims: [1] }}'
        for side in ("input", "output")
    )
    repository = write("a", f'backend: "python" {tensors}')
    (repository / "a/1/model.py").write_text("import benchmarks\n")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(ServerError, match="No module named 'benchmarks'"):
        LocalTriton(repository, "a").__enter__()


@pytest.fixture
def stand_in() -> Any:
    """Return a stand-in outside of Triton, of which it needs the names of data types and the log."""
    types = {"TYPE_FP32": np.float32, "TYPE_STRING": np.object_}
    utils = SimpleNamespace(triton_string_to_numpy=types.get, Logger=Mock())
    with importable_backends(utils):
        model = runpy.run_path(str(BACKENDS / "stand_in" / "model.py"))["TritonPythonModel"]()
    config = {
        "name": "a",
        "max_batch_size": 4,
        "instance_group": [],
        "parameters": {},
        "input": [
            {"name": "x", "data_type": "TYPE_FP32", "dims": ["-1", "2"]},
            {
                "name": "s",
                "data_type": "TYPE_STRING",
                "dims": ["4"],
                "reshape": {"shape": ["2", "2"]},
            },
        ],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": ["3", "-1"]}],
    }
    arguments = ("model_instance_kind", "model_repository", "model_version")
    model.initialize(
        dict.fromkeys(arguments, "1")
        | {"model_config": json.dumps(config), "model_instance_device_id": "0"}
    )
    return model


X, S = np.ones((3, 5, 2), np.float32), np.full((3, 2, 2), b"a", np.object_)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": X.astype(np.float64)}, "input x is float64, not TYPE_FP32"),
        ({"x": X[:, 0]}, r"input x has dims \[2\], not \[-1, 2\]"),
        ({"x": np.ones((3, 5, 4), np.float32)}, r"input x has dims \[5, 4\], not \[-1, 2\]"),
        ({"s": S.reshape(3, 4)}, r"input s has dims \[4\], not \[2, 2\]"),
    ],
)
def test_a_stand_in_checks_what_comes_in(stand_in: Any, arrays: Any, text: str) -> None:
    """Triton checks requests, but not what one model hands to the next."""
    with pytest.raises(ValueError, match=text):
        stand_in.run(arrays, ["y"])


def test_a_stand_in_takes_what_the_config_allows(stand_in: Any) -> None:
    """An optional input may be missing. One that Triton adds to a sequence is not declared."""
    for arrays in ({"x": X, "s": S}, {"x": X, "START": X}):
        assert stand_in.run(arrays, ["y"])["y"].shape == (3, 3, 1)
    assert stand_in.run({}, ["y"])["y"].shape == (1, 3, 1)


def test_an_undeclared_model_answers(modern: Served) -> None:
    """Its config stays as bare as it is in the container."""
    assert (
        modern.infer("undeclared", B=("INT64", np.ones((2, 2), np.int64))).as_numpy("D").any() == 0
    )
    config = modern.project / "model_repository/undeclared/config.pbtxt"
    assert "input" not in config.read_text()


VINO = """
backend: "openvino"
max_batch_size: 8
input {{ name: "x" data_type: {type} dims: [{dim}] }}
output {{ name: "{output}" data_type: TYPE_FP32 dims: [2] }}
instance_group {{ kind: KIND_CPU count: 1 }}
"""


def write_openvino(path: Path) -> None:
    """Write y = x @ w for FP32 x[1, 4]: a batch of one, as most exports have."""
    ov = pytest.importorskip("openvino")
    x = ov.opset13.parameter([1, 4], np.float32, name="x")
    y = ov.opset13.matmul(x, np.arange(8, dtype=np.float32).reshape(4, 2), False, False)
    x.output(0).set_names({"x"})
    y.output(0).set_names({"y"})
    ov.save_model(ov.Model([y], [x], "model"), path, compress_to_fp16=False)


@pytest.mark.slow
def test_an_openvino_model(write: Write) -> None:
    """It takes any batch, whatever the file says of it. Its data is in the file beside it."""
    repository = write("a", VINO.format(type="TYPE_FP32", dim=4, output="y"))
    write_openvino(repository / "a/1/model.xml")
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    with LocalTriton(repository, "a") as triton:
        served = Served(None, triton.http_url[7:], "", "", [], triton.log)  # type: ignore[arg-type]
        answer = served.infer("a", x=("FP32", rows)).as_numpy("y")
    assert np.array_equal(answer, rows @ np.arange(8, dtype=np.float32).reshape(4, 2))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"type": "TYPE_FP64"}, "input x is TYPE_FP32 in the graph, not TYPE_FP64"),
        ({"dim": 5}, r"input x has dims \[-1, 4\] in the graph, not \[-1, 5\]"),
        ({"output": "z"}, "the graph has no output z; it has y"),
    ],
)
def test_an_openvino_config_must_fit_the_graph(
    write: Write, changed: dict[str, Any], text: str
) -> None:
    repository = write(
        "a", VINO.format(**{"type": "TYPE_FP32", "dim": 4, "output": "y", **changed})
    )
    write_openvino(repository / "a/1/model.xml")
    with pytest.raises(ServerError, match=text):
        LocalTriton(repository, "a").__enter__()
