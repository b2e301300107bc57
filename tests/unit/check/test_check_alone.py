"""Cases of rules besides their own examples: a repository, and which rule finds something in it, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_bytes import ONNX_FILE, SMALLEST

from triton_ensemble.check.examples import (
    BATCHES,
    TWO_INPUTS,
    A,
    Example,
    ensemble_text,
    step_text,
    write,
)
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.places import find_place
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rules.engine import check
from triton_ensemble.check.rules.ensembles import CHAIN
from triton_ensemble.facts.terminal import shorten

ANSWERS = ".copier-answers.yml"
ONNX = A.replace("python", "onnxruntime")
VERSION_1 = {"m/1/model.onnx": ONNX_FILE}


def sequence(*controls: str) -> str:
    """Return a model of sequences. The first control is in line 6."""
    inputs = "".join(f"control_input {{\n{control}\n}}\n" for control in controls)
    return f"{BATCHES}sequence_batching {{\n{inputs}}}\n"


def control(name: str, more: str, kind: str = "START") -> str:
    return f'name: "{name}"\ncontrol {{ kind: CONTROL_SEQUENCE_{kind} {more} }}'


def found(example: Example, folder: Path) -> list[tuple[str, str, int]]:
    return [(f.rule, f.file.name, f.line) for f in check(write(example, folder))]


TRUE = "fp32_false_true: [0, 1]"
CASES: dict[str, tuple[Example, str, int]] = {
    "a size above the most": (
        f"{BATCHES}sequence_batching {{ oldest {{\npreferred_batch_size: [2, 8] }} }}",
        "sequence-batching",
        6,
    ),
    "too many candidates": (
        f"{BATCHES}sequence_batching {{ oldest {{\nmax_candidate_sequences: 1000001 }} }}",
        "sequence-batching",
        6,
    ),
    "a utilization above 1": (
        f"{BATCHES}sequence_batching {{ direct {{\nminimum_slot_utilization: 1.5 }} }}",
        "sequence-batching",
        6,
    ),
    "a control without a name": (sequence(control("", TRUE)), "sequence-control", 6),
    "a control of a name twice": (
        sequence(control("S", TRUE), control("S", TRUE, "END")),
        "sequence-control",
        10,
    ),
    "two controls of a kind": (
        sequence(control("S", TRUE), control("E", TRUE)),
        "sequence-control",
        12,
    ),
    "a correlation id with values": (
        sequence(control("S", f"{TRUE} data_type: TYPE_UINT64", "CORRID")),
        "sequence-control",
        8,
    ),
    "a correlation id of another type": (
        sequence(control("S", "data_type: TYPE_FP32", "CORRID")),
        "sequence-control",
        8,
    ),
    "values of two types": (
        sequence(control("S", f"{TRUE} int32_false_true: [0, 1]")),
        "sequence-control",
        8,
    ),
    "one value": (sequence(control("S", "fp32_false_true: [1]")), "sequence-control", 8),
    "a priority policy of no level": (
        f"{BATCHES}dynamic_batching {{ priority_levels: 2 default_priority_level: 2\n"
        "priority_queue_policy {\nkey: 1 value { } }\n"
        "priority_queue_policy {\nkey: 3 value { } } }",
        "batching-priority",
        8,
    ),
    "two states of a name": (
        f"{BATCHES}sequence_batching {{\n"
        + 'state { output_name: "O" data_type: TYPE_FP32 dims: [4]\ninput_name: "I" }\n' * 2
        + "}",
        "sequence-state-unseen",
        9,
    ),
    "an input without a name": (A.replace('name: "X" ', ""), "tensor-name", 2),
    "a GPU below 0": (
        f"{A}instance_group {{ kind: KIND_GPU }}\ninstance_group {{\ngpus: [-1] }}",
        "instance-gpus",
        6,
    ),
    "GPUs of a model that chooses its own": (
        f"{A}instance_group {{ kind: KIND_MODEL\ngpus: [0] }}",
        "instance-gpus",
        5,
    ),
    "a metric without a family": (
        f"{A}model_metrics {{\nmetric_control {{ histogram_options {{ buckets: [1] }} }} }}",
        "metrics",
        5,
    ),
    "a batch output that copies two inputs": (
        f"{BATCHES}batch_output {{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE\n"
        'target_name: "Y" source_input: ["X", "X"] }',
        "batch-io",
        5,
    ),
    "a batch output without a target": (
        f'{BATCHES}batch_output {{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE\nsource_input: "X" }}',
        "batch-io",
        5,
    ),
    "a backend and the platform of another": (
        {"m": f'platform: "tensorrt_plan"\n{ONNX}', **VERSION_1},
        "backend",
        1,
    ),
    "ensemble as a backend": ({"m": A.replace("python", "ensemble")}, "backend", 1),
    "a label file outside": (
        {
            "m": A.removesuffix(" }\n") + '\nlabel_filename: "../m/l.txt" }\n',
            "m/l.txt": "a\nb\nc\nd\n",
        },
        "label-file",
        4,
    ),
    "an ensemble with a backend": (
        {"e": ensemble_text(step_text("a", "X=X", "Y=Y")) + 'backend: "python"\n', "a": A},
        "ensemble-platform",
        12,
    ),
    "an ensemble with a model file": (
        {
            "e": ensemble_text(step_text("a", "X=X", "Y=Y"))
            + 'default_model_filename: "model.onnx"\n',
            "a": A,
        },
        "ensemble-platform",
        12,
    ),
    "a default priority that is none": (
        f"{BATCHES}dynamic_batching {{ priority_levels: 2\ndefault_priority_level: 3 }}",
        "batching-priority",
        6,
    ),
    "an ensemble without steps": ({"e": ensemble_text()}, "step-incomplete", 4),
    "an ensemble without scheduling": (
        {"e": 'platform: "ensemble"\n' + A.partition("\n")[2]},
        "step-incomplete",
        1,
    ),
    "a step that writes nothing": (
        {"e": ensemble_text(step_text("a", "X=X", "Y=Y"), step_text("a", "X=X", "")), "a": A},
        "step-incomplete",
        11,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_rule_finds_it(case: str, tmp_path: Path) -> None:
    example, rule, line = CASES[case]
    places = found(example, tmp_path)
    assert (rule, "config.pbtxt", line) in places
    assert {each[0] for each in places} == {rule}


FINE: dict[str, Example] = {
    "a correlation id": sequence(
        control("S", TRUE), control("C", "data_type: TYPE_UINT64", "CORRID")
    ),
    "policies of each level": (
        f"{BATCHES}dynamic_batching {{ priority_levels: 2 default_priority_level: 1\n"
        "priority_queue_policy { key: 1 value { } } priority_queue_policy { key: 2 value { } } }"
    ),
    "a profile of TensorRT": {
        "m": A.replace("python", "tensorrt") + 'instance_group { profile: "1" }',
        "m/1/model.plan": SMALLEST["model.plan"].decode(),
    },
    "GPUs": f"{A}instance_group {{ kind: KIND_GPU gpus: [0, 1] }}",
    "one of two groups is passive": (
        f"{A}instance_group {{ kind: KIND_CPU passive: true }}\ninstance_group {{ kind: KIND_CPU }}"
    ),
    "as many candidates as fit": (
        f"{BATCHES}sequence_batching {{ oldest {{ max_candidate_sequences: 1000000 }} }}"
    ),
    "all of the slots": (
        f"{BATCHES}sequence_batching {{ direct {{ minimum_slot_utilization: 1 }} }}"
    ),
    "a sender in place of a return": {
        "m": A,
        "m/1/model.py": "class TritonPythonModel:\n    def execute(self, requests):\n"
        "        requests[0].get_response_sender()\n",
    },
    "a class from elsewhere": {"m": A, "m/1/model.py": "from base import *\n"},
    "a class of a name from elsewhere": {
        "m": A,
        "m/1/model.py": "from base import TritonPythonModel\n",
    },
    "texts of code that another backend does not run": {name: ONNX for name in ("a", "b")}
    | {f"{name}/1/model.onnx": ONNX_FILE for name in ("a", "b")}
    | {
        f"{one}/1/tool.py": f"InferenceRequest(model_name='{other}')"
        for one, other in (("a", "b"), ("b", "a"))
    },
    "a backend of Triton's containers": {"m": A.replace("python", "repeat")},
    "two states of which one begins": (
        f"{BATCHES}sequence_batching {{\n"
        + 'state { input_name: "I" output_name: "O" data_type: TYPE_FP32 dims: [4]\n'
        + 'initial_state { data_type: TYPE_FP32 dims: [4] zero_data: true name: "z" } }\n}'
    ),
    "an error in place of a return": {
        "m": A,
        "m/1/model.py": "class TritonPythonModel:\n    def execute(self, requests):\n"
        "        raise NotImplementedError\n",
    },
}


@pytest.mark.parametrize("example", FINE.values(), ids=FINE)
def test_nothing_is_found(example: Example, tmp_path: Path) -> None:
    assert found(example, tmp_path) == []


class TestAdvice:
    """A finding proposes something instead."""

    def advice(self, example: Example, folder: Path, rule: str) -> str:
        [instead] = [f.instead for f in check(write(example, folder)) if f.rule == rule]
        return instead

    @pytest.mark.parametrize(
        ("steps", "tensor"),
        [
            ((step_text("a", "X=X", "Y=Yy"),), "did you mean Y?"),
            ((step_text("a", "X=X", "Y=Y"), step_text("a", "X=XX", "Y=Y2")), "did you mean X?"),
            ((step_text("a", "X=X", "Y=Y"), step_text("a", "X=X", "Y=zzz")), "leave it out"),
        ],
    )
    def test_the_nearest_tensor(self, tmp_path: Path, steps: Any, tensor: str) -> None:
        outputs = "Y Y2" if "XX" in steps[-1] else "Y"
        files = {"e": ensemble_text(*steps, outputs=outputs), "a": A}
        assert tensor in self.advice(files, tmp_path, "tensor-unused")

    @pytest.mark.parametrize(
        ("folders", "policy", "text"),
        [
            (["1", "3"], "specific { versions: [2] }", "m/2, or take one of those that are there"),
            ([], "", "add the folder m/1"),
        ],
    )
    def test_the_version_to_add(
        self, tmp_path: Path, folders: list[str], policy: str, text: str
    ) -> None:
        config = f"{ONNX}version_policy {{ {policy} }}\n" if policy else ONNX
        repository = write({"m": config}, tmp_path)
        (repository / "m/1").rmdir()
        for folder in folders:
            (repository / "m" / folder).mkdir()
            (repository / "m" / folder / "model.onnx").touch()
        [instead] = [f.instead for f in check(repository) if f.rule == "version"]
        assert text in instead


def project(answers: dict[str, Any] | str, **files: str) -> dict[str, str]:
    """Return the files of a project whose one model is m."""
    text = answers if isinstance(answers, str) else json.dumps(answers)
    return {"model_repository/m/config.pbtxt": A, ANSWERS: text, **files}


class TestProject:
    """Rules on what is around a repository."""

    def test_answers_after_a_merge_with_conflicts(self, tmp_path: Path) -> None:
        broken = project("a: 1\n<<<<<<< HEAD\n- b\n")
        [place] = [each for each in found(broken, tmp_path) if each[0] == "pipeline-unreadable"]
        assert place[1:] == (ANSWERS, 3)

    def test_a_pipeline_that_can_not_be_read(self, tmp_path: Path) -> None:
        files = {**project({"steps": []}), "pipeline.yml": "steps: []\na: ["}
        places = found(files, tmp_path)
        assert [place for place in places if place[0] == "pipeline-unreadable"] == [
            ("pipeline-unreadable", "pipeline.yml", 2)
        ]

    def test_a_compose_file_of_another_form(self, tmp_path: Path) -> None:
        files = project({"steps": []}, **{"deploy/compose.yaml": "services: {triton: 5}\n"})
        assert "shared-memory" not in [rule for rule, *_ in found(files, tmp_path)]

    def test_models_of_a_nested_ensemble_are_of_a_step(self, tmp_path: Path) -> None:
        inner = {"name": "inner", "steps": [{"name": "within"}]}
        files = project({"ensemble_name": "outer", "steps": [inner]})
        del files["model_repository/m/config.pbtxt"]
        files |= {f"model_repository/{name}/config.pbtxt": A for name in ("within", "outer", "x")}
        places = check(write(files, tmp_path))
        orphans = [f.file.parent.name for f in places if f.rule == "folder-of-no-step"]
        assert orphans == ["x"]

    @pytest.mark.parametrize(
        ("answers", "is_found"),
        [
            ({"ensemble_name": "e"}, True),
            ({"ensemble_name": "e", "ensemble": {"all_outputs": True}}, False),
            ({"name": "e", "ensemble": {"all_outputs": True}}, False),
            ({"steps": [{"name": "e", "ensemble": {"all_outputs": True}, "steps": []}]}, False),
        ],
    )
    def test_an_ensemble_that_is_asked_for_all_outputs(
        self, tmp_path: Path, answers: dict[str, Any], is_found: bool
    ) -> None:
        files = project({"steps": [], **answers})
        texts = {"a": A, "e": ensemble_text(*CHAIN, outputs="M Y")}
        files |= {f"model_repository/{name}/config.pbtxt": text for name, text in texts.items()}
        assert ("outputs-exposed" in [rule for rule, *_ in found(files, tmp_path)]) == is_found

    def test_an_answer_that_was_left_out(self, tmp_path: Path) -> None:
        files = {**project({"steps": [], "outputs": ["Y"]}), "pipeline.yml": "steps: []\n"}
        assert ("pipeline-changed", "pipeline.yml", 1) in found(files, tmp_path)

    @pytest.mark.parametrize(
        ("group", "count", "is_found"),
        [
            ("kind: KIND_GPU", 0, True),
            ("kind: KIND_GPU", 1, False),
            ("kind: KIND_GPU gpus: [0, 1]", 1, True),
            ("kind: KIND_GPU gpus: [0, 1]", 2, False),
            ("kind: KIND_CPU", 0, False),
            ("count: 1", 0, False),
        ],
    )
    def test_gpus_that_the_server_has_not(
        self, tmp_path: Path, group: str, count: int, is_found: bool
    ) -> None:
        files = project({"gpu_count": count, "steps": []})
        files["model_repository/m/config.pbtxt"] = f"{A}instance_group {{ {group} }}\n"
        findings = check(write(files, tmp_path))
        severities = [each.severity for each in findings if each.rule == "instance-gpu-count"]
        assert severities == ["error"] * is_found

    @pytest.mark.parametrize(
        ("backend", "group", "count", "is_found"),
        [
            ("tensorrt", "kind: KIND_CPU", 1, True),
            ("tensorrt", "kind: KIND_CPU", None, True),
            ("tensorrt", "", 0, True),
            ("tensorrt", "kind: KIND_MODEL", 1, False),
            ("tensorrt", "", None, False),
            ("tensorrtllm", "kind: KIND_CPU", 1, False),
            ("tensorrtllm", "kind: KIND_CPU", 0, True),
            ("vllm", "kind: KIND_MODEL", 0, True),
            ("dali", "kind: KIND_CPU", 0, False),
        ],
    )
    def test_a_backend_for_gpus_alone(
        self, tmp_path: Path, backend: str, group: str, count: int | None, is_found: bool
    ) -> None:
        files = project({"gpu_count": count, "steps": []} if count is not None else {"steps": []})
        config = f"{A.replace('python', backend)}instance_group {{ {group} }}\n"
        files["model_repository/m/config.pbtxt"] = config
        findings = [each for each in found(files, tmp_path) if each[0] == "gpu-backend"]
        assert bool(findings) == is_found

    @pytest.mark.parametrize("sample", ["[]", "1", "{}", '{"inputs": 5}', "nothing"])
    def test_a_sample_that_is_no_request(self, tmp_path: Path, sample: str) -> None:
        files = {**project({"ensemble_name": "m", "steps": []}), "samples/one.json": sample}
        assert "sample-inputs" not in [rule for rule, *_ in found(files, tmp_path)]

    def test_a_sample_without_two_inputs(self, tmp_path: Path) -> None:
        files: dict[str, str] = project({"ensemble_name": "m", "steps": []})
        files["model_repository/m/config.pbtxt"] = TWO_INPUTS
        files["samples/one.json"] = '{\n\n"inputs": {}}'
        findings = check(write(files, tmp_path))
        [finding] = [each for each in findings if each.rule == "sample-inputs"]
        assert (finding.file.name, finding.line) == ("one.json", 3)
        assert "lacks the inputs X, X2" in finding.what
        assert finding.instead == "add X, X2"


def test_a_long_text_is_cut_in_its_middle() -> None:
    assert shorten("x" * 400) == "x" * 400
    cut = shorten("a" * 300 + "b" * 300)
    assert cut.startswith("a" * 200 + " ... ")
    assert cut.endswith("b" * 150)
    assert len(cut) == 355


def test_a_file_below_the_current_folder_is_shown_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Finding(tmp_path / "a/b", 1, "r", "w", "i").shown_file == Path("a/b")
    assert Finding(Path("/elsewhere"), 1, "r", "w", "i").shown_file == Path("/elsewhere")


def test_findings_are_sorted_and_none_comes_twice(tmp_path: Path) -> None:
    files = {"e": ensemble_text(), "a": A.replace("[4]", "[0]"), "b": f"{A}max_batch_size: -1"}
    findings = check(write(files, tmp_path))
    assert findings == sorted(set(findings))
    assert list(dict.fromkeys(each.file.parent.name for each in findings)) == ["a", "b", "e"]


FIELDS = {
    "allow_ragged_batch": "ragged",
    "data_type": "type",
    "default_model_filename": "file",
    "dynamic_batching": "batching",
    "input": "inputs",
    "kind": "device",
    "label_filename": "labels",
    "max_batch_size": "max_batch_size",
    "max_queue_delay_microseconds": "max_queue_delay_us",
    "model_transaction_policy": "decoupled",
    "model_version": "version",
    "model_warmup": "warmup",
    "optimization": "accelerator",
    "output": "outputs",
    "response_cache": "cache",
    "sequence_batching": "sequence",
    "version_policy": "versions",
}


@pytest.mark.parametrize("field", FIELDS)
def test_the_answer_that_a_field_comes_from(field: str) -> None:
    step = {"name": "m", **dict.fromkeys(FIELDS.values(), 1)}
    answered = {"steps": [step], "graph": {"models": []}}
    assert find_place(answered, "m", f"{field}: 1\n", 1) == ["steps", "m", FIELDS[field]]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("class A: pass", set()),
        ("def f(): pass", {"f"}),
        ("async def f(): pass", {"f"}),
        ("import a.b, c as d", {"a", "d"}),
        ("from a import b, c as d", {"b", "d"}),
        ("if x:\n    y = 1", {"y"}),
        ("def f():\n    global g\n    h = 1", {"f", "g"}),
    ],
)
def test_names_that_code_binds(tmp_path: Path, code: str, names: set[str]) -> None:
    repository = write({"m": A, "m/1/model.py": code}, tmp_path)
    [file] = Repository.read(repository).python_files
    assert set(file.names) == names


@pytest.mark.parametrize(
    ("folder", "why"), [("v1", "fails to convert to integral number"), ("01", "leading zeros")]
)
def test_why_a_folder_is_no_version(tmp_path: Path, folder: str, why: str) -> None:
    findings = check(write({"m": A, f"m/{folder}": None}, tmp_path))
    [what] = [each.what for each in findings if each.rule == "version-folder"]
    assert why in what
