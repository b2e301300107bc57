"""tests/evals/: each check fails on the project that an assistant gets, and passes on a right solution."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import Generate, Project, run, succeed

from tests.evals.run import HERE, TASKS, TOKENIZE, check, list_wrong_edits, prepare

MARGIN = '''import numpy as np
from numpy.typing import NDArray

from step_types import MarginOutputs
from triton_step import Context


class Step:
    """LOGITS FP32[batch, 10] -> MARGIN FP32[batch, 1]."""

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads."""

    def __call__(self, LOGITS: NDArray[np.float32]) -> MarginOutputs:
        ascending = np.sort(LOGITS, axis=1)
        return {"MARGIN": ascending[:, -1:] - ascending[:, -2:-1]}
'''
ROUTES = """from fastapi import APIRouter, UploadFile

from triton_ensemble.gateway import Pipeline

router = APIRouter()


@router.post("/sum")
async def total(files: list[UploadFile], pipeline: Pipeline) -> dict[str, list[int] | int]:
    outputs = await pipeline(IMAGE=[[await file.read()] for file in files])
    digits = [int(label) for label in outputs["LABEL"][:, 0]]
    return {"digits": digits, "sum": sum(digits)}
"""
OPENVINO = [
    ("import onnx\n", "import onnx\nimport openvino\n"),
    ("build(path: Path)", "build(target: Path)"),
    (
        "    model = convert_sklearn(",
        '    path = target.with_suffix(".onnx")\n    model = convert_sklearn(',
    ),
    (
        '    extract_model(path, path, ["pixels"], ["logits"])\n',
        """    extract_model(path, path, ["pixels"], ["logits"])
    converted = openvino.convert_model(path)
    converted.inputs[0].set_names({"pixels"})
    openvino.save_model(converted, target)
    path.unlink()
""",
    ),
]


def replace(project: Project, path: str, *edits: tuple[str, str]) -> None:
    """Replace texts of a file, each of which it must have."""
    content = (project / path).read_text()
    for old, new in edits:
        assert old in content, f"{path} lacks {old!r}"
        content = content.replace(old, new)
    (project / path).write_text(content)


def add_step(project: Project) -> None:
    step = "\n  - name: margin\n    backend: python\n    inputs: [LOGITS]\n    outputs: [MARGIN]\n"
    replace(
        project,
        "pipeline.yml",
        ("\n  SCORE: ", "\n  MARGIN: FP32[1]\n  SCORE: "),
        ("outputs: [LABEL, SCORE]\n", "outputs: [LABEL, SCORE]" + step),
    )
    (project / "steps/margin.py").write_text(MARGIN)


def fix_step(project: Project) -> None:
    patch = HERE / "contract-test.patch"
    succeed(run("patch", "--strip=1", "--reverse", f"--input={patch}", cwd=project.path))


def change_backend(project: Project) -> None:
    replace(project, "pipeline.yml", ("backend: onnxruntime", "backend: openvino"))
    replace(project, "models/classify.py", *OPENVINO)


def add_route(project: Project) -> None:
    (project / "gateway/routes.py").write_text(ROUTES)


def name_cause(project: Project) -> None:
    lines = (project / TOKENIZE).read_text().splitlines()
    [line] = [n for n, line in enumerate(lines, 1) if line.startswith("PATH")]
    (project / "ANSWER.txt").write_text(f"{TOKENIZE}:{line}\nIts pattern backtracks.\n")


SOLUTIONS = [add_step, fix_step, change_backend, add_route, name_cause]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "solve"), [*zip(TASKS, SOLUTIONS, strict=True)], ids=TASKS)
def test_a_check_fails_before_the_task_is_solved_and_passes_afterwards(
    task: str, solve: Callable[[Project], None], generate: Generate
) -> None:
    project = generate.complete(**TASKS[task][0])
    prepare(task, project)
    before = check(task, project)
    assert (before["solved"], before["wrong_edits"]) == (False, 0)
    solve(project)
    assert check(task, project) == {"task": task, "solved": True, "wrong_edits": 0, "why": ""}


def test_changes_of_managed_files_are_counted_unless_pipeline_yml_makes_them(
    generate: Generate,
) -> None:
    project = generate(**TASKS["add-step"][0])
    prepare("add-step", project)
    add_step(project)
    succeed(project.make("apply"))
    assert list_wrong_edits(project) == []
    config = "model_repository/classify/config.pbtxt"
    replace(project, config, ("name: ", "# mine\nname: "))
    (project / "tests/test_live.py").unlink()
    assert list_wrong_edits(project) == [config, "tests/test_live.py"]


def test_an_assistant_without_agents_md_does_not_find_it_in_git_either(generate: Generate) -> None:
    project = generate(**TASKS["slow"][0])
    prepare("slow", project, agents=False)
    names = succeed(run("git", "log", "--all", "--name-only", "--format=", cwd=project.path))
    assert "README.md" in names
    assert "AGENTS.md" not in names
    assert project.changes() == ""
