"""Random pipelines: their answers, the requests that they take, and what these come to."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from reference_step import DTYPES, Array, computed

Answers = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

WORDS = (
    "A B C D E F G H x X input.1 Sigmoid:0 389 0 -1 a/b_0.tmp_1 größe Größe 名 class class_ None self "
    "np rows _ _1 1_ _x2e_ _x2d. a\\b %s # ~ null true 1e3 * & ! @ ' INSIDE context name"
)
PHRASES = ["Merchant Name", "merchant name", 'say "no"', "{{ x }}", "key: value", "- a", " "]
TENSOR_NAMES = [*WORDS.split(), *PHRASES]
MODELS = (
    "step Step STEP a-b a.b a_b 1 1.5 2nd _ __init__ class import np numpy json steps triton_step "
    "python ensemble expose_A model.python null true 1e3 x. x-"
)
STEP_NAMES = MODELS.split()
LETTERS = st.characters(categories=["L", "N", "P", "S"], codec="utf-8")


@dataclass
class Pipeline:
    """Answers, and a size of each tensor: that of a row, whatever the declared dims leave open."""

    answers: Answers
    rows: int
    sizes: dict[str, tuple[int, ...]]
    dropped: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    @property
    def ensemble(self) -> str:
        return str(self.answers["ensemble_name"])

    @property
    def steps(self) -> list[Answers]:
        return list(self.answers["steps"])

    def base(self, step: Answers) -> Answers:
        """Return the step whose model serves the step."""
        name = step.get("model", step["name"])
        return next(other for other in self.steps if other["name"] == name)

    def size(self, base: Answers, own: str) -> tuple[int, ...]:
        """Return the size of a row of an output of a model."""
        tensor = bindings(base["outputs"])[own].get("tensor")
        return self.sizes.get(tensor, ()) if tensor else self.dropped.get((base["name"], own), ())

    def outputs(self, base: Answers) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the type and the size of a row of each output of a model."""
        return {
            own: (self.type(binding), self.size(base, own))
            for own, binding in bindings(base["outputs"]).items()
        }

    def type(self, binding: Answers) -> str:
        if "type" in binding:
            return str(binding["type"])
        return spec(self.answers["tensors"][binding["tensor"]])[0]

    def interface(self) -> tuple[list[str], list[str]]:
        return interface(self.answers)

    def optional(self) -> set[str]:
        """Return the inputs that a request may leave out."""
        tensors = self.answers["tensors"]
        given = {name: tensors[name] for name in self.interface()[0]}
        return {name for name, g in given.items() if isinstance(g, dict) and g.get("optional")}

    def request(self) -> dict[str, Array]:
        """Return values for each input."""
        types = {name: spec(given)[0] for name, given in self.answers["tensors"].items()}
        return {
            name: random_values(types[name], (self.rows, *self.sizes[name]))
            for name in self.interface()[0]
        }

    def walk(self, request: dict[str, Array]) -> dict[str, Array]:
        """Return the outputs, by NumPy alone."""
        arrays: dict[str, Array | None] = {name: request.get(name) for name in self.interface()[0]}
        waiting = self.steps
        while waiting:
            step = next(
                step for step in waiting if set(fed(step["inputs"]).values()) <= arrays.keys()
            )
            waiting.remove(step)
            base = self.base(step)
            reads = fed(step["inputs"])
            inputs = [
                arrays[reads[own]] if own in reads else None for own in bindings(base["inputs"])
            ]
            results = computed(base["name"], inputs, self.outputs(base))
            arrays |= {tensor: results[own] for own, tensor in fed(step["outputs"]).items()}
        return {name: np.asarray(arrays[name]) for name in self.interface()[1]}


def spec(given: Any) -> tuple[str, list[int]]:
    """Return the type and dims of an entry of `tensors`."""
    if isinstance(given, str):
        name, _, dims = given.rstrip("]").partition("[")
        return name, [int(dim) for dim in dims.split(",")]
    return given["type"], given["dims"]


def bindings(given: Any) -> dict[str, Answers]:
    """Return a step's `inputs` or `outputs`, each binding as a mapping."""
    if isinstance(given, list):
        return {name: {"tensor": name} for name in given}
    return {
        own: binding if isinstance(binding, dict) else {"tensor": binding}
        for own, binding in given.items()
    }


def fed(given: Any) -> dict[str, str]:
    """Return the tensors of the pipeline by a model's names for them."""
    return {
        own: binding["tensor"] for own, binding in bindings(given).items() if "tensor" in binding
    }


def interface(answers: Answers) -> tuple[list[str], list[str]]:
    """Return the inputs and outputs of the ensemble."""
    read = {tensor for step in answers["steps"] for tensor in fed(step["inputs"]).values()}
    written = {tensor for step in answers["steps"] for tensor in fed(step["outputs"]).values()}
    inputs = [name for name in answers["tensors"] if name in read - written]
    outputs = [name for name in answers["tensors"] if name in written - read]
    return list(answers.get("inputs") or inputs), list(answers.get("outputs") or outputs)


def random_values(dtype: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(shape)
    numbers = random.integers(0, 256, (*shape, 8), np.uint8)
    if dtype == "STRING":
        return np.array([row.tobytes() for row in numbers.reshape(-1, 8)], object).reshape(shape)
    if dtype.startswith("FP"):
        return random.normal(size=shape).astype(DTYPES[dtype])
    wide = numbers.view(np.int64)[..., 0]
    return (wide & 1 if dtype == "BOOL" else wide).astype(DTYPES[dtype])


def tagged(pipeline: Pipeline, tag: int) -> Pipeline:
    """Return the pipeline with names of models that no other tag has: also those of copies, which tensors name."""
    outputs, answers = set(pipeline.interface()[1]), deepcopy(pipeline.answers)
    tensors = {name: f"{name}~{tag}" if name in outputs else name for name in answers["tensors"]}
    for step in answers["steps"]:
        for key in {"name", "model"} & step.keys():
            step[key] += f"-{tag}"
        for side in ("inputs", "outputs"):
            for binding in (changed := bindings(step[side])).values():
                if "tensor" in binding:
                    binding["tensor"] = tensors[binding["tensor"]]
            step[side] = changed
    for side in ("inputs", "outputs"):
        if given := answers.get(side):
            named = [tensors[name] for name in given]
            answers[side] = (
                named if isinstance(given, list) else dict(zip(named, given.values(), strict=True))
            )
    answers["tensors"] = {tensors[name]: given for name, given in answers["tensors"].items()}
    return Pipeline(
        answers | {"ensemble_name": f"{pipeline.ensemble}-{tag}"},
        pipeline.rows,
        {tensors[name]: size for name, size in pipeline.sizes.items()},
        {(f"{name}-{tag}", own): size for (name, own), size in pipeline.dropped.items()},
    )


class Builder:
    """A pipeline that is drawn step by step."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.max_batch_size = draw(st.sampled_from([8, 0, 1, 2]))
        self.rows = draw(st.integers(1, self.max_batch_size or 3))
        self.tensors: dict[str, Answers] = {}
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.dropped: dict[tuple[str, str], tuple[int, ...]] = {}
        self.steps: list[Answers] = []

    def rarely(self, of: int = 5) -> bool:
        return bool(self.draw(st.integers(1, of)) == of)

    def name(self, pool: list[str], used: Any) -> str:
        if pool is TENSOR_NAMES and self.rarely(8):
            name = self.draw(st.text(LETTERS, min_size=1, max_size=4))
        else:
            name = self.draw(st.sampled_from(pool))
        while name in used:
            name += self.draw(st.sampled_from("abcABC0123"))
        return str(name)

    def declared(self, size: tuple[int, ...], whole: bool) -> list[int]:
        """Return dims for a size, with -1 here and there. `whole`: with the rows as a dim of their own."""
        dims = [-1 if self.rarely() else dim for dim in size]
        rows = -1 if self.max_batch_size or self.rarely(3) else self.rows
        return [rows, *dims] if whole else dims

    def tensor(self, dtype: str | None = None, size: tuple[int, ...] | None = None) -> str:
        name = self.name(TENSOR_NAMES, self.tensors)
        if size is None:
            least = 1 if self.max_batch_size else 0
            size = tuple(self.draw(st.lists(st.integers(1, 4), min_size=least, max_size=3)))
        dims = self.declared(size, whole=not self.max_batch_size)
        self.tensors[name] = {
            "type": dtype or self.draw(st.sampled_from(sorted(DTYPES))),
            "dims": dims,
        }
        self.sizes[name] = size
        return name

    def step(self, reads: list[str] | None = None) -> None:
        if self.steps and not reads and self.rarely(6):
            return self.step_of(
                self.draw(st.sampled_from([s for s in self.steps if "model" not in s]))
            )
        reads = reads or [self.source() for _ in range(self.draw(st.integers(1, 3)))]
        writes = [self.tensor() for _ in range(self.draw(st.sampled_from([1, 1, 1, 2, 3])))]
        batches, fields = self.batching([*reads, *writes])
        name = self.name(STEP_NAMES, [step["name"] for step in self.steps])
        inputs = self.named(reads, batches, "inputs")
        outputs = self.named(writes, batches, "outputs")
        if self.rarely():
            own, size = self.name(TENSOR_NAMES, inputs), (2,)
            inputs[own] = {
                "type": "FP32",
                "dims": self.declared(size, not batches),
                "optional": True,
            }
        if self.rarely():
            own, size = self.name(TENSOR_NAMES, outputs), (self.draw(st.integers(1, 3)),)
            outputs[own] = {
                "type": self.draw(st.sampled_from(sorted(DTYPES))),
                "dims": self.declared(size, not batches),
            }
            self.dropped[name, own] = size
        step = {
            "name": name,
            "backend": "python",
            "inputs": plain(inputs),
            "outputs": plain(outputs),
        }
        if self.rarely():
            fields["fuse"] = False
        self.steps.append(step | fields)
        return None

    def step_of(self, base: Answers) -> None:
        """Add a step that the model of another serves."""
        inputs: dict[str, str] = {}
        for own, binding in bindings(base["inputs"]).items():
            if "tensor" not in binding:
                continue
            dtype, size = self.tensors[binding["tensor"]]["type"], self.sizes[binding["tensor"]]
            same = [
                name
                for name in self.tensors
                if (self.tensors[name]["type"], self.sizes[name]) == (dtype, size)
            ]
            inputs[own] = self.draw(st.sampled_from([*same, ""])) or self.tensor(dtype, size)
        outputs: dict[str, str] = {}
        for own, (dtype, size) in self.pipeline().outputs(base).items():
            if not outputs or self.draw(st.booleans()):
                outputs[own] = self.tensor(dtype, size)
        name = self.name(STEP_NAMES, [step["name"] for step in self.steps])
        self.steps.append(
            {"name": name, "model": base["name"], "inputs": inputs, "outputs": outputs}
        )

    def source(self) -> str:
        """Return a tensor to read: a late one, any one, or a new input."""
        names = list(self.tensors)
        if not names or self.rarely(4):
            return self.tensor()
        return str(self.draw(st.sampled_from(names[-3:] if self.draw(st.booleans()) else names)))

    def batching(self, names: list[str]) -> tuple[bool, Answers]:
        """Return whether a step has a batch dimension, and the field that says so."""
        if self.max_batch_size:
            size = self.draw(st.sampled_from([None, None, None, 0, self.max_batch_size, 16]))
        else:
            rows = [0, self.rows, 4] if all(self.sizes[name] for name in names) else [0]
            size = self.draw(st.sampled_from([None, None, *rows]))
        fields = {} if size is None else {"max_batch_size": size}
        return bool(self.max_batch_size if size is None else size), fields

    def named(self, names: list[str], batches: bool, side: str) -> dict[str, Any]:
        """Return bindings by the model's own names, which may be those of the tensors."""
        bindings: dict[str, Any] = {}
        renamed = self.draw(st.booleans()) or len(set(names)) < len(names)
        for name in names:
            own = self.name(TENSOR_NAMES, bindings) if renamed else name
            binding: Any = name
            if batches != (self.max_batch_size > 0) or self.rarely(8):
                binding = {"tensor": name, "dims": self.declared(self.sizes[name], not batches)}
            elif side == "inputs" and bindings and self.rarely(8):
                binding = {"tensor": name, "optional": True}
            bindings[own] = binding
        return bindings

    def pipeline(self) -> Pipeline:
        answers = {
            "ensemble_name": "pipeline",
            "max_batch_size": self.max_batch_size,
            "tensors": self.tensors,
            "steps": self.steps,
        }
        return Pipeline(answers, self.rows, self.sizes, self.dropped)


def plain(given: dict[str, Any]) -> Any:
    """Return a list where a list says all."""
    return list(given) if all(own == binding for own, binding in given.items()) else given


def short(given: Answers, wanted: bool) -> Any:
    """Return `TYPE[dims]`, where that says all."""
    if "optional" in given or not wanted:
        return given
    return f"{given['type']}{given['dims']}"


def joined(pipeline: Pipeline) -> bool:
    """Return whether a step depends on all inputs of the ensemble."""
    origins = {name: {name} for name in pipeline.interface()[0]}
    inputs, waiting = set(origins), pipeline.steps
    while waiting:
        step = next(s for s in waiting if set(fed(s["inputs"]).values()) <= origins.keys())
        waiting.remove(step)
        needs = set().union(*(origins[name] for name in fed(step["inputs"]).values()))
        if needs == inputs:
            return True
        origins |= {name: needs for name in fed(step["outputs"]).values()}
    return False


def may_be_optional(pipeline: Pipeline, name: str) -> bool:
    """Return whether each step that reads the input has another that is always there."""
    readers = [step for step in pipeline.steps if name in fed(step["inputs"]).values()]
    left_out = pipeline.optional() | {name}
    return all(
        "model" not in step and set(fed(step["inputs"]).values()) - left_out for step in readers
    )


@st.composite
def pipelines(draw: Draw, max_steps: int = 12) -> Pipeline:
    """Draw valid pipelines."""
    builder = Builder(draw)
    for _ in range(draw(st.integers(1, max_steps))):
        builder.step()
    pipeline = builder.pipeline()
    if not joined(pipeline):
        if builder.rarely():
            pipeline.answers["ensemble"] = {"all_outputs": True}
        else:
            builder.step(pipeline.interface()[draw(st.integers(0, 1))])
    inputs, outputs = pipeline.interface()
    exposed = [
        name for name in builder.tensors if name not in inputs + outputs and builder.rarely(10)
    ]
    answers = pipeline.answers
    for side, names in (("inputs", inputs), ("outputs", outputs + exposed)):
        if (side == "outputs" and exposed) or builder.rarely():
            answers[side] = draw(st.permutations(names))
    for name in inputs:
        if builder.rarely() and may_be_optional(pipeline, name):
            answers["tensors"][name]["optional"] = True
    answers["tensors"] = {
        name: short(answers["tensors"][name], draw(st.booleans()))
        for name in draw(st.permutations(list(answers["tensors"])))
    }
    return pipeline
