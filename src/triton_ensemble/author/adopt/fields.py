"""Fields of a step in pipeline.yml (docs/pipeline.md), read from its model's config.pbtxt, without the defaults.

Each translator returns the fields that the grammar has for a part of the config, and clears that part in `rest`. The
rest at the end goes into `config` as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]

from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import ModelConfig, enum_name

Fields = dict[str, Any]

DEVICES = {"KIND_AUTO": "auto", "KIND_CPU": "cpu", "KIND_GPU": "gpu", "KIND_MODEL": "model"}
FIELDS_OF_GROUPS = {"name", "kind", "count", "gpus"}
PACKAGE = "model.pt2"
TENSORRT_ALONE = ("is_shape_tensor", "is_non_linear_format_io")


@dataclass(frozen=True)
class Defaults:
    """The answers that a step has if it says nothing."""

    gpu_count: int
    max_batch_size: int
    max_queue_delay_us: int

    def device(self, backend: str) -> str:
        """Return the device of a backend's instances."""
        known = catalog.backends().get(backend)
        own = known.device if known else ""
        return own or ("auto" if self.gpu_count else "cpu")


def find_backend(config: ModelConfig) -> str:
    """Return the backend by its own name, `ensemble`, or `auto` if Triton takes it from the model file."""
    return config.backend or _find_platform_backend(config) or "auto"


def _find_platform_backend(config: ModelConfig) -> str:
    verbatim = config.platform in catalog.VERBATIM_PLATFORMS and not _is_package(config)
    return "" if verbatim else catalog.read_backends_by_platform().get(config.platform, "")


def _is_package(config: ModelConfig) -> bool:
    """Return whether the name of its file says that the backend pytorch loads a package of AOTInductor."""
    name = config.default_model_filename or PACKAGE
    return config.platform == "torch_aoti" and name.endswith(".pt2")


def format_message(message: Any) -> Fields:
    """Return the fields that a protobuf message sets, as YAML has them, with enums by name."""
    fields: Fields = {}
    for field, value in message.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            of_entry = field.message_type.fields_by_name["value"]
            fields[field.name] = {key: _format_yaml(of_entry, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            fields[field.name] = [_format_yaml(field, item) for item in value]
        else:
            fields[field.name] = _format_yaml(field, value)
    return fields


def _format_yaml(field: Any, value: Any) -> Any:
    if field.message_type:
        return format_message(value)
    if field.enum_type:
        return field.enum_type.values_by_number[value].name
    if field.type == field.TYPE_FLOAT:
        return float(f"{value:.7g}")  # the digits that a 32-bit float has
    return value


def tensor_spec(tensor: Any) -> Fields:
    """Return a tensor as a model declares it, in the words of a use, without `TENSORRT_ALONE`."""
    spec = format_message(tensor)
    spec.pop("name", None)
    spec["type"] = spec.pop("data_type").removeprefix("TYPE_")
    spec["dims"] = list(tensor.dims)
    if "format" in spec:
        spec["format"] = spec["format"].removeprefix("FORMAT_")
    if "reshape" in spec:
        spec["reshape"] = list(tensor.reshape.shape)
    for old, new in (("allow_ragged_batch", "ragged"), ("label_filename", "labels")):
        if old in spec:
            spec[new] = spec.pop(old)
    order = ("type", "dims", "reshape", "format", "optional", "ragged", "labels")
    return {key: spec[key] for key in order if key in spec}


def _declare(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    tensors = [*config.input, *config.output]
    if not (config.input and config.output) or any(
        getattr(tensor, field) for tensor in tensors for field in TENSORRT_ALONE
    ):
        return {"declare": False}
    rest.ClearField("input")
    rest.ClearField("output")
    return {}


def max_batch_size(config: ModelConfig, defaults: Defaults) -> Fields:
    """Return `max_batch_size` if it is not the default."""
    same = config.max_batch_size == defaults.max_batch_size
    return {} if same else {"max_batch_size": config.max_batch_size}


def _read_instance_group(config: ModelConfig, rest: ModelConfig, defaults: Defaults) -> Fields:
    if not all(format_message(group).keys() <= FIELDS_OF_GROUPS for group in config.instance_group):
        return {"instances": "none"}
    rest.ClearField("instance_group")
    groups = [_instances(group, config) for group in config.instance_group]
    if len(groups) != 1:
        return {"instances": groups or "none"}
    if groups[0]["device"] == defaults.device(find_backend(config)):
        del groups[0]["device"]
    return groups[0]


def _instances(group: Any, config: ModelConfig) -> Fields:
    """Return the fields of an instance group.

    If it has no count, a Python model has one instance, and other backends choose.
    """
    default = 1 if find_backend(config) == "python" else "auto"
    count = group.count if group.count > 0 else default
    return {
        "device": DEVICES[enum_name(group, "kind")],
        **({} if count == 1 else {"instances": count}),
        **_unless_empty("gpus", list(group.gpus)),
    }


def _read_dynamic_batching(config: ModelConfig, rest: ModelConfig, defaults: Defaults) -> Fields:
    """Return the fields of dynamic batching.

    Without a batch dimension, Triton ignores it and the grammar lacks a field for it.
    """
    default = config.max_batch_size > 1 and not config.HasField("sequence_batching")
    if not config.max_batch_size:
        return {}
    rest.ClearField("dynamic_batching")
    if not config.HasField("dynamic_batching"):
        return {"batching": False} if default else {}
    settings: Fields = _to_us(format_message(config.dynamic_batching))
    delay = settings.pop("max_queue_delay_us", 0)
    if delay != defaults.max_queue_delay_us:
        settings["max_queue_delay_us"] = delay
    return {"batching": settings or True} if settings or not default else {}


def _to_us(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key.replace("_microseconds", "_us") if isinstance(key, str) else key: _to_us(item)
        for key, item in value.items()
    }


def _read_sequence_batching(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    rest.ClearField("sequence_batching")
    return _unless_empty("sequence", format_message(config).get("sequence_batching"))


def _read_version_policy(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    rest.ClearField("version_policy")
    policy = config.version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return {"versions": "all"}
    if kind == "specific":
        return {"versions": list(policy.specific.versions)}
    latest = policy.latest.num_versions or 1
    return {} if latest == 1 else {"versions": {"latest": latest}}


def _read_model_warmup(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    """Return warmups whose tensors have their declared types, from which the grammar takes them."""
    declared = {tensor.name: tensor for tensor in config.input}
    for sample in config.model_warmup:
        for name, tensor in sample.inputs.items():
            if name not in declared or declared[name].data_type != tensor.data_type:
                return {}
    rest.ClearField("model_warmup")
    return _unless_empty("warmup", [_warmup(sample, declared) for sample in config.model_warmup])


def _warmup(sample: Any, declared: dict[str, Any]) -> Fields:
    data: Fields = {}
    for name, tensor in sorted(sample.inputs.items()):
        source = tensor.input_data_file or ("random" if tensor.random_data else "zero")
        same = list(tensor.dims) == [max(dim, 1) for dim in declared[name].dims]
        data[name] = source if same else {"data": source, "dims": list(tensor.dims)}
    return {
        "name": sample.name,
        **({} if sample.batch_size == 1 else {"batch_size": sample.batch_size}),
        **_unless_empty("count", sample.count),
        "inputs": data,
    }


def _parameters(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    rest.ClearField("parameters")
    texts = {key: value.string_value for key, value in sorted(config.parameters.items())}
    # The template gives several instances a thread each, unless the step has parameters of its own.
    groups = [(group.count > 1, enum_name(group, "kind")) for group in config.instance_group]
    implied = find_backend(config) == "onnxruntime" and groups == [(True, "KIND_CPU")]
    return {"parameters": texts} if texts or implied else {}


def _read_optimization(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    """Return the execution accelerators if `optimization` has nothing else: it can't be in two places."""
    given = format_message(config).get("optimization", {})
    lists = given.get("execution_accelerators", {})
    gpu = lists.get("gpu_execution_accelerator", [])
    cpu = lists.get("cpu_execution_accelerator", [])
    names = [accelerator.get("name") for accelerator in (*gpu, *cpu)]
    in_place = all((item.get("name") == "openvino") == (item in cpu) for item in (*gpu, *cpu))
    if given.keys() != {"execution_accelerators"} or len({*names}) < len(names) or not in_place:
        return {}
    rest.ClearField("optimization")
    by_name = {item["name"]: item.get("parameters", {}) for item in (*gpu, *cpu)}
    return _unless_empty("accelerator", by_name)


def _read_rows(config: ModelConfig, rest: ModelConfig, _: Defaults) -> Fields:
    """Return the fields that have rows, but for the name of the file that the backend loads anyway."""
    fields, message = Fields(), format_message(config)
    for name in catalog.field_rows():
        fields |= _read_row(name, message, rest)
    backend = catalog.backends().get(find_backend(config))
    if _is_package(config):
        fields.setdefault("file", PACKAGE)
    if backend and not backend.file_varies and fields.get("file") == backend.file:
        del fields["file"]
    return fields


def _read_row(name: str, message: Fields, rest: ModelConfig) -> Fields:
    """Return a field that has a row, from a config as a mapping."""
    field, _, inner = catalog.field_rows()[name]["config"].partition(".")
    value = message.get(field)
    rest.ClearField(field)
    return _unless_empty(name, value.get(inner) if value and inner else value)


def _unless_empty(name: str, value: Any) -> Fields:
    return {name: value} if value else {}


def _format_verbatim(rest: ModelConfig) -> Fields:
    """Return the text of what the grammar lacks fields for."""
    return _unless_empty("config", text_format.MessageToString(rest, as_utf8=True))


def _copy_without_head(config: ModelConfig) -> ModelConfig:
    """Return a copy without what `name`, `backend` and `max_batch_size` say."""
    rest = type(config)()
    rest.CopyFrom(config)
    for field in ("name", "backend", "max_batch_size"):
        rest.ClearField(field)
    if _find_platform_backend(config) == find_backend(config):
        rest.ClearField("platform")
    return rest


Translator = Callable[[ModelConfig, ModelConfig, Defaults], Fields]
OF_MODEL: tuple[Translator, ...] = (
    _read_instance_group,
    _read_dynamic_batching,
    _read_sequence_batching,
    _read_version_policy,
    _read_model_warmup,
    _parameters,
    _read_optimization,
    _read_rows,
    _declare,
)


def read_fields(config: ModelConfig, defaults: Defaults) -> Fields:
    """Return the fields of a step whose model has this config, but for its name, backend and uses."""
    rest, fields = _copy_without_head(config), max_batch_size(config, defaults)
    for translate in OF_MODEL:
        fields |= translate(config, rest, defaults)
    fields |= _format_verbatim(rest)
    return {name: fields[name] for name in catalog.fields()["step"] if name in fields}


def read_ensemble(config: ModelConfig, defaults: Defaults) -> Fields:
    """Return an ensemble's own settings, without `decoupled`, which follows from its models."""
    rest = _copy_without_head(config)
    fields = _read_row("cache", format_message(config), rest)
    for translate in (_read_version_policy, _parameters):
        fields |= translate(config, rest, defaults)
    limit = config.ensemble_scheduling.max_inflight_requests
    fields |= _unless_empty("max_inflight_requests", limit)
    for field in ("input", "output", "ensemble_scheduling", "model_transaction_policy"):
        rest.ClearField(field)
    return fields | _format_verbatim(rest)
