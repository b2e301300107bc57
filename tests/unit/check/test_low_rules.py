"""Small differences between the check and Triton: what each says of a repository, tried on Triton 2.51."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.examples import (
    BATCHES,
    MODEL,
    A,
    ensemble_text,
    step_text,
)
from triton_ensemble.check.rules.engine import check

ENVIRONMENT = 'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "$$TRITON_MODEL_DIRECTORY/{}" }} }}'
STRATEGY = 'parameters {{ key: "TRITON_BATCH_STRATEGY_PATH" value {{ string_value: "{}" }} }}'
ENSEMBLE = examples.ensemble_text(examples.STEP)
QUEUE = "max_batch_size: 4\n{}dynamic_batching {{ default_queue_policy {{ {} }} }}\n"


def rules(example: examples.Example, folder: Path) -> set[str]:
    return {found.rule for found in check(examples.write(example, folder))}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("names.txt", set()),
        ("1/../names.txt", set()),
        ("names.txt/", {"label-file"}),
        ("../m/../names.txt", {"label-file"}),
    ],
)
def test_a_label_file(tmp_path: Path, name: str, found: set[str]) -> None:
    config = (
        'backend: "python"\ninput { name: "X" data_type: TYPE_FP32 dims: [4] }\n'
        f'output {{ name: "Y" data_type: TYPE_FP32 dims: [4] label_filename: "{name}" }}\n'
    )
    assert rules({"m": config, "m/names.txt": "a\nb\nc\nd\n"}, tmp_path) == found


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("del TritonPythonModel\n", {"python-class"}),
        ("del TritonPythonModel\nfrom other import *\n", set()),
        ("if False:\n    del TritonPythonModel\n", set()),
        ("del TritonPythonModel\nTritonPythonModel = object\n", set()),
        ("TritonPythonModel = None\n", {"python-class"}),
        ("TritonPythonModel = None\nfrom other import *\n", set()),
        ("raise SystemExit\n", {"python-class"}),
        ("if True:\n    raise SystemExit\n", set()),
        ("TritonPythonModel.execute = None\n", {"python-execute"}),
        ("del TritonPythonModel.execute\n", {"python-execute"}),
        ("TritonPythonModel.execute = None\nTritonPythonModel.execute = print\n", set()),
        (
            "TritonPythonModel.execute = None\nTritonPythonModel.initialize = None\n",
            {"python-execute"},
        ),
        ("TritonPythonModel.execute = None\nrepair(TritonPythonModel)\n", set()),
    ],
)
def test_a_class_that_is_deleted(tmp_path: Path, more: str, found: set[str]) -> None:
    assert rules({"m": A, "m/1/model.py": f"{MODEL}{more}"}, tmp_path) == found


@pytest.mark.parametrize(
    ("base", "more", "found"),
    [
        ("Missing", "", {"python-name"}),
        ("missing.Model", "", {"python-name"}),
        ("Exception", "", set()),
        ("Own", "class Own: ...\n", set()),
        ("Own", "from other import Own\n", set()),
        ("Own", "from other import *\n", set()),
        ("Own", "import other as Own\n", set()),
        ("other.Model", "import other.one\n", set()),
        ("Own", "for Own in [object]: ...\n", set()),
        ("Own", "def more():\n    global Own\n    Own = object\nmore()\n", set()),
        ("Own", "globals()['Own'] = object\n", set()),
        ("Own", "try:\n    from one import Own\nexcept ImportError: ...\n", set()),
    ],
)
def test_a_base_that_nothing_defines(tmp_path: Path, base: str, more: str, found: set[str]) -> None:
    code = more + MODEL.replace("TritonPythonModel:", f"TritonPythonModel({base}):")
    assert rules({"m": A, "m/1/model.py": code}, tmp_path) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("class ", "@missing\nclass ", {"python-name"}),
        ("    def ", "    @missing\n    def ", {"python-name"}),
        ("    def ", "    def own(method): return method\n\n    @own\n    def ", set()),
    ],
)
def test_a_decorator_that_nothing_defines(
    tmp_path: Path, old: str, new: str, found: set[str]
) -> None:
    assert rules({"m": A, "m/1/model.py": MODEL.replace(old, new)}, tmp_path) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("json.dumps(1)", {"python-name"}),
        ("for each in missing: ...", {"python-name"}),
        ("return [each for each in missing]", {"python-name"}),
        ("if requests: json.dumps(1)", set()),
        ("requests and json.dumps(1)", set()),
        ("try: json\n        except NameError: json = None", set()),
        ("import json; json.dumps(1)", set()),
        ("call = lambda: json", set()),
        ("[json for json in requests]", set()),
        ("with open('x') as json: json", set()),
    ],
)
def test_a_name_in_execute_that_nothing_defines(tmp_path: Path, line: str, found: set[str]) -> None:
    head = "    def execute(self, requests):\n"
    assert head in MODEL
    code = MODEL.replace(head, f"{head}        {line}\n")
    assert rules({"m": A, "m/1/model.py": code}, tmp_path) - {"python-list"} == found


@pytest.mark.parametrize(
    ("decorator", "attribute", "found"),
    [
        ("@classmethod", "count", {"python-execute"}),
        ("@classmethod", "other", set()),
        ("@traced", "count", set()),
    ],
)
def test_an_execute_of_the_class(
    tmp_path: Path, decorator: str, attribute: str, found: set[str]
) -> None:
    head = "    def execute(self, requests):\n"
    more = "    def initialize(self, args):\n        self.count = 0\n\n"
    code = MODEL.replace(head, f"{more}    {decorator}\n{head}        print(self.{attribute})\n")
    code = "from other import traced\n" + code
    assert rules({"m": A, "m/1/model.py": code}, tmp_path) - {"python-print"} == found


@pytest.mark.parametrize(
    ("more", "found"), [("", {"sequence-state"}), ("use_growable_memory: true", set())]
)
def test_a_state_without_an_input_name(tmp_path: Path, more: str, found: set[str]) -> None:
    state = f'state {{ output_name: "O" data_type: TYPE_FP32 dims: [4] {more} }}'
    assert rules({"m": f"{A}sequence_batching {{ direct {{ }} {state} }}\n"}, tmp_path) == found


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("default_timeout_microseconds: 1", {"batching-timeout"}),
        ("timeout_action: DELAY default_timeout_microseconds: 1", set()),
        ("default_timeout_microseconds: 10", set()),
        ("max_queue_size: 1", set()),
    ],
)
def test_the_timeout_of_a_queue(tmp_path: Path, policy: str, found: set[str]) -> None:
    assert rules(QUEUE.format(A, policy), tmp_path) == found


@pytest.mark.parametrize(
    ("dims", "found"),
    [("[4]", set()), ("[1, 4]", set()), ("[-1, 4]", set()), ("[2, 4]", {"batching-rows"})],
)
def test_rows_of_an_ensemble_without_a_batch_dimension(
    tmp_path: Path, dims: str, found: set[str]
) -> None:
    files = {"e": ENSEMBLE.replace("[4]", dims), "a": f"max_batch_size: 1\n{A}"}
    assert rules(files, tmp_path) == found


@pytest.mark.parametrize("more", ["1", "8\nsequence_batching { }"])
@pytest.mark.parametrize(("rows", "found"), [(1, set()), (2, {"batching-rows"}), (-1, set())])
def test_rows_that_a_step_writes(tmp_path: Path, more: str, rows: int, found: set[str]) -> None:
    """The second step has no batch dimension, and reads so many rows of the first."""
    read = A.replace("[4]", f"[{rows}, 4]", 1)
    steps = step_text("a", "X=X", "Y=M"), step_text("b", "X=M", "Y=Y")
    ensemble = ensemble_text(*steps).replace("[4]", "[-1, 4]", 1)
    assert rules({"e": ensemble, "a": f"max_batch_size: {more}\n{A}", "b": read}, tmp_path) == found


def test_a_step_of_a_negative_number_of_rows(tmp_path: Path) -> None:
    assert "max-batch-size" in rules({"e": ENSEMBLE, "a": f"max_batch_size: -1\n{A}"}, tmp_path)


def test_a_tensor_without_dims_has_no_rows(tmp_path: Path) -> None:
    model = A.replace("dims: [4]", "", 1)
    assert rules({"e": ENSEMBLE, "a": model}, tmp_path) == {"tensor-dims", "tensor-shape"}


def test_a_warmup_with_another_input_is_a_warning(tmp_path: Path) -> None:
    value = "data_type: TYPE_FP32 dims: [4] zero_data: true"
    inputs = "".join(f'inputs {{ key: "{name}" value {{ {value} }} }} ' for name in "XZ")
    config = f'{A}model_warmup {{ name: "w" batch_size: 1 {inputs} }}\n'
    [found] = check(examples.write(config, tmp_path))
    assert (found.rule, found.severity) == ("warmup-unknown", "warning")


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ('backend: "python"', set()),
        ('backend: "python" default_model_filename: "main.py"', {"model-file"}),
        ('backend: "tensorrt" default_model_filename: "main.plan"', set()),
    ],
)
def test_files_by_compute_capability_are_not_for_python(
    tmp_path: Path, config: str, found: set[str]
) -> None:
    config += A.replace('backend: "python"\n', "\n")
    config += 'cc_model_filenames { key: "8.0" value: "other.py" }\n'
    assert rules({"m": config, "m/1/other.py": MODEL}, tmp_path) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("return [", "return [None] and [", set()),
        ("return [", "return *[", {"python-list"}),
        ("return [", "return tuple([", {"python-list"}),
        ("return [", "return map(id, [", {"python-list"}),
        ("[pb_utils.InferenceResponse([])", "{request: 1", {"python-list"}),
        ("return [", "return tuple or [", set()),
        ("return [", "return []\n        return [", set()),
        ("return [", "return []\n        responses = [", {"python-list"}),
        ("return [", "return pb_utils.InferenceResponse([", {"python-list"}),
        ("return [", "yield 1\n        return [", {"python-list"}),
        ("return [", "yield\n        return [", set()),
        ("return [", "more = lambda: (yield 1)\n        return [", set()),
    ],
)
def test_an_execute_returns_a_list(tmp_path: Path, old: str, new: str, found: set[str]) -> None:
    code = MODEL.replace(old, new)
    if "{" in new:
        code = code.replace("requests]", "requests}")
    if "([" in new or ", [" in new:
        code = code.replace("requests]", "requests])")
    if "*[" in new:
        code = code.replace("requests]", "requests],")
    assert rules({"m": A, "m/1/model.py": code}, tmp_path) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("return [", "return [", {"python-decoupled"}),
        ("return [", "return tuple or [", set()),
        ("return [", "return\n        return [", set()),
        ("        return [", "        if not requests:\n            return [", set()),
        ("def execute", "async def execute", set()),
        (
            "        return [",
            "        if self.sends:\n            return None\n        return [",
            set(),
        ),
        (
            "        return [",
            "        for each in requests:\n            each.get_response_sender()\n        return [",
            set(),
        ),
    ],
)
def test_an_execute_of_a_decoupled_model_returns_none(
    tmp_path: Path, old: str, new: str, found: set[str]
) -> None:
    config = A + "model_transaction_policy { decoupled: true }\n"
    assert rules({"m": config, "m/1/model.py": MODEL.replace(old, new)}, tmp_path) == found


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("instance_group { kind: -1 }", {"instance-kind"}),
        (r'default_model_filename: "\xff"', set()),
        ("max_batch_size: 2 dynamic_batching { max_queue_delay_microseconds: 1000001 }", {"batching-delay"}),
        ("max_batch_size: 2 dynamic_batching { max_queue_delay_microseconds: 1000000 }", set()),
        (ENVIRONMENT.format("1/env"), {"execution-environment"}),
        (ENVIRONMENT.format("1/text"), {"execution-environment"}),
        (ENVIRONMENT.format("1/good"), set()),
        (STRATEGY.format("/nowhere.so"), {"batch-strategy"}),
        (STRATEGY.format("/"), {"batch-strategy"}),
        (STRATEGY.format(""), {"batch-strategy"}),
        (STRATEGY.format("/models/m/1/text"), set()),
    ],
)  # fmt: skip
def test_configs_that_few_write(tmp_path: Path, more: str, found: set[str]) -> None:
    files = {"m/1/env/lib/x": "", "m/1/text": "text", "m/1/good/bin/activate": ""}
    assert rules({"m": f"{A}{more}\n", **files}, tmp_path) == found


@pytest.mark.parametrize("name", ["__new__(cls)", "__init__(self)", "initialize(self, args)"])
def test_a_method_that_only_raises(tmp_path: Path, name: str) -> None:
    code = MODEL.replace(
        "    def execute", f"    def {name}:\n        raise OSError\n\n    def execute"
    )
    assert rules({"m": A, "m/1/model.py": code}, tmp_path) == {"python-class"}
    code = code.replace("raise", "if self:\n            raise")
    assert rules({"m": A, "m/1/model.py": code}, tmp_path / "if") == set()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("execute = None", {"python-execute"}),
        ("execute = answer", set()),
    ],
)
def test_an_execute_that_is_assigned(tmp_path: Path, body: str, found: set[str]) -> None:
    code = f"answer = print\n\n\nclass TritonPythonModel:\n    {body}\n"
    assert rules({"m": A, "m/1/model.py": code}, tmp_path) == found


@pytest.mark.parametrize(
    ("more", "found"),
    [("", {"sequence-state"}), ("use_growable_memory: true", set())],
)
def test_a_state_without_a_data_type(tmp_path: Path, more: str, found: set[str]) -> None:
    state = f'state {{ input_name: "S" output_name: "T" dims: 4 {more} }}'
    config = f"{BATCHES}sequence_batching {{ {state} }}\n"
    assert rules(config, tmp_path) - {"sequence-state-unseen"} == found


TWO = (step_text("a", "X=X", "Y=Q"), step_text("a", "X=Q", "Y=Y"))
BRANCH = (*TWO, step_text("a", "X=Q", "Y=Z"))
APART = (*TWO, step_text("a", "X=X", "Y=Z"))


@pytest.mark.parametrize(
    ("steps", "outputs", "asked", "found"),
    [
        (TWO, "Q Y", "Y", {"outputs-asked"}),
        (TWO, "Q Y", "Q", {"outputs-asked"}),
        (TWO, "Q Y", "Q Y", set()),
        (TWO, "Y", "Y", set()),
        (BRANCH, "Q Y Z", "Q Z", set()),
        (BRANCH, "Q Y Z", "Z", {"outputs-asked"}),
        (BRANCH, "Y Z", "Z", set()),
        (APART, "Q Y Z", "Z", set()),
        (APART, "Q Y Z", "Y Z", {"outputs-asked"}),
        (APART, "Q Y Z", "Q Z", {"outputs-asked"}),
    ],
)
def test_a_step_that_asks_an_ensemble_for_some_outputs(
    tmp_path: Path, steps: tuple[str, ...], outputs: str, asked: str, found: set[str]
) -> None:
    """Each case is as Triton 24.10 answers or deadlocks."""
    maps = " ".join(f"{name}={name}" for name in asked.split())
    files = {
        "e": ensemble_text(step_text("inner", "X=X", maps), outputs=asked),
        "inner": ensemble_text(*steps, outputs=outputs),
        "a": A,
    }
    assert rules(files, tmp_path) & {"outputs-asked"} == found


@pytest.mark.parametrize(
    ("library", "found"),
    [
        ("model_repository/m/libtriton_my_python.so", set()),
        ("model_repository/m/1/libtriton_my_python.so", set()),
        ("backends/my_python/libtriton_my_python.so", set()),
        ("model_repository/m/libtriton_python.so", {"backend-misspelt"}),
    ],
)
def test_a_backend_with_its_library_is_your_own(
    tmp_path: Path, library: str, found: set[str]
) -> None:
    files = {"m": A.replace("python", "my_python"), "m/1/weights": ""}
    repository = examples.write(files, tmp_path)
    path = tmp_path / library
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert {each.rule for each in check(repository)} == found
