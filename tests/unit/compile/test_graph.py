"""hooks/graph/graph.jinja alone: answers -> the one model of the pipeline that every template reads."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from copier._main import Worker
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jinja2.sandbox import SandboxedEnvironment
from support import OPEN_DIMS, PIPELINES, UNUSUAL, step

from triton_ensemble.adapter.typed import read_typed
from triton_ensemble.compile.graph import Graph
from triton_ensemble.compile.rules import rules

MakeGraph = Callable[..., dict[str, Any]]
AWKWARD = [
    "input.1",
    "Sigmoid:0",
    "389",
    "a/b_0.tmp_1",
    "Merchant Name",
    "merchant name",
    "größe",
    "名",
    "class",
    "class_",
    "None",
    "self",
    "np",
    "_",
    "__init__",
    "_1",
    "1_",
    "_x2e_",
    "_x2d.",
    "-x2e_",
    'say "no"',
    "a\\b",
    "{{ x }}",
    "# not a comment",
    "key: value",
]


@pytest.fixture(scope="module")
def environment(template: Path) -> SandboxedEnvironment:
    """Return Copier's own environment, with the settings of copier.yml."""
    return Worker(src_path=str(template)).jinja_env


@pytest.fixture(scope="module")
def graph(environment: SandboxedEnvironment) -> MakeGraph:
    """Return what makes the graph of some tensors and steps, all other answers being the defaults."""
    macro: Any = environment.get_template("hooks/graph/graph.jinja").module

    def graph(tensors: dict[str, Any], steps: list[dict[str, Any]], **answers: Any) -> Any:
        default = {
            "project_name": "p",
            "ensemble_name": "p",
            "starting_pipeline": "my-own",
            "triton_release": "26.07",
            "gpu_count": 0,
            "max_batch_size": 8,
            "max_queue_delay_us": 100,
            "inputs": [],
            "outputs": [],
            "ensemble": {},
        }
        return json.loads(macro.graph({**default, "tensors": tensors, "steps": steps, **answers}))

    return graph


@pytest.fixture(scope="module")
def identifier(environment: SandboxedEnvironment) -> Callable[[str], str]:
    macros: Any = environment.get_template("hooks/names.jinja").module
    return lambda name: str(macros.identifier(name))


@pytest.mark.parametrize("name", PIPELINES | UNUSUAL)
def test_it_has_the_fields_that_python_reads(name: str) -> None:
    made = rules().answer((PIPELINES | UNUSUAL)[name])["graph"]
    for each in (made, *made["inner"]):
        read_typed(each, Graph)


def test_a_field_of_another_type_is_found() -> None:
    made = rules().answer({})["graph"]
    made["steps"][1]["outputs"][0]["dims"] = None
    with pytest.raises(ValueError, match=re.escape("steps[1].outputs[0].dims is null, not a list")):
        read_typed(made, Graph)


def names(parts: list[dict[str, Any]]) -> list[str]:
    return [part["name"] for part in parts]


def wires(bindings: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return the pipeline's tensor of each tensor of a model."""
    return {binding["name"]: binding["tensor"] for binding in bindings}


def test_steps_stand_in_the_order_in_which_they_are_given(graph: MakeGraph) -> None:
    steps = [step("c", ["A"], ["B"]), step("a", ["B"], ["C"]), step("b", ["B"], ["D"])]
    pipeline = graph(dict.fromkeys("ABCD", "FP32[1]"), steps)
    assert names(pipeline["steps"]) == ["c", "a", "b"]
    assert [each["before"] for each in pipeline["steps"]] == [[], ["c"], ["c"]]
    assert [each["after"] for each in pipeline["steps"]] == [["a", "b"], [], []]


def test_what_no_step_writes_comes_in_and_what_no_step_reads_goes_out(graph: MakeGraph) -> None:
    steps = [step("a", ["A", "C"], ["B", "D"]), step("b", ["B", "C"], ["E"])]
    pipeline = graph(dict.fromkeys("ABCDE", "FP32[1]"), steps)
    assert names(pipeline["inputs"]) == ["A", "C"]
    assert names(pipeline["outputs"]) == ["D", "E"]


def arrows(
    environment: SandboxedEnvironment, pipeline: dict[str, Any], kind: str = "-->"
) -> list[str]:
    """Return those of the project's drawing."""
    drawing = environment.get_template("hooks/stubs/diagram.jinja").render(graph=pipeline)
    return [line.strip() for line in drawing.splitlines() if kind in line]


def test_a_fan_that_joins_again(graph: MakeGraph, environment: SandboxedEnvironment) -> None:
    arms = [step(f"arm{i}", ["A"], [f"B{i}"]) for i in range(3)]
    join = step("join", ["B0", "B1", "B2"], ["C"])
    pipeline = graph(dict.fromkeys(["A", "B0", "B1", "B2", "C"], "FP32[1]"), [*arms, join])
    assert names(pipeline["steps"]) == ["arm0", "arm1", "arm2", "join"]
    assert arrows(environment, pipeline) == [
        *[f"in1 --> s{i}" for i in (1, 2, 3)],
        *[f's{i + 1} -->|"B{i}"| s4' for i in range(3)],
        "s4 --> out1",
    ]


def test_a_model_has_its_own_names_for_tensors(graph: MakeGraph) -> None:
    a = step("a", {"input": "A"}, {"output": "B"})
    b = step("b", {"input": "B"}, {"output": {"tensor": "C", "dims": [-1]}})
    pipeline = graph(dict.fromkeys("ABC", "FP32[4]"), [a, b])
    assert [wires(s["inputs"]) for s in pipeline["steps"]] == [{"input": "A"}, {"input": "B"}]
    assert [wires(s["outputs"]) for s in pipeline["steps"]] == [{"output": "B"}, {"output": "C"}]
    assert pipeline["steps"][1]["outputs"][0]["dims"] == [-1]
    assert [binding["dims"] for binding in pipeline["outputs"]] == [[4]]


def test_an_output_that_the_pipeline_drops(graph: MakeGraph) -> None:
    unused = {"type": "INT64", "dims": [2, 3]}
    pipeline = graph(
        {"A": "FP32[1]", "B": "FP32[1]"}, [step("a", ["A"], {"B": "B", "features": unused})]
    )
    assert wires(pipeline["steps"][0]["outputs"]) == {"B": "B", "features": None}
    assert pipeline["steps"][0]["outputs"][1]["numpy"] == "int64"
    assert names(pipeline["outputs"]) == ["B"]


@pytest.mark.parametrize(
    ("extras", "suffixes"),
    [
        ([], [""]),
        (["gateway"], ["", "-gateway"]),
        (["kserve"], ["", "-mounted"]),
        (["ray"], ["", "-ray"]),
        (["kubernetes", "ray"], ["", "-mounted", "-models", "-ray"]),
    ],
)
def test_the_images_are_those_that_the_extras_use(
    graph: MakeGraph, extras: list[str], suffixes: list[str]
) -> None:
    pipeline = graph(dict.fromkeys("AB", "FP32[1]"), [step("s", ["A"], ["B"])], extras=extras)
    assert [image["suffix"] for image in pipeline["container"]["built"]] == suffixes


def test_the_same_tensor_at_two_inputs_of_a_step(
    graph: MakeGraph, environment: SandboxedEnvironment
) -> None:
    pipeline = graph(
        dict.fromkeys("ABC", "FP32[1]"),
        [step("a", ["A"], ["B"]), step("b", {"x": "B", "y": "B"}, ["C"])],
    )
    assert names(pipeline["steps"]) == ["a", "b"]
    assert wires(pipeline["steps"][1]["inputs"]) == {"x": "B", "y": "B"}
    assert arrows(environment, pipeline) == ["in1 --> s1", 's1 -->|"B"| s2', "s2 --> out1"]


@pytest.mark.parametrize(
    ("given", "type", "dims"),
    [
        ("FP32[4]", "FP32", [4]),
        (" STRING [ 1 ] ", "STRING", [1]),
        ("INT8[3,-1, 224]", "INT8", [3, -1, 224]),
        ({"type": "BOOL", "dims": [2]}, "BOOL", [2]),
    ],
)
def test_ways_to_write_a_tensor(graph: MakeGraph, given: Any, type: str, dims: list[int]) -> None:
    pipeline = graph({"A": given, "B": "FP32[1]"}, [step("a", ["A"], ["B"])])
    assert (pipeline["inputs"][0]["type"], pipeline["inputs"][0]["dims"]) == (type, dims)


def test_a_step_has_the_batch_size_of_the_ensemble_unless_it_says_otherwise(
    graph: MakeGraph,
) -> None:
    steps = [step("a", ["A"], ["B"]), step("b", ["B"], ["C"], max_batch_size=64)]
    pipeline = graph(dict.fromkeys("ABC", "FP32[1]"), steps, max_batch_size=16)
    assert [s["max_batch_size"] for s in pipeline["steps"]] == [16, 64]


@pytest.mark.parametrize(("version", "folder"), [(-1, 1), (1, 1), (3, 3)])
def test_a_model_has_a_folder_of_the_version_that_is_called(
    graph: MakeGraph, version: int, folder: int
) -> None:
    steps = [step("a", ["A"], ["B"], version=version)]
    assert graph({"A": "FP32[1]", "B": "FP32[1]"}, steps)["models"][0]["versions"] == [folder]


def test_torch_is_a_package_of_projects_that_serve_torchscript_only(graph: MakeGraph) -> None:
    def packages(backend: str) -> str:
        tensors = {"A": "FP32[1]", "B": "FP32[1]"}
        return json.dumps(graph(tensors, [step("a", ["A"], ["B"], backend)])["packages"])

    assert "torch==" in packages("pytorch")
    assert "onnx" not in packages("pytorch")
    assert "torch" not in packages("onnxruntime")
    assert "torch" not in packages("python")


def test_the_example_gives_its_code_as_long_as_its_steps_are_unchanged(graph: MakeGraph) -> None:
    tensors = {"INPUT": "FP32[4]", "FEATURES": "FP32[4]", "OUTPUT": "FP32[2]"}
    steps = [
        step("prepare", ["INPUT"], ["FEATURES"]),
        step("predict", ["FEATURES"], ["OUTPUT"], "onnxruntime"),
    ]
    assert graph(tensors, steps)["example"] == "my-own"
    assert graph({**tensors, "INPUT": "FP32[5]"}, steps)["example"] == ""


def test_the_example_stays_where_a_model_has_other_names_for_its_tensors(graph: MakeGraph) -> None:
    """Of its code the model file alone does not fit. A Python step's own names are its arguments."""
    tensors = {"INPUT": "FP32[4]", "FEATURES": "FP32[4]", "OUTPUT": "FP32[2]"}
    prepare = step("prepare", ["INPUT"], ["FEATURES"])
    predict = step("predict", {"x": "FEATURES"}, {"y": "OUTPUT"}, "onnxruntime")
    named = graph(tensors, [prepare, predict])
    assert (named["example"], named["example_stubs"]) == ("my-own", ["predict"])
    other = graph(tensors, [step("prepare", {"x": "INPUT"}, ["FEATURES"]), predict])
    assert other["example"] == ""
    assert named["stub_sample"]


def test_what_a_python_step_takes(graph: MakeGraph) -> None:
    """It takes inputs, then what Triton adds to the requests of a sequence. Texts are NumPy's on a GPU too."""
    start = {"kind": "CONTROL_SEQUENCE_START", "fp32_false_true": [0, 1]}
    tensors = {
        "A": {"type": "FP32", "dims": [1], "optional": True},
        "B": "STRING[1]",
        "C": "INT8[1]",
    }
    controls = {"direct": {}, "control_input": [{"name": "class", "control": [start]}]}
    on_gpu: dict[str, Any] = {"device": "gpu", "requirements": ["torch==2.13.0"]}
    steps = [
        step("in-order", ["A"], ["B"], sequence=controls),
        step("scale", ["B"], ["C"], **on_gpu),
    ]
    first, second = graph(tensors, steps, gpu_count=1)["python_steps"]
    assert [(binding["argument"], binding["annotation"]) for binding in first["takes"]] == [
        ("A", "NDArray[np.float32] | None"),
        ("class_", "NDArray[np.float32]"),
    ]
    assert [binding["annotation"] for binding in second["takes"] + second["outputs"]] == [
        "NDArray[np.object_]",
        "torch.Tensor",
    ]
    parameters = [given["key"] for given in second["settings"]["parameters"]]
    assert parameters == ["FORCE_CPU_ONLY_INPUT_TENSORS"]


@pytest.mark.parametrize(
    ("fields", "threads"),
    [
        ({}, None),
        ({"instances": 2}, "1"),
        ({"instances": 2, "parameters": {"intra_op_thread_count": 4}}, "4"),
        ({"instances": 2, "parameters": {}}, None),
        ({"instances": 2, "device": "gpu"}, None),
    ],
)
def test_instances_of_onnx_on_a_cpu_have_a_thread_each(
    graph: MakeGraph, fields: dict[str, Any], threads: str | None
) -> None:
    steps = [step("a", ["A"], ["B"], "onnxruntime", **{"device": "cpu", **fields})]
    model_settings = graph({"A": "FP32[1]", "B": "FP32[1]"}, steps, gpu_count=1)["models"][0][
        "settings"
    ]
    values = [given["value"]["string_value"] for given in model_settings.get("parameters", [])]
    assert values == ([threads] if threads else [])


def test_a_step_without_a_batch_dimension_may_have_a_queue_policy(graph: MakeGraph) -> None:
    policy = {"allow_timeout_override": True, "default_timeout_us": 9}
    batching = {"default_queue_policy": policy}
    steps = [step("a", ["A"], ["B"], max_batch_size=0, batching=batching)]
    [model] = graph({"A": "FP32[1]", "B": "FP32[1]"}, steps, max_batch_size=0)["models"]
    assert model["settings"]["dynamic_batching"] == {
        "default_queue_policy": {"allow_timeout_override": True, "default_timeout_microseconds": 9}
    }


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        ({"gpu_count": 1, "gpu_runner": "self-hosted,  gpu"}, ["self-hosted", "gpu"]),
        ({"gpu_count": 0, "gpu_runner": "gpu"}, []),
    ],
)
def test_the_labels_of_the_machine_with_a_gpu(
    graph: MakeGraph, answers: dict[str, Any], labels: list[str]
) -> None:
    steps = [step("a", ["A"], ["B"])]
    assert graph({"A": "FP32[1]", "B": "FP32[1]"}, steps, **answers)["runner"] == labels


def test_types_have_names_of_their_own(graph: MakeGraph) -> None:
    tensors = {name: "FP32[1]" for name in "ABCDE"}
    wiring = zip(["read_image", "readImage", "read.image", "1st"], "ABCD", "BCDE", strict=True)
    models = graph(tensors, [step(name, [a], [b]) for name, a, b in wiring])["python_steps"]
    assert [model["types"] for model in models] == [
        "ReadImage",
        "Readimage",
        "ReadX2eImage",
        "_1st",
    ]


def test_the_models_that_a_step_calls(graph: MakeGraph, environment: SandboxedEnvironment) -> None:
    """A step calls another by its name, whatever model serves it."""
    tensors = {name: "FP32[1]" for name in "ABCD"}
    steps = [
        step("one", {"x.1": "A"}, {"y": "B"}),
        {"name": "a-gain", "model": "one", "inputs": {"x.1": "B"}, "outputs": {"y": "C"}},
        step("two", ["C"], ["D"], calls=["a-gain", "words"]),
        step("words", ["A"], ["W"], "vllm", decoupled=True),
    ]
    pipeline = graph({**tensors, "W": "STRING[1]"}, steps)
    drawn = arrows(environment, pipeline, "-.->")
    assert drawn == ["s3 -.->|calls| s2", "s3 -.->|calls| s4"]
    [called] = [m["called"] for m in pipeline["python_steps"] if m["called"]]
    one = {"name": "one", "version": -1, "arguments": {"x_x2e_1": "x.1"}, "outputs": ["y"]}
    words = {"name": "words", "version": -1, "arguments": {"A": "A"}, "outputs": ["W"]}
    assert called == {"a_x2d_gain": one, "words": {**words, "decoupled": True}}


def test_a_step_that_is_only_called_is_no_part_of_the_ensemble(graph: MakeGraph) -> None:
    """It has a model, and no tensor of the pipeline. Clients see of what it does only the sequence that goes through."""
    tensor = {"type": "FP32", "dims": [1]}
    called = {"decoupled": True, "sequence": {"direct": {}}, "batching": False, "max_batch_size": 1}
    steps = [
        step("one", ["A"], ["B"], calls=["two"]),
        step("two", {"x": tensor}, {"y": tensor}, "onnxruntime", **called),
    ]
    pipeline = graph({"A": "FP32[1]", "B": "FP32[1]"}, steps)
    assert names(pipeline["models"]) == ["one", "two"]
    assert [call["model"] for call in pipeline["ensembles"][0]["scheduling"]] == ["one"]
    assert (pipeline["decoupled"], pipeline["sequential"]) == (False, True)
    [caller] = pipeline["python_steps"]
    assert caller["called"]["two"]["sequence"]
    pipeline = graph({"A": "FP32[1]", "B": "FP32[1]"}, [{**steps[0], "adopted": True}, steps[1]])
    assert not pipeline["sequential"]  # its code may have sequences of its own


def test_a_step_has_the_sizes_of_the_model_inside_that_serves_it(graph: MakeGraph) -> None:
    read = {"tensor": "D", "dims": [7]}
    inside = [step("m", {"x": "B"}, {"y": "D"}, fuse=False), step("v", {"D": read}, ["C"])]
    tensors = dict.fromkeys("ABCDE", "FP32[-1]")
    steps = [
        step("a", ["A"], ["B"]),
        step("inner", ["B"], ["C"], "ensemble", tensors=tensors, steps=inside),
        {"name": "w", "model": "m", "inputs": {"x": "C"}, "outputs": {"y": "E"}},
    ]
    assert graph(tensors, steps)["steps"][-1]["outputs"][0]["sizes"] == [7]


def test_awkward_names_of_tensors_survive(graph: MakeGraph) -> None:
    pipeline = graph(dict.fromkeys([*AWKWARD, "B"], "FP32[1]"), [step("a", AWKWARD, ["B"])])
    assert names(pipeline["steps"][0]["inputs"]) == AWKWARD
    assert sorted(names(pipeline["inputs"])) == sorted(AWKWARD)
    arguments = [binding["argument"] for binding in pipeline["steps"][0]["inputs"]]
    assert len(set(arguments)) == len(AWKWARD)


def test_numbers_are_names_too(graph: MakeGraph) -> None:
    pipeline = graph({389: "FP32[1]", 390: "FP32[1]"}, [step("a", [389], {0: 390})])
    assert wires(pipeline["steps"][0]["outputs"]) == {"0": "390"}
    assert (names(pipeline["inputs"]), names(pipeline["outputs"])) == (["389"], ["390"])


def decoded(word: str, reserved: set[str]) -> str:
    """Return the name of which hooks/names.jinja makes the word."""
    word = re.sub("^_(?=[0-9])", "", word)
    word = word[:-1] if word[:-1] in reserved and word.endswith("_") else word
    return re.sub("_x((?:[0-9a-f]{2})+)_", lambda match: bytes.fromhex(match[1]).decode(), word)


# Words of this alphabet are, or nearly are, what the spelling itself produces.
TRICKY = st.text(st.sampled_from("_x25efd.-/ 1aclsé"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize("name", AWKWARD)
def test_identifier_of_an_awkward_name(identifier: Callable[[str], str], name: str) -> None:
    word = identifier(name)
    assert word.isidentifier()
    assert word.isascii()
    assert not keyword.iskeyword(word)


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=TRICKY.filter(bool) | TEXTS)
@example("_x2d.")
@example("-x2e_")
@example("self")
def test_no_two_names_have_the_same_identifier(
    environment: SandboxedEnvironment, identifier: Callable[[str], str], name: str
) -> None:
    """A way back from each identifier to its name proves it."""
    macros: Any = environment.get_template("hooks/names.jinja").module
    word = identifier(name)
    assert decoded(word, {*macros.KEYWORDS, *macros.TAKEN}) == name
    assert word.isidentifier()
    assert not keyword.iskeyword(word)


def test_a_request_of_zeros_has_dims_that_all_steps_take(graph: MakeGraph) -> None:
    """Where the interface leaves one open, it is that of a step, also of one in a nested ensemble."""
    pipeline = graph(**OPEN_DIMS)
    sizes = {tensor["name"]: tensor.get("sizes") for tensor in pipeline["inputs"]}
    assert sizes == {"A": [3, 4, 1], "B": [5], "C": None}


def test_what_is_written_has_the_sizes_that_are_read(graph: MakeGraph) -> None:
    """Of an output with dims that vary, where a reader or the interface has other sizes than 1."""
    tensors = {"A": "FP32[1]", "B": "FP32[1, 5, -1]", "C": "FP32[-1]", "D": "FP32[-1]", "E": "FP32[1]"}  # fmt: skip
    writes = {"b": {"tensor": "B", "dims": [-1, -1, -1]}, "c": "C", "d": "D"}
    reads = {"b": {"tensor": "B", "dims": [1, 5, 7]}, "c": "C"}
    outputs = {"E": None, "D": {"dims": [3]}}
    steps = [step("one", ["A"], writes), step("two", reads, ["E"])]
    one, two = graph(tensors, steps, outputs=outputs)["steps"]
    assert [output.get("sizes") for output in one["outputs"]] == [[1, 5, 7], None, [3]]
    assert [output.get("sizes") for output in two["outputs"]] == [None]


def test_an_output_of_a_shared_model_has_the_sizes_of_all_its_readers(graph: MakeGraph) -> None:
    """One model writes for the step that it is of, and for another that uses it."""
    tensors = {"A": "FP32[4]", "B": "FP32[-1]", "C": "FP32[3]", "D": "FP32[4]", "E": "FP32[1]"}
    one = step("one", {"a": "A"}, {"b": "B"})
    two = {"name": "two", "model": "one", "inputs": {"a": "D"}, "outputs": {"b": "C"}}
    pipeline = graph(tensors, [one, two, step("three", ["B", "C"], ["E"])])
    [output] = next(model["outputs"] for model in pipeline["models"] if model["name"] == "one")
    assert output["sizes"] == [3]


@pytest.mark.parametrize(("writes", "reads", "sizes"), [(4, 0, [2]), (0, 4, [3, 2])])
def test_sizes_are_known_where_one_of_two_steps_has_a_batch_dimension(
    graph: MakeGraph, writes: int, reads: int, sizes: list[int]
) -> None:
    """The first dim of the other is that of the rows."""
    tensors = {"A": "FP32[3, 4]", "B": "FP32[3, 2]", "C": "FP32[3, 1]"}
    dims = {0: [3, 2], 4: [2]}
    written = {"tensor": "B", "dims": [*dims[writes][:-1], -1]}
    row = {"tensor": "A", "dims": [4] if writes else [3, 4]}
    last = {"tensor": "C", "dims": [1] if reads else [3, 1]}
    one = step("one", {"a": row}, {"b": written}, max_batch_size=writes)
    two = step(
        "two", {"b": {"tensor": "B", "dims": dims[reads]}}, {"c": last}, max_batch_size=reads
    )
    pipeline = graph(tensors, [one, two], max_batch_size=0)
    assert pipeline["steps"][0]["outputs"][0]["sizes"] == sizes


def test_what_the_client_calls_tensors_and_the_ensemble(
    graph: MakeGraph, environment: SandboxedEnvironment
) -> None:
    """The client calls them as steps do, but for words that its methods have."""
    tensors = {"timeout": "FP32[1]", "timeout_": "FP32[1]", "a.b": "STRING[2]", "class": "BF16[1]"}
    stub = environment.get_template("hooks/stubs/client.jinja")

    def client_of(pipeline: Any) -> Any:
        module: Any = stub.make_module({"graph": pipeline})
        return module.client

    read = ["timeout", "timeout_", "a.b"]
    client = client_of(
        graph(tensors, [step("a", read, ["class"])], ensemble_name="close", inputs=read)
    )
    assert (client["method"], client["result"]) == ("close_", "CloseResult")
    assert [binding["argument"] for binding in client["inputs"]] == [
        "timeout_",
        "timeout_x5f_",
        "a_x2e_b",
    ]
    assert [binding["shape"] for binding in client["inputs"]][-1] == "STRING[batch, 2]"
    assert [binding["annotation"] for binding in client["outputs"]] == ["NDArray[np.float32]"]

    def called(ensemble: str) -> tuple[str, str]:
        client = client_of(graph(tensors, [step("a", ["class"], ["a.b"])], ensemble_name=ensemble))
        return client["method"], client["result"]

    assert called("1.5") == ("_1_x2e_5", "Result")
    assert called("-a") == ("_x2d_a", "X2dAResult")
    assert called("_sent")[0] == "_x5f_sent"  # as a private member of the client is not called


@pytest.mark.slow
def test_a_chain_of_a_thousand_steps(graph: MakeGraph) -> None:
    tensors = {f"T{i}": "FP32[1]" for i in range(1001)}
    steps = [step(f"s{i}", [f"T{i}"], [f"T{i + 1}"]) for i in range(1000)]
    pipeline = graph(tensors, steps)
    assert names(pipeline["steps"]) == [f"s{i}" for i in range(1000)]
    assert (names(pipeline["inputs"]), names(pipeline["outputs"])) == (["T0"], ["T1000"])


@pytest.mark.slow
def test_a_fan_of_two_thousand_tensors(graph: MakeGraph) -> None:
    arms = [f"T{i}" for i in range(2000)]
    tensors = dict.fromkeys(["A", "B", *arms], "FP32[1]")
    pipeline = graph(tensors, [step("split", ["A"], arms), step("join", arms, ["B"])])
    assert names(pipeline["steps"]) == ["split", "join"]
    assert (names(pipeline["inputs"]), names(pipeline["outputs"])) == (["A"], ["B"])
