"""Batching, caching and instances"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.check.ensemble import Ensemble
from triton_ensemble.check.examples import BATCHES, A, E
from triton_ensemble.check.repository import (
    Served,
    ensembles,
    iter_backend_models,
    iter_served_models,
    models,
)
from triton_ensemble.check.rule import error, warning
from triton_ensemble.check.wiring import WiredTensor
from triton_ensemble.facts.config import Model, Problem, enum_name

BATCHING = "dynamic_batching"
LONGEST_DELAY_US = 1_000_000
SHORTEST_TIMEOUT_US = 5  # up to 7 us, no request of 15 reached an idle instance of Triton 2.51
A_DAY_US = 86_400_000_000


@warning(
    "batching-ignored",
    of=models,
    triton="ignores `dynamic_batching`",
    fails=f"{A}dynamic_batching {{ }}\n",
    passes=f"{BATCHES}dynamic_batching {{ }}\n",
)
def batching_ignored(model: Model) -> Iterator[Problem]:
    """A model with dynamic batching has a batch dimension, or a policy for its queue."""
    batching = model.config.dynamic_batching
    is_queue = batching.HasField("default_queue_policy")
    if model.config.HasField(BATCHING) and not (model.config.max_batch_size or is_queue):
        what = "dynamic_batching has no effect on a model whose max_batch_size is 0"
        yield model.problem(what, "raise max_batch_size, or take it out", BATCHING)


@warning(
    "batching-lost",
    of=ensembles,
    triton="loads it, answers requests of one row, and refuses those of more: `unexpected shape for input "
    "'X' for model 'a'. Expected [4], got [8,4]`",
    fails={"e": f"max_batch_size: 8\n{E}", "a": A},
    passes={"e": f"max_batch_size: 8\n{E}", "a": A.replace("[4]", "[-1, 4]")},
)
def batching_lost(ensemble: Ensemble) -> Iterator[Problem]:
    """In an ensemble that batches, a model without a batch dimension has the rows in its dims."""
    steps = set[int]()
    meetings = ensemble.wiring.meetings if ensemble.config.max_batch_size > 1 else []
    for at in meetings if all(each.first.matches(each.own) for each in meetings) else ():
        alike = at.first.type == at.own.type and is_same_dims(at.first.dims, at.own.dims)
        with_rows = is_same_dims(at.first.full_dims, at.own.full_dims)
        if alike and not with_rows and at.step not in steps:
            steps.add(at.step)
            what = (
                f"ensemble tensor {at.name}: {at.first.shown} while {at.own.shown}: "
                "requests of more than one row are refused"
            )
            instead = "write the rows as -1 in its dims, or max_batch_size: 1 in the ensemble"
            yield ensemble.problem_at(at, what, instead)


@error(
    "batching-size",
    of=models,
    triton="`dynamic batching preferred size must be <= max batch size for x`, `... must be positive "
    "for x`",
    fails=f"{BATCHES}dynamic_batching {{ preferred_batch_size: [2, 8] }}\n",
    passes=f"{BATCHES}dynamic_batching {{ preferred_batch_size: [2, 4] }}\n",
)
def batching_size(model: Model) -> Iterator[Problem]:
    """Preferred batch sizes are from 1 to max_batch_size."""
    most = model.config.max_batch_size
    for i, size in enumerate(model.config.dynamic_batching.preferred_batch_size):
        if not 0 < size <= most:
            must = "positive" if size <= 0 else "<= max batch size"
            what = f"dynamic batching preferred size must be {must} for {model.name}"
            instead = f"it is {size}, max_batch_size {most}; drop it or raise that"
            yield model.problem(what, instead, BATCHING, ("preferred_batch_size", i))


@warning(
    "batching-timeout",
    of=models,
    triton="`Request timeout expired`, for each request",
    fails=f"{BATCHES}dynamic_batching {{ default_queue_policy {{ default_timeout_microseconds: 1 }} }}\n",
    passes=f"{BATCHES}dynamic_batching {{ default_queue_policy {{ default_timeout_microseconds: 1000 }} }}\n",
)
def batching_timeout(model: Model) -> Iterator[Problem]:
    """A queue that rejects requests in time leaves them the time to reach an instance."""
    policy = model.config.dynamic_batching.default_queue_policy
    timeout = policy.default_timeout_microseconds
    if enum_name(policy, "timeout_action") == "REJECT" and 0 < timeout < SHORTEST_TIMEOUT_US:
        what = f"each request is rejected that waits for {timeout} us, and none is faster"
        place = ("default_queue_policy", "default_timeout_microseconds")
        yield model.problem(what, "write 1000 or more", BATCHING, *place)


@warning(
    "batching-delay",
    of=models,
    triton="keeps each request that finds no others for so long",
    fails=f"{BATCHES}dynamic_batching {{ max_queue_delay_microseconds: 5000000 }}\n",
    passes=f"{BATCHES}dynamic_batching {{ max_queue_delay_microseconds: 5000 }}\n",
)
def batching_delay(model: Model) -> Iterator[Problem]:
    """A request waits for others of its batch for a second at most."""
    delay = model.config.dynamic_batching.max_queue_delay_microseconds
    if delay > LONGEST_DELAY_US:
        what = f"a request waits up to {delay / 10**6:g} s for others of its batch"
        instead = "write microseconds: 1000 is a millisecond"
        yield model.problem(what, instead, BATCHING, "max_queue_delay_microseconds")


@warning(
    "batching-override",
    of=models,
    triton="ignores the `timeout` of each request",
    fails=f"{BATCHES}dynamic_batching {{ default_queue_policy {{ allow_timeout_override: true }} }}\n",
    passes=f"""{BATCHES}dynamic_batching {{
  default_queue_policy {{ allow_timeout_override: true default_timeout_microseconds: {A_DAY_US} }}
}}
""",
)
def batching_override(model: Model) -> Iterator[Problem]:
    """A queue that takes the timeouts of requests has a default timeout, and theirs are below it."""
    batching = model.config.dynamic_batching
    policies: dict[Any, Any] = {"default_queue_policy": batching.default_queue_policy}
    for level, policy in batching.priority_queue_policy.items():
        policies["priority_queue_policy", str(level)] = policy
    for place, policy in policies.items():
        if policy.allow_timeout_override and not policy.default_timeout_microseconds:
            what = "allow_timeout_override has no effect without default_timeout_microseconds"
            instead = f"write one above any request's, as {A_DAY_US}, a day"
            yield model.problem(what, instead, BATCHING, place, "allow_timeout_override")


@error(
    "batching-rows",
    of=ensembles,
    triton="loads it, and refuses each request: `inference request batch-size must be <= 1 for 'x'`",
    fails={"e": E.replace("[4]", "[2, 4]"), "a": f"max_batch_size: 1\n{A}"},
    passes={"e": E.replace("[4]", "[2, 4]"), "a": f"max_batch_size: 2\n{A}"},
)
def batching_rows(ensemble: Ensemble) -> Iterator[Problem]:
    """A tensor without a batch dimension has at most as many rows as the model that batches them takes."""
    models = {i: model.config for i, _, model in ensemble.iter_composing_models()}
    meetings = ensemble.wiring.meetings
    for at in meetings:
        forms = [at.first, *(other.own for other in meetings if other.name == at.name)]
        rows = [each.dims[0] for each in forms if _has_rows(each, at.own)]
        in_sequence = models[at.step].HasField("sequence_batching")  # one row at a time
        most = 1 if in_sequence else models[at.step].max_batch_size
        if rows and max(rows) > most:
            what = (
                f"ensemble tensor {at.name} has {max(rows)} rows, and {at.own.owner} takes {most}"
            )
            size = 0 if in_sequence else max(rows)
            yield ensemble.problem_at(at, what, f"write max_batch_size: {size} there")


def _has_rows(tensor: WiredTensor, batched: WiredTensor) -> bool:
    """Whether the first dim of a tensor is the batch dimension of another."""
    without = batched.batches and not tensor.batches
    return without and is_same_dims(tensor.dims, batched.full_dims)


@error(
    "batching-priority",
    of=models,
    triton="`default priority level must be in range [1, 2] for x`, `priority queue policy must have "
    "priority level in range [1, 2] for x`",
    fails=f"{BATCHES}dynamic_batching {{ priority_levels: 2 }}\n",
    passes=f"{BATCHES}dynamic_batching {{ priority_levels: 2 default_priority_level: 1 }}\n",
)
def batching_priority(model: Model) -> Iterator[Problem]:
    """Where there are priority levels, the default and those with policies are among them."""
    batching = model.config.dynamic_batching
    levels = batching.priority_levels
    if levels and not 1 <= batching.default_priority_level <= levels:
        what = f"default priority level must be in range [1, {levels}] for {model.name}"
        yield model.problem(what, "add default_priority_level", BATCHING, "default_priority_level")
    for level in batching.priority_queue_policy if levels else ():
        if not 1 <= level <= levels:
            what = (
                "priority queue policy must have priority level "
                f"in range [1, {levels}] for {model.name}"
            )
            place = (BATCHING, ("priority_queue_policy", str(level)))
            yield model.problem(what, f"it has {level}; drop it, or raise priority_levels", *place)


@error(
    "batching-order",
    of=models,
    triton="`Only one priority level is allowed when 'preserve_ordering' is true for x`, `Queue policy "
    "can not have DELAY as timeout action when 'preserve_ordering' is true for x`",
    fails=f"""{BATCHES}dynamic_batching {{
  preserve_ordering: true
  default_queue_policy {{ timeout_action: DELAY default_timeout_microseconds: 1000 }}
}}
""",
    passes=f"""{BATCHES}dynamic_batching {{
  preserve_ordering: true
  default_queue_policy {{ timeout_action: REJECT default_timeout_microseconds: 1000 }}
}}
""",
)
def batching_order(model: Model) -> Iterator[Problem]:
    """Where the order of responses is kept, no request may overtake another or be delayed."""
    batching = model.config.dynamic_batching
    if not batching.preserve_ordering:
        return
    place = (BATCHING, "preserve_ordering")
    if batching.priority_levels > 1:
        what = (
            f"Only one priority level is allowed when 'preserve_ordering' is true for {model.name}"
        )
        yield model.problem(what, "drop one of the two", *place)
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    if any(p.timeout_action == p.DELAY and p.default_timeout_microseconds for p in policies):
        what = (
            "Queue policy can not have DELAY as timeout action "
            f"when 'preserve_ordering' is true for {model.name}"
        )
        yield model.problem(what, "write timeout_action: REJECT", *place)


@error(
    "cache",
    of=iter_served_models,
    triton="`Response Cache does not currently support model x with 'decoupled' transaction policy`, "
    "`... with sequence batching scheduler`",
    fails=f"{BATCHES}sequence_batching {{ }}\nresponse_cache {{ enable: true }}\n",
    passes=f"{BATCHES}sequence_batching {{ }}\n",
)
def cache(served: Served) -> Iterator[Problem]:
    """Only models that answer a request once, and the same way each time, have a cache."""
    config = served.model.config
    if not config.response_cache.enable:
        return
    if config.HasField("sequence_batching"):
        reason = "sequence batching scheduler"
    elif config.model_transaction_policy.decoupled or served.is_decoupled:
        reason = "'decoupled' transaction policy"
    else:
        return
    what = f"Response Cache does not currently support model {served.model.name} with {reason}"
    yield served.model.problem(what, "take response_cache out", "response_cache")


@error(
    "metrics",
    of=models,
    triton="`metric control must specify 'metric_identifier'`, `... 'histogram_options'`",
    fails="""
        backend: "python"
        model_metrics {
          metric_control {
            metric_identifier { family: "nv_inference_first_response_histogram_ms" }
          }
        }
    """,
    passes="""
        backend: "python"
        model_metrics {
          metric_control {
            metric_identifier { family: "nv_inference_first_response_histogram_ms" }
            histogram_options { buckets: [1, 10] }
          }
        }
    """,
)
def metrics(model: Model) -> Iterator[Problem]:
    """A metric control names a family and has buckets."""
    if "model_metrics" not in model.config.DESCRIPTOR.fields_by_name:
        return  # tritonclient is older than the field
    for i, control in enumerate(model.config.model_metrics.metric_control):
        missing = ""
        if not control.metric_identifier.family:
            missing = "a metric_identifier with a family"
        elif not control.histogram_options.buckets:
            missing = "histogram_options with buckets"
        if missing:
            what = f"metric control must specify {missing}"
            yield model.problem(what, "add it", "model_metrics", ("metric_control", i))


@error(
    "metric-tags",
    of=models,
    triton="ends with `terminate called ... Invalid label name`: with a `_` before it, a tag is a label of "
    "Prometheus",
    fails=A + 'metric_tags { key: "team-a" value: "x" }\n',
    passes=A + 'metric_tags { key: "team" value: "a" }\n',
)
def metric_tags(model: Model) -> Iterator[Problem]:
    """The tags of metrics are of letters, digits and `_`, which does not come first."""
    for tag in model.config.metric_tags:
        if not re.fullmatch("([A-Za-z0-9][A-Za-z0-9_]*)?", tag):
            what = f"Invalid label name: {tag!r} among the metric_tags ends Triton"
            yield model.problem(what, "write letters, digits and _", ("metric_tags", tag))


def _iter_groups(model: Model) -> Iterator[tuple[int, Any, str]]:
    """Iterate over the index of each instance group, the group, and Triton's words for it."""
    for i, group in enumerate(model.config.instance_group):
        name = group.name or f"{model.name}_{i}"
        yield i, group, f"instance group {name} of model {model.name}"


@error(
    "instance-gpus",
    of=iter_backend_models,
    triton="`instance group x of model y has kind KIND_CPU but specifies one or more GPUs`, `... specifies "
    "invalid or unsupported gpu id -1`",
    fails=f"{A}instance_group {{ kind: KIND_CPU gpus: [0] }}\n",
    passes=f"{A}instance_group {{ kind: KIND_GPU gpus: [0] }}\n",
)
def instance_gpus(model: Model) -> Iterator[Problem]:
    """Only instances that run on GPUs list them, by numbers from 0 on."""
    for i, group, who in _iter_groups(model):
        kind = enum_name(group, "kind")
        if min(group.gpus, default=0) < 0:
            what = f"{who} specifies invalid or unsupported gpu id {min(group.gpus)}"
            yield model.problem(what, "number them from 0", ("instance_group", i), "gpus")
            continue
        if group.gpus and kind in ("KIND_CPU", "KIND_MODEL"):
            what = f"{who} has kind {kind} but specifies one or more GPUs"
            instead = "take gpus out, or write KIND_GPU"
            yield model.problem(what, instead, ("instance_group", i), "gpus")


@error(
    "instance-kind",
    of=iter_backend_models,
    triton="`instance group x of model y has unexpected kind KIND_AUTO`",
    fails=f"{A}instance_group {{ kind: 9 }}\n",
    passes=f"{A}instance_group {{ kind: KIND_CPU }}\n",
)
def instance_kind(model: Model) -> Iterator[Problem]:
    """Triton knows the kind of an instance group."""
    for i, group, who in _iter_groups(model):
        kind = enum_name(group, "kind")
        if kind.lstrip("-").isdecimal():
            what = f"{who} has unexpected kind {kind}"
            instead = "write KIND_CPU or KIND_GPU"
            yield model.problem(what, instead, ("instance_group", i), "kind")


@error(
    "instance-passive",
    of=iter_backend_models,
    triton="loads a model without an active instance, and ends at the first request",
    fails=f"{A}instance_group {{ kind: KIND_CPU passive: true }}\n",
    passes=f"{A}instance_group {{ kind: KIND_CPU }}\n",
)
def instance_passive(model: Model) -> Iterator[Problem]:
    """A model has an instance that is not passive."""
    groups = model.config.instance_group
    if groups and all(group.passive for group in groups):
        what = (
            f"all instances of model {model.name} are passive: "
            "Triton loads it, and dies of the first request"
        )
        yield model.problem(what, "take passive out of one", ("instance_group", 0), "passive")


@error(
    "instance-profile",
    of=iter_backend_models,
    triton="`specifies profile field which is only supported for TensorRT models`",
    fails=f'{A}instance_group {{ kind: KIND_CPU profile: "1" }}\n',
    passes=f"{A}instance_group {{ kind: KIND_CPU }}\n",
)
def instance_profile(model: Model) -> Iterator[Problem]:
    """Only models of TensorRT have optimization profiles."""
    for i, group, who in _iter_groups(model):
        if group.profile and model.backend != "tensorrt":
            what = f"{who} specifies profile field which is only supported for TensorRT models"
            yield model.problem(what, "take it out", ("instance_group", i), "profile")
