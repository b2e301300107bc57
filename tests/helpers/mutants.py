"""Mutants of model repositories, drawn from a grammar of Triton's documented fields and from the faults that users make.

They were written without a look at the check.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from google.protobuf import json_format, text_format  # type: ignore[import-untyped]
from served_shapes import MODEL, Config, Draft, Files
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig  # type: ignore[import-untyped]
from yaml import safe_dump

# Alternatives of each word by its name. `<x>` draws one of them, `<x+>` one to three different ones.
# Left out is what the check does not see, as docs/check.md says: backends and GPUs that the server lacks, and what
# code does, such as an execute that raises. So is TYPE_BF16, because the code of the shapes uses NumPy.
WORDS = """
n: 1 | 2 | 2 | 3 | 4 | 4 | 8 | 9 | 0 | <odd>
odd: -1 | 1.5 | "2" | 4294967296 | 0x4 | 04 | 4294967299999999999999 | two
few: 1 | 1 | 2 | 3 | 0 | -1
us: 0 | 1 | 100 | 100 | 2000 | 300000 | -1 | 1e3
bool: true | true | false | 1 | 0 | True | t | "true" | yes
fraction: 0 | 0.5 | 1 | 1.0 | 1.5 | -0.5 | 1e-3 | .5f | nan
type: TYPE_BOOL | TYPE_UINT8 | TYPE_INT32 | TYPE_INT64 | TYPE_FP16 | TYPE_FP32 | TYPE_FP32 | TYPE_FP32 | TYPE_FP64 | TYPE_STRING | TYPE_INVALID | 11
dim: 4 | 4 | 4 | 1 | 2 | 3 | 8 | -1 | -1 | 0 | -2
dims: dims: <dim> | dims: [ <dim> ] | dims: [ <dim>, <dim> ] | dims: [ ] | dims: <dim> dims: <dim>
name: <in> | <out> | NEW | NEW | OTHER | S |
batching: dynamic_batching { <batch+> } | dynamic_batching { } | dynamic_batching { <batch> }
batch: preferred_batch_size: <n> | preferred_batch_size: [ <n>, <n> ] | max_queue_delay_microseconds: <us> | preserve_ordering: <bool> | <levels> | default_queue_policy { <policy+> } | default_queue_policy { <policy> }
levels: priority_levels: <n> default_priority_level: <n> | priority_levels: <n> | default_priority_level: <n> | priority_levels: 4 default_priority_level: <n> priority_queue_policy { key: <n> value { <policy+> } } | priority_queue_policy { key: <n> value { <policy> } } | priority_levels: 2 default_priority_level: 1 preserve_ordering: <bool>
policy: timeout_action: REJECT | timeout_action: DELAY | timeout_action: <few> | default_timeout_microseconds: 9000000 | default_timeout_microseconds: <us> | allow_timeout_override: <bool> | max_queue_size: <n>
sequence: sequence_batching { <strategy> <control+> } | sequence_batching { <strategy> max_sequence_idle_microseconds: 2000000 <control> } | sequence_batching { } | sequence_batching { iterative_sequence: <bool> <strategy> }
strategy: direct { } | direct { minimum_slot_utilization: <fraction> } | direct { max_queue_delay_microseconds: <us> minimum_slot_utilization: <fraction> } | oldest { <oldest+> } | oldest { max_candidate_sequences: <n> } | oldest { } direct { } | oldest { } |
oldest: max_candidate_sequences: 4 | preferred_batch_size: <n> | max_queue_delay_microseconds: <us> | preserve_ordering: <bool> | preferred_batch_size: [ <n>, <n> ]
control: control_input { name: "START" control { kind: CONTROL_SEQUENCE_START <values> } } | control_input { name: "END" control { kind: CONTROL_SEQUENCE_END <values> } } | control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY <values> } } | control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: <type> } } | control_input { name: "<name>" control { kind: CONTROL_SEQUENCE_START <values> } control { kind: CONTROL_SEQUENCE_READY <values> } } | control_input { name: "<name>" } | control_input { name: "<name>" control { <values> } }
values: int32_false_true: [ 0, 1 ] | int32_false_true: [ <n>, <n> ] | fp32_false_true: [ 0, 1 ] | bool_false_true: [ false, true ] | bool_false_true: [ <bool>, <bool> ] | fp32_false_true: [ <fraction>, 1 ] | int32_false_true: [ 0 ] | int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ] | int32_false_true: [ 0, 1 ] data_type: <type> |
state: sequence_batching { <strategy> state { input_name: "<name>" output_name: "<name>" <stated+> } } | sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: 4 <initial> } } | sequence_batching { oldest { } state { input_name: "S" output_name: "T" data_type: <type> <dims> <initial> } state { input_name: "<name>" output_name: "U" data_type: TYPE_INT32 dims: 1 } }
stated: data_type: <type> <dims> | data_type: TYPE_INT32 dims: 4 | <initial> | use_same_buffer_for_input_output: <bool> | use_growable_memory: <bool>
initial: initial_state { name: "i" data_type: <type> <dims> zero_data: <bool> } | initial_state { name: "i" data_type: TYPE_FP32 dims: 4 data_file: "w.bin" } | initial_state { <dims> zero_data: true } |
group: instance_group { <grouped+> } | instance_group { <grouped> } | instance_group [ { <grouped> }, { kind: KIND_CPU } ] | instance_group { name: "g" kind: KIND_CPU } instance_group { name: "<name>" <grouped> } | instance_group [ ] | instance_group { kind: KIND_CPU passive: <bool> }
grouped: count: <few> | kind: KIND_CPU | kind: KIND_CPU count: <few> | kind: KIND_AUTO | kind: KIND_MODEL | kind: KIND_CPU gpus: [ 0 ] | kind: KIND_MODEL gpus: <few> | passive: <bool> | profile: "<n>" | host_policy: "h" | secondary_devices { kind: KIND_NVDLA device_id: <few> } | <limiter>
limiter: rate_limiter { resources { name: "R" count: <few> } priority: <n> } | rate_limiter { resources { name: "R" global: <bool> count: <few> } resources { name: "R" count: 1 } } | rate_limiter { priority: <few> } | rate_limiter { resources { count: 1 } }
limited: instance_group { kind: KIND_CPU <limiter> } | instance_group { kind: KIND_CPU <limiter> } instance_group { kind: KIND_CPU <limiter> }
versions: version_policy { latest { num_versions: <few> } } | version_policy { latest { } } | version_policy { all { } } | version_policy { specific { versions: <few> } } | version_policy { specific { versions: [ 1, 2 ] } } | version_policy { specific { } } | version_policy { } | version_policy: { all: { } latest: { num_versions: 1 } }
warmup: model_warmup { name: "w" batch_size: 1 <warm+> } | model_warmup { <warm> } | model_warmup { name: "w" <warm> batch_size: <few> } | model_warmup [ { name: "a" batch_size: 1 <warm> }, { name: "a" batch_size: 1 <warm> } ]
warm: inputs { key: "<in>" value { data_type: <intype> <indims> zero_data: true } } | inputs { key: "<in>" value { data_type: <intype> <indims> random_data: <bool> } } | inputs { key: "<in>" value { data_type: <type> <dims> zero_data: <bool> } } | inputs { key: "<name>" value { data_type: <intype> <indims> zero_data: true } } | inputs { key: "<in>" value { data_type: <intype> <indims> input_data_file: "w.bin" } } | inputs { key: "<in>" value { data_type: <intype> <indims> } } | count: <few>
cache: response_cache { enable: <bool> } | response_cache { } | response_cache { enable: true } response_cache { enable: true } | response_cache { enable: true } model_transaction_policy { decoupled: true } | response_cache { enable: true } sequence_batching { }
policy of transactions: model_transaction_policy { decoupled: <bool> } | model_transaction_policy { decoupled: true } | model_transaction_policy { }
parameter: parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "<answer>" } } | parameters { key: "EXECUTION_ENV_PATH" value { string_value: "<path>" } } | parameters { key: "k" value { string_value: "v" } } parameters { key: "k" value { } } | parameters { key: "k" value: "v" } | parameters { key: "k" value { string_value: 1 } } | parameters: [ { key: "", value: { string_value: "" } } ] | parameters { value { string_value: "v" } } | parameters { "k": "v" } | parameters { key: 'k' value < string_value: 'v' > } | parameters { key: "shm-default-byte-size" value { string_value: "x" } } | parameters { key: "TRITON_AUTO_COMPLETE" value { string_value: "1" } }
answer: yes | no | YES | No | true | 1 |
path: /tmp/none.tar.gz | none.tar.gz | $$TRITON_MODEL_DIRECTORY/none.tar.gz | . |
optimization: optimization { <optimized+> } | optimization { }
optimized: graph { level: <few> } | priority: PRIORITY_MAX | priority: PRIORITY_HIGH | cuda { graphs: <bool> } | execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } | execution_accelerators { cpu_execution_accelerator [ { name: "openvino" } ] } | input_pinned_memory { enable: <bool> } | output_pinned_memory { enable: false } | gather_kernel_buffer_threshold: <n> | eager_batching: <bool> | cuda { graphs: true graph_spec { batch_size: <few> } }
filename: default_model_filename: "<file>" | default_model_filename: "model.py" cc_model_filenames { key: "8.0" value: "other.py" } | cc_model_filenames { key: "8.0" value: "other.py" } | default_model_filename: "model.py" default_model_filename: "model.py"
file: model.py | other.py | helper.py | 1/model.py | ../1/model.py | ./model.py | model | model.PY | model.pyc |
metrics: model_metrics { metric_control { <metric+> } } | model_metrics { } | metric_tags { key: "<tag>" value: "v" }
metric: metric_identifier { family: "nv_inference_first_response_histogram_ms" } | histogram_options { buckets: [ <n>, 10 ] } | metric_identifier { } | histogram_options { }
tag: a | a_b | a-b | 1a | a b |
agents: model_repository_agents { } | model_repository_agents { agents { } } | model_repository_agents { agents { name: "" } }
origin: backend: "<backend>" | platform: "<platform>" | backend: "python" platform: "<platform>" | runtime: "<file>" backend: "python" | name: "<name>" backend: "python" | backend: "python" backend: "python"
backend: python | Python | pyton | python  | ../python | ensemble |
platform: python | ensemble | Ensemble | custom | pytorch_libtorch |
ragged: batch_input { kind: <ragged kind> target_name: "<name>" data_type: TYPE_FP32 source_input: "<in>" } | batch_input { kind: <ragged kind> target_name: [ "NEW", "<name>" ] data_type: <type> source_input: "<name>" } | batch_input { target_name: "NEW" data_type: TYPE_INT32 source_input: [ "<in>", "<in>" ] } | batch_output { target_name: "<out>" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "<name>" } | batch_output { target_name: "<name>" source_input: "<in>" } | batch_input { kind: <ragged kind> target_name: "NEW" data_type: <type> }
ragged kind: BATCH_ELEMENT_COUNT | BATCH_ACCUMULATED_ELEMENT_COUNT | BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO | BATCH_MAX_ELEMENT_COUNT_AS_SHAPE | BATCH_ITEM_SHAPE | BATCH_ITEM_SHAPE_FLATTEN | BATCH_NONE
rows: max_batch_size: <n> | max_batch_size: 0 | max_batch_size: 1 |
forbidden: backend: "<backend>" | instance_group { } | optimization { } | model_warmup { } | dynamic_batching { } | ensemble_scheduling { } | ensemble_scheduling { max_inflight_requests: 4 } | input [ ] | model_transaction_policy { decoupled: <bool> } | parameters { key: "k" value { string_value: "v" } } | response_cache { enable: true } | version_policy { all { } } | default_model_filename: "model.py" | instance_group [ ] | metric_tags { key: "a" value: "b" }
unknown: max_batch_sizes: 4 | dynamic_batching: true | batching { } | inputs { } | # a comment | // a comment | ; | , | { } | input { name: "NEW" } | output: [ ] | instance_group: { kind: KIND_CPU } | instance_group { kind: "KIND_CPU" } | instance_group { count: "1" } | [x.y.Z] { } | <n>: 4
gpus: instance_group { kind: KIND_GPU } | instance_group { count: 1 kind: KIND_GPU gpus: [ 0 ] } | instance_group { gpus: [ 0, 1 ] } | instance_group { kind: KIND_AUTO gpus: 0 } | instance_group { kind: KIND_AUTO }
environment: parameters { key: "EXECUTION_ENV_PATH" value { string_value: "<place>" } }
place: $$TRITON_MODEL_DIRECTORY/env.tar.gz | $$TRITON_MODEL_DIRECTORY/1 | $$TRITON_MODEL_DIRECTORY/config.pbtxt | $$TRITON_MODEL_DIRECTORY | $TRITON_MODEL_DIRECTORY/env | env.tar.gz | env | ~/env |
strategy file: parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "<library>" } } <batching>
library: /nowhere/batchstrategy.so | batchstrategy.so | /usr/lib | 1/batchstrategy.so | $$TRITON_MODEL_DIRECTORY/batchstrategy.so |
two features: <feature> <another>
feature: <batching> | <sequence> | <cache> | <state>
another: <policy of transactions> | <warmup> | <limited> | <versions>
"""
GRAMMAR = {
    line.partition(": ")[0]: [each.strip() for each in line.partition(": ")[2].split(" |")]
    for line in WORDS.strip().splitlines()
}


def say(chance: Random, word: str, given: dict[str, list[str]]) -> str:
    """Return one alternative of a word, with the words in it drawn too."""

    def draw(match: re.Match[str]) -> str:
        choices = given.get(match[1]) or GRAMMAR[match[1]]
        drawn = chance.sample(choices, min(len(choices), chance.randint(1, 3) if match[2] else 1))
        return re.sub(r"<([\w ]+)(\+?)>", draw, " ".join(drawn))

    return re.sub(r"<([\w ]+)(\+?)>", draw, f"<{word}>")


def write_field(
    word: str, cleared: str = "", ensemble: bool = False
) -> Callable[[Random, Draft], Files]:
    """Return what writes a word of the grammar into a config, in the place of the field that is cleared."""

    def write(chance: Random, draft: Draft) -> Files:
        name = chance.choice(models(draft, ensemble))
        config = draft.configs[name]
        tensor = chance.choice(config.input or config.output)
        given = {
            "in": [tensor.name],
            "out": [each.name for each in config.output],
            "intype": [DataType.Name(tensor.data_type)],
            "indims": ["dims: " + str([4 if dim < 0 else dim for dim in tensor.dims])],
        }  # fmt: skip
        for field in cleared.split():
            config.ClearField(field)
        files = draft.texts()
        files[f"{name}/config.pbtxt"] += say(chance, word, given).encode() + b"\n"
        size = chance.choice([0, 4, 8, 15, 16, 17, 32, 64])
        if "w.bin" in files[f"{name}/config.pbtxt"].decode():
            folder = chance.choice(["warmup", "warmup", "initial_state", "1"])
            files[f"{name}/{folder}/w.bin"] = bytes(size)
        if word == "versions" and chance.random() < 0.7:
            files[f"{name}/{chance.choice(['2', '3', '02'])}/model.py"] = MODEL
        if word == "filename" and chance.random() < 0.5:
            files[f"{name}/1/other.py"] = files.pop(f"{name}/1/model.py")
        return files

    return write


def models(draft: Draft, ensemble: bool = False) -> list[str]:
    """Return the names of the ensembles, or of the other models."""
    return sorted(n for n, c in draft.configs.items() if (c.platform == "ensemble") == ensemble)


def any_tensor(chance: Random, draft: Draft) -> tuple[Config, Any]:
    config = draft.configs[chance.choice(sorted(draft.configs))]
    return config, chance.choice([*config.input, *config.output])


def any_step(chance: Random, draft: Draft) -> tuple[Config, Any]:
    config = draft.configs[chance.choice(models(draft, True))]
    return config, chance.choice(config.ensemble_scheduling.step)


def change_dims(chance: Random, draft: Draft) -> None:
    _, tensor = any_tensor(chance, draft)
    at, dim = chance.randrange(len(tensor.dims) or 1), chance.choice([1, 2, 3, 5, -1, -1, 0, -2])
    change = chance.choice(["set", "set", "add", "drop", "front"])
    dims = list(tensor.dims)
    dims[at : at + (change in ("set", "drop"))] = [] if change == "drop" else [dim]
    tensor.dims[:] = [1, *tensor.dims] if change == "front" else dims


def change_type(chance: Random, draft: Draft) -> None:
    any_tensor(chance, draft)[1].data_type = chance.choice(range(14))


def rename_tensor(chance: Random, draft: Draft) -> None:
    config, tensor = any_tensor(chance, draft)
    others = [each.name for each in [*config.input, *config.output]]
    old, tensor.name = tensor.name, chance.choice(["NEW", "a b", "x/y:0", "ä", "", *others])
    for ensemble in models(draft, True):
        for step in draft.configs[ensemble].ensemble_scheduling.step:
            for fed in (step.input_map, step.output_map):
                if step.model_name == config.name and old in fed and chance.random() < 0.6:
                    fed[tensor.name] = fed.pop(old)


def add_reshape(chance: Random, draft: Draft) -> None:
    _, tensor = any_tensor(chance, draft)
    shape = chance.choice([[4], [2, 2], [1, 4], [-1], [], [1], [0], [-1, 1], [1, -1], [4, 1, 1]])
    tensor.reshape.shape.extend(shape)


def set_format(chance: Random, draft: Draft) -> None:
    config = draft.configs[chance.choice(sorted(draft.configs))]
    tensor = chance.choice(config.input)
    tensor.format = chance.choice([0, 1, 2])
    if chance.random() < 0.4:
        setattr(tensor, chance.choice(["is_shape_tensor", "is_non_linear_format_io"]), True)


def make_optional(chance: Random, draft: Draft) -> None:
    for config in draft.configs.values():
        for tensor in config.input:
            tensor.optional = chance.random() < 0.3
    if chance.random() < 0.5:  # no step gives it
        _, step = any_step(chance, draft)
        for key in sorted(step.input_map)[:1]:
            del step.input_map[key]


def allow_ragged(chance: Random, draft: Draft) -> None:
    for config in draft.configs.values():
        for tensor in config.input:
            tensor.allow_ragged_batch = chance.random() < 0.4


def add_tensor(chance: Random, draft: Draft) -> None:
    config = draft.configs[chance.choice(sorted(draft.configs))]
    tensor = chance.choice([config.input, config.output]).add(name="NEW", data_type=11, dims=[4])
    for ensemble in models(draft, True):
        for step in draft.configs[ensemble].ensemble_scheduling.step:
            if step.model_name == config.name and chance.random() < 0.7:
                is_input = tensor in config.input
                (step.input_map if is_input else step.output_map)["NEW"] = chance.choice(
                    ["X", "m", "NEW"]
                )


def drop_tensor(chance: Random, draft: Draft) -> None:
    config = draft.configs[chance.choice(sorted(draft.configs))]
    side = chance.choice([config.input, config.output])
    del side[chance.randrange(len(side))]


def label_output(chance: Random, draft: Draft) -> None:
    config = draft.configs[chance.choice(sorted(draft.configs))]
    name = chance.choice(
        ["l.txt", "a/l.txt", "1/l.txt", "none.txt", "../l.txt", "/l.txt", "a", " "]
    )
    chance.choice(config.output).label_filename = name
    text = chance.choice(
        [b"", b"a\n", b"a\nb\nc\nd\n", b"\xff\xfe\n", b"a\r\nb\r\n", b"a\nb\nc\nd\ne"]
    )
    draft.files[f"{config.name}/{chance.choice(['', '', 'a/', '1/'])}l.txt"] = text


def change_map(chance: Random, draft: Draft) -> None:
    config, step = any_step(chance, draft)
    fed = step.input_map if step.input_map and chance.random() < 0.5 else step.output_map
    key = chance.choice(sorted(fed))
    known = {
        v
        for s in config.ensemble_scheduling.step
        for m in (s.input_map, s.output_map)
        for v in m.values()
    }
    value = chance.choice([*sorted(known), "NEW", "", key])
    change = chance.choice(["value", "value", "key", "drop", "add", "clear", "swap"])
    if change == "clear":
        fed.clear()
    elif change == "swap":
        fed[fed.pop(key)] = key
    elif change != "value":
        old = fed[key] if change == "add" else fed.pop(key)
        if change != "drop":
            fed[chance.choice([key.lower(), "NEW", f"{key} "])] = chance.choice([old, value])
    else:
        fed[key] = value


def change_step(chance: Random, draft: Draft) -> None:
    config, step = any_step(chance, draft)
    steps = config.ensemble_scheduling.step
    change = chance.choice(
        ["version", "version", "model", "drop", "twice", "order", "space", "none"]
    )
    if change == "version":
        step.model_version = chance.choice([0, 1, 1, 2, -1, -2, 9])
    elif change == "model":
        step.model_name = chance.choice(
            [*sorted(draft.configs), "none", "", step.model_name.upper()]
        )
    elif change == "space":
        step.model_namespace = chance.choice(["", "a", "/models"])
    elif change == "none":
        del steps[:]
    else:
        kept = [type(step).FromString(s.SerializeToString()) for s in steps]
        if change == "order":
            chance.shuffle(kept)
        else:
            at = kept.index(step)
            kept[at : at + 1] = [] if change == "drop" else [kept[at], kept[at]]
        del steps[:]
        steps.extend(kept)


def branch_off(chance: Random, draft: Draft) -> None:
    """Add a step that reads what another reads, and maybe an output of the ensemble for what it writes."""
    config, step = any_step(chance, draft)
    new = config.ensemble_scheduling.step.add()
    new.CopyFrom(step)
    model = draft.configs[step.model_name]
    for i, (key, value) in enumerate(sorted(new.output_map.items())):
        new.output_map[key] = f"NEW{i}"
        declared = next((each for each in model.output if each.name == key), None)
        if declared and chance.random() < 0.7:
            config.output.add(name=f"NEW{i}", data_type=declared.data_type, dims=declared.dims)
        if chance.random() < 0.2:
            new.output_map[key] = value


def show_inner(chance: Random, draft: Draft) -> None:
    """Make a tensor between two steps an output too, or write an input of the ensemble."""
    config, step = any_step(chance, draft)
    key, value = chance.choice(sorted(step.output_map.items()))
    declared = next((t for t in draft.configs[step.model_name].output if t.name == key), None)
    if declared and chance.random() < 0.7:
        config.output.add(name=value, data_type=declared.data_type, dims=declared.dims)
    else:
        step.output_map[key] = config.input[0].name


def nest(chance: Random, draft: Draft) -> None:
    """Put an ensemble of one step in the place of a model, right or with one thing wrong."""
    config, step = any_step(chance, draft)
    model, name = draft.configs[step.model_name], f"{draft.shape}_inner2"
    inner = draft.configs[name] = type(config)(name=name, platform="ensemble")
    inner.max_batch_size = chance.choice([model.max_batch_size] * 4 + [0, 1, 16])
    inner.input.extend(model.input)
    inner.output.extend(model.output)
    for tensor in [*inner.input, *inner.output]:
        if chance.random() < 0.15:
            tensor.dims[0] = chance.choice([-1, 5])
    inside = inner.ensemble_scheduling.step.add(model_name=model.name, model_version=-1)
    inside.model_name = chance.choice([model.name] * 6 + [name, config.name])
    inside.input_map.update({t.name: t.name for t in model.input})
    inside.output_map.update({t.name: t.name for t in model.output})
    step.model_name = name
    if chance.random() < 0.85:
        draft.files[f"{name}/1/.gitkeep"] = b""


VERSIONS = [
    "2", "3", "10", "01", "v1", "-1", "0", "1.0", "+1", "1_0", "latest", "9223372036854775807", "99999999999999999999", "\u0661",
]  # fmt: skip


def lay_out_versions(chance: Random, draft: Draft) -> Files:
    files, name = draft.texts(), chance.choice(sorted(draft.configs))
    old = chance.choice([path for path in sorted(files) if path.startswith(f"{name}/1/")])
    version = chance.choice(VERSIONS)
    files[f"{name}/{version}/{old.rpartition('/')[2]}"] = files[old]
    if chance.random() < 0.6:
        del files[old]
    return files


def lay_out_files(chance: Random, draft: Draft) -> Files:
    files, name = draft.texts(), chance.choice(sorted(draft.configs))
    config, code = f"{name}/config.pbtxt", f"{name}/1/model.py"
    old = chance.choice([config, config, code] if code in files else [config])
    moves = {
        config: ["1/config.pbtxt", "config.pbtx", "Config.pbtxt", "configs/a.pbtxt", "config.prototxt", "config.pbtxt/x"],
        code: ["model.py", "1/Model.py", "1/model.py/model.py", "1/src/model.py", "1/model.pyc", "1/__init__.py"],
    }  # fmt: skip
    new = f"{name}/{chance.choice(moves[old])}"
    content = files.pop(old) if chance.random() < 0.5 or new.startswith(f"{old}/") else files[old]
    stray = f"{draft.shape}_{chance.choice(['docs/x.md', '.git/HEAD', 'a.b/1/x', 'z/config.pbtxt', 'README'])}"
    files[chance.choice([new, new, stray, f"{name}/docs/x", f"{name}/1/.cache/x"])] = content
    return files


UNLESS_DECOUPLED = (
    'if not self.config.get("model_transaction_policy", {}).get("decoupled"):\n            '
)
ANSWER = "return [pb_utils.InferenceResponse([*self.results(r)]) for r in requests]"
ANSWERS = [
    "return []", "return pb_utils.InferenceResponse([*self.results(requests[0])])", "yield 1", "return {}", "return 'x'",
    "return {r: 1 for r in requests}", "return {r for r in range(2)}", "return map(self.results, requests)",
    "return tuple(pb_utils.InferenceResponse([*self.results(r)]) for r in requests)", "return (*map(self.results, requests),)",
    "return [pb_utils.InferenceResponse(output_tensors=[*self.results(r)], error=None) for r in requests]",
    "return list(pb_utils.InferenceResponse([*self.results(r)]) for r in requests)", "responses = [None] * len(requests)\n            return responses[:0] + [pb_utils.InferenceResponse([*self.results(r)]) for r in requests]",
]  # fmt: skip


def answer_otherwise(chance: Random, draft: Draft) -> Files:
    files = draft.texts()
    path = f"{chance.choice(models(draft))}/1/model.py"
    old = UNLESS_DECOUPLED * (chance.random() < 0.3) + ANSWER
    files[path] = files[path].replace(old.encode(), chance.choice([ANSWER, *ANSWERS]).encode())
    return files


def spell(chance: Random, draft: Draft) -> Files:
    """Write the text of a config otherwise: what the text format of protobuf reads, or almost."""
    files = draft.texts()
    path = f"{chance.choice(sorted(draft.configs))}/config.pbtxt"
    text = files[path].decode()
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    edits = [
        ("{", ": {"), ("{", "<"), ("{\n", "{;\n"), (": ", " : "), (": ", ":"), (": ", " "), ('"', "'"), ("\n", ",\n"), ("\n", ";\n"), ("\n", ",,\n"),
        ("\n", " # ä\n"), ("\n", " // x\n"), ("\n", "\r\n"), ("\n", "\v\n"), ("\n", "\xa0\n"), ("\n", " \\\n"), (": 4", ": 0x4"), (": 4", ": 04"),
        (": 4", ": 4.0"), (": 4", ": +4"), (": 4", ": 4L"), (": 4", ": [4]"), (": 4", ": [4,]"), (": 4", ": [4 4]"), (": -1", ": - 1"), (": -1", ": -0x1"),
        ("TYPE_", "type_"), ("TYPE_", ""), (": TYPE_FP32", ": 11"), ("TYPE_FP32", '"TYPE_FP32"'), ('"', '""'), ('"\n', '" ""\n'), ('"', '"\\x41'),
        ('"', '"\\u0041'), ('"', '"\\q'), ("\n", "\x00\n"), ("name", "Name"), ("name", "name "), ("max_batch_size", "maxBatchSize"), ("", "\ufeff"),
        ("true", "True"), ("true", "TRUE"), ("true", "1"), ("true", "2"), ("backend: ", "backend ="), ("backend", "BACKEND"), ("}", "} }"), ("}", ""),
    ]  # fmt: skip
    old, new = chance.choice([each for each in edits if each[0] in text])
    if old in lines[at] and chance.random() < 0.5:
        lines[at] = lines[at].replace(old, new, 1)
        text = "".join(lines)
    else:
        text = text.replace(old, new, chance.choice([1, -1]) if old else 1)
    if chance.random() < 0.1:
        text = chance.choice(["", "\n", text + text, text[: len(text) // 2], text.upper()])
    files[path] = text.encode()
    return files


def moved(files: Files, old: str, new: str) -> Files:
    """Return the files with another beginning of some paths."""
    return {
        new + path.removeprefix(old) if path.startswith(old) else path: c
        for path, c in files.items()
    }


TOKEN = r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|-?\d[\w.]*|\s+|[^\s\w]'
BLOCK = r"\w+ \{\n(?:  .*\n)*\}\n|.+\n"
CHARACTERS = "\u00a0\u0664é\x1c\0\\\"'#+-_.,;:<>[]{}01xe"


def slip(chance: Random, draft: Draft) -> Files:
    """Change a token, a line or a block of a config. Of the texts that do not parse, keep one in four."""
    files, path = draft.texts(), f"{chance.choice(sorted(draft.configs))}/config.pbtxt"
    while True:
        parts = re.findall(chance.choice([TOKEN, TOKEN, ".*\n", BLOCK]), files[path].decode())
        at = chance.choice([i for i, part in enumerate(parts) if part.strip()])
        part, place = parts[at], chance.randrange(len(parts[at]) + 1)
        alike = [each for each in parts if each[0].isalpha() == part[0].isalpha() and each.strip()]
        mistyped = part[:place] + chance.choice(CHARACTERS) + part[place:]
        parts[at] = chance.choice(["", part * 2, *chance.choices(alike, k=4), mistyped])
        text = "".join(parts)
        if parses(text) or chance.random() < 0.25:
            return files | {path: text.encode()}


def parses(text: str) -> bool:
    try:
        text_format.Parse(text, ModelConfig())
    except text_format.ParseError:
        return False
    return True


ADDED = [
    "\nTritonPythonModel = None\n", "\nclass TritonPythonModel:\n    pass\n", "\ndel TritonPythonModel\n", "\n\x00", "\n# ä\n", "\n}",
    "\nclass Other(TritonPythonModel):\n    pass\n", "\nclass TritonPythonModel(TritonPythonModel):\n    pass\n", "\nTritonPythonModel.execute = None\n",
    "\nTritonPythonModel = TritonPythonModel\n", "\nif __name__ == '__main__':\n    exit(1)\n", "\nmatch = 1\n", "\nawait x\n", "\n'''", "\ntype X = int\n",
    "\ndef f[T](x: T): ...\n", "\nprint(f'{'a'}')\n", "\ntry:\n    pass\nexcept* ValueError:\n    pass\n", "\nx = 1_\n", "\ndef f(a, a): ...\n", "\nbreak\n",
]  # fmt: skip
STREAM = MODEL[: MODEL.index(b"        if not self.config.get")] + (
    b"        for request in requests:\n            sender = request.get_response_sender()\n"
    b"            sender.send(pb_utils.InferenceResponse([*self.results(request)]))\n"
    b"            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)\n        return None\n"
)
CALLER = b"""import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        call = pb_utils.InferenceRequest(
            model_name="<model>",
            inputs=[<inputs>],
            requested_output_names=[<outputs>],<more>
        )
        response = <exec>
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return pb_utils.InferenceResponse(response.output_tensors())
"""
# Edits of code by kind: the code, and what is there -> what is written instead.
EDITS = {
    "senders": (STREAM, r"""sender->sender|return None->return []|return None->return [None] * len(requests)|return None->return requests|return None->yield|return None->raise NotImplementedError
        return None\n->|pb_utils.TRITONSERVER->TRITONSERVER|def execute->async def execute|for request in requests:\n->request = requests[0]\n        if request:\n
        for->        import threading\n        threading.Thread(target=self.run, args=[requests]).start()\n\n    def run(self, requests):\n        for"""),
    "form of model.py": (MODEL, r"""def execute->def Execute|def execute->async def execute|def execute->def _execute|class TritonPythonModel->class TritonModel
class TritonPythonModel:->class TritonPythonModel(object):|class TritonPythonModel:->class TritonPythonModel(Missing):
class TritonPythonModel:->class Base:|def initialize(self, args)->def initialize(self)|def initialize(self, args)->def initialize(self, args, more)
def initialize(self, args)->def initialize(self, args, more=1)|def initialize(self, args)->async def initialize(self, args)|def initialize->def setup|self, requests->self|self, requests->self, requests, more
self, requests->self, requests=()|self, requests->requests|self, requests->self, *, requests
    def execute->    @staticmethod\n    def execute|    def execute->    @classmethod\n    def execute|    def execute->    @property\n    def execute
    def execute->    def finalize(self, more):\n        pass\n\n    def execute|    def execute->    def finalize(self):\n        pass\n\n    def execute
    def execute->    def finalize():\n        pass\n\n    def execute|    def execute->    @staticmethod\n    def auto_complete_config(config):\n        return config\n\n    def execute
    def execute->    execute = None\n\n    def run|import json\n->import json \n\n|import json\n->from __future__ import braces\n|import json\n->
import json->import json as json|import json\n->\ufeffimport json\n|import json\n-># coding: latin-1\nimport json\n|import json\n-># coding: nothing\nimport json\n
import json\n->"doc"\nfrom __future__ import annotations\nimport json\n|import json\n->import json\nfrom __future__ import annotations\n
    def execute->  def execute|    def execute->\tdef execute|def execute(self, requests):->def execute(self, requests)|yield->return yield|yield->await
yield->yield from [|for request in requests->for request in request s|json.loads->json.loads(|import numpy as np->import numpy as np, |self.config = ->self.config := 
return [->return (|first else [1, 4]->first|rows + dims->rows + dims if rows else dims|"config"->'config'|=[-1] if->= [-1] if
def execute(self, requests):->def execute(self, requests: list) -> list:|def results(self, request):->def results(self, request, /):|\n->\r\n|    ->\t
class TritonPythonModel:->@str\nclass TritonPythonModel:|class TritonPythonModel:->if True:\n  pass\nclass TritonPythonModel:|    def execute->    def execute(self):\n        pass\n\n    def execute
def initialize(self, args):->def initialize(self, args):\n        return|def initialize(self, args):->def initialize(self, args):\n        nonlocal x|def initialize(self, args):->def __init__(self, more):\n        pass\n\n    def initialize(self, args):
def initialize(self, args):->def __init__(self):\n        pass\n\n    def initialize(self, args):|import json\n->import json\nreturn\n|import json\n->import json\nexit = 1\n|import json\n->import json\nraise SystemExit\n|import json\n->import json\n1 / 0\n"""),
    "life of a model": (MODEL, r"""args):\n->args):\n        raise RuntimeError("no weights")\n|args):\n->args):\n        if not args:\n            raise RuntimeError("no args")\n|args):\n->args):\n        "Load."\n        raise OSError\n
args):\n->args):\n        try:\n            raise RuntimeError("no weights")\n        except RuntimeError:\n            pass\n|args):\n->args):\n        assert args\n|args):\n->args):\n        return False\n        raise RuntimeError\n
    def init->    def __init__(self):\n        raise NotImplementedError\n\n    def init|    def init->    def __init__(self):\n        super().__init__()\n\n    def init|    def init->    def __init__(self, args=None):\n        self.args = args\n\n    def init
    def init->    def __init__(self, args):\n        self.args = args\n\n    def init|    def init->    def __new__(cls):\n        raise TypeError\n\n    def init|    def init->    def finalize(self, args):\n        pass\n\n    def init
import json\n->import json\nimport sys\n\nsys.exit(1)\n|import json\n->import json\n\nraise ImportError("no torch")\n|import json\n->import json\n\nassert json\n|    def execute->    @missing\n    def execute|class Triton->@missing\nclass Triton"""),
    "Python 2": (MODEL, r"""import json\n->import json\nprint "loading"\n|import json\n->import json\nexec "x = 1"\n|import json\n->import json\nmode = 0777\n|import json\n->import json\nname = ur"x"\n|json\n->json\nname = `json`\n
import json\n->import json\nsame = 1 <> 2\n|import json\n->import json\nasync = True\n|import json\n->import json\nasync_ = True\n|args):\n->args):\n        raise ValueError, "no weights"\n|args):\n->args):\n        print "loading"\n
args):\n->args):\n\tsuper(TritonPythonModel, self).__init__()\n|args):\n->args):\n        super(TritonPythonModel, self).__init__()\n|def execute(self, requests)->def execute(self, (requests))|execute(self, requests):->execute(self, requests)"""),
    "called model": (CALLER, r"""answer->answer|"<model>"->"none"|"<model>"->"<self>"|"<model>"->"<top>"|"<model>"->""|"<model>"->"<model> "|"<model>"->"<MODEL>"|            model_name="<model>",\n->|model>",->model>", model_version="1",
model>",->model>", model_version=1,|model>",->model>", model_version=-1,|model>",->model>", model_version=7,|model>",->model>", model_version=0,"""),
    "called tensors": (CALLER, r"""names=[<outputs>->names=["NEW", <outputs>|names=[<outputs>]->names=["n"]|names=[<outputs>]->names=<outputs>,|inputs=[<inputs>]->inputs=[]|inputs=[<inputs>]->inputs=request.inputs()|inputs=[<inputs>]->inputs=[pb_utils.get_input_tensor_by_name(request, "NEW")]
inputs=[<inputs>]->inputs=[pb_utils.Tensor("NEW", request.inputs()[0].as_numpy())]|inputs=[<inputs>]->inputs=[<inputs>, pb_utils.Tensor("NEW", request.inputs()[0].as_numpy())]
inputs=[<inputs>]->inputs=[pb_utils.Tensor(each.name(), each.as_numpy()) for each in request.inputs()]|response.output_tensors()->[pb_utils.get_output_tensor_by_name(response, name) for name in [<outputs>]]"""),
    "calls": (CALLER, r"""answer->answer|<exec>->next(iter(call.exec(decoupled=True)))|<more>-><more> timeout=5000000,|<more>-><more> parameters={"k": 1},|<more>-><more> trace=request.trace(),
<more>-><more> preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
    def execute->    def initialize(self, args):\n        pb_utils.InferenceRequest(model_name="<model>", inputs=[], requested_output_names=[<outputs>]).exec()\n\n    def execute"""),
}  # fmt: skip
# Modules of a user's own: the line of model.py that imports them, and their files.
MODULES: list[tuple[str, Files]] = [
    ("import helper", {"1/helper.py": b""}), ("from helper import thing", {"1/helper.py": b"thing = 1\n"}), ("from helper import thing", {"1/helper.py": b""}), ("from . import helper", {"1/helper.py": b""}),
    ("from .helper import thing", {"1/helper.py": b"thing = 1\n"}), ("from .helper import thing", {"1/helper.py": b""}), ("from helper import thing", {"1/helper.py": b"def thing(:\n"}),
    ("import helper", {"1/helper.py": b"raise ImportError\n"}), ("from own.helper import thing", {"1/own/helper.py": b"thing = 1\n"}), ("import own.helper", {"1/own/__init__.py": b""}), ("import helper", {"1/helper.py": b"\xff\n"}),
    ("from own.helper import thing", {"1/own/__init__.py": b"", "1/own/helper.py": b"from .more import thing\n", "1/own/more.py": b"thing = 1\n"}), ("from helper import thing", {"helper.py": b"thing = 1\n"}),
    ("if False:\n    import helper", {}), ("try:\n    import helper\nexcept ImportError:\n    helper = None", {}),
]  # fmt: skip
OTHER_CODE = [b"", b"class TritonPythonModel:\n    pass\n", MODEL[:-200], MODEL.replace(b"TritonPythonModel", b"Model"), MODEL, MODEL]  # fmt: skip
PYTHON = b'backend: "python"\n'
NEIGHBOURS: list[Files] = [
    {"config.pbtxt": PYTHON}, {"1/model.py": MODEL}, {"config.pbtxt": b"", "1/model.py": MODEL}, {"config.pbtxt": PYTHON, "1/model.py": MODEL}, {"config.pbtxt": PYTHON, "1/.gitkeep": b""}, {"README.md": b"words"},
    {"config.pbtxt": b'name: "other" backend: "python"', "1/model.py": MODEL}, {"config.pbtxt": b'platform: "ensemble"', "1/.gitkeep": b""}, {"config.pbtxt": PYTHON, "1/model.py": b"x = (\n"}, {"1/.gitkeep": b""},
    {"config.pbtxt": PYTHON + b'output { name: "Y" data_type: TYPE_FP32 dims: -1 }', "1/model.py": MODEL}, {"1/model.txt": b""}, {"model.py": MODEL, "config.pbtxt": PYTHON}, {"config.pbtxt.bak": b"", "1/model.py": MODEL},
]  # fmt: skip
MISPLACED = """max_batch_size: 4|dims: 4|data_type: TYPE_FP32|count: 1|kind: KIND_CPU|decoupled: true|preferred_batch_size: 4|enable: true|string_value: "x"|name: "x"|platform: "python"
optional: true|model_name: "x"|key: "x"|value: "x"|backend: "python"|reshape { shape: 4 }|label_filename: "l"|allow_ragged_batch: true|priority: 1|model_version: -1|format: FORMAT_NHWC"""
NAMES = [" x", ".v2", "-2", "\u00e9", ":1", "%20", "'", '"', "\\", "@2", "&", "+", ",", "x" * 200, "1", "_", "\t", "(1)"]  # fmt: skip


def edit_text(chance: Random, kind: str) -> bytes:
    code, edits = EDITS[kind]
    edit = chance.choice(re.split(r"[|\n]", edits)).encode().decode("unicode_escape")
    old, new = edit.encode("utf-8", "surrogatepass").split(b"->", 1)
    return code.replace(old, new) if len(old) < 5 else code.replace(old, new, 1)


def edit_model(kind: str) -> Callable[[Random, Draft], Files]:
    """Return what writes an edited model.py, of one model of a draft."""

    def edit(chance: Random, draft: Draft) -> Files:
        name = chance.choice(models(draft))
        if kind == "senders" and chance.random() < 0.6:
            draft.configs[name].model_transaction_policy.decoupled = True
        return draft.texts() | {f"{name}/1/model.py": edit_text(chance, kind)}

    return edit


def append_code(chance: Random, draft: Draft) -> Files:
    path = f"{chance.choice(models(draft))}/1/model.py"
    return draft.texts() | {path: MODEL + chance.choice(ADDED).encode()}


def call(kind: str) -> Callable[[Random, Draft], Files]:
    """Return what puts a model that calls another into its place, with one thing of the call changed."""

    def write(chance: Random, draft: Draft) -> Files:
        _, step = any_step(chance, draft)
        model, name = draft.configs[step.model_name], f"{step.model_name}_bls"
        draft.configs[name] = caller = type(model)(name=name, backend="python")
        caller.max_batch_size = model.max_batch_size
        caller.input.extend(each for each in model.input if not each.optional)
        caller.output.extend(model.output)
        for tensor in [*caller.input, *caller.output]:
            tensor.ClearField("reshape")
        is_decoupled = model.model_transaction_policy.decoupled
        words = {
            "<exec>": "next(iter(call.exec(decoupled=True)))" if is_decoupled else "call.exec()",
            "<inputs>": ", ".join(f'pb_utils.get_input_tensor_by_name(request, "{each.name}")' for each in caller.input),
            "<outputs>": ", ".join(f'"{each.name}"' for each in model.output), "<model>": model.name, "<MODEL>": model.name.upper(), "<self>": name, "<top>": draft.top,
            "<more>": " correlation_id=7, flags=3," if model.HasField("sequence_batching") else "",
        }  # fmt: skip
        code = edit_text(chance, kind).decode()
        code = re.sub("<[a-zA-Z]+>", lambda word: words[word[0]], code)
        step.model_name = name
        return draft.texts() | {f"{name}/1/model.py": code.encode()}

    return write


def import_own(chance: Random, draft: Draft) -> Files:
    name, (line, files) = chance.choice(models(draft)), chance.choice(MODULES)
    files = {"1/model.py": f"{line}\n".encode() + MODEL} | files
    return draft.texts() | {f"{name}/{path}": content for path, content in files.items()}


def add_version(chance: Random, draft: Draft) -> Files:
    name = chance.choice(models(draft))
    if chance.random() < 0.4:
        any_step(chance, draft)[1].model_version = chance.choice([1, 2])
    return draft.texts() | {f"{name}/2/{chance.choice(['model.py'] * 5 + ['main.py'])}": chance.choice(OTHER_CODE)}  # fmt: skip


def add_neighbour(chance: Random, draft: Draft) -> Files:
    files = chance.choice(NEIGHBOURS)
    return draft.texts() | {f"{draft.shape}_z/{path}": content for path, content in files.items()}


def add_ensemble(chance: Random, draft: Draft) -> None:
    """Add a second ensemble of the same models, with one thing changed."""
    name, top = f"{draft.shape}_e2", draft.configs[draft.top]
    draft.configs[name] = type(top).FromString(top.SerializeToString())
    draft.configs[name].name = name
    draft.files[f"{name}/1/.gitkeep"] = b""
    changes = [change_dims, change_type, change_map, change_step]
    chance.choice(changes)(chance, Draft(draft.shape, name, {name: draft.configs[name]}))


def rename_model(chance: Random, draft: Draft) -> Files:
    """Rename a model in all places, to a name that may be one or not."""
    old = chance.choice(models(draft))
    new = old + chance.choice(NAMES)
    draft.configs[new] = draft.configs.pop(old)
    draft.configs[new].name = new
    for ensemble in models(draft, True):
        for step in draft.configs[ensemble].ensemble_scheduling.step:
            step.model_name = new if step.model_name == old else step.model_name
    return moved(draft.texts(), f"{old}/", f"{new}/")


def copy_block(chance: Random, draft: Draft) -> Files:
    """Append a field of another config."""
    one = chance.choice(models(draft))
    other = chance.choice(sorted(draft.configs.keys() - {one}))
    block = type(draft.configs[other])()
    block.CopyFrom(draft.configs[other])
    kept = chance.choice([field for field, _ in block.ListFields()])
    for field, _ in block.ListFields():
        if field != kept:
            block.ClearField(field.name)
    files = draft.texts()
    files[f"{one}/config.pbtxt"] += text_format.MessageToString(block).encode()
    return files


def misplace(chance: Random, draft: Draft) -> Files:
    files, path = draft.texts(), f"{chance.choice(sorted(draft.configs))}/config.pbtxt"
    lines = files[path].decode().splitlines()
    at = chance.choice([0, *(i + 1 for i, line in enumerate(lines) if line.endswith("{"))])
    lines.insert(at, chance.choice(re.split(r"[|\n]", MISPLACED)))
    return files | {path: "\n".join(lines).encode()}


def write_in_other_syntax(chance: Random, draft: Draft) -> Files:
    name = chance.choice(sorted(draft.configs))
    files, path, config = draft.texts(), f"{name}/config.pbtxt", draft.configs[name]
    text = files[path].decode()
    data = json_format.MessageToDict(config, preserving_proto_field_name=True)
    new: str | bytes = chance.choice([
        json_format.MessageToJson(config), safe_dump(data), str(data), f"```\n{text}```\n", f"{{\n{text}}}\n", f"model_config {{\n{text}}}\n", f"---\n{text}", text.encode("utf-16"), text.encode("utf-8-sig"),
        gzip.compress(text.encode()), "version https://git-lfs.github.com/spec/v1\nsize 9\n", f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> main\n", text.replace('"', "\u201c"), text.replace(": ", "="),
        text.replace("\n", "\r"), text.replace("  ", "\t"), text.replace('"python"', "python"), text.replace('"', '\\"'), text.replace("\n", "\\n"), f"<!DOCTYPE html>{text}", text + text, text.title(),
        text.replace("{", "[").replace("}", "]"), text.replace("_", "-"), f"/* x */\n{text}", text.replace('"python"', '"${BACKEND}"'), text.replace(": 4", ": ${SIZE}"), text.replace("\n", "; "),
    ])  # fmt: skip
    return files | {path: new.encode() if isinstance(new, str) else new}


def swap_sides(chance: Random, draft: Draft) -> Files:
    """Take inputs for outputs, in one config."""
    files, path = draft.texts(), f"{chance.choice(sorted(draft.configs))}/config.pbtxt"
    text = files[path].decode()
    swaps = [("input {", "output {"), ("output {", "input {"), ("input {", "inputs {"), ("input {", "input: {"), ("input_map", "output_map"), ("output_map", "input_map")]  # fmt: skip
    old, new = chance.choice(swaps)
    both = text.replace("input", "PUT").replace("output", "input").replace("PUT", "output")
    return files | {path: chance.choice([text.replace(old, new), text.replace(old, new, 1), both]).encode()}  # fmt: skip


def rewire(chance: Random, draft: Draft) -> None:
    """Connect the steps of an ensemble in a circle, twice, or with keys for values."""
    config, step = any_step(chance, draft)
    other = chance.choice(config.ensemble_scheduling.step)
    read, given = chance.choice(sorted(step.input_map)), chance.choice(sorted(other.output_map))
    change = chance.choice(["circle", "twice", "keys", "through", "unread"])
    if change == "circle":
        step.input_map[read] = other.output_map[given]
    elif change == "keys":
        for fed in (step.input_map, step.output_map):
            pairs = {value: key for key, value in fed.items()}
            fed.clear()
            fed.update(pairs)
    elif change == "through":
        config.output[0].name = config.input[0].name
    else:
        other.output_map[given] = step.input_map[read] if change == "twice" else f"{given}_unread"


BATCHERS = "dynamic_batching sequence_batching"
KINDS: dict[str, Callable[[Random, Draft], Files | None]] = {
    "dims": change_dims, "data type": change_type, "tensor name": rename_tensor, "reshape": add_reshape, "format": set_format,
    "optional inputs": make_optional, "ragged inputs": allow_ragged, "more tensors": add_tensor, "fewer tensors": drop_tensor,
    "label file": label_output, "maps": change_map, "steps": change_step, "branch": branch_off, "inner tensor": show_inner, "nested": nest,
    "version folders": lay_out_versions, "files": lay_out_files, "code behind model.py": append_code, "answers of model.py": answer_otherwise, "spelling": spell,
    "dynamic batching": write_field("batching", BATCHERS), "two schedulers": write_field("batching"),
    "sequence controls": write_field("sequence", BATCHERS),
    "sequence states": write_field("state", BATCHERS), "instance group": write_field("group", "instance_group"),
    "rate limiter": write_field("limited", "instance_group"), "version policy": write_field("versions", "version_policy"),
    "warm-up": write_field("warmup", "model_warmup"), "response cache": write_field("cache", "response_cache"),
    "transactions": write_field("policy of transactions", "model_transaction_policy"), "parameters": write_field("parameter"),
    "optimization": write_field("optimization"), "default file": write_field("filename"), "metrics": write_field("metrics"),
    "agents": write_field("agents"), "backend": write_field("origin", "backend"), "batch tensors": write_field("ragged", "batch_input batch_output"),
    "rows": write_field("rows", "max_batch_size"), "rows of the ensemble": write_field("rows", "max_batch_size", True),
    "fields of an ensemble": write_field("forbidden", "", True), "unknown text": write_field("unknown"),
    **{kind: (call if code is CALLER else edit_model)(kind) for kind, (code, _) in EDITS.items()},
    "other syntax": write_in_other_syntax, "misplaced field": misplace, "copied block": copy_block, "model names": rename_model, "neighbour": add_neighbour,
    "second ensemble": add_ensemble, "newer version": add_version, "own modules": import_own, "inputs as outputs": swap_sides, "wiring": rewire,
    "GPUs": write_field("gpus", "instance_group"), "environment": write_field("environment"), "batch strategy": write_field("strategy file", "dynamic_batching"),
    "two features": write_field("two features", BATCHERS),
    "slip of the hand": slip,
}  # fmt: skip


FIRST = [change_dims, change_type, add_reshape, allow_ragged, make_optional, nest]


def mutate(chance: Random, draft: Draft) -> tuple[str, Files]:
    """Return the kind of a mutant of a draft, and its files. Every fifth has another change before that."""
    kind = chance.choice(sorted(KINDS))
    if chance.random() < 0.2:
        chance.choice(FIRST)(chance, draft)
    return kind, KINDS[kind](chance, draft) or draft.texts()


def shown(before: Files, after: Files) -> str:
    """Return what differs, for people."""
    parts = []
    for path in sorted(before.keys() | after.keys()):
        one, two = before.get(path), after.get(path)
        if one is None or two is None:
            parts.append(f"{'+' if one is None else '-'}{path}")
        elif one != two:
            lines = (
                one.decode(errors="replace").splitlines(),
                two.decode(errors="replace").splitlines(),
            )
            changed = [f"-{line.strip()}" for line in lines[0] if line not in lines[1]] + [
                f"+{line.strip()}" for line in lines[1] if line not in lines[0]
            ]
            parts.append(f"{path}: {json.dumps(changed[:12], ensure_ascii=False)}")
    return "; ".join(parts)[:600]
