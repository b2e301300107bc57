"""Bad answers: one line that says where, what and what to write instead. Nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from answers_support import GOOD
from support import COPIER, explain_undefined, run, step


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--data", "max_batch_size=-1"], "max_batch_size is -1; write a whole number, 0 or more"),
        (
            ["--data", "steps=[a: {"],
            "steps: is not YAML; check its brackets, quotes and indentation",
        ),
        (["--data", "stepz=[]"], "stepz: is not a question; did you mean steps?"),
        (["--data-file", "pipeline.yml"], 'step a: backend is "onnx"; did you mean onnxruntime?'),
    ],
)
def test_the_command_prints_one_line(
    template: Path, tmp_path: Path, options: list[str], line: str
) -> None:
    answers = GOOD | {"steps": [step("a", ["A"], ["B"], backend="onnx")]}
    (tmp_path / "pipeline.yml").write_text(yaml.safe_dump(answers))
    command = run(
        str(COPIER), "copy", "--defaults", *options, str(template), "p", cwd=tmp_path, NO_COLOR="1"
    )
    assert (command.returncode, command.stdout) == (1, "")
    assert command.stderr.splitlines() == [explain_undefined(line)]
    assert not (tmp_path / "p").exists()
