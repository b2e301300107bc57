# Yours: written once, never touched by `make update`.
"""How the model file of step detect is made: PP-OCRv4's detector of text, as it is."""

from pathlib import Path

from models.rapidocr import read_model


def build(path: Path) -> None:
    """Write an ONNX file: x FP32[batch, 3, height, width] -> sigmoid_0.tmp_0 FP32[batch, 1, height, width]."""
    path.write_bytes(read_model("ch_PP-OCRv4_det_infer"))
