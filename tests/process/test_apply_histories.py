"""Random histories of edits, changes, kills and undos: `apply` loses no line of the owner, and none of its own."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from apply_support import START, read
from support import Generate, Project, Said, call, step
from update_support import managed

from triton_ensemble.change.project import ChangedProject, list_edited
from triton_ensemble.change.stage import PREFIX
from triton_ensemble.change.state import read_state
from triton_ensemble.cli import main

# More, and others: APPLIES=300 SEED=7 python -m pytest tests/process/test_apply_histories.py
HISTORIES = int(os.environ.get("APPLIES", "3"))
SEED = int(os.environ.get("SEED", "0"))
STEPS = 12
EXTRAS = ["gateway", "kubernetes", "kserve", "monitoring", "tir"]
UNRENDERED = ("vendor/triton_ensemble-", "vendor/requirements.txt")
Answers = dict[str, Any]


class History:
    """A project, the lines that its owner wrote, and its files as they were before the last change."""

    def __init__(self, project: Project, random: Random) -> None:
        self.project, self.random = project, random
        self.marks: list[str] = []
        self.before: dict[str, bytes] | None = None
        self.touched: set[str] = set()  # edited since the last change
        self.log: list[str] = []
        self.number = 0
        self.text = (project / "pipeline.yml").read_bytes()  # as it was applied
        self.owned: set[str] = {*read_state(project.path).made["owned"]}

    def go(self) -> None:
        """Do one thing, then check that all is there."""
        moves = [self.edit] * 4 + [self.change] * 4 + [self.undo, self.resolve, self.refuse]
        move = self.random.choice(moves)
        self.log.append(move.__name__)
        move()
        self.check()

    def files(self) -> list[str]:
        """Return the managed files that are texts."""
        made = ChangedProject(read_state(self.project.path))
        owned = {*made.made["owned"], ".copier-answers.yml"}
        paths = made.render_made().keys() - owned
        return sorted(path for path in paths if (self.project / path).is_file())

    def edit(self) -> None:
        """Insert a line, change one, or add something to its end, in one to three files."""
        likely = [path for path in self.files() if re.search("config|client|Makefile|README", path)]
        for _ in range(self.random.randint(1, 3)):
            path = self.random.choice([*self.files(), *likely * 3])
            lines = (self.project / path).read_text().splitlines(keepends=True)
            mark = f"mine-{len(self.marks)}-"
            at = self.random.randrange(len(lines) + 1)
            if at < len(lines) and self.random.random() < 0.4 and "mine-" not in lines[at]:
                lines[at] = f"{lines[at].rstrip()} # {mark}\n"
            else:
                if at and not lines[at - 1].endswith("\n"):
                    lines[at - 1] += "\n"
                lines.insert(at, f"# {mark}\n")
            (self.project / path).write_text("".join(lines))
            self.marks.append(mark)
            self.touched.add(path)
            self.log.append(f"  {mark} in {path}:{at}")

    def change(self) -> None:
        """Change answers, and apply them; before that, kill some that try it."""
        answers = deepcopy(read(self.project))
        for _ in range(self.random.randint(1, 3)):
            self.answer(answers)
        self.log.append(f"  {answers}")
        self.apply(yaml.safe_dump(answers, sort_keys=False).encode())

    def apply(self, text: bytes) -> None:
        """Apply a pipeline.yml."""
        before = managed(self.project)
        (self.project / "pipeline.yml").write_bytes(text)
        while self.random.random() < 0.25:
            self.kill("apply")
            self.check_marks()
        if not read_state(self.project.path).is_changed and not self.is_killed():
            self.text = text
            return
        said = call(self.project, "apply")
        assert said.status == 0, said
        if "is applied" in said.out:
            self.before, self.touched = before | {"pipeline.yml": self.text}, set()
        self.text = text

    def answer(self, answers: Answers) -> None:
        """Change one answer."""
        self.number += 1
        steps, tensors = answers["steps"], answers["tensors"]
        match self.random.choice(
            ["batch", "batch", "add", "remove", "rename", "backend", "extras", "ci", "gpus", "name"]
        ):
            case "batch":
                answers["max_batch_size"] = self.random.choice([1, 2, 4, 16])
            case "add":
                old, new = self.random.choice(list(tensors)), f"T{self.number}"
                tensors[new] = "FP32[4]"
                backend = self.random.choice(["python", "onnxruntime"])
                steps.append(step(f"s{self.number}", [old], [new], backend))
            case "remove":
                read_by = {name for each in steps for name in each["inputs"]}
                last = [each for each in steps if not {*each["outputs"]} & read_by]
                if len(steps) > 1 and last:
                    gone = self.random.choice(last)
                    steps.remove(gone)
                    [output] = gone["outputs"]
                    del tensors[output]
                    used = {n for each in steps for n in [*each["inputs"], *each["outputs"]]}
                    for name in tensors.keys() - used:
                        del tensors[name]
            case "rename":
                self.random.choice(steps)["name"] = f"n{self.number}"
            case "backend":
                chosen = self.random.choice(steps)
                chosen["backend"] = self.random.choice(["python", "onnxruntime", "pytorch"])
            case "extras":
                count = self.random.randrange(len(EXTRAS))
                answers["extras"] = self.random.sample(EXTRAS, count)
            case "ci":
                answers["ci"] = self.random.choice(["github", "gitlab", "none"])
            case "gpus":
                answers["gpu_count"] = self.random.choice([0, 1])
            case "name":
                answers["project_name"] = f"p{self.number}"

    def undo(self) -> None:
        """Undo the last change, unless its files were edited since; the first try may be killed."""
        now = managed(self.project)
        if self.random.random() < 0.3:
            if self.kill("apply", "--undo"):
                said = call(self.project, "apply")
                assert said.status == 0, said
            if (after := managed(self.project)) != now:  # else it was refused, or done again
                self.assert_undone(after)
            return
        said = call(self.project, "apply", "--undo")
        if said.status:
            assert managed(self.project) == now
            assert self.before is None or "was changed since" in said.err, said
            return
        self.assert_undone(managed(self.project))

    def assert_undone(self, after: dict[str, bytes]) -> None:
        """Check that the files are as before the last change, but for those that were edited since."""
        assert self.before is not None
        paths = after.keys() | self.before.keys()
        differ = {path for path in paths if after.get(path) != self.before.get(path)}
        assert differ <= self.touched
        self.text, self.before = after["pipeline.yml"], None

    def resolve(self) -> None:
        """Say that the files with conflicts are as they should be."""
        for path in (self.project / ".apply/conflicts").rglob("*"):
            if path.is_file():
                path.unlink()

    def refuse(self) -> None:
        """Try a change that is refused."""
        before = managed(self.project)
        answers = read(self.project) | {"max_batch_size": -1}
        (self.project / "pipeline.yml").write_text(yaml.safe_dump(answers))
        assert call(self.project, "apply").status == 1
        (self.project / "pipeline.yml").write_bytes(before["pipeline.yml"])
        assert managed(self.project) == before

    def kill(self, *words: str) -> bool:
        """Kill a command as it moves or writes a file; return whether it had so many."""
        at = self.random.randrange(40)
        self.log.append(f"  {words} killed at {at}")
        child = os.fork()
        if not child:
            _end_at(at, words, self.project.path)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    def is_killed(self) -> bool:
        """Return whether a command that was killed has left something to undo."""
        return any(self.project.path.glob(f"{PREFIX}*"))

    def check(self) -> None:
        """Check that nothing is lost, nothing is left, and that no file is of older answers."""
        self.check_marks()
        assert not self.is_killed()
        before = self.project.contents()
        assert call(self.project, "apply") == Said(0, "", "")
        after = self.project.contents()
        assert {path for path in after if before.get(path) != after[path]} <= {
            ".apply/pipeline.yml",
            ".apply/.gitignore",
        }
        made = ChangedProject(read_state(self.project.path))
        contents = managed(self.project)
        other = [path for path in list_edited(made) if b"mine-" not in contents[path]]
        assert other == []
        self.owned |= {*made.made["owned"]}
        known = made.render_made().keys() | self.owned
        extra = [path for path in contents if path not in known and b"mine-" not in contents[path]]
        assert [path for path in extra if not path.startswith(UNRENDERED)] == []

    def check_marks(self) -> None:
        """Check that each line of the owner is in a file, or kept."""
        texts = b"".join(
            data
            for path, data in self.project.contents().items()
            if not path.startswith((".apply/last/", ".apply/conflicts/"))
        ).decode(errors="replace")
        assert [mark for mark in self.marks if mark not in texts] == []

    def end(self) -> None:
        """Undo the last change, if that can be done, and apply it again."""
        applied = managed(self.project)
        if call(self.project, "apply", "--undo").status == 0:
            (self.project / "pipeline.yml").write_bytes(applied["pipeline.yml"])
            assert call(self.project, "apply").status == 0
            assert managed(self.project) == applied


def _end_at(at: int, words: tuple[str, ...], folder: Path) -> None:
    """Run a command in this process, which ends as it is about to do so many moves."""
    left = [*range(at)]

    def dying(done: Any) -> Any:
        def do(*given: Any, **named: Any) -> Any:
            if not left:
                os._exit(9)
            left.pop()
            return done(*given, **named)

        return do

    try:
        for name in ("rename", "replace", "unlink", "mkdir", "write_bytes", "write_text"):
            setattr(Path, name, dying(getattr(Path, name)))
        os.chdir(folder)
        for number in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        main(words)
    finally:
        os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(HISTORIES))
def test_no_line_is_lost(number: int, generate: Generate) -> None:
    history = History(generate(**START), Random(f"{SEED} {number}"))
    try:
        for _ in range(STEPS):
            history.go()
        history.end()
    except AssertionError as error:
        error.add_note("\n".join(history.log)) if hasattr(error, "add_note") else None
        raise
