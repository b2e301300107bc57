"""The check: each rule on a repository of its own, and on a real Triton where that can be asked."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from gatekeeper import Gatekeeper
from pipelines import pipelines
from support import ROOT, UNUSUAL, Generate, Project, succeed
from test_properties import build, drawn, reasons, serving
from test_wiring import WIRINGS

from triton_ensemble import catalog
from triton_ensemble.check.engine import check
from triton_ensemble.check.python_code import CLASS as NAME
from triton_ensemble.check.rules import RULES
from triton_ensemble.cli import main
from triton_ensemble.server.local_triton import ServerError

# More: CHECKED=200 SEED=7 python -m pytest tests/test_check.py
CHECKED = int(os.environ.get("CHECKED", 4))
LOCAL = "24.10"  # the release of the local Triton
MODEL = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for request in requests]
"""
IN = 'input { name: "IN" data_type: TYPE_FP32 dims: [4] }\n'
OUT = 'output { name: "OUT" data_type: TYPE_FP32 dims: [4] }\n'
CPU = "instance_group { kind: KIND_CPU }\n"
PYTHON = f'backend: "python"\n{IN}{OUT}{CPU}'  # 4 lines


def step(model: str, inputs: str = "IN=IN", outputs: str = "OUT=OUT", version: int = -1) -> str:
    """Return a step of an ensemble; tensors are `MODEL'S=ENSEMBLE'S`, a line for each."""
    maps = "".join(
        f'{side}_map {{ key: "{own}" value: "{tensor}" }}\n'
        for side, pairs in (("input", inputs), ("output", outputs))
        for own, _, tensor in (pair.partition("=") for pair in pairs.split())
    )
    return f'step {{ model_name: "{model}" model_version: {version}\n{maps}}}\n'


def ensemble(*steps: str, interface: str = IN + OUT, more: str = "") -> str:
    """Return the config of an ensemble, whose first step stands in line 5."""
    return f'platform: "ensemble" {more}\n{interface}ensemble_scheduling {{\n{"".join(steps)}}}\n'


def warmup(value: str, name: str = "IN", more: str = "batch_size: 1") -> str:
    return f'{PYTHON}model_warmup {{ name: "w" {more}\n inputs {{ key: "{name}"\n value {{ {value} }} }} }}\n'


DATA = "data_type: TYPE_FP32 dims: [4] zero_data: true"
BATCHES = f"max_batch_size: 4\n{PYTHON}"  # 5 lines
CLASS = "class TritonPythonModel:\n    "


Files = dict[str, str | Path | None]  # by path: text, what a link names, None for a folder


class Case(NamedTuple):
    """A repository, and the only rule that finds something in it: where. `@` goes before the names of its models."""

    rule: str
    files: Files
    place: str
    loads: bool = (
        False  # an error that the local Triton does not refuse: it never answers, or is too old
    )
    ask: bool = True  # a Triton: some wait for ever or die, and the local Triton adapts some


def one(rule: str, config: str, line: int, **more: Any) -> Case:
    return Case(rule, {"@m": config}, f"m/config.pbtxt:{line}", **more)


def wired(rule: str, config: str, line: int, *models: str, **more: Any) -> Case:
    """Return a case of the ensemble `e` of models named a, b ..."""
    files: Files = {f"@{'abc'[i]}": each for i, each in enumerate(models or (PYTHON,))}
    return Case(rule, {"@e": config, **files}, f"e/config.pbtxt:{line}", **more)


def code(rule: str, text: str, line: int, **more: Any) -> Case:
    return Case(rule, {"@m": PYTHON, "@m/1/model.py": text}, f"m/1/model.py:{line}", **more)


def stateful(rule: str, state: str, line: int = 6, **more: Any) -> Case:
    """Return a case of a model whose `sequence_batching` stands in line 6."""
    return one(rule, f"{BATCHES}sequence_batching {{ {state} }}", line, **more)


def initial(state: str, first: str) -> str:
    return f'state {{ input_name: "I" output_name: "O" {state}\ninitial_state {{ {first} }} }}'


FP32 = "data_type: TYPE_FP32 dims: 4"
START = "control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }"
DELAY = "timeout_action: DELAY default_timeout_microseconds: 5"
A = step("@a")
MID = step("@a", outputs="OUT=MID")
TWO_INPUTS = f'backend: "python"\n{IN}{IN.replace("IN", "X")}{OUT}{CPU}'
DECOUPLED = f"{PYTHON}model_transaction_policy {{ decoupled: true }}\n"


def calling(model: str) -> str:
    request = f"pb_utils.InferenceRequest(model_name='{model}')"
    return MODEL.replace("return", f"request = {request}\n        return")


CASES = [
    one("parse", f"{PYTHON}\n\nmax_batch: 4", 7),
    one("parse", f"{PYTHON}max_batch_size: ${{batch}}", 5),
    one("parse", PYTHON.replace("TYPE_FP32", "FP32"), 2),
    one("parse", f"// model\n{PYTHON}", 1),
    one("parse", f"{BATCHES}max_batch_size: 4", 6),
    one("parse", f"{PYTHON}sequence_batching {{ }}\ndynamic_batching {{ }}", 6),
    one("parse", f"{PYTHON}# \u00a0\n\u00a0", 6),
    one("parse", f"{PYTHON}max_batch_size: +4", 5),
    one("parse", f"{PYTHON}max_batch_size: 0b100", 5),
    one("parse", f"{PYTHON}max_batch_size: 0o4", 5),
    one("parse", PYTHON.replace('"OUT"', r'"\OUT"'), 3),
    one("parse", PYTHON.replace('"OUT"', '"OUT\0"'), 3),
    Case("broken-link", {"@m": PYTHON, "@m/2": Path("nowhere")}, "m/2:1"),
    Case(
        "calls-cycle",
        {"@a": PYTHON, "@a/1/model.py": calling("@b"), "@b": PYTHON, "@b/1/model.py": calling("@a")},
        "a/config.pbtxt:1",
    ),
    Case("config-missing", {"@docs": None}, "docs/config.pbtxt:1"),
    Case("config-made-up", {"@m/1/model.py": MODEL}, "m/config.pbtxt:1"),
    one("name", f'name: "other"\n{PYTHON}', 1),
    Case("folder-name", {"a b": PYTHON}, "a b/config.pbtxt:1", ask=False),
    Case("folder-name", {"@ä": PYTHON}, "ä/config.pbtxt:1"),
    Case("version", {"@e": ensemble(A), "@a": PYTHON, "@e/1": None, "@e/README.md": ""}, "e/config.pbtxt:1"),
    one("version", f"{PYTHON}version_policy {{ latest {{ }} }}", 5),
    Case("version", {"@m": PYTHON, "@m/9223372036854775808/model.py": MODEL}, "m/config.pbtxt:1", ask=False),  # Triton dies of it
    Case("version-folder", {"@m": PYTHON, "@m/v2": None}, "m/config.pbtxt:1"),
    Case("version-folder", {"@m": PYTHON, "@m/1.bak": None}, "m/config.pbtxt:1"),
    one("version-listed", f"{PYTHON}version_policy {{\n specific {{ versions: [1, 2] }} }}", 6),
    one("backend", PYTHON.replace("backend", "platform"), 1),
    one("backend", IN + OUT, 1, ask=False),
    Case("backend", {"@m": f'platform: "tensorrt_plan"\n{PYTHON.replace("python", "onnxruntime")}', "@m/1/model.onnx": ""}, "m/config.pbtxt:1"),
    one("backend", PYTHON.replace("python", "$(touch${IFS}x)"), 1, ask=False),
    one("backend", f'{PYTHON}runtime: "x"', 5),
    one("backend", f'{PYTHON}runtime: "../x/libtriton_x.so"', 5),
    one("backend", f'{PYTHON}runtime: "model.py"', 5),
    one("repository-agents", f"{PYTHON}model_repository_agents {{ }}", 5, ask=False),
    one("repository-agents", f"{PYTHON}model_repository_agents {{ agents {{ }} }}", 5, ask=False),
    one("cpu-only-inputs", f'{PYTHON}parameters {{ key: "FORCE_CPU_ONLY_INPUT_TENSORS"\nvalue {{ string_value: "maybe" }} }}', 5),
    one("backend-misspelt", PYTHON.replace("python", "pyton"), 1),
    Case("vllm-batches", {"@m": f'{DECOUPLED.replace("python", "vllm")}max_batch_size: 4', "@m/1/model.json": "{}"}, "m/config.pbtxt:6", ask=False),
    one("backend-misspelt", PYTHON.replace("python", "${backend}"), 1, ask=False),  # a shell would read it
    one("model-file", PYTHON.replace("python", "onnxruntime"), 1, ask=False),
    one("model-file", f'{PYTHON}default_model_filename: "/model.py"', 5),
    Case("model-file", {"@m": f'{PYTHON}default_model_filename: "model.txt"', "@m/1/model.txt": MODEL}, "m/config.pbtxt:5"),
    Case("model-file", {"@m/1/model.py": None, "@m": PYTHON}, "m/config.pbtxt:1"),
    one("execution-environment", f'{PYTHON}parameters {{ key: "EXECUTION_ENV_PATH"\nvalue {{ string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" }} }}', 5),
    one("execution-environment", f'{PYTHON}parameters {{ key: "EXECUTION_ENV_PATH"\nvalue {{ string_value: "env.tar.gz" }} }}', 5),
    one("label-file", PYTHON.replace('"OUT"', '"OUT" label_filename: "no.txt"'), 3),
    one("label-file", PYTHON.replace('"OUT"', '"OUT" label_filename: "/etc/hosts"'), 3),
    Case("label-count", {"@m": PYTHON.replace('"OUT"', '"OUT" label_filename: "few.txt"'), "@m/few.txt": "a\nb\n"}, "m/config.pbtxt:3"),
    one("max-batch-size", f"max_batch_size: -1\n{PYTHON}", 1),
    one("tensor-name", PYTHON.replace('"OUT"', '""'), 3),
    one("tensor-type", PYTHON.replace("TYPE_FP32", "TYPE_INVALID", 1), 2),
    one("tensor-dims", PYTHON.replace("[4]", "[]", 1), 2),
    one("tensor-dims", PYTHON.replace("[4]", "[0]", 1), 2),
    one("tensor-reshape", PYTHON.replace("[4]", "[4]\nreshape { shape: [3] }", 1), 3),
    one("tensor-reshape", PYTHON.replace("[4]", "[1]\nreshape { }", 1), 3),
    one("tensor-reshape", PYTHON.replace("[4]", "[2, -1, 3]\nreshape { shape: [3, -1, 2] }", 1), 3),
    *(
        one("tensor-reshape", PYTHON.replace("[4]", f"[{dims}]\nreshape {{ shape: [{shape}] }}", 1), 3)
        for dims, shape in (("-1", "4"), ("4", "-1"), ("-1, 2", "2, -1"), ("2, 2", "2, -1, 2"), ("-1, -1", "-1"), ("4", "0"))
    ),
    one("tensor-reshape", f"max_batch_size: 1\n{PYTHON}".replace("[4]", "[-1]\nreshape { }", 1), 4),
    one("tensor-format", PYTHON.replace("[4]", "[4]\nformat: FORMAT_NCHW", 1), 3),
    one("tensor-trt-only", PYTHON.replace("[4]", "[4]\nis_shape_tensor: true", 1), 3),
    one("input-twice", IN + PYTHON, 3, loads=True),
    one("output-twice", OUT + PYTHON, 4, loads=True),
    one("tensor-twice", (IN + PYTHON).replace("[4]", "[4] optional: true", 2), 3),
    one("tensor-type-unsupported", PYTHON.replace("FP32", "BF16", 1), 2),
    one("batch-io", f'{PYTHON}batch_input {{ kind: BATCH_ITEM_SHAPE target_name: "T" data_type: TYPE_FP32 source_input: "X" }}', 5),
    one("batch-io", f'{PYTHON}batch_output {{ source_input: "IN" }}', 5, ask=False),  # Triton dies of it
    one("batching-ignored", f"{PYTHON}dynamic_batching {{ }}", 5),
    one("batching-size", f"{BATCHES}dynamic_batching {{\npreferred_batch_size: [2, 8] }}", 7),
    one("batching-priority", f"{BATCHES}dynamic_batching {{ priority_levels: 2 }}", 6),
    one("batching-order", f"{BATCHES}dynamic_batching {{ priority_levels: 2 default_priority_level: 1\npreserve_ordering: true }}", 7),
    one("cache", f"{DECOUPLED}response_cache {{ enable: true }}", 6),
    one("sequence-batching", f"{BATCHES}sequence_batching {{ oldest {{\npreferred_batch_size: 8 }} }}", 7),
    one("sequence-batching", f"{BATCHES}sequence_batching {{ oldest {{\npreferred_batch_size: 0 }} }}", 7),
    one("sequence-batching", f"{PYTHON}sequence_batching {{ oldest {{\npreferred_batch_size: 1 }} }}", 6),
    stateful("sequence-control", f'control_input {{ name: "S" {START} }}\ncontrol_input {{ name: "S" {START.replace("START", "READY")} }}', 7),
    stateful("sequence-control", f'control_input {{ name: "S" {START} }}\ncontrol_input {{ name: "T" {START} }}', 7),
    one("batching-size", f"{BATCHES}dynamic_batching {{\npreferred_batch_size: 0 }}", 7),
    one("batching-order", f"{BATCHES}dynamic_batching {{ priority_queue_policy {{ key: 3 value {{ {DELAY} }} }}\npreserve_ordering: true }}", 7),
    one("sequence-control", f'{BATCHES}sequence_batching {{\ncontrol_input {{ name: "S" control {{ kind: CONTROL_SEQUENCE_START }} }} }}', 7),
    one("sequence-control", f'{BATCHES}sequence_batching {{\ncontrol_input {{ name: "S" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 }} }} }}', 7),
    one("sequence-state", f'{BATCHES}sequence_batching {{ state {{ input_name: "I" output_name: "O" data_type: TYPE_FP32 dims: 1\ninitial_state {{ name: "s" data_type: TYPE_INT32 dims: 1 zero_data: true }} }} }}', 7),
    # Triton 24.10 says so, and then dies of some of them.
    stateful("sequence-state", initial(FP32, f"{FP32} zero_data: true"), 7, ask=False),
    stateful("sequence-state", initial(FP32.replace("4", "-1"), f'name: "s" {FP32.replace("4", "-1")} zero_data: true'), 7, ask=False),
    stateful("sequence-state", initial(FP32, f'name: "s" {FP32.replace("4", "5")} zero_data: true'), 7, ask=False),
    stateful("sequence-state", initial(FP32, f'name: "s" {FP32} dims: 1 zero_data: true'), 7, ask=False),
    stateful("sequence-state", initial(FP32, f'name: "s" {FP32} zero_data: true }} initial_state {{ name: "t" {FP32} zero_data: true'), 7, ask=False),
    stateful("sequence-state", initial(FP32, f'name: "s" {FP32}'), 7, ask=False),
    stateful("sequence-state", initial(FP32, f'name: "s" {FP32} data_file: "/etc/hosts"'), 7, ask=False),
    Case("sequence-state", {**stateful("", initial(FP32, f'name: "s" {FP32} data_file: "few"')).files, "@m/initial_state/few": "few"}, "m/config.pbtxt:7", ask=False),
    stateful("sequence-state", f'state {{ output_name: "O" {FP32} }}', loads=True),
    stateful("sequence-state", 'state { input_name: "I" output_name: "O" dims: 4 }', loads=True),
    stateful("sequence-state", f'state {{ input_name: "I" output_name: "O" {FP32.replace("4", "-2")} }}', loads=True),
    stateful("sequence-input", f'state {{ input_name: "IN" output_name: "O" {FP32.replace("4", "5")} }}', loads=True),
    stateful("sequence-state-unseen", f'state {{ input_name: "IN" output_name: "O" {FP32} }}', loads=True),
    stateful("sequence-state-unseen", f'state {{ input_name: "I" output_name: "O" {FP32} }}\nstate {{ input_name: "I" output_name: "P" {FP32} }}', 7, loads=True),
    stateful("sequence-input", f'control_input {{ name: "IN" {START} }}', loads=True),
    one("instance-gpus", PYTHON.replace("KIND_CPU", "KIND_CPU\ngpus: 0"), 5, ask=False),
    one("instance-kind", PYTHON.replace("KIND_CPU", "9"), 4),
    one("instance-passive", PYTHON.replace("KIND_CPU", "KIND_CPU\npassive: true"), 5, loads=True),
    one("instance-profile", PYTHON.replace("KIND_CPU", 'KIND_CPU\nprofile: "1"'), 5),
    one("metrics", f"{PYTHON}model_metrics {{\nmetric_control {{ }} }}", 6, loads=True),
    one("warmup-skipped", warmup(DATA, more=""), 5),
    one("warmup-batch", warmup(DATA, more="\nbatch_size: 9"), 6, ask=False),  # Triton 24.10 dies of it, now and then
    one("warmup-input", f'{PYTHON}model_warmup {{ name: "w" batch_size: 1 }}', 5),
    one("warmup-unknown", warmup(DATA).replace("inputs {", f'inputs {{ key: "IN" value {{ {DATA} }} }}\ninputs {{').replace('key: "IN"\n', 'key: "I"\n'), 7, ask=False),
    one("warmup-data", warmup("data_type: TYPE_FP32 dims: [4]"), 6),
    one("warmup-data", warmup(DATA.replace("4", "5")), 7),
    one("warmup-data", warmup(DATA.replace("4", "-1")), 7),
    one("warmup-data", warmup(DATA.replace("4", "-1")).replace("[4]", "[-1]", 1), 7),
    one("warmup-data", warmup(DATA.replace("4", "0")), 7),
    one("warmup-data", warmup(DATA.replace("FP32", "FP64")), 7),
    one("warmup-data", warmup('data_type: TYPE_FP32 dims: [4] input_data_file: "no"'), 7),
    one("warmup-data", warmup('data_type: TYPE_FP32 dims: [4] input_data_file: "/etc/hosts"'), 7),
    Case("warmup-data", {"@m": warmup('data_type: TYPE_FP32 dims: [4] input_data_file: "few"'), "@m/warmup/few": "few"}, "m/config.pbtxt:7"),
    code("python-syntax", "x = = 1\n", 1),
    code("python-syntax", f"{MODEL}return 1\n", 7),
    code("python-class", f"def f():\n    {CLASS.replace('    ', '        ')}pass\n", 1),
    code("python-arguments", f"{MODEL}\n    def initialize(self):\n        pass\n", 8),
    code("python-arguments", f"{MODEL}\n    def __init__(self, args):\n        pass\n", 8),
    code("python-arguments", MODEL.replace("self, ", ""), 5, loads=True),
    code("python-class", "class Model:\n    pass\n", 1),
    code("python-async", f"\n{CLASS}async def initialize(self, args):\n        self.answers = [None]\n    def execute(self, requests):\n        return self.answers\n", 3, loads=True),
    code("python-execute", f"\n{CLASS}def excute(self, requests):\n        return []\n", 2, loads=True),
    code("python-return", f"{CLASS}def execute(self, requests):\n        pass\n", 2),
    code("python-print", f"{MODEL}        print(1)\n", 7),
    wired("map-key-twice", ensemble(A.replace("input_map", 'input_map { key: "IN" value: "IN" }\ninput_map', 1)), 7),
    wired("map-key-lost", ensemble(A.replace("input_map", 'input_map { key: "IN" value: "X" }\ninput_map', 1)), 7, loads=True),
    wired("ensemble-platform", ensemble(A, more='backend: "python"'), 1),
    wired("ensemble-platform", ensemble(A).replace("platform", "\nbackend"), 1),
    wired("ensemble-field", f"{ensemble(A)}{CPU}", 10),
    wired("ensemble-field", f"{ensemble(A)}optimization {{ }}", 10),
    wired("ensemble-field", f'{ensemble(A)}model_warmup {{ name: "w" }}', 10),
    one("step-incomplete", f'platform: "ensemble"\n{IN}{OUT}', 1),
    wired("step-incomplete", ensemble(A.replace('model_name: "@a"', "")), 5),
    wired("ensemble-input-unused", ensemble(A, interface=IN + OUT + IN.replace("IN", "X")), 4),
    wired("ensemble-input-written", ensemble(A, step("@a", outputs="OUT=IN")), 11, loads=True),
    wired("ensemble-output-unwritten", ensemble(A, interface=IN + OUT + OUT.replace("OUT", "X")), 4),
    wired("tensor-unused", ensemble(A, MID), 11),
    wired("tensor-written-twice", ensemble(A, A), 11),
    wired("outputs-exposed", ensemble(MID, step("@a", "IN=MID"), interface=IN + OUT + OUT.replace("OUT", "MID")), 4),
    wired("outputs-apart", ensemble(A, step("@a", "IN=X", "OUT=Y"), interface=IN + OUT + (IN + OUT).replace("IN", "X").replace('"OUT', '"Y')), 3),
    Case("ensemble-cycle", {"@e": ensemble(step("@e"))}, "e/config.pbtxt:5"),
    Case("output-twice", {"@e": ensemble(A), "@a": OUT + PYTHON}, "a/config.pbtxt:4"),
    wired("step-model", ensemble(step("@x")), 5),
    wired("step-version", ensemble(step("@a", version=2)), 5),
    wired("step-version", ensemble(A.replace("model_version: -1", "")), 5),
    wired("step-batch-size", f"max_batch_size: 8 {ensemble(A)}", 5, BATCHES),
    wired("map-unknown-tensor", ensemble(step("@a", outputs="OUTPUT=OUT")), 7),
    wired("step-input-missing", ensemble(A), 5, TWO_INPUTS),
    wired("optional-chain", ensemble(A, interface=IN.replace("[4]", "[4] optional: true") + OUT), 6),
    wired("optional-alone", ensemble(A, interface=IN.replace("[4]", "[4] optional: true") + OUT), 6, PYTHON.replace("[4]", "[4] optional: true", 1)),
    wired("ensemble-platform", f'default_model_filename: "model.onnx" {ensemble(A)}', 1),
    one("metric-tags", f'{PYTHON}metric_tags {{ key: "a.b" value: "x" }}', 5, ask=False),  # Triton dies of it
    stateful("sequence-state", initial(FP32, f'name: "s" {FP32} zero_data: true') + "\n" + initial(FP32, f'name: "t" {FP32} zero_data: true'), 8, ask=False),
    wired("tensor-types-differ", ensemble(A, interface=IN.replace("FP32", "INT32") + OUT), 6),
    wired("tensor-shape", ensemble(A, interface=IN.replace("4", "5") + OUT), 6),
    wired("tensor-shape", f"max_batch_size: 4 {ensemble(A)}", 6, PYTHON.replace("[4]", "[2, 2, 4]", 1)),
    wired("readers-differ", ensemble(step("@a", outputs="OUT=MID"), step("@b", "IN=MID"), step("@c", "IN=MID", "OUT=Y"), interface=IN + OUT + OUT.replace('"OUT', '"Y')), 15, PYTHON.replace("[4]", "[-1]"), PYTHON, PYTHON.replace("[4]", "[5]", 1)),
    Case("hidden-shape", {"@e": ensemble(step("@i", outputs="OUT=MID"), step("@b", "IN=MID")), "@i": ensemble(A, interface=IN + OUT.replace("[4]", "[-1]")), "@a": PYTHON, "@b": PYTHON.replace("[4]", "[5]", 1)}, "e/config.pbtxt:10", loads=True),
    wired("batching-lost", f"max_batch_size: 8 {ensemble(step('@a', outputs='OUT=MID'), step('@b', 'IN=MID'))}", 10, BATCHES.replace("4\n", "8\n", 1), PYTHON),
    wired("decoupled-merge", ensemble(MID, step("@b", "IN=IN X=MID")), 4, DECOUPLED, TWO_INPUTS),
]  # fmt: skip
FINE: dict[str, Files] = {
    "a data type of a control that is no correlation id": {"@m": BATCHES + 'sequence_batching { control_input { name: "C" control { int32_false_true: [0, 1] data_type: TYPE_STRING } } }'},
    "a comment in Latin-1": {"@m": f"{PYTHON}# \udce9\n"},
    "a text in Latin-1": {"@m": f'{PYTHON}parameters {{ key: "\udce9" value {{ string_value: "\udce9" }} }}'},
    "quotes in quotes": {"@m": f"""{PYTHON}parameters {{ key: '"\\'+1_0#' value {{ string_value: "'\u00a0\\"" }} }} # '"""},
    "paths from a model's folder on": {
        "@m": warmup('data_type: TYPE_FP32 dims: [4] input_data_file: "/data"').replace('"OUT"', '"OUT" label_filename: "/names"'),
        "@m/warmup/data": "0123" * 4, "@m/names": "a\nb\nc\nd\n",
    },
    "a module in a folder": {"@m": f'{PYTHON}default_model_filename: "a/b-c.py"', "@m/1/a/b-c.py": MODEL},
    "an output that is a state's too": stateful("", f'state {{ input_name: "I" output_name: "OUT" {FP32} }}').files,
    "an initial size of an open dim": stateful("", initial(FP32.replace("4", "-1"), f'name: "s" {FP32} zero_data: true')).files,
    "segments of equal sizes": {"@m": PYTHON.replace("[4]", "[2, -1, 3] reshape { shape: [1, 2, -1, 3] }", 1)},
    "a scalar of a batch": {"@m": BATCHES.replace("[4]", "[1] reshape { }", 1)},
    "controls of two kinds on one tensor": stateful("", f'control_input {{ name: "S" {START} {START.replace("START", "READY")} }}').files,
    "a delay without a timeout, in order": {"@m": f"{BATCHES}dynamic_batching {{ preserve_ordering: true default_queue_policy {{ timeout_action: DELAY }} }}"},
    "policies without levels": {"@m": f"{BATCHES}dynamic_batching {{ priority_queue_policy {{ key: 3 value {{ timeout_action: REJECT }} }} }}"},
    "tags that begin with digits": {"@m": f'{PYTHON}metric_tags {{ key: "1_a" value: "." }} metric_tags {{ key: "" value: "" }}'},
    "an ensemble with a file of no backend": {"@e": f'default_model_filename: "x" {ensemble(A)}', "@a": PYTHON},
    "passive beside active": {"@m": f"{PYTHON}{CPU.replace('}', 'passive: true }')}"},
    "a sign apart from its number": {"@m": PYTHON.replace("[4]", "[ -\n1 ]")},
    "flags as numbers": {"@m": f"{PYTHON}model_transaction_policy {{ decoupled: 00 }} response_cache {{ enable: 0x0 }}"},
    "bytes that are no text": {"@m": f'{PYTHON}parameters {{ key: "k" value {{ string_value: "\\377\\xfe" }} }}'},
    "an execute that is set later": code("", f"{CLASS}pass\n\nTritonPythonModel.execute = lambda self, requests: []\n", 0).files,
    "a model by other means": code("", f"from json import JSONDecoder as M\nif M:\n    def {NAME}():\n        return M()\n", 0).files,
    "arguments of other names": code("", MODEL.replace("(self, requests", "(this, *requests, more=0") + "\n    def initialize(self, args, more=0):\n        return \"is\" is 1\n", 0).files,
}  # fmt: skip


def write(folder: Path, files: Files, prefix: str = "") -> Path:
    """Write configs by the model's name, with a version 1 and, for Python, a model.py; other files, and folders, by path."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name.replace("@", prefix)
        if isinstance(text, Path):
            path.symlink_to(text)
        elif text is None:
            path.mkdir(parents=True, exist_ok=True) if path.name != "1" else shutil.rmtree(path)
        elif "/" in name:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("@", prefix))
        else:
            (path / "1").mkdir(parents=True, exist_ok=True)
            config = text.replace("@", prefix).encode(errors="surrogateescape")
            (path / "config.pbtxt").write_bytes(config)
            code = path / "1" / "model.py"
            if ('"python"' in text or '"pyton"' in text) and not code.exists():
                code.write_text(MODEL)
    return folder


def places(repository: Path, release: str = "") -> list[str]:
    return [
        f"{f.file.relative_to(repository).as_posix()}:{f.line}: {f.rule}"
        for f in check(repository, release)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_finds_its_case_and_no_other_does(case: Case, tmp_path: Path) -> None:
    repository = write(tmp_path / "r", case.files)
    assert {*places(repository)} == {f"{case.place}: {case.rule}"}


@pytest.mark.parametrize("files", FINE.values(), ids=FINE)
def test_nothing_is_found_in_what_triton_serves(files: Files, tmp_path: Path) -> None:
    repository = write(tmp_path / "r", files)
    assert places(repository) == []
    of_the_release = {"output-twice", "steps-together"}  # which a newer one serves otherwise
    found = places(repository, LOCAL)
    assert [each for each in found if each.rpartition(": ")[2] not in of_the_release] == []


PROJECT_RULES = {
    "folder-of-no-step",
    "instance-gpu-count",
    "pipeline-changed",
    "requirement-unlocked",
    "sample-inputs",
    "step-signature",
}
DEPLOYMENT = {  # by rule: the file, what is changed there to what, and the line of the finding
    "cache-off": ("serve.sh", "--cache-config=local,size=67108864", "--exit-on-error=true", None),
    "image-release": ("Dockerfile", ":26.07-", ":25.06-", "ARG TRITON_IMAGE"),
    "shared-memory": ("compose.yaml", "shm_size", "x-shm_size", "  triton:"),
    "repository-writable": ("serve.sh", "=none", "=poll", "--model-control-mode"),
}
RELEASE_RULES = {
    "backend-gone",
    "correlation-id-text",
    "steps-together",
    "tensor-twice",
    "too-new",
}


# Rules with tests of their own: tests/unit/test_call_rules.py, test_low_rules.py and test_optional_inputs.py.
UNIT_RULES = {
    "batching-rows",
    "batching-timeout",
    "calls-decoupled",
    "calls-initialize",
    "calls-itself",
    "calls-unknown",
    "tensor-optional",
}


def test_each_rule_has_a_case() -> None:
    elsewhere = PROJECT_RULES | RELEASE_RULES | DEPLOYMENT.keys() | {"tir-image"} | UNIT_RULES
    assert {case.rule for case in CASES} | elsewhere == RULES.keys()


@pytest.mark.slow
def test_triton_refuses_what_is_an_error_and_loads_what_is_a_warning(tmp_path: Path) -> None:
    asked = [(f"c{i}_", case) for i, case in enumerate(CASES) if case.ask]
    for prefix, case in asked:
        write(tmp_path / "r", case.files, prefix)
    for i, files in enumerate(FINE.values()):
        write(tmp_path / "r", files, f"fine{i}_")
    try:
        with serving(tmp_path / "r") as client:
            why = reasons(client)
    except ServerError:  # Triton itself has died of so many that fail at once: seen once
        with serving(tmp_path / "r") as client:
            why = reasons(client)
    wrong = []
    for prefix, case in asked:
        names = [path.name for path in (tmp_path / "r").iterdir() if path.name.startswith(prefix)]
        refused = any(why.get(name, "not listed") for name in names)
        expected = RULES[case.rule].severity == "error" and not case.loads
        if refused != expected and case.rule != "config-made-up":
            wrong.append((case.rule, case.place, [why.get(name) for name in names]))
    assert wrong == []
    fine = {name: said for name, said in why.items() if name.startswith("fine")}
    assert {name.partition("_")[0] for name in fine} == {f"fine{i}" for i in range(len(FINE))}
    assert not any(fine.values()), fine


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


# Refused where they are written: nothing wrong of them reaches a config.
UNWRITTEN = {
    "a field with an answer of its own in config",
    "a field of a step at an ensemble",
    "a field of an ensemble at its step",
    "a field of an ensemble at another step",
    "a field of a model at a step that is served by another's",
}
# What only the code says that is not written here.
OF_CODE = {
    "a call of a step of sequences",
    "a step that calls itself",
    "a step that calls one that its own model serves",
    "calls of a step that is none",
    "steps that call each other, over a third",
    "tensors that a model.py of one's own adds",
}
# What is adopted is taken as it is, and the check warns.
AS_IT_IS = {"rows that a step has not, adopted"}


@pytest.mark.parametrize("name", sorted(WIRINGS.keys() - UNWRITTEN - OF_CODE - AS_IT_IS))
def test_the_check_finds_what_the_prompts_refuse_and_no_more(
    keeper: Gatekeeper, tmp_path: Path, name: str
) -> None:
    """The configs are those that the template would write if it refused nothing."""
    answers, line = WIRINGS[name]
    saved = {"ensemble_name": "p", "triton_release": LOCAL, **answers}
    (tmp_path / ".copier-answers.yml").write_text(yaml.safe_dump(saved))
    repository = written(tmp_path / "model_repository", keeper.configs(answers))
    found = [each for each in places(repository) if not each.endswith(": steps-together")]
    assert bool(found) == bool(line), (line, found)  # a warning of the release, not of the wiring


ANY_FILE = ("model.py", "model.onnx", "model.pt", "model.plan")


def written(repository: Path, configs: dict[str, str], files: Sequence[str] = ANY_FILE) -> Path:
    """Write configs, with the files that a backend could want; return the repository."""
    for name, config in configs.items():
        for version in ("1", "2"):
            (repository / name / version).mkdir(parents=True)
            for file in files:
                (repository / name / version / file).write_text(MODEL)
        (repository / name / "config.pbtxt").write_text(config)
    return repository


@pytest.mark.slow
def test_nothing_is_found_in_what_the_template_generates(template: Path, tmp_path: Path) -> None:
    findings: list[str] = []
    for i, pipeline in enumerate(drawn(pipelines(), CHECKED)):
        repository = build(template, pipeline, tmp_path / "p")
        findings += [f"{i}: {finding}" for finding in check(repository)]
        shutil.rmtree(tmp_path / "p")
    assert findings == []


def test_the_page_lists_the_rules() -> None:
    page = (ROOT / "docs/check.md").read_text()
    listed = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \| (error|warning) \|", page, re.MULTILINE)
    assert sorted(listed) == sorted((rule.id, rule.severity) for rule in RULES.values())


def test_tensorflow_and_new_fields_are_of_their_releases(tmp_path: Path) -> None:
    old = f'platform: "tensorflow_savedmodel"\n{IN}{OUT}'
    new = ensemble(A, more="").replace("{\nstep", "{\nmax_inflight_requests: 2\nstep")
    repository = write(
        tmp_path / "r", {"t": old, "t/1/model.savedmodel/x": "", "e": new, "a": PYTHON}
    )
    assert places(repository, "25.02") == ["e/config.pbtxt:5: too-new"]
    assert places(repository, "25.11") == ["t/config.pbtxt:1: backend-gone"]


def test_an_output_twice_is_refused_since_26_05(tmp_path: Path) -> None:
    repository = write(tmp_path / "r", {"m": OUT + PYTHON})
    assert places(repository, "26.04") == ["m/config.pbtxt:4: tensor-twice"]
    assert places(repository, "26.05") == ["m/config.pbtxt:4: output-twice"]
    mapped = write(tmp_path / "mapped", {"e": ensemble(A), "a": OUT + PYTHON})
    assert places(mapped, "24.10") == ["a/config.pbtxt:4: output-twice"]


TWO = PYTHON + IN.replace("IN", "IN2")


@pytest.mark.parametrize(
    ("steps", "together"),
    [
        ([step("a", outputs="OUT=M"), step("a", outputs="OUT=N"), step("b", "IN=M IN2=N")], True),
        (
            [
                step("a", outputs="OUT=L"),
                step("a", "IN=L", "OUT=M"),
                step("a", "IN=L", "OUT=N"),
                step("b", "IN=M IN2=N"),
            ],
            True,
        ),
        ([step("a", outputs="OUT=M"), step("b", "IN=M IN2=IN")], False),
        (
            [
                step("a", outputs="OUT=M"),
                step("a", "IN=M", "OUT=N"),
                step("b", "IN=M IN2=N"),
            ],
            False,
        ),
    ],
    ids=["with the request", "as another ends", "an input too", "a skip connection"],
)
def test_steps_that_begin_together_are_a_danger_before_26_05(
    tmp_path: Path, steps: list[str], together: bool
) -> None:
    repository = write(tmp_path / "r", {"e": ensemble(*steps), "a": PYTHON, "b": TWO})
    found = ["e/config.pbtxt:4: steps-together"] if together else []
    assert places(repository, "26.04") == found
    assert places(repository, "26.05") == []


def test_a_nested_ensemble_is_a_model_like_any_other(tmp_path: Path) -> None:
    inner = ensemble(step("a"))
    files: Files = {"e": ensemble(step("inner")), "inner": inner, "a": PYTHON}
    assert places(write(tmp_path / "good", files)) == []
    wrong = files | {"inner": ensemble(step("e"))}
    assert places(write(tmp_path / "circle", wrong)) == [
        "e/config.pbtxt:5: ensemble-cycle",
        "inner/config.pbtxt:5: ensemble-cycle",
    ]
    versions = files | {"e": ensemble(step("inner", version=3))}
    assert places(write(tmp_path / "version", versions)) == ["e/config.pbtxt:5: step-version"]


def test_a_folder_that_begins_with_a_number_is_that_version(tmp_path: Path) -> None:
    repository = write(
        tmp_path / "r",
        {
            "m": PYTHON,
            "m/2.bak/model.py": MODEL,
            "e": ensemble(step("m")),
            "e/1": None,
            "e/1x": None,
        },
    )
    assert places(repository) == [
        "e/config.pbtxt:1: version-folder",
        "m/config.pbtxt:1: model-file",
        "m/config.pbtxt:1: version-folder",
    ]


def test_a_broken_link_beside_the_models(tmp_path: Path) -> None:
    repository = write(tmp_path / "r", {"m": PYTHON, "gone": Path("nowhere")})
    assert places(repository) == ["gone:1: broken-link"]


@pytest.mark.parametrize("form", ["text", "github", "json"])
def test_forms(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "r", {"m": PYTHON.replace("[4]", "[0]", 1)})
    assert main(["check", str(tmp_path / "r"), "--format", form]) == 1
    printed = capsys.readouterr().out
    path = tmp_path / "r/m/config.pbtxt"
    what = "model input 'IN' dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
    instead = "write -1 where it varies"
    finding = {"file": str(path), "line": 2, "rule": "tensor-dims", "severity": "error"}
    if form == "json":
        assert json.loads(printed) == [finding | {"what": what, "instead": instead}]
    elif form == "github":
        assert printed == f"::error file={path},line=2,title=tensor-dims::{what}; {instead}\n"
    else:
        assert printed == f"{path}:2: error: tensor-dims: {what}; {instead}\n"


def test_make_check(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own")
    done = project.make("check")
    assert succeed(done).count("\n") <= 1
    assert done.stderr.splitlines()[0] == "3 models: nothing found"
    label = project / "model_repository/prepare/config.pbtxt"
    label.write_text(label.read_text().replace("TYPE_", "TYP_", 1))
    done = project.make("check", "FORMAT=github")
    assert done.returncode
    assert "::error file=model_repository/prepare/config.pbtxt,line=" in done.stdout


def test_a_project_whose_pipeline_was_changed_but_not_applied(generate: Generate) -> None:
    project = generate()
    succeed(project.make("repository"))
    path = project / "pipeline.yml"
    text = path.read_text()
    path.write_text(text.replace("max_batch_size: 8", "max_batch_size: 16"))
    line = text[: text.index("max_batch_size")].count("\n") + 1
    [finding] = check(project / "model_repository")
    assert (finding.file, finding.line, finding.rule) == (path, line, "pipeline-changed")
    path.write_text(text.replace("max_batch_size: 8", "max_batch_size: -8"))
    said = project.make("check").stdout
    changed = "pipeline-changed: max_batch_size is not what the project was made from"
    assert f"{changed}; commit the change, then run `make update`" in said
    assert (
        f"pipeline.yml:{line}: error: answers: max_batch_size is -8" in said
    )  # as an update refuses it


def test_a_sample_of_other_inputs_is_named(generate: Generate) -> None:
    """As after an update to a pipeline of other inputs; no test is collected before."""
    project = generate()
    succeed(project.make("repository"))
    path = project / "samples/old.json"
    path.write_text('{\n  "outputs": {},\n  "inputs": {"PICTURE": [["a"]]}\n}\n')
    said = project.make("test").stdout
    what = "lacks the input IMAGE and has PICTURE, which the ensemble does not take"
    assert (
        f"samples/old.json:3: error: sample-inputs: {what}; add IMAGE and take PICTURE out" in said
    )
    assert "passed" not in said


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"inputs": "IMAGE"}', '{"inputs": 1}', '{"stub": 1, "inputs": {"Z": 1}}'],
)
def test_what_is_no_sample_is_left_to_tests(generate: Generate, content: str) -> None:
    project = generate()
    (project / "samples/old.json").write_text(content)
    findings = check(project / "model_repository")
    assert "sample-inputs" not in {finding.rule for finding in findings}


def test_a_step_that_does_not_compile(generate: Generate) -> None:
    project = generate()
    succeed(project.make("repository"))
    path = project / "steps/label.py"
    path.write_text(path.read_text() + "\n\ndef open(:\n")
    line = path.read_text().count("\n")
    said = project.make("check").stdout
    assert f"steps/label.py:{line}: error: python-syntax: SyntaxError: " in said


def test_a_package_that_the_lock_lacks(generate: Generate) -> None:
    wanted = {"requirements": ["NumPy", "regex"]}
    project = generate(
        tensors={"A": "FP32[4]", "B": "FP32[4]"},
        steps=[{"name": "one", "backend": "python", "inputs": ["A"], "outputs": ["B"], **wanted}],
        starting_pipeline="my-own",
    )
    [finding] = [f for f in check(project / "model_repository") if f.rule == "requirement-unlocked"]
    assert finding.file == project / "pipeline.yml"
    assert "regex" in finding.file.read_text().splitlines()[finding.line - 1]
    lock = project / "requirements.lock"
    lock.write_text(f"{lock.read_text()}regex==2025.1.1\n")
    assert not [f for f in check(project / "model_repository") if f.rule == "requirement-unlocked"]


def test_a_folder_of_no_step(generate: Generate) -> None:
    project = generate()
    repository = project / "model_repository"
    succeed(project.make("repository"))
    write(repository, {"former": PYTHON})
    (repository / "gone" / "1").mkdir(parents=True)
    (repository / "gone" / "1" / "model.onnx").touch()
    gpu = repository / "label/config.pbtxt"
    gpu.write_text(gpu.read_text().replace("KIND_CPU", "KIND_GPU"))
    assert [
        (f.file.parent.name, f.rule) for f in check(repository) if f.rule != "config-made-up"
    ] == [
        ("former", "folder-of-no-step"),
        ("gone", "config-missing"),
        ("label", "instance-gpu-count"),
    ]


@pytest.mark.parametrize(
    "change", [('model_name: "', 'model_name: "no'), ("platform:", "foo: 3 platform:")]
)
@pytest.mark.parametrize("name", ["steps in one process", "nested ensemble, interfaces of its own"])
def test_an_error_of_the_ensemble_makes_no_model_an_orphan(
    generate: Generate, name: str, change: tuple[str, str]
) -> None:
    """One that pipeline.yml does not name is none either: of steps that share a process, or of an output that is read."""
    project = generate(**UNUSUAL[name])
    succeed(project.make("repository"))
    config = project / "model_repository" / UNUSUAL[name]["project_name"] / "config.pbtxt"
    config.write_text(config.read_text().replace(*change))
    findings = check(project / "model_repository")
    assert {finding.file for finding in findings if finding.severity == "error"} == {config}
    assert "folder-of-no-step" not in {finding.rule for finding in findings}


def test_without_the_ensemble_no_model_is_an_orphan(generate: Generate) -> None:
    project = generate(**UNUSUAL["steps in one process"])
    succeed(project.make("repository"))
    shutil.rmtree(project / "model_repository/joined")
    assert check(project / "model_repository") == []


def test_a_step_that_the_ensemble_passes_by_is_no_orphan(generate: Generate) -> None:
    """pipeline.yml has it."""
    fields = {"backend": "python", "fuse": False}
    steps = [
        {"name": "one", "inputs": {"x": "A"}, "outputs": {"y": "B"}, **fields},
        {"name": "two", "inputs": {"x": "B"}, "outputs": {"y": "C"}, **fields},
    ]
    project = generate(
        starting_pipeline="my-own",
        ensemble_name="e",
        tensors=dict.fromkeys("ABC", "FP32[4]"),
        steps=steps,
    )
    succeed(project.make("repository"))
    config = project / "model_repository/e/config.pbtxt"
    config.write_text(config.read_text().replace('model_name: "two"', 'model_name: "one"'))
    assert check(project / "model_repository") == []


def test_a_pipeline_that_cannot_be_read(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own")
    for content, line, what in (
        (b"", 1, "has no answers"),
        (b"\xff\0", 1, "is not UTF-8"),
        (b"ci: none\n2: x\n", 2, "has the key 2, which YAML reads as no text"),
        (b"ci: none\n? [1]\n: x\n", 2, "has a key that is a list or a mapping"),
        (b"ci: none\nci: none\n", 2, "'ci' stands twice"),
    ):
        (project / "pipeline.yml").write_bytes(content)
        [finding] = [f for f in check(project / "model_repository") if f.rule == "pipeline-changed"]
        assert (finding.line, finding.what) == (line, what)


@pytest.mark.parametrize(
    "answers",
    [
        "steps: 3\n",
        "steps: [build, test]\n",
        "steps: {a: b}\n",
        "steps: [{name: a, steps: 3, requirements: 4}]\n",
        "steps: [{name: a, requirements: 4}]\nensemble: 5\n",
    ],
)
def test_the_answers_of_another_template_are_not_ours(tmp_path: Path, answers: str) -> None:
    (tmp_path / ".copier-answers.yml").write_text(
        f"{answers}triton_release: [x]\ngpu_count: many\n"
    )
    repository = write(tmp_path / "models", {"m": PYTHON})
    assert check(repository) == []


def test_a_project_whose_answers_are_damaged(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own")
    answers = project / ".copier-answers.yml"
    made_from = answers.read_bytes()
    for damage in (b"<<<<<<< before\n", b"x: 2026-13-45\n", b"\xff", b"? [1]\n: 2\n"):
        answers.write_bytes(damage + made_from)
        [finding] = [f for f in check(project / "model_repository") if f.rule == "pipeline-changed"]
        assert (finding.file, finding.what) == (answers, "is no YAML")


@pytest.fixture(scope="module")
def deployed(generate: Generate) -> Project:
    """Return a project that caches, has Python steps, and an image without models."""
    project = generate(starting_pipeline="my-own", ensemble={"cache": True})
    succeed(project.make("repository"))
    mounted = project / "deploy/compose.mounted.yaml"
    mounted.write_text(mounted.read_text().replace(":ro", ""))
    return project


@pytest.mark.parametrize("rule", DEPLOYMENT)
def test_what_deploy_does_with_the_repository(deployed: Project, rule: str) -> None:
    assert check(deployed / "model_repository") == []
    name, before, after, place = DEPLOYMENT[rule]
    path = deployed / "deploy" / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    [finding] = check(deployed / "model_repository")
    line = next(i for i, line in enumerate(text.splitlines(), 1) if (place or "") in line)
    assert (finding.file, finding.line, finding.rule) == (path, line, rule)
    path.write_text(text)


def test_the_tables_of_the_catalogue_fit_each_other() -> None:
    backends = catalog.backends()
    by_file = catalog.backends_by_file()
    assert {*by_file.values(), *catalog.backends_by_platform().values()} <= backends.keys()
    files = {each.file: name for name, each in backends.items() if each.file in by_file}
    assert files.items() <= by_file.items()
    types = catalog.data_types().keys()
    assert {*catalog.correlation_id_types()} <= types
    assert {name for each in backends.values() for name in each.without} <= types
    assert [*catalog.releases()] == sorted(catalog.releases())
    assert {each.until for each in backends.values()} <= {"", *catalog.releases()}


@pytest.mark.slow
def test_the_example_of_the_page(
    generate: Generate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = generate()
    succeed(project.make("repository"))
    config = project / "model_repository/image_classification/config.pbtxt"
    before, last, after = config.read_text().rpartition("model_version: -1\n")
    assert last
    config.write_text(before + "\n" + after)
    monkeypatch.chdir(project.path)
    assert main(["check"]) == 1
    page = (ROOT / "docs/check.md").read_text()
    assert f"```console\n{capsys.readouterr().out}```" in page
