"""Shared by tests: the check: each rule on a repository of its own, and on a real Triton where that can be asked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from model_bytes import ONNX_FILE

from triton_ensemble.check.examples import MODEL, model_code
from triton_ensemble.check.python_code import CLASS as NAME

IN = 'input { name: "IN" data_type: TYPE_FP32 dims: [4] }\n'
OUT = 'output { name: "OUT" data_type: TYPE_FP32 dims: [4] }\n'
CPU = "instance_group { kind: KIND_CPU }\n"
PYTHON = f'backend: "python"\n{IN}{OUT}{CPU}'  # 4 lines


def step(model: str, inputs: str = "IN=IN", outputs: str = "OUT=OUT", version: int = -1) -> str:
    """Return a step of an ensemble. Tensors are `MODEL'S=ENSEMBLE'S`, a line for each."""
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


def importing(line: str, module: str | None, rule: str = "") -> Case:
    """Return a case of a model that imports from its helper.py, or from its folder helper/ without modules."""
    path = "@m/1/helper.py" if module else "@m/1/helper/__init__.py"
    return Case(
        rule, {**code("", f"{line}\n{MODEL}", 0).files, path: module or ""}, "m/1/model.py:1"
    )


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
    Case("backend", {"@m": f'platform: "tensorrt_plan"\n{PYTHON.replace("python", "onnxruntime")}', "@m/1/model.onnx": ONNX_FILE}, "m/config.pbtxt:1"),
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
    Case("model-format", {"@m": PYTHON.replace("python", "onnxruntime"), "@m/1/model.onnx": "<net></net>"}, "m/config.pbtxt:1"),
    Case("model-format", {"@m": PYTHON.replace("python", "onnxruntime"), "@m/1/model.onnx": ONNX_FILE[:2] + ":\1"}, "m/config.pbtxt:1"),
    Case("model-format", {"@m": PYTHON.replace("python", "openvino"), "@m/1/model.xml": ""}, "m/config.pbtxt:1"),
    one("execution-environment", f'{PYTHON}parameters {{ key: "EXECUTION_ENV_PATH"\nvalue {{ string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" }} }}', 5),
    one("execution-environment", f'{PYTHON}parameters {{ key: "EXECUTION_ENV_PATH"\nvalue {{ string_value: "env.tar.gz" }} }}', 5),
    one("execution-environment", f'{PYTHON}parameters {{ key: "EXECUTION_ENV_PATH"\nvalue {{ string_value: "$TRITON_MODEL_DIRECTORY/env" }} }}', 5),
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
    one("batching-override", f"{BATCHES}dynamic_batching {{ priority_levels: 2 default_priority_level: 1 priority_queue_policy {{ key: 2 value {{ allow_timeout_override: true }} }} }}", 6),
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
    code("python-class", f"import sys\nsys.exit(1)\n{MODEL}", 2),
    code("python-version", f"x = t'{{1}}'\n{MODEL}", 1, ask=False),
    *(importing(line, module, "python-import") for line, module in (
        ("from helper import scale", "size = 1"), ("from .helper import scale", "size = 1"), ("import helper.more", None), ("from helper.more import x", None),
        ("import json, helper", "def f(:"), ("import helper", "raise ImportError"), ("import helper", "import sys\nsys.exit(0)"), ("from helper import size, scale", "class size: ..."), ("from helper import x", None),
    )),
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
    "a data type of a control that is not a correlation id": {"@m": BATCHES + 'sequence_batching { control_input { name: "C" control { int32_false_true: [0, 1] data_type: TYPE_STRING } } }'},
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
    "bytes that are not text": {"@m": f'{PYTHON}parameters {{ key: "k" value {{ string_value: "\\377\\xfe\\777\\ud83d\\ude00\\ud83d\\U00110000" }} }}'},
    "an execute that is set later": code("", f"{CLASS}pass\n\nTritonPythonModel.execute = lambda self, requests: []\n", 0).files,
    "a model by other means": code("", f"from json import JSONDecoder as M\nif M:\n    def {NAME}():\n        return M()\n", 0).files,
    **{
        f"{line} of {module}": importing(line, module).files
        for line, module in (
            ("from helper import size", "size = 1"), ("from helper import dumps", "from json import *"), ("from helper import x", "def __getattr__(name): ..."), ("import helper, json.tool", None),
            ("from .helper import a, B, c", "import json as a\nclass B: ...\nif a:\n    def c(): ..."), ("if 0:\n    from helper import x", "y = 1"), ("from helper import __file__", "y = 1"),
        )
    },
    "responses that are sent, and none returned": code("", MODEL.rpartition("return")[0] + "[each.get_response_sender().send(each) for each in requests]\n        return []\n", 0).files,
    "an exit of a script": code("", f"import sys\nif {NAME!r} in sys.argv:\n    sys.exit(1)\n{MODEL}", 0).files,
    "arguments of other names": code("", MODEL.replace("(self, requests", "(this, *requests, more=0") + "\n    def initialize(self, args, more=0):\n        return \"is\" is 1\n", 0).files,
}  # fmt: skip


def write(folder: Path, files: Files, prefix: str = "") -> Path:
    """Write configs by the model's name, with a version 1 and, for Python, a model.py, and other files and folders by path."""
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
                code.write_text(model_code(text))
    return folder


DEPLOYMENT = {  # by rule: the file, what is changed there to what, and the line of the finding
    "cache-off": ("serve.sh", "--cache-config=local,size=67108864", "--exit-on-error=true", None),
    "shared-memory": ("compose.yaml", "shm_size", "x-shm_size", "  triton:"),
    "repository-writable": ("serve.sh", "=none", "=poll", "--model-control-mode"),
}
