"""Model repositories as people make them by hand: each is its files by path, and what to ask its server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

Files = dict[str, str | bytes]

IN = 'input { name: "IN" data_type: TYPE_FP32 dims: [4] }\n'
OUT = 'output { name: "OUT" data_type: TYPE_FP32 dims: [4] }\n'
PYTHON = f'backend: "python"\n{IN}{OUT}'
ONNX = f'backend: "onnxruntime"\n{IN}{OUT}'


def step(model: str, read: str = "IN", written: str = "OUT", version: int = -1) -> str:
    return (
        f'step {{ model_name: "{model}" model_version: {version}\n'
        f'  input_map {{ key: "IN" value: "{read}" }} output_map {{ key: "OUT" value: "{written}" }} }}\n'
    )


def ensemble(*steps: str, more: str = "", interface: str = IN + OUT) -> str:
    return f'platform: "ensemble"\n{interface}{more}ensemble_scheduling {{\n{"".join(steps)}}}\n'


def code(expression: str, imports: str = "", first: str = "") -> str:
    """Return a model.py that answers an expression of `x`, the array of IN."""
    return f"""\
import json, os
from pathlib import Path
import numpy as np
import triton_python_backend_utils as pb_utils
{imports}

class TritonPythonModel:
    def initialize( self, args ):
        self.model = Path(args["model_repository"])
        self.version = args["model_version"]
        {first}

    def answer(self, x): return {expression}

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            out = pb_utils.Tensor("OUT", np.asarray(self.answer(x), dtype=np.float32))
            answers.append(pb_utils.InferenceResponse([out]))
        return answers
"""


def calling(model: str) -> str:
    """Return a model.py that answers what another model answers, plus 1."""
    return code(
        "self.ask(x) + 1",
        imports=f'''
def ask(self, x):
    request = pb_utils.InferenceRequest(
        model_name="{model}", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", x)])
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
''',
        first="self.ask = lambda x: ask(self, x)",
    )


def onnx_model(factor: float) -> bytes:
    """Return a model file that multiplies by a number."""
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("IN", "OUT")]
    constant = helper.make_tensor("K", TensorProto.FLOAT, [1], [factor])
    node = helper.make_node("Mul", ["IN", "K"], ["OUT"])
    graph = helper.make_graph([node], "g", tensors[:1], tensors[1:], [constant])
    opsets = [helper.make_opsetid("", 17)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made


@dataclass(frozen=True)
class Ask:
    """A request of IN, and the version and count of classes that it asks for."""

    value: list[float] = field(default_factory=lambda: [0.5, -1.0, 3.0, 2.0])
    model: str = "e"
    version: str = ""
    classes: int = 0


@dataclass(frozen=True)
class HandMade:
    """A repository around the ensemble `e`, and requests to it."""

    files: Files
    asks: tuple[Ask, ...] = (Ask(), Ask([1, 2, 3, 4]))
    from_git: bool = False  # what is adopted has no empty folders

    def write(self, folder: Path) -> Path:
        """Write the files. A path that ends with / is an empty folder."""
        for name, content in self.files.items():
            path = folder / name
            if name.endswith("/"):
                path.mkdir(parents=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder


CHAIN = ensemble(step("a", written="T"), step("b", read="T"))
LABELLED = OUT.replace("dims: [4]", 'dims: [4] label_filename: "names.txt"')


def chain(a: Files, b: Files, e: str = CHAIN) -> Files:
    """Return a repository of two models, by their files, in which a config is `config`."""
    files: Files = {"e/config.pbtxt": e, "e/1/": b""}
    for name, own in (("a", a), ("b", b)):
        for path, content in own.items():
            files[f"{name}/{'config.pbtxt' if path == 'config' else path}"] = content
    return files


PLAIN: Files = {"config": PYTHON, "1/model.py": code("x + 1")}
WARM = (
    'model_warmup { name: "w" batch_size: 1\n'
    '  inputs { key: "IN" value { data_type: TYPE_FP32 dims: [4] input_data_file: "start" } } }\n'
)

DECOUPLED = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x * 10)])
            final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            request.get_response_sender().send(response, flags=final)
"""


def wired_by_code(
    caller: str, called: str = code("x * 10"), /, more: str = "", **others: str
) -> Files:
    """Return a repository whose Python model `e` calls `deep`. `others` are configs of models that need no code."""
    configs = {"e": PYTHON + more, "deep": PYTHON, **others}
    files: Files = {f"{name}/config.pbtxt": config for name, config in configs.items()}
    return {**files, "e/1/model.py": caller, "deep/1/model.py": called}


CALLING = calling("deep")
SUM = """
def add(self, x):
    self.sum = x if self.request.flags() & 1 else self.sum + x
    return self.sum
"""
TARGET = 'parameters { key: "target" value { string_value: "deep" } }\n'
# Repositories whose pipeline is a Python model, and no ensemble.
WIRED_BY_CODE: dict[str, Files] = {
    "a literal name": wired_by_code(CALLING),
    "a name in a parameter": wired_by_code(
        CALLING.replace('"deep"', "self.target").replace(
            "self.ask =",
            'self.target = json.loads(args["model_config"])["parameters"]["target"]["string_value"]\n'
            "        self.ask =",
        ),
        more=TARGET,
    ),
    "a name in a file": {
        **wired_by_code(
            CALLING.replace(
                '"deep"', 'json.loads((self.model / "names.json").read_text())["target"]'
            )
        ),
        "e/names.json": '{"target": "deep"}',
    },
    "async": wired_by_code(
        CALLING.replace("def ask", "async def ask")
        .replace("request.exec()", "await request.async_exec()")
        .replace("return self.ask", "return await self.ask")
        .replace("def answer", "async def answer")
        .replace("asarray(self", "asarray(await self")
        .replace("def execute", "async def execute")
    ),
    "a decoupled model": wired_by_code(
        CALLING.replace(
            "response = request.exec()",
            "response, = (r for r in request.exec(decoupled=True) if r.output_tensors())",
        ),
        DECOUPLED,
        deep=f"{PYTHON}model_transaction_policy {{ decoupled: true }}\n",
    ),
    "a sequence of three calls": wired_by_code(
        CALLING.replace("ask(self, x)\n", "[ask(self, x, flags) for flags in (1, 0, 2)][-1]\n")
        .replace("def ask(self, x)", "def ask(self, x, flags)")
        .replace('"deep", ', '"deep", correlation_id=7, flags=flags, '),
        code("add(self, x)", imports=SUM)
        .replace("for request in", "for self.request in")
        .replace("(request,", "(self.request,"),
        deep=f"{PYTHON}sequence_batching {{ direct {{ }} }}\n",
    ),
    "an ensemble": {
        **wired_by_code(calling("inner"), inner=ensemble(step("deep"))),
        "inner/1/": b"",
    },
}

REPOSITORIES: dict[str, HandMade] = {
    "several versions": HandMade(
        chain(
            {
                "config": PYTHON + "version_policy { specific { versions: [1, 3] } }",
                "1/model.py": code("x + 1"),
                "2/model.py": code("x + 2"),
                "3/model.py": code("x + 3"),
            },
            {
                "config": PYTHON + "version_policy { all { } }",
                "2/model.py": code("x * 2"),
                "5/model.py": code("x * 5"),
            },
            ensemble(step("a", written="T", version=1), step("b", read="T")),
        ),
        (Ask(), Ask(model="a"), Ask(model="a", version="1"), Ask(model="b", version="2")),
    ),
    "version 3 alone": HandMade(
        {
            "e/config.pbtxt": ensemble(step("a", written="T"), step("b", read="T")),
            "e/7/": b"",
            "a/config.pbtxt": PYTHON,
            "a/3/model.py": code("x * int(self.version)"),
            "b/config.pbtxt": ONNX,
            "b/4/model.onnx": onnx_model(2.5),
        },
        (Ask(), Ask(version="7"), Ask(model="a", version="3"), Ask(model="b", version="4")),
    ),
    "BLS": HandMade(
        {
            **chain({"config": PYTHON, "1/model.py": calling("deep")}, PLAIN),
            "deep/config.pbtxt": PYTHON,
            "deep/1/model.py": calling("deeper"),
            "deeper/config.pbtxt": ONNX,
            "deeper/2/model.onnx": onnx_model(10),
        },
        (Ask(), Ask(model="deep"), Ask(model="deeper")),
    ),
    "BLS to an ensemble": HandMade(
        {
            **chain({"config": PYTHON, "1/model.py": calling("inner")}, PLAIN),
            "inner/config.pbtxt": ensemble(step("c")),
            "inner/1/": b"",
            "c/config.pbtxt": PYTHON,
            "c/1/model.py": code("x * 100"),
        },
        (Ask(), Ask(model="inner")),
    ),
    "warmup": HandMade(
        chain(
            {
                "config": PYTHON + WARM,
                "warmup/start": np.arange(4, dtype=np.float32).tobytes(),
                "1/model.py": code("x + 1"),
            },
            PLAIN,
        )
    ),
    "labels": HandMade(
        chain(
            PLAIN,
            {
                "config": PYTHON.replace(OUT, LABELLED),
                "names.txt": "ant\nbee\ncat\ndog\n",
                "1/model.py": code("-x"),
            },
        ),
        (Ask(), Ask(classes=2), Ask(model="b", classes=4)),
    ),
    "labels of the ensemble": HandMade(
        {
            **chain(PLAIN, PLAIN, CHAIN.replace(OUT, LABELLED)),
            "e/names.txt": "one\ntwo\nthree\nfour\n",
        },
        (Ask(classes=3),),
    ),
    "own model.py": HandMade(
        chain(
            {
                "config": PYTHON,
                "settings.json": json.dumps({"offset": 40}),
                "1/model.py": code(
                    'far(x) + self.offset + json.loads((self.model / "settings.json").read_text())["offset"]',
                    imports="from build.steps import far",
                    first='self.offset = float((Path(__file__).parent / "data/offset.txt").read_text())',
                ),
                "1/build/__init__.py": "",
                "1/build/steps.py": "def far( x ): return x+x\n",
                "1/data/offset.txt": "0.25",
                "1/__pycache__/model.cpython-311.pyc": b"old",
            },
            {
                "config": PYTHON + 'default_model_filename: "other.py"',
                "1/other.py": code("x - 1"),
                "1/model.py": code("x - 1000"),
                ".gitignore": "*.py\n",
            },
        )
    ),
    "comments": HandMade(
        chain(
            {
                "config": "# 预处理模型\n".encode("gbk")
                + PYTHON.replace("dims: [4]", "dims: [4] # 4 \N{DEGREE SIGN}\n").encode("latin-1"),
                "1/model.py": code("x + 1"),
            },
            {"config": f"# Of the team.\n{PYTHON}", "1/model.py": code("x * 2")},
        )
    ),
    "nested": HandMade(
        {
            "e/config.pbtxt": ensemble(step("inner", written="T"), step("d", read="T")),
            "e/1/": b"",
            "inner/config.pbtxt": ensemble(step("a", written="T"), step("b", read="T")),
            "inner/2/": b"",
            "a/config.pbtxt": PYTHON,
            "a/1/model.py": code("x + 1"),
            "b/config.pbtxt": PYTHON,
            "b/1/model.py": calling("c"),
            "c/config.pbtxt": PYTHON,
            "c/1/model.py": code("x * 3"),
            "d/config.pbtxt": PYTHON,
            "d/2/model.py": code("x - 1"),
        },
        (Ask(), Ask(model="inner"), Ask(model="inner", version="2"), Ask(model="c")),
    ),
    "one model in two ensembles": HandMade(
        {
            "e/config.pbtxt": ensemble(step("inner", written="T"), step("a", read="T")),
            "e/1/": b"",
            "inner/config.pbtxt": ensemble(step("a")),
            "inner/1/": b"",
            "a/config.pbtxt": PYTHON,
            "a/1/model.py": code("x + 1"),
        },
        (Ask(), Ask(model="inner")),
    ),
    "environment": HandMade(
        chain(
            {
                "config": PYTHON
                + 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/1/env" } }',
                "1/env/bin/activate": "export FACTOR=7\n",
                "1/model.py": code('x * float(os.environ["FACTOR"])'),
            },
            PLAIN,
        )
    ),
    "as git has it": HandMade(
        chain(
            PLAIN,
            {
                "config": ONNX + "version_policy { specific { versions: [2] } }",
                "2/model.onnx": onnx_model(3),
            },
        ),
        from_git=True,
    ),
    "an output of complete requests": HandMade(
        chain(
            PLAIN,
            PLAIN,
            CHAIN.replace("dims: [4]", "dims: [4] optional: true", 1),
        )
    ),
}


def answer(client: Any, ask: Ask) -> NDArray[Any]:
    """Return the array of OUT that a server answers."""
    from tritonclient import http  # type: ignore[import-untyped]

    value = np.array(ask.value, dtype=np.float32)
    tensor = http.InferInput("IN", list(value.shape), "FP32")
    tensor.set_data_from_numpy(value)
    output = http.InferRequestedOutput("OUT", class_count=ask.classes)
    result = client.infer(ask.model, [tensor], model_version=ask.version, outputs=[output])
    array: NDArray[Any] = result.as_numpy("OUT")
    return array
