# Yours: written once, never touched by `make update`.
"""The models of PP-OCR as ONNX files, which the package rapidocr-onnxruntime carries (Apache License 2.0)."""

from models.package import read_files

PACKAGE = (
    "rapidocr-onnxruntime==1.4.4"
    " --hash=sha256:971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
)


def read_model(name: str) -> bytes:
    """Return an ONNX file of the package."""
    [model] = read_files(PACKAGE, f"rapidocr_onnxruntime/models/{name}.onnx")
    return model
