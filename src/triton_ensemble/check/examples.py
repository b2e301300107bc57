"""Examples of rules: small model repositories, and the configs that many of them start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

# By path: a text, the target of a link, or None for a folder. A name without a dot stands for the
# config of the model of that name.
Files = Mapping[str, str | Path | None]
Example = str | Files  # a text is the config of the model `m`

MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for request in requests]
"""
DECOUPLED_MODEL = f"""\
{MODEL[: MODEL.index("        return")]}\
        for request in requests:
            request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
A = """\
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [4] }
output { name: "Y" data_type: TYPE_FP32 dims: [4] }
"""
TWO_INPUTS = A.replace("output", 'input { name: "X2" data_type: TYPE_FP32 dims: [4] }\noutput')
BATCHES = f"max_batch_size: 4\n{A}"


def _tensor(side: str, name: str) -> str:
    """Return the lines of an input or an output."""
    return f'{side} {{ name: "{name}" data_type: TYPE_FP32 dims: [4] }}\n'


def step_text(model: str, inputs: str, outputs: str) -> str:
    """Return the lines of a step.

    Its maps are written `MODEL'S=ENSEMBLE'S`, with spaces between.
    """
    maps = (("input", inputs), ("output", outputs))
    lines = [f'    model_name: "{model}"', "    model_version: -1"]
    for side, pairs in maps:
        for own, name in (pair.split("=") for pair in pairs.split()):
            lines.append(f'    {side}_map {{ key: "{own}" value: "{name}" }}')
    return "\n".join(["  step {", *lines, "  }\n"])


def ensemble_text(*steps: str, inputs: str = "X", outputs: str = "Y") -> str:
    """Return the config of an ensemble, whose inputs and outputs are names with spaces between."""
    tensors = [_tensor("input", name) for name in inputs.split()]
    tensors += [_tensor("output", name) for name in outputs.split()]
    lines = ["".join(tensors), "ensemble_scheduling {\n", *steps, "}\n"]
    return 'platform: "ensemble"\n' + "".join(lines)


STEP = step_text("a", "X=X", "Y=Y")
E = ensemble_text(STEP)
ENSEMBLE: Files = {"e": E, "a": A}


def replace_in(files: Files, name: str, before: str, after: str) -> Files:
    """Return the files with one text replaced in one file."""
    return {**files, name: str(files[name]).replace(before, after)}


def dedent_files(example: Example) -> Files:
    """Return an example's files, without the indentation of the text around."""
    files = {"m": example} if isinstance(example, str) else example
    return {
        path: dedent(content).lstrip("\n") if isinstance(content, str) else content
        for path, content in files.items()
    }


def find_config_path(name: str) -> str:
    """Return the path of an example's file. The name of a model means its config."""
    return name if "/" in name or "." in name else f"{name}/config.pbtxt"


def write(example: Example, folder: Path) -> Path:
    """Write an example into a new folder, and return the model repository.

    Each model has a version 1 and, if its backend is Python, a model.py.
    """
    files = dedent_files(example)
    repository = folder / "model_repository"
    inside = any(path.startswith(repository.name) for path in files)
    for path, content in files.items():
        _write((folder if inside else repository) / find_config_path(path), content)
    for config in repository.glob("*/config.pbtxt"):
        (config.parent / "1").mkdir(exist_ok=True)
        code = config.parent / "1/model.py"
        text = str(config.read_bytes())
        if '"python"' in text and not code.exists():
            code.write_text(model_code(text))
    return repository


def model_code(config: str) -> str:
    """Return the code of a Python model with a config, which answers without tensors."""
    return DECOUPLED_MODEL if "decoupled: true" in config else MODEL


def _write(path: Path, content: str | Path | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        path.symlink_to(content)
    elif content is None:
        path.mkdir()
    else:
        path.write_text(content)
