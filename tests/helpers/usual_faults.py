"""Mutants with the faults that users make, drawn from Triton's documentation alone: written without a look at the check."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from random import Random

import fresh_mutants as fresh
from fresh_mutants import any_step, models, write_field
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]
from mutants import moved
from served_shapes import MODEL, Draft, Files
from yaml import safe_dump

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
fresh.GRAMMAR |= {
    "gpus": ["instance_group { kind: KIND_GPU }", "instance_group { count: 1 kind: KIND_GPU gpus: [ 0 ] }", "instance_group { gpus: [ 0, 1 ] }", "instance_group { kind: KIND_AUTO gpus: 0 }", "instance_group { kind: KIND_AUTO }"],
    "environment": ['parameters { key: "EXECUTION_ENV_PATH" value { string_value: "<place>" } }'],
    "place": ["$$TRITON_MODEL_DIRECTORY/env.tar.gz", "$$TRITON_MODEL_DIRECTORY/1", "$$TRITON_MODEL_DIRECTORY/config.pbtxt", "$$TRITON_MODEL_DIRECTORY", "$TRITON_MODEL_DIRECTORY/env", "env.tar.gz", "env", "~/env", ""],
    "strategy file": ['parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "<library>" } } <batching>'],
    "library": ["/nowhere/batchstrategy.so", "batchstrategy.so", "/usr/lib", "", "1/batchstrategy.so", "$$TRITON_MODEL_DIRECTORY/batchstrategy.so"],
    "two features": [f"<{one}> <{two}>" for one in ("batching", "sequence", "cache", "state") for two in ("policy of transactions", "warmup", "limited", "versions")],
}  # fmt: skip
MISPLACED = """max_batch_size: 4|dims: 4|data_type: TYPE_FP32|count: 1|kind: KIND_CPU|decoupled: true|preferred_batch_size: 4|enable: true|string_value: "x"|name: "x"|platform: "python"
optional: true|model_name: "x"|key: "x"|value: "x"|backend: "python"|reshape { shape: 4 }|label_filename: "l"|allow_ragged_batch: true|priority: 1|model_version: -1|format: FORMAT_NHWC"""
NAMES = [" x", ".v2", "-2", "\u00e9", ":1", "%20", "'", '"', "\\", "@2", "&", "+", ",", "x" * 200, "1", "_", "\t", "(1)"]  # fmt: skip


def edit_text(chance: Random, kind: str) -> bytes:
    code, edits = EDITS[kind]
    edit = chance.choice(re.split(r"[|\n]", edits)).replace(r"\n", "\n").replace(r"\t", "\t")
    old, new = edit.encode().split(b"->")
    return code.replace(old, new, 1)


def edit_model(kind: str) -> Callable[[Random, Draft], Files]:
    """Return what writes an edited model.py, of one model of a draft."""

    def edit(chance: Random, draft: Draft) -> Files:
        name = chance.choice(models(draft))
        if kind == "senders" and chance.random() < 0.6:
            draft.configs[name].model_transaction_policy.decoupled = True
        return draft.texts() | {f"{name}/1/model.py": edit_text(chance, kind)}

    return edit


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
    changes = [fresh.change_dims, fresh.change_type, fresh.change_map, fresh.change_step]
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
    **{kind: (call if code is CALLER else edit_model)(kind) for kind, (code, _) in EDITS.items()},
    "other syntax": write_in_other_syntax, "misplaced field": misplace, "copied block": copy_block, "model names": rename_model, "neighbour": add_neighbour,
    "second ensemble": add_ensemble, "newer version": add_version, "own modules": import_own, "inputs as outputs": swap_sides, "wiring": rewire,
    "GPUs": write_field("gpus", "instance_group"), "environment": write_field("environment"), "batch strategy": write_field("strategy file", "dynamic_batching"),
    "two features": write_field("two features", BATCHERS),
}  # fmt: skip


def mistake(chance: Random, draft: Draft) -> tuple[str, Files]:
    """Return the kind of a mutant of a draft, and its files."""
    kind = chance.choice(sorted(KINDS))
    return kind, KINDS[kind](chance, draft) or draft.texts()
