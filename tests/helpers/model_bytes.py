"""The smallest model file of each format that the check takes for whole."""

from __future__ import annotations

import io
import zipfile


def zipped(*names: str) -> bytes:
    """Return a zip archive of empty files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return content.getvalue()


SMALLEST = {
    "model.onnx": b"\x08\x08:\x00",
    "model.pt": zipped("m/data.pkl", "m/constants.pkl"),
    "model.xml": b"<net></net>",
    "model.plan": b"ftrt",
}
ONNX_FILE = SMALLEST["model.onnx"].decode()
