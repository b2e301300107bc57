# Yours: written once, never touched by `make update`.
"""The models of PP-OCR as ONNX files, which the package rapidocr-onnxruntime carries (Apache License 2.0)."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

# What the package requires, another OpenCV among it, is not installed.
PACKAGE = (
    "rapidocr-onnxruntime==1.4.4"
    " --hash=sha256:971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
)


def read_model(name: str) -> bytes:
    """Return an ONNX file of the package, which pip fetches, or finds in its cache."""
    with TemporaryDirectory() as folder:
        requirement = Path(folder, "requirement.txt")
        requirement.write_text(PACKAGE)
        command = [sys.executable, "-m", "pip", "download", "--quiet"]
        options = ["--disable-pip-version-check", "--no-deps", "--dest", folder]
        if subprocess.run([*command, *options, "--requirement", str(requirement)]).returncode:
            raise SystemExit(
                "models/rapidocr.py: pip can't fetch the models; it needs a package index"
            )
        [wheel] = Path(folder).glob("*.whl")
        with ZipFile(wheel) as files:
            return files.read(f"rapidocr_onnxruntime/models/{name}.onnx")
