"""Single mutations of valid pipelines, and a second way to write a pipeline's configs: one that refuses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]
from hypothesis import strategies as st
from pipelines import Answers, Draw, Pipeline, bindings, fed, interface, pipelines, spec
from reference_step import DTYPES
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

SIDES = ("inputs", "outputs")
TYPES = st.sampled_from(sorted(DTYPES))
MODEL = """
import json
import sys
from pathlib import Path

import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).parent))
from reference_step import computed


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.name, self.outputs = json.loads(config["parameters"]["reference"]["string_value"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        inputs = [pb_utils.get_input_tensor_by_name(request, name) for name in self.inputs]
        arrays = [tensor.as_numpy() if tensor is not None else None for tensor in inputs]
        results = computed(self.name, arrays, self.outputs)
        wanted = request.requested_output_names()
        tensors = [pb_utils.Tensor(name, results[name]) for name in results if name in wanted]
        return pb_utils.InferenceResponse(tensors)
"""


@dataclass
class Mutant:
    """A pipeline with something changed, maybe for the worse."""

    pipeline: Pipeline
    mutation: str


class Parts:
    """The parts to change of a pipeline whose bindings are all written as mappings."""

    def __init__(self, draw: Draw, pipeline: Pipeline) -> None:
        self.draw = draw
        self.pipeline = pipeline
        self.answers = pipeline.answers
        self.steps: list[Answers] = self.answers["steps"]
        self.tensors: dict[str, Any] = self.answers["tensors"]

    def one(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def own(self) -> list[Answers]:
        return [step for step in self.steps if "model" not in step]

    def binding(self, side: str = "", *, of: list[Answers] | None = None) -> Answers:
        side = side or self.one(SIDES)
        step = self.one(of or self.own())
        own = self.one(own for own, binding in step[side].items() if "tensor" in binding)
        binding: Answers = step[side][own]
        return binding

    def dims(self, given: list[int]) -> list[int]:
        """Return other dims: longer, shorter, or one of another size."""
        i = self.draw(st.integers(0, len(given) - 1))
        size = self.one([1, 2, 3, 4, -1])
        longer, shorter = [*given[:i], size, *given[i:]], [*given[:i], *given[i + 1 :]]
        changed: list[int] = self.one(
            [[*given[:i], size, *given[i + 1 :]], longer, shorter or longer]
        )
        return changed


class Mutations(Parts):
    """Mutations that change one thing each, if the pipeline has it."""

    def a_type(self) -> None:
        self.binding()["type"] = self.draw(TYPES)

    def some_dims(self) -> None:
        binding = self.binding()
        binding["dims"] = self.dims(binding.get("dims") or self.tensors[binding["tensor"]]["dims"])

    def type_of_a_tensor(self) -> None:
        self.tensors[self.one(self.tensors)]["type"] = self.draw(TYPES)

    def dims_of_a_tensor(self) -> None:
        given = self.tensors[self.one(self.tensors)]
        given["dims"] = self.dims(given["dims"])

    def what_the_ensemble_declares(self) -> None:
        i = self.draw(st.integers(0, 1))
        names = interface(self.answers)[i]
        changed = self.one(names)
        new = self.one(
            [{"type": self.draw(TYPES)}, {"dims": self.dims(self.tensors[changed]["dims"])}]
        )
        self.answers[SIDES[i]] = {name: new if name == changed else {} for name in names}

    def what_the_ensemble_lists(self) -> None:
        i = self.draw(st.integers(0, 1))
        names = interface(self.answers)[i]
        other = self.one(self.tensors)
        others = [name for name in names if name != other]
        self.answers[SIDES[i]] = self.one([[*others, other], others])

    def another_tensor(self) -> None:
        self.binding(of=self.steps)["tensor"] = self.one(self.tensors)

    def another_input(self) -> None:
        self.binding("inputs", of=self.steps)["tensor"] = self.one(self.tensors)

    def another_output(self) -> None:
        self.binding("outputs", of=self.steps)["tensor"] = self.one(self.tensors)

    def no_such_tensor(self) -> None:
        binding = self.binding()
        binding |= self.tensors[binding["tensor"]] | binding | {"tensor": "nowhere"}

    def two_swapped(self) -> None:
        one, two = self.binding(of=self.steps), self.binding(of=self.steps)
        one["tensor"], two["tensor"] = two["tensor"], one["tensor"]

    def one_more_output(self) -> None:
        step = self.one(self.own())
        step["outputs"]["more"] = {"tensor": self.one(self.tensors)}

    def one_more_input(self) -> None:
        step = self.one(self.own())
        step["inputs"]["more"] = {"tensor": self.one(self.tensors)}

    def no_tensor(self) -> None:
        binding = self.binding()
        binding |= self.tensors[binding["tensor"]] | binding
        del binding["tensor"]

    def a_binding_less(self) -> None:
        step, side = self.one(self.steps), self.one(SIDES)
        if len(step[side]) > 1:
            del step[side][self.one(step[side])]

    def a_step_less(self) -> None:
        if len(self.steps) > 1:
            self.steps.remove(self.one(self.steps))

    def a_step_less_but_its_inputs_listed(self) -> None:
        self.answers["inputs"] = interface(self.answers)[0]
        self.a_step_less()

    def another_name_at_a_reused_model(self) -> None:
        if reused := [step for step in self.steps if "model" in step]:
            step, side = self.one(reused), self.one(SIDES)
            step[side] = {own + self.one(["", "x"]): binding for own, binding in step[side].items()}

    def another_model(self) -> None:
        step = self.one(self.steps)
        step["model"] = self.one([*(s["name"] for s in self.steps), "nobody"])
        step.pop("backend", None)
        step.pop("max_batch_size", None)

    def max_batch_size_of_a_step(self) -> None:
        self.one(self.own())["max_batch_size"] = self.one([0, 1, 2, 4, 8, 16])

    def max_batch_size_of_the_ensemble(self) -> None:
        self.answers["max_batch_size"] = self.one([0, 1, 2, 4, 8, 16])

    def decoupled_steps(self) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.one(self.own())["decoupled"] = True

    def an_optional_binding(self) -> None:
        self.binding("inputs")["optional"] = True

    def an_optional_tensor(self) -> None:
        name = self.one(self.tensors)  # that a step may leave it out is no matter of a config
        self.tensors[name]["optional"] = name in self.pipeline.interface()[0]

    def a_version(self) -> None:
        self.one(self.steps)["version"] = self.one([1, 2])

    def all_outputs(self) -> None:
        self.answers["ensemble"] = {} if self.answers.get("ensemble") else {"all_outputs": True}


MUTATIONS = [name for name in vars(Mutations) if not name.startswith("_")]


def normal(answers: Answers) -> Answers:
    """Return the answers with each tensor and each binding as a mapping."""
    normalized = deepcopy(answers)
    for step in normalized["steps"]:
        for side in SIDES:
            step[side] = deepcopy(bindings(step[side]))
    for name, given in normalized["tensors"].items():
        dtype, dims = spec(given)
        extra = given if isinstance(given, dict) else {}
        normalized["tensors"][name] = extra | {"type": dtype, "dims": list(dims)}
    return normalized


def pruned(answers: Answers) -> Answers:
    """Return the answers without unused tensors: the template minds them, Triton never hears of them."""
    used = {t for step in answers["steps"] for side in SIDES for t in fed(step[side]).values()}
    used |= {name for side in SIDES for name in answers.get(side, [])}
    return answers | {"tensors": {n: g for n, g in answers["tensors"].items() if n in used}}


@st.composite
def mutants(draw: Draw, each: int = 6) -> list[Mutant]:
    """Draw some mutants of a pipeline."""
    base, mutants = draw(pipelines(max_steps=5)), []
    for name in draw(
        st.lists(st.sampled_from(MUTATIONS), min_size=each, max_size=each, unique=True)
    ):
        pipeline = Pipeline(normal(base.answers), base.rows, base.sizes, base.dropped)
        getattr(Mutations(draw, pipeline), name)()
        pipeline.answers = pruned(pipeline.answers)
        mutants.append(Mutant(pipeline, name))
    return mutants


class Reference:
    """A model repository of pipelines whatever they are; equal models are one."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.models: dict[str, str] = {}

    def add(self, name: str, pipeline: Pipeline) -> None:
        answers = pipeline.answers
        names = {
            step["name"]: self.model(pipeline, step)
            for step in pipeline.steps
            if "model" not in step
        }
        inputs, outputs = interface(answers)
        config: dict[str, Any] = {
            "name": name,
            "platform": "ensemble",
            "max_batch_size": answers["max_batch_size"],
            "input": [self.tensor(name, self.declared(answers, "inputs", name)) for name in inputs],
            "output": [
                self.tensor(name, self.declared(answers, "outputs", name)) for name in outputs
            ],
        }
        steps = [
            {
                "model_name": names.get(step.get("model", step["name"]), "missing"),
                "model_version": step.get("version", -1),
                "input_map": fed(step["inputs"]),
                "output_map": fed(step["outputs"]),
            }
            for step in sort_steps(answers)
        ]
        self.write(
            name, model_config_pb2.ModelConfig(**config, ensemble_scheduling={"step": steps})
        )

    def declared(self, answers: Answers, side: str, name: str) -> Answers:
        given = answers.get(side)
        own = {"optional": False} if side == "outputs" else {}
        return (
            dict(answers["tensors"][name]) | (given[name] if isinstance(given, dict) else {}) | own
        )

    def tensor(self, name: str, given: Answers) -> Answers:
        flags = {"optional": True} if given.get("optional") else {}
        return {"name": name, "data_type": f"TYPE_{given['type']}", "dims": given["dims"]} | flags

    def model(self, pipeline: Pipeline, step: Answers) -> str:
        """Return the name of a model that serves the step."""
        tensors = pipeline.answers["tensors"]
        sides: dict[str, list[Answers]] = {}
        for side in SIDES:
            own = {"optional": False} if side == "outputs" else {}
            sides[side[:-1]] = [
                self.tensor(name, tensors.get(binding.get("tensor"), {}) | own | binding)
                for name, binding in step[side].items()
            ]
        shapes = {
            name: (tensor["data_type"][5:], pipeline.size(step, name))
            for name, tensor in zip(step["outputs"], sides["output"], strict=True)
        }
        config = model_config_pb2.ModelConfig(
            backend="python",
            max_batch_size=step.get("max_batch_size", pipeline.answers["max_batch_size"]),
            **sides,
            instance_group=[{"count": 1, "kind": "KIND_CPU"}],
            model_transaction_policy={"decoupled": step.get("decoupled", False)},
            parameters={"reference": {"string_value": json.dumps([step["name"], shapes])}},
        )
        version = max(step.get("version", 1), 1)
        name = sha1(f"{version}{text_format.MessageToString(config)}".encode()).hexdigest()
        if name not in self.models:
            self.models[name] = name
            self.write(name, config, version)
            folder = self.repository / name / str(version)
            (folder / "model.py").write_text(MODEL)
            source = Path(__file__).with_name("reference_step.py")
            (folder / source.name).write_text(source.read_text())
        return name

    def write(self, name: str, config: Any, version: int = 1) -> None:
        config.name = name
        (self.repository / name / str(version)).mkdir(parents=True)
        path = self.repository / name / "config.pbtxt"
        path.write_text(text_format.MessageToString(config, as_utf8=True))


def sort_steps(answers: Answers) -> Iterator[Answers]:
    """Yield each step after those it reads from, where there is such an order."""
    waiting = sorted(answers["steps"], key=lambda step: str(step["name"]))
    while waiting:
        written = {tensor for step in waiting for tensor in fed(step["outputs"]).values()}
        ready = (s for s in waiting if not written & set(fed(s["inputs"]).values()))
        step = next(ready, waiting[0])
        waiting.remove(step)
        yield step
