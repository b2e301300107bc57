"""Mutants of model repositories, drawn from a grammar of Triton's documented fields: written without a look at the check."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

from served_shapes import MODEL, Config, Draft, Files
from tritonclient.grpc.model_config_pb2 import DataType  # type: ignore[import-untyped]

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


CODE = r"""def execute->def Execute|def execute->async def execute|def execute->def _execute|class TritonPythonModel->class TritonModel
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
def initialize(self, args):->def __init__(self):\n        pass\n\n    def initialize(self, args):|import json\n->import json\nreturn\n|import json\n->import json\nexit = 1\n|import json\n->import json\nraise SystemExit\n|import json\n->import json\n1 / 0\n"""
EDITS = [
    tuple(edit.encode().decode("unicode_escape", "surrogatepass").split("->", 1))
    for edit in re.split(r"[|\n]", CODE)
]
ADDED = [
    "\nTritonPythonModel = None\n", "\nclass TritonPythonModel:\n    pass\n", "\ndel TritonPythonModel\n", "\n\x00", "\n# ä\n", "\n}",
    "\nclass Other(TritonPythonModel):\n    pass\n", "\nclass TritonPythonModel(TritonPythonModel):\n    pass\n", "\nTritonPythonModel.execute = None\n",
    "\nTritonPythonModel = TritonPythonModel\n", "\nif __name__ == '__main__':\n    exit(1)\n", "\nmatch = 1\n", "\nawait x\n", "\n'''", "\ntype X = int\n",
    "\ndef f[T](x: T): ...\n", "\nprint(f'{'a'}')\n", "\ntry:\n    pass\nexcept* ValueError:\n    pass\n", "\nx = 1_\n", "\ndef f(a, a): ...\n", "\nbreak\n",
]  # fmt: skip
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


def edit_code(chance: Random, draft: Draft) -> Files:
    """Change the form of a model.py: its class, its methods, its syntax."""
    files = draft.texts()
    path = f"{chance.choice(models(draft))}/1/model.py"
    text = files[path].decode()
    if chance.random() < 0.35:
        text += chance.choice(ADDED)
    else:
        old, new = chance.choice(EDITS)
        text = text.replace(old, new) if len(old) < 5 else text.replace(old, new, 1)
    files[path] = text.encode(errors="surrogatepass")
    return files


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


KINDS: dict[str, Callable[[Random, Draft], Files | None]] = {
    "dims": change_dims, "data type": change_type, "tensor name": rename_tensor, "reshape": add_reshape, "format": set_format,
    "optional inputs": make_optional, "ragged inputs": allow_ragged, "more tensors": add_tensor, "fewer tensors": drop_tensor,
    "label file": label_output, "maps": change_map, "steps": change_step, "branch": branch_off, "inner tensor": show_inner, "nested": nest,
    "version folders": lay_out_versions, "files": lay_out_files, "form of model.py": edit_code, "answers of model.py": answer_otherwise, "spelling": spell,
    "dynamic batching": write_field("batching", "dynamic_batching sequence_batching"), "two schedulers": write_field("batching"),
    "sequence controls": write_field("sequence", "dynamic_batching sequence_batching"),
    "sequence states": write_field("state", "dynamic_batching sequence_batching"), "instance group": write_field("group", "instance_group"),
    "rate limiter": write_field("limited", "instance_group"), "version policy": write_field("versions", "version_policy"),
    "warm-up": write_field("warmup", "model_warmup"), "response cache": write_field("cache", "response_cache"),
    "transactions": write_field("policy of transactions", "model_transaction_policy"), "parameters": write_field("parameter"),
    "optimization": write_field("optimization"), "default file": write_field("filename"), "metrics": write_field("metrics"),
    "agents": write_field("agents"), "backend": write_field("origin", "backend"), "batch tensors": write_field("ragged", "batch_input batch_output"),
    "rows": write_field("rows", "max_batch_size"), "rows of the ensemble": write_field("rows", "max_batch_size", True),
    "fields of an ensemble": write_field("forbidden", "", True), "unknown text": write_field("unknown"),
}  # fmt: skip


FIRST = [change_dims, change_type, add_reshape, allow_ragged, make_optional, nest]


def mutate(chance: Random, draft: Draft) -> tuple[str, Files]:
    """Return the kind of a mutant of a draft, and its files; every fifth has another change before that."""
    kind = chance.choice(sorted(KINDS))
    if chance.random() < 0.2:
        chance.choice(FIRST)(chance, draft)
    return kind, KINDS[kind](chance, draft) or draft.texts()
