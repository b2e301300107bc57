# Yours: written once, never touched by `make update`.
"""How the model file of step orient is made: PP-OCR's classifier of lines that are upside down, as it is."""

from pathlib import Path

from models.rapidocr import read_model


def build(path: Path) -> None:
    """Write an ONNX file: x FP32[batch, 3, 48, 192] -> save_infer_model/scale_0.tmp_1 FP32[batch, 2]."""
    path.write_bytes(read_model("ch_ppocr_mobile_v2.0_cls_infer"))
