"""A config alone: batching, instances, caching, as Triton checks them before it looks at other models (core: model_config_utils.cc)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Part
from triton_ensemble.check.models import Model, Setting, enum_name
from triton_ensemble.check.tensors import batch_io, tensors


def fields(model: Model, setting: Setting) -> Iterator[Finding]:
    yield from tensors(model, setting)
    for rules in (batch_io, batching, caching, metrics, repeated_keys):
        yield from rules(model)
    if not model.is_ensemble:
        yield from instances(model, setting)


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
    groups = model.config.instance_group
    if groups and all(group.passive for group in groups):
        what = f"all instances of model {model.name} are passive: Triton loads it, and dies of the first request"
        yield model.finding(
            "instance-passive", what, "take passive out of one", ("instance_group", 0), "passive"
        )
    for i, group in enumerate(groups):
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
