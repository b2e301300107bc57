"""One model's config.pbtxt -> the fields of its step in pipeline.yml, where they differ from the defaults (docs/pipeline.md).

Each translator returns the fields that it has words for, and clears them in `rest`; what is left there at the end goes into `config` as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.adopt.repository import PLATFORMS, Config, backend_of
from triton_ensemble.pipeline.rules import rules

Fields = dict[str, Any]

DEVICES = {"KIND_AUTO": "auto", "KIND_CPU": "cpu", "KIND_GPU": "gpu", "KIND_MODEL": "model"}
# Backends whose default file name is one for all models; the others' depends on their parameters.
FILES_BY_BACKEND = ("python", "onnxruntime", "tensorrt", "pytorch", "dali", "openvino")
GPU_ONLY = ("tensorrt", "tensorrtllm", "vllm")


@dataclass(frozen=True)
class Defaults:
    """The answers that a step has where it says nothing."""

    max_batch_size: int
    max_queue_delay_us: int
    gpu_count: int

    def device(self, backend: str) -> str:
        own = rules().macro("tables", "BACKENDS").get(backend, {}).get("device")
        return str(own or ("auto" if self.gpu_count else "cpu"))


def plain(message: Any) -> Fields:
    """What a protobuf message sets, as YAML has it; enums by name."""
    found: Fields = {}
    for field, value in message.ListFields():
        entry = field.message_type and field.message_type.GetOptions().map_entry
        if entry:
            inner = entry and field.message_type.fields_by_name["value"]
            found[field.name] = {key: scalar(inner, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            found[field.name] = [scalar(field, item) for item in value]
        else:
            found[field.name] = scalar(field, value)
    return found


def scalar(field: Any, value: Any) -> Any:
    if field.message_type:
        return plain(value)
    if field.enum_type:
        return field.enum_type.values_by_number[value].name
    if field.type == field.TYPE_FLOAT:
        return float(f"{value:.7g}")  # the digits that a 32-bit float has
    return value


def spec(tensor: Any) -> Fields:
    """A tensor as a model declares it, in the words of a use."""
    found = plain(tensor)
    found.pop("name", None)
    found["type"] = found.pop("data_type").removeprefix("TYPE_")
    found["dims"] = list(tensor.dims)
    if "format" in found:
        found["format"] = found["format"].removeprefix("FORMAT_")
    if "reshape" in found:
        found["reshape"] = list(tensor.reshape.shape)
    for old, new in (("allow_ragged_batch", "ragged"), ("label_filename", "labels")):
        if old in found:
            found[new] = found.pop(old)
    order = ("type", "dims", "reshape", "format", "optional", "ragged", "labels")
    return {key: found[key] for key in (*order, *found) if key in found}


def declares(config: Config) -> bool:
    """Whether the grammar has words for all that the config says of its tensors."""
    odd = ("is_shape_tensor", "is_non_linear_format_io")
    tensors = [*config.input, *config.output]
    return bool(config.input and config.output) and not any(
        getattr(tensor, field) for tensor in tensors for field in odd
    )


def declare(config: Config, rest: Config, _: Defaults) -> Fields:
    if not declares(config):
        return {"declare": False}
    rest.ClearField("input")
    rest.ClearField("output")
    return {}


def max_batch_size(config: Config, defaults: Defaults) -> Fields:
    same = config.max_batch_size == defaults.max_batch_size
    return {} if same else {"max_batch_size": config.max_batch_size}


def instance_group(config: Config, rest: Config, defaults: Defaults) -> Fields:
    known = {"name", "kind", "count", "gpus"}
    if not all(plain(group).keys() <= known for group in config.instance_group):
        return {"instances": "none"}
    rest.ClearField("instance_group")
    groups = [instances(group, config) for group in config.instance_group]
    if not groups:
        return {"instances": "none"}
    if len(groups) > 1:
        return {"instances": groups}
    if groups[0]["device"] == defaults.device(backend_of(config)):
        del groups[0]["device"]
    return groups[0]


def instances(group: Any, config: Config) -> Fields:
    """A Python model without a count has one instance; other backends have their own minds."""
    kind = group.Kind.Name(group.kind)
    none = 1 if backend_of(config) == "python" else "auto"
    count = group.count if group.count > 0 else none
    return {
        "device": DEVICES[kind],
        **({} if count == 1 else {"instances": count}),
        **({"gpus": list(group.gpus)} if group.gpus else {}),
    }


def dynamic_batching(config: Config, rest: Config, defaults: Defaults) -> Fields:
    """Triton ignores it where there is no batch dimension; the grammar does not know that case."""
    default = config.max_batch_size > 1 and not config.HasField("sequence_batching")
    if not config.max_batch_size:
        return {}
    rest.ClearField("dynamic_batching")
    if not config.HasField("dynamic_batching"):
        return {"batching": False} if default else {}
    found: Fields = in_us(plain(config.dynamic_batching))
    delay = found.pop("max_queue_delay_us", 0)
    if delay != defaults.max_queue_delay_us:
        found["max_queue_delay_us"] = delay
    return {"batching": found or True} if found or not default else {}


def in_us(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key.replace("_microseconds", "_us") if isinstance(key, str) else key: in_us(item)
        for key, item in value.items()
    }


def sequence_batching(config: Config, rest: Config, _: Defaults) -> Fields:
    rest.ClearField("sequence_batching")
    return whole("sequence", plain(config).get("sequence_batching"))


def response_cache(config: Config, rest: Config, _: Defaults) -> Fields:
    rest.ClearField("response_cache")
    return {"cache": True} if config.response_cache.enable else {}


def version_policy(config: Config, rest: Config, _: Defaults) -> Fields:
    rest.ClearField("version_policy")
    policy = config.version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return {"versions": "all"}
    if kind == "specific":
        return {"versions": list(policy.specific.versions)}
    latest = policy.latest.num_versions or 1
    return {} if latest == 1 else {"versions": {"latest": latest}}


def model_warmup(config: Config, rest: Config, _: Defaults) -> Fields:
    """Of tensors with their declared types, which the grammar takes from there."""
    declared = {tensor.name: tensor for tensor in config.input}
    for sample in config.model_warmup:
        for name, tensor in sample.inputs.items():
            if name not in declared or declared[name].data_type != tensor.data_type:
                return {}
    rest.ClearField("model_warmup")
    return whole("warmup", [warmup(sample, declared) for sample in config.model_warmup])


def warmup(sample: Any, declared: dict[str, Any]) -> Fields:
    data: Fields = {}
    for name, tensor in sorted(sample.inputs.items()):
        source = tensor.input_data_file or ("random" if tensor.random_data else "zero")
        same = list(tensor.dims) == [max(dim, 1) for dim in declared[name].dims]
        data[name] = source if same else {"data": source, "dims": list(tensor.dims)}
    return {
        "name": sample.name,
        **({} if sample.batch_size == 1 else {"batch_size": sample.batch_size}),
        **whole("count", sample.count),
        "inputs": data,
    }


def parameters(config: Config, rest: Config, _: Defaults) -> Fields:
    rest.ClearField("parameters")
    texts = {key: value.string_value for key, value in sorted(config.parameters.items())}
    # The template gives several instances a thread each, unless it is told the parameters.
    groups = [(group.count > 1, group.kind) for group in config.instance_group]
    several = groups == [(True, model_config_pb2.ModelInstanceGroup.KIND_CPU)]
    given = texts or (several and backend_of(config) == "onnxruntime")
    return {"parameters": texts} if given else {}


def optimization(config: Config, rest: Config, _: Defaults) -> Fields:
    """Execution accelerators, where nothing else is in `optimization`: it can't stand in two places."""
    found = plain(config).get("optimization", {})
    lists = found.get("execution_accelerators", {})
    gpu = lists.get("gpu_execution_accelerator", [])
    cpu = lists.get("cpu_execution_accelerator", [])
    names = [accelerator.get("name") for accelerator in (*gpu, *cpu)]
    in_place = all((item.get("name") == "openvino") == (item in cpu) for item in (*gpu, *cpu))
    if found.keys() != {"execution_accelerators"} or len({*names}) < len(names) or not in_place:
        return {}
    rest.ClearField("optimization")
    return whole("accelerator", {item["name"]: item.get("parameters", {}) for item in (*gpu, *cpu)})


def default_model_filename(config: Config, rest: Config, _: Defaults) -> Fields:
    rest.ClearField("default_model_filename")
    backend = backend_of(config)
    default = rules().macro("tables", "BACKENDS").get(backend, {}).get("file")
    same = config.default_model_filename == default and backend in FILES_BY_BACKEND
    return {} if same else whole("file", config.default_model_filename)


def model_transaction_policy(config: Config, rest: Config, _: Defaults) -> Fields:
    rest.ClearField("model_transaction_policy")
    return {"decoupled": True} if config.model_transaction_policy.decoupled else {}


def whole(name: str, value: Any) -> Fields:
    return {name: value} if value else {}


def verbatim(rest: Config) -> Fields:
    """What the grammar has no words for."""
    return whole("config", text_format.MessageToString(rest, as_utf8=True))


def named(config: Config) -> Config:
    """A copy without what `name`, `backend` and `max_batch_size` say."""
    rest = model_config_pb2.ModelConfig()
    rest.CopyFrom(config)
    for field in ("name", "backend", "max_batch_size"):
        rest.ClearField(field)
    if PLATFORMS.get(config.platform) == backend_of(config) or config.platform == "ensemble":
        rest.ClearField("platform")
    return rest


Translator = Callable[[Config, Config, Defaults], Fields]
OF_MODEL: tuple[Translator, ...] = (
    instance_group,
    dynamic_batching,
    sequence_batching,
    response_cache,
    version_policy,
    model_warmup,
    parameters,
    optimization,
    default_model_filename,
    model_transaction_policy,
    declare,
)


def of_model(config: Config, defaults: Defaults) -> Fields:
    rest, found = named(config), max_batch_size(config, defaults)
    for translate in OF_MODEL:
        found |= translate(config, rest, defaults)
    return found | verbatim(rest)


def of_ensemble(config: Config, defaults: Defaults) -> Fields:
    """What an ensemble has beside its tensors and steps; whether it is decoupled follows from its models."""
    rest, found = named(config), Fields()
    for translate in (response_cache, version_policy, parameters):
        found |= translate(config, rest, defaults)
    found |= whole("max_inflight_requests", config.ensemble_scheduling.max_inflight_requests)
    for field in ("input", "output", "ensemble_scheduling", "model_transaction_policy"):
        rest.ClearField(field)
    return found | verbatim(rest)
