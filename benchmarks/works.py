"""The pipelines that are measured, and what they are asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import copier
import numpy as np
import yaml
from PIL import Image

HERE = Path(__file__).parent
EXAMPLES = {  # works of which the template has the code
    "digits": HERE.parent / "examples" / "image-classification",
    "texts": HERE.parent / "examples" / "text-embedding",
}
WORKS = ["digits", "photo", "texts"]
TEXT = "The food was great, but we waited for an hour."
CORES = len(os.sched_getaffinity(0))
Answers = dict[str, Any]

SEPARATE = {"fuse": False}
FUSED = {"fuse": True}
NO_DELAY = {"batching": {"max_queue_delay_us": 0}}


def pipeline(work: str, *instances: int, ensemble: bool = True, **fields: Any) -> Answers:
    """The three steps, with so many instances each; `fields` are those of each step."""
    folder = EXAMPLES.get(work, HERE / work)
    given = yaml.safe_load((folder / "pipeline.yml").read_text())
    steps = zip(given["steps"], instances, strict=True)
    return {
        "starting_pipeline": EXAMPLES[work].name if work in EXAMPLES else "my-own",
        "project_name": "served",
        "tensors": given["tensors"],
        "steps": [{**step, "instances": count, **fields} for step, count in steps],
        "ensemble": {} if ensemble else False,
    }


def model_file(answers: Answers) -> str:
    first, model, last = (step["name"] for step in answers["steps"])
    if answers["ensemble"] is False:
        return f"served/1/models/{model}/model.onnx"
    if answers["steps"][1].get("fuse"):
        return f"{first}_to_{last}/1/models/{model}/model.onnx"
    return f"{model}/1/model.onnx"


def project(source: str, answers: Answers, folder: Path) -> Path:
    """A generated project with the code of its steps, its repository complete."""
    copier.run_copy(source, folder, data=answers, defaults=True, quiet=True)
    if answers["starting_pipeline"] == "my-own":
        for code in (HERE / "photo").glob("*.py"):
            shutil.copy(code, folder / ("models" if code.stem == "classify" else "steps"))
    for made in sorted(folder.parent.glob("*/model_repository/*/1/**/model.onnx"))[:1]:
        own = folder / "model_repository" / model_file(answers)
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, own)
    command = [sys.executable, "-m", "triton_ensemble", "repository"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def jpeg(answers: Answers) -> bytes:
    """Return a handwritten digit, or 224 x 224 pixels that are as compressible as a photograph."""
    if answers["starting_pipeline"] != "my-own":
        return (EXAMPLES["digits"] / "samples" / "digit-7.jpg").read_bytes()
    pixels = np.random.default_rng(0).integers(0, 255, (28, 28, 3), np.uint8)
    file = BytesIO()
    Image.fromarray(pixels).resize((224, 224)).save(file, "JPEG", quality=85)
    return file.getvalue()
