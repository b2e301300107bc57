"""The command adopt: an existing model repository -> a pipeline.yml that generates equal configs, or the reason why Triton would refuse it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from adopt_support import (
    CPU,
    IN,
    OUT,
    PYTHON,
    TENSORS,
    Adopt,
    adopt,  # noqa: F401
    adopted,
    alone,
    ensemble,
    step,
    write,
)
from google.protobuf import text_format  # type: ignore[import-untyped]
from hand_made import WIRED_BY_CODE, HandMade, calling
from support import Generate
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.author.adopt.fields import TENSORRT_ALONE, tensor_spec
from triton_ensemble.check.calls import find_called_models
from triton_ensemble.check.repository import Repository
from triton_ensemble.compile.rules import rules_with

ONCE = {"IN": "IN"}, {"OUT": "OUT"}
CHAIN = ensemble(step("a", {"IN": "IN"}, {"OUT": "T"}), step("b", {"IN": "T"}, {"OUT": "OUT"}))
TWO = {"e": CHAIN, "a": PYTHON, "b": PYTHON}


def parsed(path: Path) -> Any:
    """Return a config, with what Triton takes as the same written the same."""
    config = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
    config.name = path.parent.name
    if config.platform == "onnxruntime_onnx":
        config.backend, config.platform = "onnxruntime", ""
    for field in (config.input, config.output):
        field.sort(key=lambda tensor: tensor.name)
    config.ensemble_scheduling.step.sort(key=lambda step: (step.model_name, str(step)))
    if not config.ensemble_scheduling.step:
        config.ClearField("ensemble_scheduling")
    return config


def configs(repository: Path) -> dict[str, Any]:
    return {path.parent.name: parsed(path) for path in repository.glob("*/config.pbtxt")}


def check_round_trip(models: dict[str, str], adopt: Adopt, generate: Generate) -> dict[str, Any]:
    """Check that what the command prints generates configs equal to those it read. Return the answers."""
    answers = adopt.answers(models)
    project = generate(**answers)
    assert configs(project / "model_repository") == configs(adopt.folder)
    return answers


DIGITS = {
    "digits": ensemble(
        step("preprocess", {"IMAGE": "IMAGE"}, {"PIXELS": "PIXELS"}),
        step("classify", {"input.1": "PIXELS"}, {"389": "LOGITS"}, version=1),
        interface='max_batch_size: 16 input { name: "IMAGE" data_type: TYPE_STRING dims: [1] }'
        'output { name: "LOGITS" data_type: TYPE_FP32 dims: [10] }',
    ),
    "preprocess": 'backend: "python" max_batch_size: 16 dynamic_batching { max_queue_delay_microseconds: 100 }'
    'input { name: "IMAGE" data_type: TYPE_STRING dims: [1] }'
    f'output {{ name: "PIXELS" data_type: TYPE_FP32 dims: [1, 8, 8] }} {CPU}',
    "classify": 'platform: "onnxruntime_onnx" max_batch_size: 32 parameters { key: "x" value { string_value: "1" } }'
    'input { name: "input.1" data_type: TYPE_FP32 dims: [1, -1, -1] }'
    'output { name: "389" data_type: TYPE_FP32 dims: [10] }'
    'output { name: "features" data_type: TYPE_FP32 dims: [64] }',
}
DIGITS_PIPELINE = """\
# yaml-language-server: $schema=vendor/pipeline.schema.json
# From the model repository repository, by triton-ensemble adopt.
# preprocess: has no 1/model.py; put it at models/preprocess/1/model.py
# classify: has no 1/model.onnx; put it at models/classify/1/model.onnx
starting_pipeline: my-own
project_name: digits
max_batch_size: 16
tensors:
  IMAGE: STRING[1]
  PIXELS: FP32[1, 8, 8]
  LOGITS: FP32[10]
steps:
  - name: preprocess
    backend: python
    inputs: [IMAGE]
    outputs: [PIXELS]
    adopted: true
  - name: classify
    backend: onnxruntime
    inputs: {input.1: {tensor: PIXELS, dims: [1, -1, -1]}}
    outputs: {'389': LOGITS, features: {type: FP32, dims: [64]}}
    version: 1
    adopted: true
    max_batch_size: 32
    instances: none
    batching: false
    parameters: {x: '1'}
"""


def test_it_reads_as_a_person_would_write_it(adopt: Adopt) -> None:
    assert adopt.text(DIGITS) == DIGITS_PIPELINE


ONNX = f'backend: "onnxruntime" max_batch_size: 8\n{TENSORS}'
OWN_CODE = {"backend": "python"}
PLAIN = {"backend": "onnxruntime", "max_batch_size": 8, "batching": False}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "python": (PYTHON, OWN_CODE),
    "onnx": (ONNX, PLAIN),
    "onnx on a CPU": (ONNX + CPU, {"backend": "onnxruntime", "max_batch_size": 8}),
}
MORE = yaml.safe_load(Path(__file__).with_name("adopted_fields.yml").read_text("utf-8"))
SETTINGS: list[tuple[str, str, dict[str, Any]]] = [
    *(
        (name, text + more, {**fields, **own})
        for base, (text, fields) in BASES.items()
        for name, (more, own) in MORE[base].items()
    ),
    ("no instance group", f'backend: "python"\n{TENSORS}', {**OWN_CODE, "instances": "none"}),
    (
        "python on GPUs",
        PYTHON.replace("KIND_CPU", "KIND_GPU gpus: [1]"),
        {**OWN_CODE, "device": "gpu", "gpus": [1]},
    ),
    (
        "several instances of ONNX Runtime",
        f'backend: "onnxruntime" {TENSORS} instance_group {{ count: 2 kind: KIND_CPU }}',
        {"backend": "onnxruntime", "instances": 2, "parameters": {}},
    ),
    (
        "warmup of its own shape",
        PYTHON.replace("[4]", "[-1]")
        + 'model_warmup { name: "w" count: 3 inputs { key: "IN" value { data_type: TYPE_FP32 dims: [2] input_data_file: "x" } } }',
        {
            **OWN_CODE,
            "warmup": [
                {
                    "name": "w",
                    "batch_size": 0,
                    "count": 3,
                    "inputs": {"IN": {"data": "x", "dims": [2]}},
                }
            ],
        },
    ),
    ("backend by its file", f'platform: "" {TENSORS}{CPU}', {"backend": "auto"}),
    (
        "a text to fill in",
        f'backend: "${{triton_backend}}" {TENSORS}{CPU}',
        {"backend": "${triton_backend}"},
    ),
    (
        "nothing declared",
        f'backend: "onnxruntime" {CPU}',
        {"backend": "onnxruntime", "declare": False},
    ),
    (
        "half declared",
        f'backend: "onnxruntime" {IN} {CPU}',
        {
            "backend": "onnxruntime",
            "declare": False,
            "config": 'input {\n  name: "IN"\n  data_type: TYPE_FP32\n  dims: 4\n}\n',
        },
    ),
]


@pytest.mark.parametrize(("config", "expected"), [pytest.param(c, e, id=i) for i, c, e in SETTINGS])
def test_a_field_of_a_model_becomes_a_field_of_its_step(
    config: str, expected: dict[str, Any], adopt: Adopt
) -> None:
    assert adopt.fields(config) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("", {"backend": "pytorch", "file": "model.pt2"}),
        ("a.pt2", {"backend": "pytorch", "file": "a.pt2"}),
        ("a", {"backend": "auto", "config": 'platform: "torch_aoti"\n', "file": "a"}),
    ],
)
def test_a_package_of_aotinductor_is_of_the_backend_pytorch_by_its_name(
    file: str, expected: dict[str, str], adopt: Adopt
) -> None:
    tensors = TENSORS.replace("IN", "INPUT__0").replace('"OUT"', '"RESULT"')
    config = f'platform: "torch_aoti" default_model_filename: "{file}" {tensors}{CPU}'
    pipeline = ensemble(step("m", {"INPUT__0": "IN"}, {"RESULT": "OUT"}))
    found = adopt.answers({"e": pipeline, "m": config})["steps"][0]
    assert {key: found.get(key) for key in ("backend", "config", "file")} == {
        "config": None,
        **expected,
    }


@pytest.mark.parametrize("decoupled", [False, True])
def test_all_fields_come_back(decoupled: bool, adopt: Adopt, generate: Generate) -> None:
    """One ensemble has a model for each setting. Decoupled ones have an ensemble of their own, as Triton wants it."""
    settings = [entry for entry in SETTINGS if ("decoupled" in entry[2]) == decoupled]
    models = {f"m{i}": config for i, (_, config, _) in enumerate(settings)}
    steps = [step(model, {"IN": "IN"}, {"OUT": f"OUT{model}"}) for model in models]
    outputs = "\n".join(OUT.replace("OUT", f"OUT{model}") for model in models)
    repository = {"e": ensemble(*steps, interface=f"{IN}\n{outputs}\n"), **models}
    answers = adopt.answers(repository)
    project = generate(**answers)
    made, wanted = configs(project / "model_repository"), configs(adopt.folder)
    for i, (setting, _, expected) in enumerate(settings):
        if setting == "the default said":
            wanted[f"m{i}"].ClearField("version_policy")
        if setting == "the file it has anyway":
            wanted[f"m{i}"].ClearField("default_model_filename")
        if setting == "no cache":
            wanted[f"m{i}"].ClearField("response_cache")
        assert made[f"m{i}"] == wanted[f"m{i}"], (setting, expected)
    assert made == wanted


def test_steps_come_in_an_order_in_which_each_is_after_its_writers(adopt: Adopt) -> None:
    a, b = step("a", {"IN": "IN"}, {"OUT": "T"}), step("b", {"IN": "T"}, {"OUT": "OUT"})
    answers = adopt.answers({"e": ensemble(b, a), "a": PYTHON, "b": PYTHON})
    assert [step["name"] for step in answers["steps"]] == ["a", "b"]
    assert list(answers["tensors"]) == ["IN", "T", "OUT"]


def test_names_of_all_kinds_and_another_ensemble_name(adopt: Adopt, generate: Generate) -> None:
    names = ["389", "Sigmoid:0", "a/b_0.tmp_1", "Merchant Name", "t", "T", "no", "1e3", "Errors?"]
    tensors = "\n".join(
        f'input {{ name: "{name}" data_type: TYPE_INT64 dims: [1] }}'
        f'output {{ name: "{name}" data_type: TYPE_STRING dims: [-1, 2] }}'
        for name in names
    )
    interface = tensors.replace('output { name: "', 'output { name: "out ')
    maps = {name: name for name in names}, {name: f"out {name}" for name in names}
    config = f'backend: "python" {tensors} {CPU}'
    models = {"my.e-1": ensemble(step("m.x-y", *maps), interface=interface), "m.x-y": config}
    answers = check_round_trip(models, adopt, generate)
    assert (answers["project_name"], answers["ensemble_name"]) == ("my.e-1", "my.e-1")
    assert answers["steps"][0]["inputs"] == names


def test_one_model_in_two_steps(adopt: Adopt, generate: Generate) -> None:
    model = PYTHON.replace(OUT, OUT + ' output { name: "MORE" data_type: TYPE_FP32 dims: [1] }')
    again = step("a", {"IN": "T"}, {"OUT": "OUT"})
    models = {"e": ensemble(step("a", {"IN": "IN"}, {"OUT": "T"}), again), "a": model}
    answers = check_round_trip(models, adopt, generate)
    assert answers["steps"][1] == {
        "name": "a-2",
        "model": "a",
        "inputs": {"IN": "T"},
        "outputs": ["OUT"],
    }


def test_an_ensemble_in_an_ensemble(adopt: Adopt, generate: Generate) -> None:
    models = {
        "outer": ensemble(
            step("inner", {"IN": "IN"}, {"OUT": "T"}), step("c", {"IN": "T"}, {"OUT": "OUT"})
        ),
        "inner": CHAIN,
        **dict.fromkeys("abc", PYTHON),
    }
    answers = check_round_trip(models, adopt, generate)
    inner = answers["steps"][0]
    assert answers["project_name"] == "outer"  # the one that no other uses
    assert (inner["backend"], list(inner["tensors"])) == ("ensemble", ["IN", "T", "OUT"])
    assert [step["name"] for step in inner["steps"]] == ["a", "b"]


FIRST, THEN = ({"IN": "IN"}, {"OUT": "T"}), ({"IN": "T"}, {"OUT": "OUT"})
ONE = ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}))
SHARED = {
    "inside, then outside": {"e": ensemble(step("f", *FIRST), step("m", *THEN)), "f": ONE},
    "outside, then inside": {"e": ensemble(step("m", *FIRST), step("f", *THEN)), "f": ONE},
    "in two ensembles": {"e": ensemble(step("f", *FIRST), step("g", *THEN)), "f": ONE, "g": ONE},
    "two levels down": {
        "e": ensemble(step("g", *FIRST), step("m", *THEN)),
        "g": ensemble(step("f", {"IN": "IN"}, {"OUT": "OUT"})),
        "f": ONE,
    },
    "an ensemble": {
        "e": ensemble(step("g", *FIRST), step("f", *THEN)),
        "g": ensemble(step("f", *FIRST), step("m", *THEN)),
        "f": ONE,
    },
}


@pytest.mark.parametrize("models", SHARED.values(), ids=SHARED)
def test_one_model_in_several_ensembles(
    models: dict[str, str], adopt: Adopt, generate: Generate
) -> None:
    check_round_trip({**models, "m": PYTHON}, adopt, generate)


def test_an_exposed_intermediate_stays_exposed(adopt: Adopt, generate: Generate) -> None:
    interface = f'{TENSORS} output {{ name: "T" data_type: TYPE_FP32 dims: [4] }}'
    models = {**TWO, "e": CHAIN.replace(TENSORS, interface)}
    answers = check_round_trip(models, adopt, generate)
    assert (answers["outputs"], answers["ensemble"]) == (["OUT", "T"], {"all_outputs": True})


def test_branches_that_share_no_tensor(adopt: Adopt, generate: Generate) -> None:
    interface = TENSORS + TENSORS.replace("IN", "IN2").replace("OUT", "OUT2")
    steps = step("a", {"IN": "IN"}, {"OUT": "OUT"}), step("b", {"IN": "IN2"}, {"OUT": "OUT2"})
    models = {"e": ensemble(*steps, interface=interface), "a": PYTHON, "b": PYTHON}
    assert check_round_trip(models, adopt, generate)["ensemble"] == {"all_outputs": True}


def test_the_ensembles_own_settings(adopt: Adopt, generate: Generate) -> None:
    more = (
        "version_policy { all { } } response_cache { enable: true }"
        'parameters { key: "k" value { string_value: "v" } } metric_tags { key: "a" value: "b" }'
    )
    models = alone(e=ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}), more=more))
    assert check_round_trip(models, adopt, generate)["ensemble"] == {
        "cache": True,
        "versions": "all",
        "parameters": {"k": "v"},
        "config": 'metric_tags {\n  key: "a"\n  value: "b"\n}\n',
    }


def test_tensors_that_a_binding_overrides(adopt: Adopt, generate: Generate) -> None:
    """The table has what readers agree on. The bindings have the rest, and what only the ensemble declares."""
    image = 'name: "IN" data_type: TYPE_FP32 dims: [3, -1, -1]'
    shape = "dims: [1] reshape { shape: [] }"
    models = {
        "e": ensemble(
            step("a", {"IN": "IN", "N": "N"}, {"OUT": "T"}),
            step("b", {"IN": "T"}, {"OUT": "OUT"}),
            interface=f'max_batch_size: 4 input {{ {image} }} input {{ name: "N" data_type: TYPE_INT32 dims: [1] optional: true }}'
            'output { name: "OUT" data_type: TYPE_FP32 dims: [4] label_filename: "l.txt" }',
        ),
        "a": f'backend: "python" max_batch_size: 4 input {{ {image} format: FORMAT_NCHW allow_ragged_batch: true }}'
        f'input {{ name: "N" data_type: TYPE_INT32 {shape} optional: true }}'
        'input { name: "UNFED" data_type: TYPE_INT32 dims: [1] optional: true }' + OUT,
        "b": f'backend: "onnxruntime" {IN.replace("[4]", "[-1, 4]")} {OUT.replace("[4]", "[-1, 4]")}',
    }
    answers = check_round_trip(models, adopt, generate)
    assert answers["tensors"] == {
        "IN": {"type": "FP32", "dims": [3, -1, -1], "format": "NCHW", "ragged": True},
        "N": {"type": "INT32", "dims": [1], "optional": True},
        "T": "FP32[4]",
        "OUT": "FP32[4]",
    }
    assert answers["steps"][0]["inputs"] == {
        "IN": "IN",
        "N": {"tensor": "N", "reshape": []},
        "UNFED": {"type": "INT32", "dims": [1], "optional": True},
    }
    assert answers["steps"][1]["inputs"] == {"IN": {"tensor": "T", "dims": [-1, 4]}}
    assert answers["outputs"] == {"OUT": {"labels": "l.txt"}}


BY_FIELD = {"reshape": "{ shape: [2] }", "format": "FORMAT_NCHW", "label_filename": '"l.txt"'}
TENSOR_FIELDS = [
    (side, field.name)
    for side, message in (("input", "ModelInput"), ("output", "ModelOutput"))
    for field in model_config_pb2.DESCRIPTOR.message_types_by_name[message].fields
    if field.name not in ("name", "data_type", "dims")
]


@pytest.mark.parametrize(("side", "field"), TENSOR_FIELDS)
def test_each_field_of_a_tensor_comes_back(
    side: str, field: str, adopt: Adopt, generate: Generate
) -> None:
    interface = TENSORS.replace("[4]", "[1, 1, 2]")
    tensor = re.search(f"{side} {{.*}}", interface)[0]  # type: ignore[index]
    more = f"{tensor[:-1]} {field}: {BY_FIELD.get(field, 'true')} }}"
    backend = "tensorrt" if field in TENSORRT_ALONE else "onnxruntime"
    model = f'backend: "{backend}" {interface.replace(tensor, more)}'
    wired = ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}), interface=interface)
    check_round_trip({"e": wired, "m": model}, adopt, generate)


def test_old_backends_need_an_old_release(adopt: Adopt) -> None:
    answers = adopt.answers(alone(m=f'platform: "tensorflow_savedmodel" {TENSORS}'))
    assert (answers["triton_release"], answers["steps"][0]["backend"]) == ("25.02", "tensorflow")


def test_gpus_and_queue_delay_are_those_of_the_models(adopt: Adopt) -> None:
    batching = "dynamic_batching { max_queue_delay_microseconds: 500 }"
    config = f"{ONNX} {batching} instance_group {{ count: 1 kind: KIND_GPU gpus: [0, 1] }}"
    answers = adopt.answers(alone(m=config))
    assert (answers["gpu_count"], answers["max_queue_delay_us"]) == (2, 500)
    assert answers["steps"][0] == {
        "name": "m",
        "backend": "onnxruntime",
        "inputs": ["IN"],
        "outputs": ["OUT"],
        "adopted": True,
        "max_batch_size": 8,
        "device": "gpu",
        "gpus": [0, 1],
    }


def test_without_the_extra_that_renders_the_rules_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules_with.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2_ansible_filters", None)
    assert adopted(str(write(tmp_path / "repository", alone()))) == 2
    rules_with.cache_clear()
    assert capsys.readouterr().err == (
        "jinja2_ansible_filters is missing, which the rules on pipeline.yml need; "
        "run: pip install 'triton-ensemble[answers]'\n"
    )


def said(adopt: Adopt, models: dict[str, str], files: dict[str, str] | None = None) -> list[str]:
    """Return what the command says of a repository with these files beside its configs."""
    folder = write(adopt.folder, models)
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert adopted(str(folder)) == 0
    return adopt.capsys.readouterr().err.splitlines()


def test_what_to_copy_is_said_and_not_done(
    adopt: Adopt, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {**TWO, "b": f'backend: "onnxruntime" {TENSORS}'}
    folder = write(adopt.folder, models)
    for name in ("a/1/model.py", "a/1/lib/more.py", "a/1/vocab.txt", "b/labels.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    before = sorted(folder.rglob("*"))
    assert adopted(str(folder)) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "a: copy 1/lib/more.py, 1/model.py, 1/vocab.txt to models/a/, in the same folders",
        "b: copy labels.txt to models/b/, in the same folders",
        "b: has no 1/model.onnx; put it at models/b/1/model.onnx",
    ]
    assert yaml.safe_load(out)["steps"][0]["name"] == "a"
    assert sorted(folder.rglob("*")) == before


NAMED: list[tuple[str, dict[str, str], dict[str, str], str]] = [
    (
        "packages that are imported",
        alone(),
        {
            "m/1/model.py": "import json, cv2, torch.nn\nimport triton_python_backend_utils, own, data.far\n"
            "def f():\n    from sentence_transformers import util\n    from . import near\n",
            "m/1/own.py": "import numpy, yaml",
            "m/1/data/far.py": "import",
        },
        "m: imports opencv-python-headless, pyyaml, sentence-transformers, torch; "
        "add them to its `requirements`",
    ),
    (
        "labels and warmup data that are missing",
        alone(
            m=PYTHON.replace('"OUT" data_type', '"OUT" label_filename: "data/l.txt" data_type')
            + 'model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: [4] input_data_file: "x" } } }'
        ),
        {"m/data/other.txt": ""},
        "m: has no warmup/x; put it at models/m/warmup/x",
    ),
    (
        "comments",
        alone(m=f"# mine\n{PYTHON}"),
        {},
        "comments are not kept, of the configs of m",
    ),
    (
        "models of no step",
        alone(n=PYTHON, other=ensemble(step("n", {"IN": "IN"}, {"OUT": "OUT"}))),
        {},
        "not adopted, as nothing of the ensemble uses them: n, other",
    ),
    (
        "what lies beside the models",
        alone(),
        {"requirements.txt": "torch", "env.tar.gz": ""},
        "files beside the models are not kept: env.tar.gz, requirements.txt",
    ),
    (
        "a file that keeps models out of git",
        alone(),
        {"m/1/.gitignore": "*.onnx"},
        "m: 1/.gitignore is not kept, as it may keep models out of git",
    ),
    (
        "a backend of one's own",
        alone(m=f'backend: "spline" {TENSORS}'),
        {"m/libtriton_spline.so": ""},
        "m: the backend spline is not one of Triton's; "
        "its library must be in models/m/ or in the image that TRITON_IMAGE names",
    ),
    (
        "a backend that a script is to fill in",
        alone(m=f'backend: "${{triton_backend}}" {TENSORS}'),
        {},
        "m: its backend is still ${triton_backend}; write the name of one, like tensorrtllm",
    ),
    (
        "an output that is declared twice alike",
        alone(m=PYTHON + OUT),
        {},
        "m: declares its output OUT twice, and now once",
    ),
    (
        "dims that TensorRT adds",
        alone(
            m=f'platform: "tensorrt_plan" {TENSORS} output {{ name: "N" data_type: TYPE_INT32 }}'
        ),
        {},
        "m: has N without dims, and now with those that Triton adds, [1]",
    ),
    (
        "rows that the model does not take",
        {**TWO, "e": f"max_batch_size: 8 {CHAIN}"},
        {},
        "e/config.pbtxt:4: ensemble tensor IN: [-1,4] is inferred from model e while [4] is inferred from model a: "
        "requests of more than one row are refused; write the rows as -1 in its dims, or max_batch_size: 1 in the ensemble",
    ),
    (
        "requests that the model does not answer",
        {**TWO, "e": CHAIN.replace("dims: [4]", "dims: [4] optional: true", 1)},
        {},
        "e/config.pbtxt:4: input IN of model a needs IN, which requests may leave out; make both optional, or neither",
    ),
]


@pytest.mark.parametrize(
    ("models", "files", "line"), [pytest.param(m, f, line, id=i) for i, m, f, line in NAMED]
)
def test_what_an_owner_must_know_is_said(
    models: dict[str, str], files: dict[str, str], line: str, adopt: Adopt, generate: Generate
) -> None:
    if "other" in models:
        folder = write(adopt.folder, models)
        assert adopted(str(folder), "--ensemble", "e") == 0
        lines = adopt.capsys.readouterr().err.splitlines()
    else:
        lines = said(adopt, models, files)
    assert line in lines


# As tensorrtllm_backend has them: numbers and types bare, texts in quotes, which its code takes as not given.
TEMPLATE = """
backend: "${triton_backend}"
max_batch_size: ${triton_max_batch_size}  # ${comment}
input { name: "IN" data_type: ${type} dims: [4] }
output { name: "OUT" data_type: TYPE_FP32 dims: [4] }
model_transaction_policy { decoupled: ${decoupled_mode} }
parameters { key: "dir" value { string_value: "${engine_dir}/${engine_dir}" } }
instance_group { count: 1 kind: KIND_CPU }
"""
VALUES = {"triton_max_batch_size": "0", "type": "TYPE_FP32", "decoupled_mode": "true"}


def setting(values: dict[str, str]) -> list[str]:
    return [part for item in values.items() for part in ("--set", "=".join(item))]


def test_placeholders_are_named_and_filled_in(adopt: Adopt, generate: Generate) -> None:
    models = alone(m=TEMPLATE, e=f"max_batch_size: ${{triton_max_batch_size}}\n{alone()['e']}")
    assert adopt.refusal(models) == (
        "e/config.pbtxt:1: has placeholders without a value: triton_max_batch_size, type, decoupled_mode; "
        "add --set NAME=VALUE for each"
    )
    lines = adopt.text({}, *setting(VALUES)).splitlines()
    assert (
        "# m: has placeholders without a value: engine_dir; add --set NAME=VALUE for each, or write the values in pipeline.yml"
    ) in lines
    values = {**VALUES, "triton_backend": "python", "engine_dir": "/engines"}
    text = adopt.text({}, *setting(values))
    assert "placeholder" not in text
    project = generate(**yaml.safe_load(text))
    for name in ("e", "m"):
        path = adopt.folder / name / "config.pbtxt"
        for key, value in values.items():
            path.write_text(path.read_text().replace(f"${{{key}}}", value))
    assert configs(project / "model_repository") == configs(adopt.folder)


def test_values_that_no_config_wants_are_refused(adopt: Adopt) -> None:
    line = adopt.refusal(alone(m=TEMPLATE), "--set", "typ=TYPE_FP32")
    assert line == "--set typ: is not a placeholder of any config; did you mean type?"
    line = adopt.refusal({}, *setting({**VALUES, "type": "FP32"}))
    assert line.startswith(
        'm/config.pbtxt:4: Enum type "inference.DataType" has no value named FP32'
    )
    with pytest.raises(SystemExit):
        adopted(str(adopt.folder), "--set", "type")
    assert "write NAME=VALUE" in adopt.capsys.readouterr().err


def test_a_large_file_is_named(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone())
    with (folder / "m/1/weights.bin").open("wb") as file:
        file.truncate(200_000_000)
    assert said(adopt, {})[2] == (
        "models/m/1/weights.bin: 200 MB are too much for git; keep it by Git LFS, or let a script fetch it"
    )


def test_version_folders_that_git_dropped(adopt: Adopt) -> None:
    models = {
        "e": CHAIN,
        "a": PYTHON,
        "b": PYTHON + "version_policy { specific { versions: [2] } }",
    }
    folder = write(adopt.folder, models)
    for name in models:
        (folder / name / "1").rmdir()
    assert said(adopt, {}) == [
        *(
            f"{name}: has no version folder, because git drops empty folders; it counts as version {version}"
            for name, version in (("e", 1), ("a", 1), ("b", 2))
        ),
        "a: has no 1/model.py; put it at models/a/1/model.py",
        "b: has no 2/model.py; put it at models/b/2/model.py",
    ]


BLS = "pb_utils.InferenceRequest(model_name={}, inputs=[])"


def test_a_model_that_is_only_called_is_a_step_without_tensors(
    adopt: Adopt, generate: Generate
) -> None:
    """Its name is a text in the code, or a parameter."""
    by_parameter = PYTHON + 'parameters { key: "next" value { string_value: "deeper" } }'
    folder = write(adopt.folder, alone(deep=by_parameter, deeper=PYTHON))
    (folder / "m/1/model.py").write_text(BLS.format("'deep'"))
    (folder / "deep/1/helper.py").write_text(BLS.format("args['next']"))
    answers = adopt.answers({})
    assert answers["steps"][1:] == [
        {
            "name": name,
            "backend": "python",
            "inputs": {"IN": {"type": "FP32", "dims": [4]}},
            "outputs": {"OUT": {"type": "FP32", "dims": [4]}},
            "adopted": True,
            **more,
        }
        for name, more in (
            ("deep", {"parameters": {"next": "deeper"}, "calls": ["deeper"]}),
            ("deeper", {}),
        )
    ]
    assert answers["steps"][0]["calls"] == ["deep"]
    project = generate(**answers)
    assert configs(project / "model_repository") == configs(adopt.folder)
    assert "s1 -.->|calls| s" in (project / "README.md").read_text()


def test_a_call_in_code_of_a_newer_python(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone(n=PYTHON))
    (folder / "m/1/model.py").write_text(f"lazy import json\n{BLS.format(repr('n'))}")
    assert adopt.answers({})["steps"][0]["calls"] == ["n"]


def test_a_name_in_code_that_calls_nothing_is_no_call(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone(n=PYTHON))
    (folder / "m/1/model.py").write_text("NAME = 'n'")
    assert len(adopt.answers({})["steps"]) == 1


def test_a_link_out_of_the_repository_is_not_read_as_code(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone(n=PYTHON))
    outside = adopt.folder.parent / "outside.py"
    outside.write_text(BLS.format("'n'"))
    (folder / "m/1/helper.py").symlink_to(outside)
    repository = Repository.read(folder)
    assert find_called_models(repository.models["m"], repository.folders) == set()


def test_a_called_model_must_declare_its_tensors(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone(n='backend: "onnxruntime"'))
    (folder / "m/1/model.py").write_text(BLS.format("'n'"))
    assert adopt.refusal({}) == (
        "n/config.pbtxt: is only called by other models, and declares no inputs or no outputs; declare them"
    )


ASK = "import json\nNAMES = json.load(open('names.json'))\nclass Asks:\n  def ask(self, request, kind):\n    "
COMPUTED = {
    "put together": "name = f'deep_{kind}'",
    "JSON": "name = NAMES[kind]",
    "YAML": "name = yaml.safe_load(text)['model']",
    "the request": "name = pb_utils.get_input_tensor_by_name(request, 'NAME').as_numpy()[0].decode()",
    "an argument": "name = kind",
    "the environment": "name = os.environ.get('MODEL', 'deep')",
    "one of two": "name = 'deep' if kind else NAMES[kind]",
}
KNOWN = {
    "a text": "name = 'deep'",
    "a table": "name = {'x': 'deep', 'y': 'm'}[kind]",
    "a list": "name = [each for each in ('deep', 'm')][kind]",
    "a parameter": "name = json.loads(kind)['parameters']['deep']['string_value']",
    "a table's default": "name = {'x': 'deep'}.get(kind, 'm')",
}


@pytest.mark.parametrize("how", [*COMPUTED, *KNOWN])
def test_models_that_code_may_call_by_a_computed_name_are_adopted(
    how: str, adopt: Adopt, generate: Generate
) -> None:
    """All others, but for those that use the caller, or can't be called."""
    around = ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}))
    write(adopt.folder, alone(deep=PYTHON, other=PYTHON, n=TYPO, u='backend: "onnxruntime"'))
    write(adopt.folder, {"around": around})
    code = f"{ASK}{(COMPUTED | KNOWN)[how]}\n    {BLS.format('name')}"
    (adopt.folder / "m/1/model.py").write_text(code)
    status = adopted(str(adopt.folder), "--ensemble", "e")
    out, err = adopt.capsys.readouterr()
    assert status == 0, err
    answers = yaml.safe_load(out)
    [step_m, *others] = answers["steps"]
    assert (step_m["name"], [each["name"] for each in others]) == ("m", step_m.get("calls", []))
    if how in KNOWN:
        assert (step_m.get("calls", []), "computes" in err) == (["deep"] * ("deep" in code), False)
        return
    assert step_m["calls"] == ["deep", "other"]
    others = "other" if "'deep'" in code else "deep, other"
    assert (
        "m/1/model.py:6: computes the name of the model that it calls, so that all others are "
        f"adopted: {others}; drop from `calls` what it never calls"
    ) in err.splitlines()
    assert (
        "not adopted: u/config.pbtxt: m may call it, and it declares no inputs or no outputs; declare them"
        in err
    )
    made = configs(generate(**answers) / "model_repository")
    assert made == {name: parsed(adopt.folder / name / "config.pbtxt") for name in made}


def test_a_router_may_call_ensembles_and_their_models(adopt: Adopt, generate: Generate) -> None:
    write(adopt.folder, {**TWO, "r": PYTHON})
    (adopt.folder / "r/1/model.py").write_text(BLS.format("NAMES['x']"))
    answers = adopt.answers({}, "--ensemble", "r")
    assert answers["steps"][0]["calls"] == ["a", "b", "e"]
    made = configs(generate(**answers) / "model_repository")
    assert made.pop("r_pipeline")
    assert made == configs(adopt.folder)


def test_a_name_is_known_where_a_caller_says_it(adopt: Adopt) -> None:
    """It is the argument of a function, an attribute, what a loop goes through, or in another file."""
    write(adopt.folder, alone(deep=PYTHON, other=PYTHON))
    (adopt.folder / "m/1/names.py").write_text("FIRST = 'deep'")
    (adopt.folder / "m/1/model.py").write_text(
        "from names import FIRST\n"
        "class Asks:\n"
        "  def __init__(self): self.first = FIRST\n"
        f"  def ask(self, name): {BLS.format('name')}\n"
        f"  def more(self):\n    for each in [FIRST]: {BLS.format('each')}\n"
        "    name = f'{each}'\n"
        "  def run(self): self.ask(self.first), self.ask(name='deep')\n"
    )
    assert adopt.answers({})["steps"][0]["calls"] == ["deep"]


def test_a_state_that_begins_with_a_scalar(adopt: Adopt, generate: Generate) -> None:
    state = (
        'state { input_name: "SI" output_name: "SO" data_type: TYPE_INT64'
        ' initial_state { name: "zero" data_type: TYPE_INT64 zero_data: true } }'
    )
    config = f"max_batch_size: 4 {ONNX.replace('max_batch_size: 8', '')} {CPU} sequence_batching {{ {state} }}"
    check_round_trip(alone(m=config), adopt, generate)


def into(adopt: Adopt, project: Path) -> int:
    return adopted(str(adopt.folder), "--into", str(project))


def test_files_are_copied_into_a_project(adopt: Adopt, tmp_path: Path) -> None:
    """Under their numbers, with what an empty version folder needs for git to keep it. Twice does no harm."""
    labelled = PYTHON.replace("dims: [4] }\ninst", 'dims: [4] label_filename: "l.txt" }\ninst')
    folder = write(adopt.folder, alone(m=labelled))
    (folder / "m/1").rename(folder / "m/3")
    files = {"m/3/model.py": "# mine", "m/3/env/bin/run": "#!", "m/l.txt": "cat", "m/warmup/w": "0"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "m/3/env/bin/run").chmod(0o755)
    (folder / "m/3/again.py").symlink_to("model.py")
    (folder / "m/4").symlink_to("3")
    (folder / "m/3/around").symlink_to(folder / "m")
    (folder / "m/2").mkdir()
    for _ in range(2):
        assert into(adopt, tmp_path / "project") == 0
        out, err = adopt.capsys.readouterr()
        assert (yaml.safe_load(out)["project_name"], "copy" in err) == ("e", False)
    made = tmp_path / "project" / "models"
    found = {
        str(path.relative_to(made)): path.read_text() for path in made.rglob("*") if path.is_file()
    }
    assert "version folder" in found.pop("m/2/README.md")
    of_version = {"model.py": "# mine", "again.py": "# mine", "env/bin/run": "#!"}
    versions = {f"m/{i}/{name}": text for i in (3, 4) for name, text in of_version.items()}
    assert found == versions | {"m/l.txt": "cat", "m/warmup/w": "0"}
    assert os.access(made / "m/3/env/bin/run", os.X_OK)


@pytest.mark.parametrize(
    "target", ["/usr", "/dev/zero", "key", "../../../key", "../../..", "../.."]
)
def test_a_link_out_of_the_repository_is_refused(adopt: Adopt, tmp_path: Path, target: str) -> None:
    """A link to the repository itself is none."""
    folder = write(adopt.folder, alone())
    (tmp_path / "key").write_text("secret")
    (folder / "m/1/model.py").write_text("# mine")
    (folder / "m/1/odd").symlink_to(tmp_path / target if target == "key" else target)
    status, (out, err) = into(adopt, tmp_path / "project"), adopt.capsys.readouterr()
    if target == "../..":
        assert status == 0, err
    else:
        line = f"{folder}/m/1/odd: is a link out of the repository, to "
        assert (status, out, err[: len(line)], err.count("\n")) == (1, "", line, 1)
    assert (tmp_path / "project").exists() == (not status)


@pytest.mark.parametrize("name", ["m", "m/1", "m/1/model.py.unfinished", "m/2/README.md"])
def test_no_link_of_a_project_leads_a_copy_elsewhere(
    adopt: Adopt, tmp_path: Path, name: str
) -> None:
    folder = write(adopt.folder, alone())
    (folder / "m/1/model.py").write_text("# theirs")
    (folder / "m/2").mkdir()
    link, out = tmp_path / "project/models" / name, tmp_path / "project/.git/hooks"
    link.parent.mkdir(parents=True)
    out.mkdir(parents=True)
    link.symlink_to(out / "file" if link.suffix else out)
    status, (_, err) = into(adopt, tmp_path / "project"), adopt.capsys.readouterr()
    assert list(out.iterdir()) == []
    if not link.suffix:
        assert (status, err.count("\n")) == (1, 1)
        assert "is out of the project, or in .git" in err


@pytest.mark.parametrize("name", ["size", "links"])
def test_no_copy_fills_the_disk(adopt: Adopt, tmp_path: Path, name: str) -> None:
    """A sparse file is small, and links that double at each of 12 levels are few."""
    folder = write(adopt.folder, alone())
    with (folder / "m/1/model.py").open("wb") as file:
        file.truncate(2 * shutil.disk_usage(tmp_path).free if name == "size" else 9)
    for i in range(12 * (name == "links")):
        (folder / f"m/x{i}").mkdir()
        for way in "ab":
            (folder / f"m/x{i}/{way}").symlink_to(f"../x{i + 1}")
    (folder / "m/x12").mkdir()
    (folder / "m/x12/weights").write_text("0")
    assert into(adopt, tmp_path / "project") == 1
    assert not (tmp_path / "project").exists()
    said = adopt.capsys.readouterr().err
    assert {"size": "bytes free", "links": "two links to one folder"}[name] in said


def test_links_in_a_circle_end(adopt: Adopt, tmp_path: Path) -> None:
    """A folder that one is in already is left out. A tree of links that doubles at each of 30 levels is refused."""
    folder = write(adopt.folder, alone())
    for one, other in (("1", "2"), ("2", "1")):
        (folder / "m" / one).mkdir(exist_ok=True)
        (folder / "m" / one / "model.py").write_text(one)
        (folder / "m" / one / "way").symlink_to(f"../{other}")
    assert into(adopt, tmp_path / "project") == 0
    made = tmp_path / "project/models/m"
    assert {path.relative_to(made).as_posix() for path in made.rglob("*.py")} == {
        "1/model.py", "1/way/model.py", "2/model.py", "2/way/model.py",
    }  # fmt: skip
    for i in range(30):
        (folder / f"m/x{i}").mkdir()
        for name in "ab":
            (folder / f"m/x{i}/{name}").symlink_to(f"../x{i + 1}")
    adopt.capsys.readouterr()
    assert into(adopt, tmp_path / "other") == 1
    assert "/m: has more than 100000 files" in adopt.capsys.readouterr().err


def test_no_file_of_a_project_is_overwritten(adopt: Adopt, tmp_path: Path) -> None:
    folder = write(adopt.folder, TWO)
    for name in "ab":
        (folder / name / "1/model.py").write_text("# theirs")
    mine = tmp_path / "models/b/1/model.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("# mine")
    assert into(adopt, tmp_path) == 1
    out, err = adopt.capsys.readouterr()
    assert (out, err) == (
        "",
        f"{mine}: exists already, and differs from {folder}/b/1/model.py; keep one of them\n",
    )
    assert (mine.read_text(), (tmp_path / "models/a").exists()) == ("# mine", False)


LINES: list[tuple[str, dict[str, str], str]] = [
    (
        "unknown field",
        alone(m=PYTHON + "\ninputs { }"),
        'm/config.pbtxt:6: Message type "inference.ModelConfig" has no field named "inputs"; did you mean input?',
    ),
    (
        "unknown type",
        alone(m=PYTHON.replace("TYPE_FP32", "TYPE_FLOAT")),
        'm/config.pbtxt:2: Enum type "inference.DataType" has no value named TYPE_FLOAT; write TYPE_FP32',
    ),
    (
        "type without TYPE_",
        alone(m=PYTHON.replace("TYPE_FP32", "FP32")),
        'm/config.pbtxt:2: Enum type "inference.DataType" has no value named FP32; write TYPE_FP32',
    ),
    (
        "placeholder",
        alone(m=PYTHON + "\nmax_batch_size: ${size}"),
        "m/config.pbtxt:6: has placeholders without a value: size; add --set NAME=VALUE for each",
    ),
    (
        "trailing comma",
        alone(m='input [ { name: "IN" }, ]'),
        'm/config.pbtxt:1: Expected "{"; write it as Triton\'s model_config.proto has it',
    ),
    (
        "name is not the folder",
        alone(m='name: "n" ' + PYTHON),
        "m/config.pbtxt:1: unexpected directory name 'm' for model 'n', directory name must equal model name; write name: \"m\", or rename the folder",
    ),
    (
        "folder name",
        alone(e=ensemble(step("my model", *ONCE)), **{"my model": PYTHON}),
        "my model/config.pbtxt:1: Invalid stub name: 'my model' contains invalid characters; use letters, digits, `_`, `-` and `.`",
    ),
    (
        "platform python",
        alone(m=f'platform: "python" {TENSORS}'),
        "m/config.pbtxt:1: unexpected platform type 'python' for m; write backend: \"python\" instead",
    ),
    (
        "no type",
        alone(m='backend: "python" input { name: "IN" dims: [1] }'),
        "m/config.pbtxt:1: model input 'IN' must specify 'data_type'; add it",
    ),
    (
        "one name twice",
        alone(m=PYTHON + OUT.replace("[4]", "[5]")),
        "m/config.pbtxt:5: output OUT is declared twice; drop one",
    ),
    (
        "warmup of another input",
        alone(
            m=PYTHON
            + 'model_warmup { name: "w" batch_size: 1 inputs { key: "INN" value { zero_data: true } } }'
        ),
        "m/config.pbtxt:5: model_warmup 'w' lacks the required input 'IN'; add it",
    ),
    (
        "warmup without an input",
        alone(m=PYTHON + 'model_warmup { name: "w" batch_size: 1 }'),
        "m/config.pbtxt:5: model_warmup 'w' lacks the required input 'IN'; add it",
    ),
    (
        "backend ensemble",
        alone(e='backend: "ensemble"'),
        'e/config.pbtxt:1: ensemble is a platform, and no backend; write platform: "ensemble"',
    ),
    (
        "no platform",
        {**TWO, "e": CHAIN.replace('platform: "ensemble"', "")},
        "e/config.pbtxt:1: ensemble scheduling cannot be set for model 'e' whose platform is not ensemble; write platform: \"ensemble\" and no backend",
    ),
    (
        "no steps",
        {"e": ensemble()},
        "e/config.pbtxt:4: must specify 'step' for ensemble 'e'; add its steps",
    ),
    (
        "no outputs",
        {**TWO, "e": CHAIN.replace(OUT, "")},
        "e/config.pbtxt:4: ensemble tensor 'OUT' is unused in ensemble 'e'; leave it out of output_map",
    ),
    (
        "instances of an ensemble",
        alone(e=ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}), more=CPU)),
        "e/config.pbtxt:4: instance group should not be specified for ensemble 'e'; move it to the models of its steps",
    ),
    (
        "no output map",
        alone(e=ensemble(step("m", {"IN": "IN"}, {}))),
        "e/config.pbtxt:3: output 'OUT' for ensemble 'e' is not written; map it in a step's output_map",
    ),
    (
        "no such model",
        alone(e=ensemble(step("n", {"IN": "IN"}, {"OUT": "OUT"}))),
        "e/config.pbtxt:4: ensemble e contains models that are not available or ambiguous: n; add the folder n",
    ),
    (
        "version that is not there",
        alone(e=ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}, version=2))),
        "e/config.pbtxt:4: ensemble 'e' depends on 'm' whose required version 2 is not loaded; write model_version: -1 for the latest",
    ),
    (
        "no version",
        alone(e=ensemble(step("m", {"IN": "IN"}, {"OUT": "OUT"}).replace("model_version: -1", ""))),
        "e/config.pbtxt:4: ensemble 'e' depends on 'm' whose required version 0 is not loaded; write model_version: -1 for the latest",
    ),
    (
        "unknown input",
        alone(e=ensemble(step("m", {"INN": "IN"}, {"OUT": "OUT"}))),
        "e/config.pbtxt:4: in ensemble e, ensemble tensor IN is mapping to non-existing input INN in model m; did you mean IN?",
    ),
    (
        "unknown output",
        alone(e=ensemble(step("m", {"IN": "IN"}, {"LOGITS": "OUT"}))),
        "e/config.pbtxt:4: in ensemble e, ensemble tensor OUT is mapped from non-existing output LOGITS in model m; key and value are swapped",
    ),
    (
        "input that is not fed",
        alone(m=PYTHON + 'input { name: "MASK" data_type: TYPE_BOOL dims: [1] }'),
        "e/config.pbtxt:4: in ensemble e, input MASK in model m is not mapped to any ensemble tensors; add it to the step's input_map",
    ),
    (
        "backend that finds no tensors",
        alone(m='backend: "pytorch"'),
        "e/config.pbtxt:4: in ensemble e, ensemble tensor IN is mapping to non-existing input IN in model m; it has none",
    ),
    (
        "circle of ensembles",
        {
            "e": ensemble(step("f", {"IN": "IN"}, {"OUT": "OUT"})),
            "f": ensemble(step("e", {"IN": "IN"}, {"OUT": "OUT"})),
        },
        "e/config.pbtxt:4: circular dependency between ensembles: e -> f -> e; let one of them use another model",
    ),
    (
        "types differ",
        {**TWO, "b": PYTHON.replace(IN, IN.replace("FP32", "INT32"))},
        "e/config.pbtxt:4: in ensemble e, ensemble tensor T: inconsistent data type: TYPE_FP32 is inferred from model a while TYPE_INT32 is inferred from model b; make them the same",
    ),
    (
        "dims differ",
        {**TWO, "b": PYTHON.replace(IN, IN.replace("[4]", "[5]"))},
        "e/config.pbtxt:4: in ensemble e, ensemble tensor T: inconsistent shape: [4] is inferred from model a while [5] is inferred from model b; make them the same, or -1 where a dim varies",
    ),
    (
        "dims differ in half a config",
        {**TWO, "b": f'backend: "onnxruntime" {IN.replace("[4]", "[5]")}'},
        "e/config.pbtxt:4: in ensemble e, ensemble tensor T: inconsistent shape: [4] is inferred from model a while [5] is inferred from model b; make them the same, or -1 where a dim varies",
    ),
    (
        "batch size",
        alone(e="max_batch_size: 8 " + alone()["e"], m="max_batch_size: 4 " + PYTHON),
        "e/config.pbtxt:4: ensemble e allows maximum batch size 8, but it contains model m which only allows maximum batch size to be 4; raise the one or lower the other",
    ),
    (
        "nobody writes",
        {**TWO, "e": CHAIN.replace('"OUT" value: "T"', '"OUT" value: "U"')},
        "e/config.pbtxt:3: output 'OUT' for ensemble 'e' is not written: at least one of its depending tensors is not connected; map it in a step's output_map",
    ),
    (
        "nobody reads",
        {**TWO, "e": CHAIN.replace(IN, IN + IN.replace("IN", "IN2"))},
        "e/config.pbtxt:2: ensemble input 'IN2' for ensemble e' is not used; did you mean IN?",
    ),
    (
        "nobody writes an output",
        {**TWO, "e": CHAIN.replace(OUT, OUT + OUT.replace("OUT", "OUT2"))},
        "e/config.pbtxt:3: output 'OUT2' for ensemble 'e' is not written; did you mean OUT?",
    ),
    (
        "written input",
        alone(
            e=ensemble(
                step("m", {"IN": "IN"}, {"OUT": "IN"}), interface=IN + IN.replace("input", "output")
            )
        ),
        "e/config.pbtxt:2: step 0 writes 'IN', an input of ensemble 'e': Triton runs the steps that read it twice, and often never answers; give it another name here",
    ),
    (
        "circle",
        {
            **TWO,
            "e": ensemble(
                step("a", {"IN": "U"}, {"OUT": "T"}), step("b", {"IN": "T"}, {"OUT": "U"})
            ),
        },
        "e/config.pbtxt:2: ensemble input 'IN' for ensemble e' is not used; drop it, or map it in a step",
    ),
    (
        "dims of 0",
        alone(m=PYTHON.replace("[4]", "[0]")),
        "m/config.pbtxt:2: model input 'IN' dimension must be integer >= 1, or -1 to indicate a variable-size dimension; write -1 where it varies",
    ),
    (
        "reshape",
        alone(m=PYTHON.replace("[4] }", "[4] reshape { shape: [5] } }", 1)),
        "m/config.pbtxt:2: model input 'IN' has different size for dims and reshape; let both hold as many values",
    ),
    (
        "preferred size",
        alone(m=ONNX + "dynamic_batching { preferred_batch_size: 16 }"),
        "m/config.pbtxt:4: dynamic batching preferred size must be <= max batch size for m; it is 16, max_batch_size 8; drop it or raise that",
    ),
]


@pytest.mark.parametrize(("models", "line"), [pytest.param(m, line, id=i) for i, m, line in LINES])
def test_a_repository_that_triton_refuses_is_refused(
    models: dict[str, str], line: str, adopt: Adopt
) -> None:
    arguments = ["--ensemble", "e"] if "f" in models else []
    assert adopt.refusal(models, *arguments) == line


def test_a_config_by_another_name(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone())
    (folder / "m/config.pbtxt").rename(folder / "m/config_template.pbtxt")
    assert adopt.refusal({}).endswith(
        "; its config must be named config.pbtxt: fill in config_template.pbtxt and rename it"
    )


def test_folders_that_are_no_models(adopt: Adopt) -> None:
    (adopt.folder / "docs").mkdir(parents=True)
    [line] = (line for line in said(adopt, alone()) if "docs" in line)
    assert line.startswith(
        "not adopted: docs/config.pbtxt:1: Invalid model name: Could not determine backend"
    )
    assert line.endswith(
        "each folder of a repository must be a model: add its config, or move it away"
    )


TYPO = f"{PYTHON}\ninputs {{ }}"
UNKNOWN = (
    'n/config.pbtxt:6: Message type "inference.ModelConfig" has no field named "inputs"; '
    "did you mean input?"
)


@pytest.mark.parametrize("neighbour", [TYPO, PYTHON.replace("[4]", "[0]")])
def test_a_fault_in_a_neighbour_is_named_and_stops_nothing(
    neighbour: str, adopt: Adopt, generate: Generate
) -> None:
    lines = said(adopt, {**TWO, "n": neighbour})
    assert [line for line in lines if line.startswith("not adopted: n/config.pbtxt:")]
    assert [step["name"] for step in adopt.answers({})["steps"]] == ["a", "b"]


NAMES_N: dict[str, tuple[dict[str, str], str]] = {
    "by a step": (alone(e=ensemble(step("n", {"IN": "IN"}, {"OUT": "OUT"}))), ""),
    "by code": (alone(), BLS.format("'n'")),
    "it wires others": (
        alone(n=ensemble(step("e", {"IN": "IN"}, {"OUT": "OUT"}), more="inputs { }")),
        "",
    ),
}


@pytest.mark.parametrize(("models", "code"), NAMES_N.values(), ids=NAMES_N)
def test_a_fault_in_a_model_that_is_used_is_refused(
    models: dict[str, str], code: str, adopt: Adopt
) -> None:
    write(adopt.folder, {"n": TYPO, **models})
    (adopt.folder / "m/1/model.py").write_text(code)
    assert re.sub("[0-9]", "6", adopt.refusal({}), count=1) == UNKNOWN


def test_a_model_without_a_config_is_known_by_its_file(adopt: Adopt, generate: Generate) -> None:
    write(adopt.folder, alone(m=""))
    (adopt.folder / "m" / "config.pbtxt").unlink()
    (adopt.folder / "m" / "1" / "model.onnx").touch()
    answers = adopt.answers({})
    assert answers["steps"][0]["backend"] == "auto"
    config = parsed(generate(**answers) / "model_repository" / "m" / "config.pbtxt")
    assert config == model_config_pb2.ModelConfig(name="m")


OF_VLLM = """
text_input STRING[1], image STRING[-1]?, stream BOOL[1]?, sampling_parameters STRING[1]?,
exclude_input_in_output BOOL[1]?, return_finish_reason BOOL[1]?, return_cumulative_logprob BOOL[1]?,
return_logprobs BOOL[1]?, return_num_input_tokens BOOL[1]?, return_num_output_tokens BOOL[1]?,
embedding_request STRING[1]?, text_output STRING[-1], finish_reason STRING[-1],
cumulative_logprob FP32[-1], logprobs STRING[-1], num_input_tokens UINT32[1], num_output_tokens UINT32[-1]
"""  # `?`: optional
WRITES = ensemble(
    step("m", {"text_input": "TEXT", "stream": "STREAM"}, {"text_output": "ANSWER"}),
    interface='input [{ name: "TEXT" data_type: TYPE_STRING dims: [1] },'
    ' { name: "STREAM" data_type: TYPE_BOOL dims: [1] optional: true }]'
    'output { name: "ANSWER" data_type: TYPE_STRING dims: [-1] }',
)
VLLM = 'backend: "vllm" instance_group { count: 1 kind: KIND_MODEL }'


@pytest.mark.parametrize(
    "more", ["", 'input { name: "text_input" data_type: TYPE_STRING dims: [1] }']
)
def test_vllm_has_the_tensors_that_its_backend_adds(
    more: str, adopt: Adopt, generate: Generate
) -> None:
    answers = adopt.answers({"e": WRITES, "m": VLLM + more})
    made = configs(generate(**answers) / "model_repository")
    assert made["e"] == parsed(adopt.folder / "e/config.pbtxt")
    specs = [(each.name, tensor_spec(each)) for each in (*made["m"].input, *made["m"].output)]
    assert {
        f"{name} {spec['type']}{spec['dims']}{'?' * spec.get('optional', False)}"
        for name, spec in specs
    } == {each.strip() for each in OF_VLLM.split(",")}
    for field in ("input", "output", "model_transaction_policy"):
        made["m"].ClearField(field)
    assert made["m"] == text_format.Parse(f'name: "m" {VLLM}', model_config_pb2.ModelConfig())


def test_a_python_model_that_declares_nothing(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone(m='backend: "python"'))
    (folder / "m" / "1" / "model.py").touch()
    assert "is mapping to non-existing input IN in model m; it has none" in adopt.refusal({})


def test_no_code_runs_unless_it_may(adopt: Adopt) -> None:
    folder = write(adopt.folder, alone(m='backend: "python"'))
    (folder / "m" / "1" / "model.py").write_text("def auto_complete_config(config): ...")
    assert adopt.refusal({}) == (
        "m/config.pbtxt: declares no inputs or no outputs; auto_complete_config of 1/model.py does; "
        "run adopt with --run-code, which calls it, or declare them in config.pbtxt"
    )


@pytest.mark.parametrize(
    ("policy", "instead"),
    [
        (
            "specific { versions: [2] }",
            "add the folder m/2, or take one of those that are there: 1",
        ),
        ("latest { }", "the folder has 1"),
    ],
)
def test_a_version_that_the_policy_wants(policy: str, instead: str, adopt: Adopt) -> None:
    line = adopt.refusal(alone(m=f"{PYTHON} version_policy {{ {policy} }}"))
    assert line.endswith(f"of model 'm'; {instead}")


@pytest.mark.parametrize("version", ["v1", "01", "old"])
def test_version_folders(version: str, adopt: Adopt) -> None:
    folder = write(adopt.folder, alone()) / "e"
    (folder / "1").rename(folder / version)
    line = "e/config.pbtxt:1: at least one version must be available under the version policy of model 'e'; add the folder e/1 (not 01, not v1)"
    assert adopt.refusal({}) == line


def test_no_directory_and_no_ensemble(adopt: Adopt, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopted(str(adopt.folder)) == 1
    assert (
        capsys.readouterr().err == f"{adopt.folder}: no such directory; name a model repository\n"
    )
    line = adopt.refusal({"m": PYTHON, "n": PYTHON})
    assert line.endswith("has no ensemble, but several models: m, n; name one with --ensemble")
    assert adopt.answers({}, "--ensemble", "n")["project_name"] == "n_pipeline"


SINGLE = {
    "python": PYTHON,
    "rows": f"{ONNX}{CPU}dynamic_batching {{ }}",
    "optional": PYTHON.replace("dims: [4] }", "dims: [4] optional: true }", 1),
    "decoupled": f"{PYTHON}model_transaction_policy {{ decoupled: true }}",
}


@pytest.mark.parametrize("config", SINGLE.values(), ids=SINGLE)
def test_a_single_model_is_the_step_of_an_ensemble(
    config: str, adopt: Adopt, generate: Generate
) -> None:
    answers = adopt.answers({"m": config})
    assert (answers["project_name"], [each["name"] for each in answers["steps"]]) == (
        "m_pipeline",
        ["m"],
    )
    made = configs(generate(**answers) / "model_repository")
    assert made.pop("m_pipeline").ensemble_scheduling.step[0].model_name == "m"
    assert made == configs(adopt.folder)


def test_a_single_model_must_declare_its_tensors(adopt: Adopt) -> None:
    assert adopt.refusal({"m": 'backend: "onnxruntime"'}) == (
        "m/config.pbtxt: is in no ensemble, and declares no inputs or no outputs; declare them"
    )


@pytest.mark.parametrize("name", WIRED_BY_CODE)
def test_a_model_that_calls_others_is_a_step_with_calls(name: str, adopt: Adopt) -> None:
    HandMade(WIRED_BY_CODE[name]).write(adopt.folder)
    answers = adopt.answers({})
    assert answers["project_name"] == "e_pipeline"
    steps = {step["name"]: step for step in answers["steps"]}
    called = ["inner"] if name == "an ensemble" else ["deep"]
    assert (*steps, steps["e"]["calls"]) == ("e", *called, called)
    assert (steps["e"]["inputs"], steps["e"]["outputs"]) == (["IN"], ["OUT"])


def test_several_models_that_call_others_are_listed(adopt: Adopt) -> None:
    """An ensemble that one of them is a step of is the pipeline, as is one beside them."""
    files = dict(WIRED_BY_CODE["a literal name"])
    files |= {f"f/{path[2:]}": content for path, content in files.items() if path[:2] == "e/"}
    HandMade(files).write(adopt.folder)
    line = adopt.refusal({})
    assert line.endswith("has several pipelines: e, f; name one with --ensemble")
    assert adopt.answers({}, "--ensemble", "f")["project_name"] == "f_pipeline"
    line = adopt.refusal({}, "--ensemble", "deep")
    assert line.endswith("has no ensemble deep; there are e, f")
    over = ensemble(step("f", {"IN": "IN"}, {"OUT": "T"}), step("e", {"IN": "T"}, {"OUT": "OUT"}))
    assert adopt.answers({"g": over})["project_name"] == "g"


def test_a_step_whose_code_names_its_ensemble_is_no_pipeline(adopt: Adopt) -> None:
    write(adopt.folder, alone())
    (adopt.folder / "m/1/model.py").write_text(calling("e"))
    assert adopt.answers({})["project_name"] == "e"


def test_several_ensembles(adopt: Adopt) -> None:
    models = {**TWO, "f": ensemble(step("a", {"IN": "IN"}, {"OUT": "OUT"}))}
    assert adopt.refusal(models).endswith("has several pipelines: e, f; name one with --ensemble")
    assert adopt.refusal({}, "--ensemble", "g").endswith("has no ensemble g; there are e, f")
    assert adopt.answers({}, "--ensemble", "f")["project_name"] == "f"
