"""What `make update` says after a change of mind: a table of files, and what is the owner's to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import takewhile

import pytest
from support import Project, succeed
from update_support import (  # noqa: F401
    ONE,
    THREE,
    TWO,
    answers,
    change,
    copy,
    make_update,
    origin,
)

Copy = Callable[..., Project]


def rows(project: Project) -> list[str]:
    """Run `make update`; return its table, without blanks in front, where lines that go on are one."""
    printed = succeed(make_update(project))
    first, *rest = printed.splitlines()
    assert "files changed" in first
    lines = [*takewhile(bool, rest)]  # notes follow
    assert [line for line in lines if len(line) > 80] == []
    table: list[str] = []
    for line in lines:
        if line.startswith("   "):
            table[-1] += f" {line.strip()}"
        else:
            table.append(line.strip())
    project.commit()
    return table


def replaced(project: Project, name: str, *pairs: tuple[str, str]) -> None:
    text = (project / name).read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (project / name).write_text(text)


@pytest.mark.slow
def test_a_step_that_its_owner_moves_is_neither_new_nor_left(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    succeed(project.run("git", "mv", "steps/one.py", "steps/first.py"))
    change(project, **answers({**ONE, "name": "first"}, TWO))
    process = make_update(project)
    moved, by_owner, *changed = succeed(process).splitlines()[1:]
    assert moved == "  moved    model_repository/one/ -> model_repository/first/: 3 files"
    assert by_owner == "  moved    steps/one.py -> steps/first.py: by you; OneOutputs in it is"
    assert changed[0] == "           FirstOutputs now"
    assert {line.split()[0] for line in changed[1:]} == {"changed"}
    assert "git mv" not in process.stderr


@pytest.mark.slow
def test_a_new_step_is_named_as_a_stub(copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    change(project, **answers(ONE, TWO, THREE))
    table = rows(project)
    assert table[:2] == [
        "new      model_repository/three/: 3 files",
        "new      steps/three.py: a stub, until you fill it in",
    ]


@pytest.mark.slow
def test_changes_of_mind_about_the_example(copy: Copy) -> None:
    """Real names of a model's tensors change two configs; what others import is called nothing else."""
    project = copy()
    names = (("pixels: PIXELS", "float_input: PIXELS"), ("logits: LOGITS", "probabilities: LOGITS"))
    replaced(project, "pipeline.yml", *names)
    project.commit()
    assert rows(project) == [
        "changed  .copier-answers.yml",
        "changed  model_repository/classify/config.pbtxt",
        "changed  model_repository/image_classification/config.pbtxt",
    ]
    (project / "models/network.py").write_text("from models.classify import build as build\n")
    replaced(project, "pipeline.yml", ("name: classify", "name: network"))
    project.commit()
    assert "moved    model_repository/classify/ -> model_repository/network/" in (
        table := rows(project)
    )
    assert not [row for row in table if row.startswith("kept")]
    text, _, _ = (project / "pipeline.yml").read_text().partition("  - name: label")
    lines = [line for line in text.splitlines(keepends=True) if line[2:7] not in ("LABEL", "SCORE")]
    (project / "pipeline.yml").write_text("".join(lines))
    project.commit()
    assert rows(project)[-1] == (
        "kept     steps/label.py: yours, but no step uses it now; tests/test_reference.py, "
        "tests/test_steps.py import it, and LabelOutputs in it is gone"
    )
    said = project.run(sys.executable, "-m", "pytest", "tests/test_steps.py").stdout
    assert (
        "steps/label.py is of no step in pipeline.yml, and LabelOutputs of src/step_types.py is gone; "
        "remove the file, and what imports it\n"
    ) in said


@pytest.mark.slow
def test_other_sizes_leave_a_steps_own_folder_with_it(copy: Copy) -> None:
    """The tokenizer is that of the step, also where its model is no longer the example's."""
    project = copy(starting_pipeline="text-embedding")
    replaced(project, "pipeline.yml", ("384", "768"))
    project.commit()
    assert not [row for row in rows(project) if "steps/tokenize" in row]
