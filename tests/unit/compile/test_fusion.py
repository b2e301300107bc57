"""Which steps share a model, and why others do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fusion_support import CHAIN
from gatekeeper import Gatekeeper
from support import step
from wiring_support import wired

from triton_ensemble.facts import catalog
from triton_ensemble.facts.catalog import table


def chain(**fields: Any) -> dict[str, Any]:
    """Return a pipeline of three steps, of which the second has more fields."""
    first, second, third = CHAIN
    return wired(*CHAIN) | {"steps": [first, {**second, **fields}, third]}


def onnx(name: str, inputs: list[str], outputs: list[str], **fields: Any) -> dict[str, Any]:
    return step(name, inputs, outputs, "onnxruntime", **fields)


PAIR = ["a b"]
# Each: the answers, and the runs, in order.
RUNS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "chain": (wired(*CHAIN), ["a b c"]),
    "one step": (wired(step("a", ["A"], ["X"])), []),
    "diamond": (
        wired(
            step("a", ["A"], ["M", "N"]),
            step("b", ["M"], ["O"]),
            step("c", ["N"], ["P"]),
            step("d", ["O", "P"], ["X"]),
        ),
        ["a b c d"],
    ),
    "skip connection": (
        wired(
            step("a", ["A"], ["M"]), step("b", ["M"], ["N"]), step("c", ["A", "M", "N"], ["X", "Y"])
        ),
        ["a b c"],
    ),
    "fan, its middle Python": (
        wired(
            onnx("a", ["A"], ["M"]),
            step("b", ["M"], ["N"]),
            step("c", ["N"], ["O"]),
            step("d", ["M"], ["P"]),
            onnx("e", ["O", "P"], ["X"]),
        ),
        ["b c"],
    ),
    "an exposed intermediate": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), outputs=["M", "X"]),
        [],
    ),
    "an output of a step in front": (
        wired(step("a", ["A"], ["M", "Y"]), step("b", ["M"], ["X"])),
        [],
    ),
    "shared intermediate": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), step("c", ["M"], ["Y"])),
        [],
    ),
    "an ONNX step between": (
        wired(step("a", ["A"], ["M"]), onnx("b", ["M"], ["N"]), step("c", ["N"], ["X"])),
        [],
    ),
    "around an ONNX step": (
        wired(
            step("a", ["A"], ["M"]),
            onnx("b", ["M"], ["N"]),
            step("c", ["M"], ["O"]),
            step("d", ["N", "O"], ["X"]),
        ),
        [],
    ),
    "beside an ONNX step": (
        wired(onnx("a", ["A"], ["M"]), step("b", ["B"], ["N"]), step("c", ["M", "N"], ["X"])),
        [],
    ),
    "beside an ONNX step, asked for": (
        wired(
            onnx("a", ["A"], ["M"]),
            step("b", ["B"], ["N"], fuse=True),
            step("c", ["M", "N"], ["X"]),
        ),
        ["b c"],
    ),
    "behind an ONNX step": (
        wired(
            onnx("a", ["A"], ["M"]),
            step("b", ["M"], ["N"]),
            step("c", ["M", "N"], ["X"]),
        ),
        ["b c"],
    ),
    "an ONNX step that asks": (
        wired(step("a", ["A"], ["M"]), onnx("b", ["M"], ["N"], fuse=True), step("c", ["N"], ["X"])),
        ["a b c"],
    ),
    "instances that one asks for": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"], fuse=True, instances=2)),
        PAIR,
    ),
    "two chains": (
        wired(
            step("a", ["A"], ["M"]),
            step("b", ["M"], ["X"]),
            step("c", ["A"], ["N"]),
            step("d", ["N"], ["Y"]),
        ),
        ["a b", "c d"],
    ),
    "parameters": (chain(parameters={"a": 1}), ["a b c"]),
    "an optional input that is not fed": (
        chain(inputs={"M": "M", "o": {"type": "FP32", "dims": [2], "optional": True}})
        | {"tensors": dict.fromkeys("AMNX", "FP32[4]")},
        ["a b c"],
    ),
    "in a nested ensemble": (
        {
            "max_batch_size": 8,
            "tensors": {"A": "FP32[4]", "X": "FP32[4]"},
            "steps": [
                {
                    "name": "inner",
                    "backend": "ensemble",
                    "inputs": ["A"],
                    "outputs": ["X"],
                    "tensors": dict.fromkeys("AMX", "FP32[4]"),
                    "steps": [step("a", ["A"], ["M"]), step("b", ["M"], ["X"])],
                }
            ],
        },
        PAIR,
    ),
}
# Fields of the second of three steps that are its model's alone; those that `fuse: true` overrides come first.
STANDALONE: dict[str, dict[str, Any]] = {
    "requirements": {"requirements": ["pillow"]},
    "instances": {"instances": 2},
    "calls": {"calls": ["a"]},
    "false": {"fuse": False},
    "batching": {"batching": False},
    "max_batch_size": {"max_batch_size": 16},
    "versions": {"versions": [1, 2]},
    "version": {"version": 1},
    "cache": {"cache": True},
    "decoupled": {"decoupled": True},
    "sequence": {"sequence": {"direct": {}}},
    "warmup": {"warmup": [{"inputs": {"M": "zero"}}]},
    "config": {"config": "# mine"},
    "adopted": {"adopted": True},
    "an environment": {"parameters": {"EXECUTION_ENV_PATH": "/env.tar.gz"}},
    "reshape": {"inputs": {"M": {"tensor": "M", "reshape": [2, 2]}}},
    "dims": {
        "inputs": {"M": {"tensor": "M", "dims": [-1]}},
        "outputs": {"N": {"tensor": "N", "dims": [-1]}},
    },
}
OVERRIDDEN = list(STANDALONE)[:3]


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


def runs(keeper: Gatekeeper, answers: dict[str, Any]) -> list[str]:
    assert keeper.line(answers) == ""
    shared = keeper.graph(answers)["shared_models"]
    return sorted(" ".join(s["name"] for s in model["steps"]) for model in shared)


@pytest.mark.parametrize("name", RUNS)
def test_runs(keeper: Gatekeeper, name: str) -> None:
    answers, expected = RUNS[name]
    assert runs(keeper, answers) == expected


def test_a_shared_model_has_a_name_of_its_own(keeper: Gatekeeper) -> None:
    answers = wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), step("a_to_b", ["A"], ["Y"]))
    assert keeper.line(answers) == ""
    assert [model["name"] for model in keeper.graph(answers)["shared_models"]] == ["a_to_b_"]


@pytest.mark.parametrize("name", STANDALONE)
def test_a_step_whose_model_is_its_own_shares_it_with_none(keeper: Gatekeeper, name: str) -> None:
    assert runs(keeper, chain(**STANDALONE[name])) == []


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_what_fuse_true_overrides(keeper: Gatekeeper, name: str) -> None:
    assert runs(keeper, chain(**STANDALONE[name], fuse=True)) == [
        "a b c" if name != "calls" else "b c"
    ]


def test_a_shared_model_has_all_that_its_steps_say_of_instances(keeper: Gatekeeper) -> None:
    on_gpu: dict[str, Any] = {"device": "gpu", "fuse": True}
    steps = [
        step("a", ["A"], ["M"], instances=2, **on_gpu),
        step("b", ["M"], ["X"], gpus=[1], **on_gpu),
    ]
    [model] = keeper.graph(wired(*steps, gpu_count=2))["shared_models"]
    group = {"count": 2, "kind": "KIND_GPU", "gpus": [1]}
    assert model["settings"]["instance_group"] == [group]


def asks(**fields: Any) -> dict[str, Any]:
    return chain(fuse=True, **fields)


def alone(answers: dict[str, Any]) -> dict[str, Any]:
    return answers | {"ensemble": False}


SERVED_ALONE = {
    "chain": chain(),
    "one step": wired(step("a", ["A"], ["X"], instances=2)),
    "other names in the model": wired(step("a", {"in.0": "A"}, {"out": "X"})),
    "an ONNX step": wired(step("a", ["A"], ["M"]), onnx("b", ["M"], ["X"])),
    "its name is the pipeline's": wired(step("p", ["A"], ["X"]), ensemble_name="p"),
    "a name is the pipeline's": wired(*CHAIN, ensemble_name="b"),
    "fuse: auto": wired(onnx("a", ["A"], ["X"], fuse="auto")),
    "an input that enters late": wired(step("a", ["A"], ["M"]), step("b", ["M", "B"], ["X"])),
}


@pytest.mark.parametrize("name", SERVED_ALONE)
def test_without_an_ensemble_all_steps_are_one_model(keeper: Gatekeeper, name: str) -> None:
    answers = alone(SERVED_ALONE[name])
    assert keeper.line(answers) == ""
    graph = keeper.graph(answers)
    assert graph["ensembles"] == []
    [model] = graph["models"]
    assert model["name"] == graph["name"]
    assert len(model["steps"]) == len(answers["steps"])
    assert model["inputs"] == graph["inputs"]
    assert model["outputs"] == graph["outputs"]
    assert model["max_batch_size"] == graph["max_batch_size"]


def test_the_model_without_an_ensemble_has_its_inputs_in_their_order(keeper: Gatekeeper) -> None:
    answers = alone(wired(step("a", ["A", "B"], ["X", "Y"]), inputs=["B", "A"]))
    assert keeper.line(answers) == ""
    [model] = keeper.graph(answers)["models"]
    assert [binding["name"] for binding in model["inputs"]] == ["B", "A"]


NOT_ALONE = {
    "two ends": (
        wired(step("a", ["A"], ["X"]), step("b", ["B"], ["Y"])),
        "X is an output, which of a shared model only the last step has",
    ),
    "more rows": (
        wired(step("a", ["A"], ["X"], max_batch_size=16)),
        "a takes 16 rows, the pipeline 8",
    ),
    "two readers": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), step("c", ["M"], ["Y"])),
        "b and c read what a writes, and do not run together",
    ),
    "an output in front": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"]), outputs=["M", "X"]),
        "M is an output, which of a shared model only the last step has",
    ),
    "parted": (
        chain(fuse=False),
        "b has `fuse: false`",
    ),
    "cache": (
        wired(step("a", ["A"], ["X"], cache=True)),
        "a has a cache",
    ),
    "another backend": (
        wired(step("a", ["A"], ["X"], "pytorch")),
        "a has the backend pytorch",
    ),
    "its interface": (
        wired(step("a", ["A"], ["X"]), inputs={"A": {"dims": [-1]}}),
        "a has A as FP32[4], the pipeline as FP32[-1]",
    ),
}


@pytest.mark.parametrize("name", NOT_ALONE)
def test_what_needs_an_ensemble_is_refused_with_the_reason(keeper: Gatekeeper, name: str) -> None:
    answers, reason = NOT_ALONE[name]
    line = keeper.line(alone(answers))
    assert line == f"ensemble: is false, but {reason}; change that, or write `ensemble: {{}}`"


def test_a_nested_ensemble_is_not_left_out(keeper: Gatekeeper) -> None:
    inner = {"backend": "ensemble", "tensors": {"A": "FP32[4]", "X": "FP32[4]"}, "ensemble": False}
    outer = {**step("e", ["A"], ["X"]), **inner, "steps": [step("a", ["A"], ["X"])]}
    line = keeper.line(wired(outer))
    assert line == "step e: ensemble is false; write a mapping"
    line = keeper.line(wired(step("a", ["A"], ["X"]), ensemble=0))
    assert line == "ensemble is 0; write a mapping, or false"


def test_a_drawing_has_all_steps_of_the_one_model(keeper: Gatekeeper) -> None:
    graph = keeper.graph(alone(SERVED_ALONE["a name is the pipeline's"]))
    drawing = keeper.rules.templates.template("hooks/stubs/diagram.jinja").render(graph=graph)
    assert re.findall(r"^    (s\d)\[\"(.) ", drawing, re.MULTILINE) == [
        ("s1", "a"),
        ("s2", "b"),
        ("s3", "c"),
    ]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "alone": (
        wired(step("a", ["A"], ["X"], fuse=True)),
        "step a: has `fuse: true`, but a is beside no other step; change that, or drop `fuse`",
    ),
    "decoupled": (asks(decoupled=True), "b is decoupled"),
    "cache": (asks(cache=True), "b has a cache"),
    "versions": (asks(versions=[1, 2]), "b has versions of its own"),
    "config": (asks(config="# mine"), "b has `config`"),
    "rows": (asks(max_batch_size=16), "b takes 16 rows, c 8"),
    "batching": (asks(batching=False), "b and c differ in `batching`"),
    "an output": (
        wired(step("a", ["A"], ["M"], fuse=True), step("b", ["M"], ["X"]), outputs=["M", "X"]),
        "M is an output, which of a shared model only the last step has",
    ),
    "two readers": (
        wired(step("a", ["A"], ["M"], fuse=True), step("b", ["M"], ["X"]), step("c", ["M"], ["Y"])),
        "b and c read what a writes, and do not run together",
    ),
    "neighbour's requirements": (
        wired(step("a", ["A"], ["M"], requirements=["pillow"]), step("b", ["M"], ["X"], fuse=True)),
        "a has requirements of its own and no `fuse: true`",
    ),
    "neighbour is unfused": (
        wired(step("a", ["A"], ["M"], fuse=True), step("b", ["M"], ["X"], fuse=False)),
        "b has `fuse: false`",
    ),
    "neighbour is ONNX": (
        wired(step("a", ["A"], ["M"], fuse=True), onnx("b", ["M"], ["X"])),
        "b is an ONNX step without `fuse: true`",
    ),
    "neighbour has another backend": (
        wired(step("a", ["A"], ["M"], fuse=True), step("b", ["M"], ["X"], "pytorch")),
        "b has the backend pytorch",
    ),
    "another backend": (
        wired(step("a", ["A"], ["M"]), step("b", ["M"], ["X"], "pytorch", fuse=True)),
        "b has the backend pytorch",
    ),
    "instances": (
        wired(
            step("a", ["A"], ["M"], fuse=True, instances=1),
            step("b", ["M"], ["X"], fuse=True, instances=2),
        ),
        "a and b differ in `instances`",
    ),
    "device": (
        wired(step("a", ["A"], ["M"]), onnx("b", ["M"], ["X"], fuse=True), gpu_count=1),
        "b is an ONNX step without `device: cpu`",
    ),
    "parameter of ONNX Runtime": (
        wired(
            step("a", ["A"], ["M"]),
            onnx("b", ["M"], ["X"], fuse=True, parameters={"execution_mode": 1}),
        ),
        "b has the parameter execution_mode",
    ),
    "groups of instances": (asks(instances=[{"device": "cpu"}]), "b has groups of instances"),
    "called": (
        wired(
            step("a", ["A"], ["M"], fuse=True),
            step("b", ["M"], ["X"]),
            step("c", ["A"], ["Y"], calls=["a"]),
        ),
        "a is called by c",
    ),
    "reused": (
        wired(
            step("a", ["A"], ["M"], fuse=True),
            {"name": "b", "model": "a", "inputs": {"A": "M"}, "outputs": {"M": "X"}},
        ),
        "a has a model that serves b too",
    ),
    "dims": (
        wired(
            step("a", ["A"], ["M"], fuse=True),
            step("b", {"x": {"tensor": "M", "dims": [-1]}}, ["X"]),
        ),
        "a has M as FP32[4], b as FP32[-1]",
    ),
    "no value of the field": (
        asks() | {"steps": [{**CHAIN[0], "fuse": 1}]},
        "step a: fuse is 1; write auto, true or false",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fused_is_refused_with_the_reason(keeper: Gatekeeper, name: str) -> None:
    answers, reason = REFUSED[name]
    line = keeper.line(answers)
    assert reason in line
    assert line.startswith("step ")
    assert line.count("\n") == 0


# Fields of a step that config.pbtxt has under another name, by which fusion.yml knows them.
IN_CONFIG = {
    "accelerator": "optimization",
    "batching": "dynamic_batching",
    "sequence": "sequence_batching",
    "versions": "version_policy",
    "warmup": "model_warmup",
}
# Those that stay the step's own in a shared model, or that hooks/graph/fusion.jinja asks for itself.
OF_A_STEP = {
    "name",
    "backend",
    "inputs",
    "outputs",
    "version",
    "declare",
    "fuse",
    "parameters",
    "trtexec",
}


def test_it_is_known_of_each_field_what_fusing_does_with_it() -> None:
    fusion = table("fusion")
    known = fusion["of_a_model"].keys() | fusion["unless_asked"].keys() | fusion["alike"].keys()
    fields = {
        IN_CONFIG.get(field, field)
        for field in catalog.fields()["step"].keys() - catalog.field_rows().keys()
    }
    assert fields - known == OF_A_STEP, (
        "add `fused` to its row in catalog/fields.yml, the field to catalog/fusion.yml, or to OF_A_STEP here"
    )
