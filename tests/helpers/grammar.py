"""Answers with any field of the grammar (catalog/fields.yml) changed, mostly to what is valid or nearly so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

from drawing import drawn
from pipelines import Answers, bindings, interface, pipelines, spec

from triton_ensemble.facts import catalog

FIELDS: dict[str, dict[str, str]] = {k: v for k, v in catalog.fields().items() if k != "prompt"}
EACH = 4  # answers made from a pipeline
SIDES = ("inputs", "outputs")
TYPES = list(catalog.read_data_types())
# What each kind of mapping can't be without.
NEEDED = {
    "tensor": ["type", "dims"],
    "warmup": ["inputs"],
    "engine shape": ["min", "opt", "max"],
    "warmup data": ["data"],
    "control input": ["name", "control"],
    "control": ["kind"],
    "state": ["input_name", "output_name", "data_type", "dims"],
    "initial state": ["name", "data_type", "dims"],
}
# Kinds of mappings that are changed field by field, and not made.
OBJECTS = {"answer", "step", "shared step", "ensemble step", "ensemble"}
# Fields with fields of their own, which are tried more often.
RICH = {
    "step": ["batching"] * 5 + ["sequence"] * 8 + ["warmup"] * 5,
    "tensor": ["dims"],
    "binding": ["dims", *["reshape"] * 5],
}
# `config` of a step and of an ensemble.
CONFIGS = [
    "metric_tags { key: 'a' value: 'b' }",
    "optimization { graph { level: 1 } }",
    "optimization { eager_batching: true }",
    "parameters { key: 'k' value { string_value: 'v' } }",
    "instance_group { kind: KIND_CPU }",
    "response_cache { enable: true }",
    "dynamic_batching { }",
    "sequence_batching { }",
    "sequence_batching: { oldest < > }",
    "batch_input { kind: BATCH_ITEM_SHAPE target_name: 'T' data_type: TYPE_FP32 source_input: 'A' }",
    "model_warmup { name: 'w' batch_size: 1 }",
    "model_warmup { name: 'w' }",
    "max_batch_size: 4",
    "version_policy { all { } }",
    "version_policy { latest { num_versions: 0 } }",
    "model_transaction_policy { decoupled: true }",
    "runtime: 'x'",
    "runtime: 'libtriton_x.so'",
    "default_model_filename: 'model.py'",
    "cc_model_filenames { key: '7.5' value: 'model.plan' }",
    "model_metrics { }",
    "max_inflight_requests: 2",
    "model_operations { }",
    "instance_grup { }",
    "input { name: 'more' data_type: TYPE_FP32 dims: 1 }",
    "output { name: 'more' data_type: TYPE_FP32 dims: 1 }",
    "# nothing",
]


Tried = set[tuple[str, str]]  # kinds and their fields


class Scene:
    """Answers, and what draws the next values for them."""

    def __init__(self, random: Random, answers: Answers, tried: Tried) -> None:
        self.random = random
        self.tried = tried
        self.answers = answers  # or a step that is an ensemble, with its own tensors and steps
        self.step: Answers = {}  # the one that is changed
        self.dims: list[int] = [4]  # of the tensor that is changed

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def some(self, *choices: Any, least: int = 0, most: int = 3) -> list[Any]:
        return [self.one(*choices) for _ in range(self.random.randint(least, most))]

    def rarely(self, of: int = 8) -> bool:
        return self.random.randrange(of) == 0

    def mapping(self, kind: str, given: Answers | None = None) -> Answers:
        """Return some fields of a kind, mostly with all that it needs."""
        needed = [] if self.rarely(20) else NEEDED.get(kind, [])
        of = self.one(2, 4)
        wanted = [name for name in FIELDS[kind] if name in needed or self.rarely(of)]
        return {name: self.value(kind, name) for name in wanted} | (given or {})

    def value(self, kind: str, field: str) -> Any:
        self.tried.add((kind, field))
        of = FIELDS[kind][field]
        own = OF_FIELD.get((kind, field)) or OF_KIND.get(of)
        return own(self) if own else self.list_of(of.removeprefix("list of "))

    def list_of(self, kind: str, most: int = 2) -> Any:
        values = [OF_KIND[kind](self) for _ in range(self.random.randint(1, most))]
        return [] if self.rarely(20) else values

    # Names.

    def steps(self) -> list[Answers]:
        return list(self.answers["steps"])

    def tensor_name(self) -> str:
        return str(self.one(*self.answers["tensors"], *self.answers["tensors"], "nowhere"))

    def step_name(self) -> str:
        return str(self.one(*(step["name"] for step in self.steps()), "nobody", "A", "a/b", ""))

    def input_name(self) -> str:
        """Return an input of the step that is changed, or a name that it does not have."""
        return str(
            self.one(
                "START", "STATE", "I", *(self.step.get("inputs", ()) if self.rarely(5) else ())
            )
        )

    def batch(self) -> int:
        size: Any = self.step.get("max_batch_size", self.answers.get("max_batch_size"))
        return size if isinstance(size, int) else 8

    # Values.

    def natural(self) -> Any:
        if self.rarely(12):
            return self.one(-1, 2**31 - 1, 2**31, "4", 1.5, True, None)
        return self.one(0, 0, 1, 2, 4, 8, 16)

    def microseconds(self) -> Any:
        if self.rarely(12):
            return self.one(-1, 2**63 - 1, 2**63, "4", False)
        return self.one(0, 1, 100, 2**31)

    def sizes(self) -> Any:
        if self.rarely(12):
            return self.one([-1], ["4"], 4, [True], [2**31])
        return self.some(0, 1, 2, 4, 8, self.batch())

    def flag(self) -> Any:
        return self.one(True, True, True, False, *([] if not self.rarely() else ["true", 1, None]))

    def changed_dims(self, empty: bool = False) -> Any:
        """Return the dims at hand, or others that hold as much, or nearly."""
        dims = list(self.dims) if isinstance(self.dims, list) else [4]
        size = 1
        for dim in dims:
            size *= dim if isinstance(dim, int) and dim > 0 else 1
        opened = [-1 if self.rarely(3) else dim for dim in dims]
        shuffled = self.random.sample(dims, len(dims))
        choices: list[Any] = [
            dims,
            opened,
            shuffled,
            shuffled,
            [*dims, 1],
            [1, *dims],
            dims[1:],
            dims[:-1],
        ]
        choices += [[size], [1, size], [-1], [-1] * len(dims), [*dims, -1]]
        choices += [[0], [-2], ["4"], [2**63 - 1], 4, [1.0]] if self.rarely(12) else []
        chosen = self.one(*choices)
        return chosen if chosen or empty or self.rarely(20) else dims

    def any_dims(self) -> Any:
        return self.changed_dims(empty=True)

    def type(self) -> Any:
        if self.rarely(12):
            return self.one("BYTES", "TYPE_FP32", "fp32", "", 1)
        return self.one(*TYPES)

    def config_type(self) -> Any:
        if self.rarely(12):
            return self.one("FP32", "TYPE_BYTES", "TYPE_INVALID")
        return self.one("TYPE_FP32", "TYPE_INT32", "TYPE_UINT64", "TYPE_STRING", "TYPE_BF16")

    def text(self) -> Any:
        return self.one("a", "b", "name", "", *([7, "a\nb"] if self.rarely() else []))

    def file(self) -> Any:
        names = ["other.py", "model.onnx", "sub/model.py", "model.graphdef", "a b.txt", "/x.py"]
        return self.one(*names, "model.pt2", *(["../x", "", 3, "x/"] if self.rarely() else []))

    def own_file(self) -> str:
        """Return a path that no other tensor has: each file has the size of its tensor."""
        return f"{self.one('', 'a/')}{self.random.randrange(10**9)}.bin"

    def texts(self) -> Any:
        if self.rarely(12):
            return self.one([], {"a": None}, {"a": [1]}, "a")
        keys = ["a", "intra_op_thread_count", "FORCE_CPU_ONLY_INPUT_TENSORS", "EXECUTION_ENV_PATH"]
        names = self.some(*keys, 1)
        return {name: self.one("no", 1, 2.5, True, "", "/x", "x", '"') for name in names}

    def versions(self) -> Any:
        if self.rarely(12):
            return self.one({"latest": 0}, [0], [], "latest", {"latest": 1, "all": 1}, 2)
        return self.one("all", {"latest": 1}, {"latest": 2}, [1], [2, 3], [1, 1])

    def instances(self) -> Any:
        if self.rarely(3):
            return [self.mapping("group") for _ in range(self.random.randint(1, 2))]
        return self.one("auto", "none", 1, 2, 0, *([[], "3", True, {}] if self.rarely() else []))

    def naturals_of_gpus(self) -> Any:
        return self.one([], [0], [1], [0, 1], *([[-1], 0, ["0"]] if self.rarely() else []))

    def batching(self) -> Any:
        return self.one(True, False) if self.rarely(5) else self.mapping("batching")

    def queue_policies(self) -> Any:
        levels = self.some(0, 1, 2, 3, "1", most=2)
        return {level: self.mapping("queue policy") for level in levels}

    def sequence(self) -> Any:
        fields = self.mapping("sequence")
        if "direct" in fields and "oldest" in fields and not self.rarely():
            del fields[self.one("direct", "oldest")]
        return fields

    def control(self) -> Any:
        """Return a control, mostly with what its kind needs."""
        if self.rarely():
            return self.mapping("control")
        kind = self.value("control", "kind")
        if str(kind).endswith("CORRID"):
            return {"kind": kind, "data_type": self.value("control", "data_type")}
        field = self.one("int32_false_true", "fp32_false_true", "bool_false_true")
        return {"kind": kind, field: self.value("control", field)}

    def state(self) -> Any:
        """Return a state, mostly with initial states of its own type and dims."""
        fields = self.mapping("state")
        if not self.rarely(4):
            alike = {key: fields[key] for key in ("data_type", "dims") if key in fields}
            initial = fields.get("initial_state") or []
            fields |= {"initial_state": [state | alike for state in initial]} if initial else {}
        return fields

    def initial_state(self) -> Any:
        """Return an initial state, mostly with one of the two that it may be filled from."""
        fields = self.mapping("initial state")
        if not self.rarely():
            fields.pop("zero_data", None)
            fields.pop("data_file", None)
            field, value = self.one(("zero_data", True), ("data_file", self.own_file()))
            self.tried.add(("initial state", field))
            fields[field] = value
        return fields

    def control_kind(self) -> Any:
        kinds = [f"CONTROL_SEQUENCE_{kind}" for kind in ("START", "READY", "END", "CORRID")]
        return self.one(*kinds, *(["START", ""] if self.rarely() else []))

    def pair(self, *choices: Any) -> Any:
        return self.some(*choices, least=1, most=3) if self.rarely(5) else self.one([*choices[:2]])

    def warmups(self) -> Any:
        names = [*self.step.get("inputs", {})] or ["A"]
        if self.rarely():
            names = [name for name in [*names, "nowhere"] if not self.rarely(3)]
        data: Answers = {}
        for name in names:
            if self.rarely(3):
                self.dims = self.declared(self.step.get("inputs", {}).get(name))
                data[name] = self.mapping("warmup data")
            else:
                data[name] = OF_KIND["data"](self)
        return data

    def declared(self, binding: Any) -> list[int]:
        """Return the dims of a binding."""
        binding = binding if isinstance(binding, dict) else {"tensor": binding}
        of_tensor = self.answers["tensors"].get(binding.get("tensor"))
        dims = binding.get("dims") or (of_tensor or {}).get("dims") or [4]
        return dims if isinstance(dims, list) else [4]

    def accelerators(self) -> Any:
        names = self.some("tensorrt", "openvino", "cuda", most=2)
        return {name: self.one(None, {}, {"precision_mode": "FP16"}, {"a": 1}) for name in names}

    def tensor(self, known: Any = None) -> Any:
        """Return a tensor, mostly of the type and dims that it has already."""
        kept = known if isinstance(known, dict) and not self.rarely(3) else {}
        given = self.mapping("tensor") | {key: kept[key] for key in ("type", "dims") if key in kept}
        if given.keys() == {"type", "dims"} and isinstance(given["dims"], list) and given["dims"]:
            return self.one(given, f"{given['type']}{given['dims']}")
        return given

    def tensors(self) -> Any:
        tensors = dict(self.answers["tensors"])
        name = self.one(*tensors)
        self.dims = self.declared(name)
        tensors[self.one(*[name] * 8, "another", 1)] = self.tensor(tensors[name])
        return tensors

    def binding(self, tensor: Any) -> Any:
        given = self.mapping("binding", {"tensor": tensor})
        if self.rarely(5):
            given |= {"type": self.type(), "dims": self.changed_dims()}
            given.pop("tensor")
        return given

    def bindings(self, side: str) -> Any:
        given = self.step.get(side)
        bindings: Answers = {"x": self.tensor_name()}
        if isinstance(given, dict) and given:
            bindings = dict(given)
        name = self.one(*bindings)
        self.dims = self.declared(bindings[name])
        used = bindings[name].get("tensor") if isinstance(bindings[name], dict) else bindings[name]
        tensor = self.one(used, used, used, self.tensor_name())
        bindings[self.one(*[name] * 6, "more")] = self.one(tensor, self.binding(tensor))
        return bindings

    def interface(self, side: int) -> Any:
        names = interface(self.answers)[side] or ["A"]
        if self.rarely():
            return self.some(*self.answers["tensors"], "nowhere")
        tensors: Answers = {}
        for name in names:
            self.dims = self.declared(name)
            tensors[name] = None if self.rarely(3) else self.mapping("interface tensor")
        return tensors

    def ensemble(self) -> Any:
        return self.mapping("ensemble")

    def own_ensemble(self) -> Any:
        return False if self.rarely(4) else self.ensemble()

    def requirements(self) -> Any:
        return self.some("torch", "numpy", "pillow>=10.1", "cupy", *["x y"] * self.rarely(), most=2)


Value = Callable[[Scene], Any]
# A value of each kind that fields.yml names; a kind with fields of its own is a mapping of them.
OF_KIND: dict[str, Value] = {
    "project name": lambda s: s.one("p", "Awkward.names-2", "1", "a b", "", "x" * 101),
    "model name": lambda s: s.one("m", "A.b-c_1", "1", "expose_A", "a b", "", "größe", "x" * 101),
    "starting pipeline": lambda s: s.one("my-own", "digit-screening", "mine"),
    "release": lambda s: s.one(*catalog.releases(), 26.07, "27.01"),
    "natural": Scene.natural,
    "naturals": Scene.sizes,
    "batch sizes": Scene.sizes,
    "microseconds": Scene.microseconds,
    "candidates": lambda s: s.one(0, 8, 10**6, 10**6 + 1),
    "state file": lambda s: s.one(s.own_file(), "/etc/passwd", "../x"),
    "count": lambda s: s.one(1, 2, "auto", 0),
    "fraction": lambda s: s.one(0, 0.5, 1, 1.0, -0.1, 1.5, True),
    "integers": lambda s: s.pair(0, 1, -1, 2**31),
    "list of number": lambda s: s.pair(0, 1, 0.5, -1),
    "list of flag": lambda s: s.pair(False, True),
    "flag": Scene.flag,
    "text": Scene.text,
    "texts": Scene.texts,
    "file": Scene.file,
    "label file": lambda s: s.one("labels.txt", "a/b.txt", "x y", ".x", ""),
    "extras": lambda s: s.one([], ["monitoring"], ["x"], ["ray"]),
    "ci": lambda s: s.one("github", "gitlab", "none", "x"),
    "runner": lambda s: s.one("gpu", "self-hosted, gpu", ""),
    "address of an index": lambda s: s.one("", "https://pypi.example.com/cpu", "cpu"),
    "tensors": Scene.tensors,
    "steps": lambda s: s.some(*s.answers["steps"], least=1, most=len(s.answers["steps"])),
    "interface": lambda s: s.interface(0),
    "own ensemble": Scene.own_ensemble,
    "ensemble": Scene.ensemble,
    "backend": lambda s: s.one(*catalog.backends(), "mine", "onnx", "pytorch2", "a/b"),
    "bindings": lambda s: s.bindings("inputs"),
    "version": lambda s: s.one(-1, 1, 2, 0, "1"),
    "device": lambda s: s.one("cpu", "gpu", "auto", "model", "tpu"),
    "instances": Scene.instances,
    "batching": Scene.batching,
    "sequence": Scene.sequence,
    "versions": Scene.versions,
    "positive": Scene.natural,
    "accelerators": Scene.accelerators,
    "trtexec": lambda s: s.one(True, s.mapping("trtexec")),
    "engine shapes": lambda s: {s.one("x", *s.step.get("inputs", {})): s.mapping("engine shape")},
    "list of trtexec flag": lambda s: s.some("--fp16", "--memPoolSize=workspace:512", "fp16"),
    "list of model name": lambda s: s.some(*(x["name"] for x in s.steps()), "nobody"),
    "requirements": Scene.requirements,
    "fuse": lambda s: s.one("auto", True, True, False, "never"),
    "stages": lambda s: {s.one("dev", "prod", "Prod"): s.mapping("stage")},
    "steps of a stage": lambda s: {s.step_name(): s.mapping("step of a stage")},
    "quantity": lambda s: s.one("500m", "4Gi", 2, "much"),
    "type": Scene.type,
    "dims": Scene.changed_dims,
    "sizes": Scene.changed_dims,
    "any dims": Scene.any_dims,
    "format": lambda s: s.one("NCHW", "NHWC", "NONE"),
    "tensor name": Scene.tensor_name,
    "queue policies": Scene.queue_policies,
    "timeout action": lambda s: s.one("REJECT", "DELAY", "DELAY", "STOP"),
    "list of control input": lambda s: s.list_of("control input", 3),
    "list of control": lambda s: s.list_of("control", 1 + s.rarely()),
    "control": Scene.control,
    "control kind": Scene.control_kind,
    "config type": Scene.config_type,
    "list of initial state": lambda s: s.list_of("initial state", 1 + s.rarely()),
    "warmup inputs": Scene.warmups,
    "data": lambda s: s.one("zero", "zero", "random", s.own_file(), "../x", "/etc/passwd"),
    **{kind: partial(Scene.mapping, kind=kind) for kind in FIELDS.keys() - OBJECTS},
    "initial state": Scene.initial_state,
    "state": Scene.state,
}
# What of a kind is otherwise in one place.
OF_FIELD: dict[tuple[str, str], Value] = {
    ("answer", "outputs"): lambda s: s.interface(1),
    ("step", "outputs"): lambda s: s.bindings("outputs"),
    ("shared step", "outputs"): lambda s: s.bindings("outputs"),
    ("ensemble step", "outputs"): lambda s: s.bindings("outputs"),
    ("shared step", "model"): Scene.step_name,
    ("step", "gpus"): Scene.naturals_of_gpus,
    ("group", "gpus"): Scene.naturals_of_gpus,
    ("step", "config"): lambda s: "\n".join(s.some(*CONFIGS, least=1, most=2)),
    ("ensemble", "config"): lambda s: "\n".join(s.some(*CONFIGS, least=1, most=2)),
    ("control input", "name"): Scene.input_name,
    ("state", "input_name"): Scene.input_name,
    ("ensemble step", "steps"): lambda s: s.some(*s.step["steps"], least=1, most=3),
    ("ensemble step", "tensors"): lambda s: Scene(s.random, s.step, s.tried).tensors(),
}


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


def nested(answers: Answers) -> Answers:
    """Return the pipeline as a step of an ensemble around it."""
    inputs, outputs = interface(answers)
    inner = {key: answers[key] for key in ("tensors", "steps")}
    settings = {"ensemble": dict(answers["ensemble"])} if answers.get("ensemble") else {}
    tensors = {f"{name}~": deepcopy(answers["tensors"][name]) for name in (*inputs, *outputs)}
    step = {
        "name": "inner-ensemble",
        "backend": "ensemble",
        "inputs": {name: {"tensor": f"{name}~"} for name in inputs},
        "outputs": {name: {"tensor": f"{name}~"} for name in outputs},
    }
    outer = {"ensemble_name": "e", "max_batch_size": answers["max_batch_size"], **settings}
    return outer | {"tensors": tensors, "steps": [step | inner | settings]}


def change(scene: Scene, kind: str) -> None:
    """Change one field of an object of the kind, if the answers have one."""
    answers = scene.answers
    if kind in ("answer", "ensemble", "interface tensor"):
        field = {"ensemble": "ensemble", "interface tensor": scene.one(*SIDES)}.get(kind)
        field = field or scene.one(*FIELDS[kind])
        answers[field] = scene.value("answer", field)
        return
    inner = [step for step in answers["steps"] if kind_of(step) == "ensemble step"]
    if inner and kind != "ensemble step":
        scene = Scene(scene.random, scene.one(*inner, answers), scene.tried)
        answers = scene.answers
    if kind == "tensor":
        name = scene.one(*answers["tensors"])
        change_spec(scene, kind, answers["tensors"], name)
    elif kind == "binding":
        scene.step = scene.one(*answers["steps"])
        bindings = scene.step[scene.one(*SIDES)]
        change_spec(scene, kind, bindings, scene.one(*bindings))
    elif steps := [step for step in answers["steps"] if kind_of(step) == kind]:
        scene.step = scene.one(*steps)
        field = scene.one(*FIELDS[kind], *RICH.get(kind, ()))
        scene.step[field] = scene.value(kind, field)


def change_spec(scene: Scene, kind: str, table: Answers, name: str) -> None:
    """Change a field of a tensor or a binding."""
    scene.dims = scene.declared(table[name])
    field = scene.one(*FIELDS[kind], *RICH[kind])
    table[name] = dict(table[name], **{field: scene.value(kind, field)})


def kind_of(step: Answers) -> str:
    if "model" in step:
        return "shared step"
    return "ensemble step" if step.get("backend") == "ensemble" else "step"


CHANGED = [
    *["step"] * 10,
    *["binding"] * 4,
    *["tensor", "tensor", "interface tensor", "shared step", "ensemble step", "ensemble", "answer"],
]


assert {*CHANGED} <= FIELDS.keys()  # or each change would be one that can't be made


def changed(base: Answers, random: Random) -> tuple[Answers, Tried]:
    """Return valid answers with one to five fields changed, mostly one, and all fields that were drawn for that."""
    tried: Tried = set()
    answers = deepcopy(normal(base))
    if random.randrange(5) == 0 and not answers.keys() & {"inputs", "outputs"}:
        answers = nested(answers)
    answers["gpu_count"] = random.choice([0, 0, 2])
    for _ in range(random.choice([1, 1, 1, 2, 3, 5])):
        try:
            present = [kind_of(step) for step in answers["steps"] if kind_of(step) != "step"]
            change(Scene(random, answers, tried), random.choice(CHANGED + present * 4))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            break  # an earlier change left nothing to change
    return answers, tried


def has_config(given: Answers) -> bool:
    """Return whether some of the configs have verbatim text."""
    own = given.get("ensemble") or {}
    return "config" in {**given, **own} or any(map(has_config, given.get("steps", ())))


def some_answers(count: int, seed: int) -> Iterator[tuple[Answers, Tried]]:
    """Yield so many answers. Hypothesis draws what is changed, but not the changes: it prefers what is small."""
    bases = drawn(pipelines(max_steps=3), count // EACH + 1)
    for i in range(count):
        yield changed(bases[i // EACH].answers, Random(f"{seed} {i}"))
