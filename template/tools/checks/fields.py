# Managed by triton-ensemble-template: edits are merged by `make update`.
"""A config alone: tensors, batching, instances, as Triton checks them before it looks at other models (core: model_config_utils.cc)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tools.checks.findings import Finding
from tools.checks.lines import Part
from tools.checks.models import Model, Setting, enum_name

OUTPUT_TWICE = "26.05"  # the first release that refuses it
BATCH_TYPES = ("TYPE_INT32", "TYPE_FP32")


def fields(model: Model, setting: Setting) -> Iterator[Finding]:
    yield from tensors(model, setting)
    for rules in (batch_io, batching, caching, metrics, repeated_keys):
        yield from rules(model)
    if not model.is_ensemble:
        yield from instances(model, setting)


def tensors(model: Model, setting: Setting) -> Iterator[Finding]:
    assert model.config is not None
    for side, found in (("input", model.config.input), ("output", model.config.output)):
        seen: set[str] = set()
        for i, tensor in enumerate(found):
            yield from tensor_problems(model, side, i, tensor)
            if tensor.name and tensor.name in seen:
                refused = side == "output" and (setting.release or OUTPUT_TWICE) >= OUTPUT_TWICE
                rule = "output-twice" if refused else "tensor-twice"
                what = f"{side} {tensor.name} is declared twice"
                yield model.finding(rule, what, "drop one", (side, i), "name")
            seen.add(tensor.name)
    if model.config.max_batch_size < 0:
        what = f"'max_batch_size' must be non-negative value for {model.name}"
        yield model.finding(
            "max-batch-size", what, "write 0 for no batch dimension", "max_batch_size"
        )


def tensor_problems(model: Model, side: str, i: int, tensor: Any) -> Iterator[Finding]:
    assert model.config is not None
    where: tuple[Part, ...] = ((side, i),)
    who = f"model {side} '{tensor.name}'"
    if not tensor.name:
        yield model.finding("tensor-name", f"model {side} must specify 'name'", "add it", *where)
        return
    if not tensor.data_type:
        yield model.finding(
            "tensor-type", f"{who} must specify 'data_type'", "add it", *where, "data_type"
        )
    if not tensor.dims:
        yield model.finding(
            "tensor-dims",
            f"{who} must specify 'dims'",
            "a single value is dims: [ 1 ]",
            *where,
            "dims",
        )
    if any(dim < 1 and dim != -1 for dim in tensor.dims):
        what = f"{who} dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
        yield model.finding("tensor-dims", what, "write -1 where it varies", *where, "dims")
    elif why := reshape_problem(tensor, model.config.max_batch_size):
        yield model.finding(
            "tensor-reshape", f"{who} {why}", "let both hold as many values", *where, "reshape"
        )
    if side == "input" and tensor.format and len(tensor.dims) != 3:
        what = f"model input NHWC/NCHW require 3 dims, and {tensor.name} has {len(tensor.dims)}"
        yield model.finding(
            "tensor-format", what, "take the format out, or write 3 dims", *where, "format"
        )
    for field in ("is_shape_tensor", "is_non_linear_format_io"):
        if getattr(tensor, field) and model.backend != "tensorrt":
            what = f"{field} of {tensor.name} is only supported for the TensorRT platform"
            yield model.finding("tensor-trt-only", what, "take it out", *where, field)


def reshape_problem(tensor: Any, max_batch_size: int) -> str:
    if not tensor.HasField("reshape"):
        return ""
    shape = tensor.reshape.shape
    if not shape and not max_batch_size:
        return (
            "cannot have empty reshape for non-batching model as scalar tensors are not supported"
        )
    if any(dim < 1 and dim != -1 for dim in shape):
        return (
            "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension"
        )
    ours, theirs = segments(tensor.dims), segments(shape)
    if len(ours) != len(theirs) and len(ours) > 1 < len(theirs):
        return "has different number of variable-size dimensions for dims and reshape"
    return "" if ours == theirs else "has different size for dims and reshape"


def segments(dims: Sequence[int]) -> list[int]:
    """The values between the dims that vary."""
    found: list[list[int]] = [[]]
    for dim in dims:
        if dim == -1:
            found.append([])
        else:
            found[-1].append(dim)
    return [math.prod(part) for part in found]


def batch_io(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    inputs = {tensor.name for tensor in model.config.input}
    outputs = {tensor.name for tensor in model.config.output}
    for side, found in (("input", model.config.batch_input), ("output", model.config.batch_output)):
        for i, each in enumerate(found):
            targets = list(each.target_name)
            unknown = [
                f"unknown source input name '{name}'"
                for name in each.source_input
                if name not in inputs
            ]
            if len(each.source_input) != 1:
                kind = enum_name(each, "kind")
                unknown.append(
                    f"batch {side} kind '{kind}' expects 1 source input, got {len(each.source_input)}"
                )
            if side == "input" and enum_name(each, "data_type") not in BATCH_TYPES:
                unknown.append("batch input data type must be TYPE_INT32 or TYPE_FP32")
            if side == "output":
                unknown += [
                    f"unknown target output name '{name}'"
                    for name in targets
                    if name not in outputs
                ]
                unknown += [
                    f"target output name '{name}' can only be specified once"
                    for name in dict.fromkeys(targets)
                    if targets.count(name) > 1
                ]
            for what in unknown:
                yield model.finding(
                    "batch-io",
                    what,
                    "name an input and outputs that the model has",
                    (f"batch_{side}", i),
                )


def batching(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    given, most = model.config.dynamic_batching, model.config.max_batch_size
    if not model.config.HasField("dynamic_batching"):
        return
    place = ("dynamic_batching",)
    for size in given.preferred_batch_size:
        if size <= 0 or size > most:
            must = "positive" if size <= 0 else "<= max batch size"
            what = f"dynamic batching preferred size must be {must} for {model.name}"
            yield model.finding(
                "batching-size",
                what,
                f"it is {size}, max_batch_size {most}; drop it or raise that",
                *place,
                "preferred_batch_size",
            )
    if not most:
        what = "dynamic_batching has no effect on a model whose max_batch_size is 0"
        yield model.finding(
            "batching-ignored", what, "raise max_batch_size, or take it out", *place
        )
    levels = given.priority_levels
    if levels and not 1 <= given.default_priority_level <= levels:
        what = f"default priority level must be in range [1, {levels}] for {model.name}"
        yield model.finding(
            "batching-priority",
            what,
            "add default_priority_level",
            *place,
            "default_priority_level",
        )
    for level in given.priority_queue_policy if levels else ():
        if not 1 <= level <= levels:
            what = f"priority queue policy must have priority level in range [1, {levels}] for {model.name}"
            yield model.finding(
                "batching-priority",
                what,
                f"it has {level}",
                *place,
                ("priority_queue_policy", str(level)),
            )
    if given.preserve_ordering:
        yield from ordering(model, given)


def ordering(model: Model, given: Any) -> Iterator[Finding]:
    place = ("dynamic_batching", "preserve_ordering")
    if given.priority_levels > 1:
        what = (
            f"Only one priority level is allowed when 'preserve_ordering' is true for {model.name}"
        )
        yield model.finding("batching-order", what, "drop one of the two", *place)
    policies = [given.default_queue_policy, *given.priority_queue_policy.values()]
    if any(p.timeout_action == p.DELAY and p.default_timeout_microseconds for p in policies):
        what = f"Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {model.name}"
        yield model.finding("batching-order", what, "write timeout_action: REJECT", *place)


def caching(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    with_ = (
        "sequence batching scheduler"
        if model.config.HasField("sequence_batching")
        else "'decoupled' transaction policy"
        if model.config.model_transaction_policy.decoupled
        else ""
    )
    if model.config.response_cache.enable and with_:
        what = f"Response Cache does not currently support model {model.name} with {with_}"
        yield model.finding("cache", what, "take response_cache out", "response_cache")


def metrics(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    if "model_metrics" not in model.config.DESCRIPTOR.fields_by_name:
        return
    for i, control in enumerate(model.config.model_metrics.metric_control):
        missing = (
            "a metric_identifier with a family"
            if not control.metric_identifier.family
            else "histogram_options with buckets"
            if not control.histogram_options.buckets
            else ""
        )
        if missing:
            what = f"metric control must specify {missing}"
            yield model.finding("metrics", what, "add it", "model_metrics", ("metric_control", i))


def instances(model: Model, setting: Setting) -> Iterator[Finding]:
    assert model.config is not None
    for i, group in enumerate(model.config.instance_group):
        where: tuple[Part, ...] = (("instance_group", i),)
        kind = enum_name(group, "kind")
        who = f"instance group {group.name or f'{model.name}_{i}'} of model {model.name}"
        if kind.isdecimal():
            what = f"{who} has unexpected kind {kind}"
            yield model.finding("instance-kind", what, "write KIND_CPU or KIND_GPU", *where, "kind")
        if group.gpus and kind in ("KIND_CPU", "KIND_MODEL"):
            what = f"{who} has kind {kind} but specifies one or more GPUs"
            yield model.finding(
                "instance-gpus", what, "take gpus out, or write KIND_GPU", *where, "gpus"
            )
        elif (
            setting.gpu_count is not None
            and max([*group.gpus, -1 if kind != "KIND_GPU" else 0]) >= setting.gpu_count
        ):
            what = f"{who} wants a GPU that the server has not: it has {setting.gpu_count}"
            yield model.finding(
                "instance-gpu-count",
                what,
                "write KIND_CPU, or raise gpu_count in pipeline.yml",
                *where,
                "kind",
            )
        if group.profile and model.backend != "tensorrt":
            what = f"{who} specifies profile field which is only supported for TensorRT models"
            yield model.finding("instance-profile", what, "take it out", *where, "profile")


def repeated_keys(model: Model) -> Iterator[Finding]:
    """Of two equal keys of a map Triton takes the last, and says nothing."""
    maps = ("input_map", "output_map", "inputs", "parameters", "priority_queue_policy")
    for owner in model.lines.walk():
        seen: dict[tuple[str, str], Any] = {}
        for entry in owner.inside:
            if entry.name not in maps or not entry.named("key"):
                continue
            before = seen.setdefault((entry.name, entry.key()), entry)
            if before is not entry:
                same = plain(before) == plain(entry)
                lost = not same and entry.name.endswith("_map")
                what = f"{entry.name} has the key {entry.key()!r} twice, and Triton takes the last"
                instead = f"drop one; the first is in line {before.line}"
                yield Finding(
                    model.path,
                    entry.line,
                    "map-key-lost" if lost else "map-key-twice",
                    what,
                    instead,
                )


def plain(field: Any) -> Any:
    return field.name, field.value, [plain(each) for each in field.inside]
