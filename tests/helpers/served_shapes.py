"""Six shapes of model repositories, as drafts: configs as messages, and the other files by path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

Config = Any  # a ModelConfig, which has no types
Files = dict[str, bytes]

# Writes each output of its config, other values each time; what is open in their dims is as in the first input. It
# refuses inputs that are not as its config says.
MODEL = b"""import json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])

    def own_dims(self, declared):
        dims = (declared.get("reshape") or {"shape": declared["dims"]})["shape"]
        return [int(dim) for dim in dims]

    def refuse_others(self, request):
        for declared in self.config["input"]:
            tensor = pb_utils.get_input_tensor_by_name(request, declared["name"])
            if tensor is not None:
                batch = [-1] if self.config["max_batch_size"] else []
                shape, want = list(tensor.shape()), batch + self.own_dims(declared)
                fits = len(shape) == len(want) and all(b in (-1, a) for a, b in zip(shape, want))
                dtype = pb_utils.triton_string_to_numpy(declared["data_type"])
                if not fits or np.dtype(dtype) != tensor.as_numpy().dtype:
                    raise pb_utils.TritonModelException(f"{declared['name']} is not as declared: {shape}")

    def results(self, request):
        self.refuse_others(request)
        names = {declared["name"] for declared in self.config["input"]}
        first = next((tensor for tensor in request.inputs() if tensor.name() in names), None)
        shape = list(first.shape()) if first else [1, 4]
        rows = shape[:1] if self.config["max_batch_size"] else []
        size = shape[-1] if shape else 4
        for output in self.config["output"]:
            dims = [size if dim < 0 else dim for dim in self.own_dims(output)]
            dtype = pb_utils.triton_string_to_numpy(output["data_type"])
            array = np.random.randint(0, 99, rows + dims)
            yield pb_utils.Tensor(output["name"], array.astype(np.bytes_ if dtype is np.object_ else dtype))

    def execute(self, requests):
        if not self.config.get("model_transaction_policy", {}).get("decoupled"):
            return [pb_utils.InferenceResponse([*self.results(r)]) for r in requests]
        for request in requests:
            sender = request.get_response_sender()
            for _ in range(2):
                sender.send(pb_utils.InferenceResponse([*self.results(request)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@dataclass
class Draft:
    """A model repository that is not written yet."""

    shape: str
    top: str  # the model to ask
    configs: dict[str, Config]
    files: Files = field(default_factory=dict)

    def texts(self) -> Files:
        """Return all its files by path."""
        configs = {
            f"{name}/config.pbtxt": text_format.MessageToString(config, as_utf8=True).encode()
            for name, config in self.configs.items()
        }
        return self.files | configs


def tensors(message: Any, names: str) -> None:
    """Add tensors that are said as `NAME:TYPE:DIM,DIM`."""
    for name in names.split():
        name, dtype, dims = name.split(":")
        sizes = [int(dim) for dim in dims.split(",")]
        message.add(name=name, data_type=f"TYPE_{dtype}", dims=sizes)


def model(rows: int, inputs: str, outputs: str, more: str = "") -> Config:
    config = model_config_pb2.ModelConfig(backend="python", max_batch_size=rows)
    tensors(config.input, inputs)
    tensors(config.output, outputs)
    return text_format.Merge(more, config)


def ensemble(rows: int, inputs: str, outputs: str, *steps: str) -> Config:
    """Return an ensemble of steps that are said as `MODEL KEY=TENSOR ... > KEY=TENSOR ...`."""
    config = model(rows, inputs, outputs, 'platform: "ensemble"')
    config.backend = ""
    for said in steps:
        name, maps = said.split(" ", 1)
        step = config.ensemble_scheduling.step.add(model_name=name, model_version=-1)
        for fed, side in zip((step.input_map, step.output_map), maps.split(">"), strict=True):
            fed.update(pair.split("=") for pair in side.split())
    return config


BATCHING = """dynamic_batching {
  preferred_batch_size: [2, 4] max_queue_delay_microseconds: 100 priority_levels: 2 default_priority_level: 1
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 9000000 max_queue_size: 99 }
  priority_queue_policy { key: 2 value { timeout_action: DELAY allow_timeout_override: true } }
}"""
TWO = "instance_group { count: 2 kind: KIND_CPU }"
WARMUP = """model_warmup { name: "w" batch_size: 1 count: 2
  inputs { key: "M" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }"""
START = 'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }'
READY = 'control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [false, true] } }'
END = 'control_input { name: "END" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [0, 1] } }'
ID = 'control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }'
STATE = """state { input_name: "S" output_name: "T" data_type: TYPE_INT32 dims: 4
  initial_state { name: "first" data_type: TYPE_INT32 dims: 4 zero_data: true } }"""


def chain() -> Draft:
    names = model(8, "N:INT64:-1 P:STRING:1", "Y:STRING:2", "response_cache { enable: true }")
    names.input[1].optional = True
    names.output[0].label_filename = "labels.txt"
    names.parameters["A"].string_value = "b"
    configs = {
        "e": ensemble(8, "X:FP32:4", "Y:STRING:2", "a X=X > M=m", "b M=m > N=n", "c N=n > Y=Y"),
        "a": model(8, "X:FP32:4", "M:FP32:4", BATCHING),
        "b": model(
            8,
            "M:FP32:4",
            "N:INT64:-1",
            f"{TWO} {WARMUP} version_policy {{ latest {{ num_versions: 1 }} }}",
        ),
        "c": names,
    }
    return Draft("chain", "e", configs, {"c/labels.txt": b"no\nyes\n"})


def fan() -> Draft:
    flat = model(4, "B:FP32:2,2", "D:FP16:4", "version_policy { specific { versions: 1 } }")
    flat.input[0].reshape.shape.append(4)
    steps = (
        "a I=I > A=A B=B", "b A=A > C=C", "c B=B > D=D", "d C=C D=D > Y=Y Z=Z",
    )  # fmt: skip
    configs = {
        "e": ensemble(4, "I:UINT8:3,8,8", "Y:FP32:4 Z:BOOL:1", *steps),
        "a": model(
            4,
            "I:UINT8:3,8,8",
            "A:FP32:4 B:FP32:2,2",
            "dynamic_batching { preserve_ordering: true }",
        ),
        "b": model(8, "A:FP32:4", "C:INT32:4"),
        "c": flat,
        "d": model(4, "C:INT32:4 D:FP16:4", "Y:FP32:4 Z:BOOL:1", TWO),
    }
    configs["a"].input[0].format = model_config_pb2.ModelInput.FORMAT_NCHW
    return Draft("fan", "e", configs)


def nested() -> Draft:
    configs = {
        "e": ensemble(0, "X:FP32:4,4", "Y:FP64:4", "inner IN=X > OUT=m", "c M=m > Y=Y"),
        "inner": ensemble(0, "IN:FP32:4,4", "OUT:FP32:-1", "a X=IN > M=q", "b Q=q > OUT=OUT"),
        "a": model(0, "X:FP32:4,4", "M:INT8:4"),
        "b": model(0, "Q:INT8:4", "OUT:FP32:4", "instance_group { kind: KIND_CPU }"),
        "c": model(0, "M:FP32:4", "Y:FP64:4", "version_policy { all { } }"),
    }
    return Draft("nested", "e", configs, {"c/2/model.py": MODEL})


def sequence() -> Draft:
    oldest = "oldest { max_candidate_sequences: 4 preferred_batch_size: 2 max_queue_delay_microseconds: 10 }"
    direct = "direct { max_queue_delay_microseconds: 10 minimum_slot_utilization: 0.5 }"
    configs = {
        "e": ensemble(4, "X:INT32:4", "Y:INT32:4", "a X=X > M=m", "b M=m > Y=Y"),
        "a": model(
            4,
            "X:INT32:4",
            "M:INT32:4",
            f"sequence_batching {{ {direct} {START} {READY} {ID} {END} }}",
        ),
        "b": model(
            4, "M:INT32:4", "Y:INT32:4", f"sequence_batching {{ {oldest} {START} {READY} {STATE} }}"
        ),
    }
    return Draft("sequence", "e", configs)


def decoupled() -> Draft:
    streams = "model_transaction_policy { decoupled: true }"
    configs = {
        "e": ensemble(
            0, "X:STRING:1", "Y:FP32:-1,2", "a X=X > M=m", "b M=m > N=n", "c M=m N=n > Y=Y"
        ),
        "a": model(0, "X:STRING:1", "M:FP32:2", streams),
        "b": model(0, "M:FP32:2", "N:FP32:2"),
        "c": model(0, "M:FP32:2 N:FP32:2", "Y:FP32:-1,2"),
    }
    return Draft("decoupled", "e", configs)


def ragged() -> Draft:
    counts = 'batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "COUNT" data_type: TYPE_FP32 source_input: "X" }'
    config = model(
        8,
        "X:INT32:-1",
        "M:FP32:4",
        f"{counts} dynamic_batching {{ max_queue_delay_microseconds: 50 }}",
    )
    config.input[0].allow_ragged_batch = True
    configs = {
        "e": ensemble(8, "X:INT32:-1", "Y:FP32:4", "a X=X > M=m", "b M=m > Y=Y"),
        "a": config,
        "b": model(8, "M:FP32:-1", "Y:FP32:4"),
    }
    return Draft("ragged", "e", configs)


SHAPES = {make.__name__: make for make in (chain, fan, nested, sequence, decoupled, ragged)}


def drafted(shape: str, prefix: str = "") -> Draft:
    """Return the shape, with a file for each model's version. The names of models begin with the prefix."""
    draft = SHAPES[shape]()
    for name, config in draft.configs.items():
        config.name = prefix + name
        for step in config.ensemble_scheduling.step:
            step.model_name = prefix + step.model_name
        is_ensemble = config.platform == "ensemble"
        draft.files[f"{name}/1/.gitkeep" if is_ensemble else f"{name}/1/model.py"] = (
            b"" if is_ensemble else MODEL
        )
    files = {prefix + path: content for path, content in draft.files.items()}
    configs = {prefix + name: config for name, config in draft.configs.items()}
    return Draft(shape, prefix + draft.top, configs, files)
