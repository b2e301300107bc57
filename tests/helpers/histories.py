"""Histories of a project: edits, other answers, new versions of the template, commits undone."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import copier
import yaml
from apply_support import KILLED
from hypothesis import strategies as st
from support import Project, run, step, succeed
from update_support import managed
from wheels import pack_wheel

from triton_ensemble.change.owned import FOLLOWS
from triton_ensemble.change.stage import undo_killed
from triton_ensemble.reading import iter_files

ANSWERS = ".copier-answers.yml"
VERSIONS = ("v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0")
UPDATE = (sys.executable, "-m", "triton_ensemble", "update")
CONFLICTS = ".apply/conflicts/"
# Break off at the latest when all files are moved, and once: what failed is undone.
IF_BROKEN = 'if (not left or Path(target).name == "last") and not left.extend(range(9999)):'
FAIL = 'raise OSError(28, "No space left on device", "a file")'
Answers = dict[str, Any]
Contents = dict[str, bytes]
FIGURES: Counter[str] = Counter()

START: Answers = {
    "project_name": "p",
    "ensemble_name": "p",  # as pipeline.yml has it: a default would follow the name of the project
    "tensors": {"A": "FP32[4]", "B": "FP32[4]", "C": "FP32[4]"},
    "steps": [step("one", ["A"], ["B"]), step("two", ["B"], ["C"], "onnxruntime")],
}


def add(answers: Answers, n: int) -> None:
    """A step at the end of the chain."""
    end, new = list(answers["tensors"])[-1], f"T{n}"
    if new not in answers["tensors"] and f"step-{n}" not in {s["name"] for s in answers["steps"]}:
        answers["tensors"][new] = "FP32[4]"
        answers["steps"].append(step(f"step-{n}", [end], [new], ["python", "onnxruntime"][n % 2]))


def remove(answers: Answers, n: int) -> None:
    """The last step of the chain."""
    if len(answers["steps"]) > 1:
        last = max(answers["steps"], key=lambda s: list(answers["tensors"]).index(*s["outputs"]))
        answers["steps"].remove(last)
        [tensor] = last["outputs"]
        del answers["tensors"][tensor]


def rename(answers: Answers, n: int) -> None:
    if f"renamed.{n}" not in {s["name"] for s in answers["steps"]}:
        answers["steps"][n % len(answers["steps"])]["name"] = f"renamed.{n}"


def rebase(answers: Answers, n: int) -> None:
    """Another backend."""
    chosen = answers["steps"][n % len(answers["steps"])]
    chosen["backend"] = {"python": "onnxruntime", "onnxruntime": "python"}[chosen["backend"]]


def retype(answers: Answers, n: int) -> None:
    answers["tensors"][list(answers["tensors"])[n % len(answers["tensors"])]] = f"INT32[{n + 1}]"


def reorder(answers: Answers, n: int) -> None:
    """Another order of fields, which means nothing."""
    answers["steps"] = [dict(reversed(step.items())) for step in answers["steps"]]


def rename_project(answers: Answers, n: int) -> None:
    """And with it the package and the ensemble."""
    answers["project_name"] = f"project-{n}"


def rename_ensemble(answers: Answers, n: int) -> None:
    answers["ensemble_name"] = f"ensemble-{n}"


def switch(answers: Answers, n: int) -> None:
    """Another CI."""
    answers["ci"] = ["github", "gitlab", "none"][n % 3]


def part(answers: Answers, n: int) -> None:
    """A step that may share a process gets one of its own, or back."""
    chosen = answers["steps"][n % len(answers["steps"])]
    chosen["fuse"] = "auto" if chosen.get("fuse") is False else False


def settle(answers: Answers, n: int) -> None:
    """Another setting of each model."""
    answers["max_batch_size"] = n


CHANGES = {
    change.__name__: change
    for change in (
        add, remove, rename, rebase, retype, reorder, rename_project, rename_ensemble, switch, part, settle
    )
}  # fmt: skip

events = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 200), st.integers(0, 100)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("answer"), st.sampled_from(sorted(CHANGES)), st.integers(0, 5)),
    st.tuples(st.just("update"), st.sampled_from(VERSIONS)),
    st.tuples(st.just("break_off"), st.sampled_from(VERSIONS), st.integers(0, 40), st.booleans()),
    st.tuples(st.just("undo")),
)


def versions(template: Path, folder: Path) -> Path:
    """Return a git repository of the template, with three later versions.

    The first two change, add and remove managed files. The last one lacks a question, and has files under other names.
    """
    shutil.copytree(template, folder, symlinks=True)
    questions = [(folder / name).read_text() for name in QUESTIONS]
    for name, text, question in zip(QUESTIONS, questions, QUESTIONS.values(), strict=True):
        (folder / name).write_text(text.replace(*question))
    commit(folder, "v1.0.0")
    mark(folder, "v1.1.0", "Makefile.jinja", "src/step_types.py.jinja", "README.md.jinja")
    (folder / "template/new.py").write_text("# Managed\n")
    commit(folder, "v1.1.0")
    configs = [path.relative_to(folder / "template") for path in folder.rglob("config.pbtxt.jinja")]
    mark(folder, "v1.2.0", *configs, "../stubs/step.py.jinja", "Makefile.jinja")
    (folder / "template/new.py").unlink()
    commit(folder, "v1.2.0")
    for name, text in zip(QUESTIONS, questions, strict=True):
        (folder / name).write_text(text)
    move(folder / "template")
    commit(folder, "v1.3.0")
    succeed(run("git", "gc", "-q", cwd=folder))
    return folder


# A question of the versions before the last: where it stands, and behind what.
QUESTIONS = {
    "copier.yml": ("tensors:\n  type", "note: { type: str, default: old }\n\ntensors:\n  type"),
    "src/triton_ensemble/catalog/fields.yml": ("answer:\n", "answer:\n  note: text\n"),
}


def move(template: Path) -> None:
    """Rename a file, move a folder, and split a file."""
    (template / "deploy/serve.sh.jinja").rename(template / "deploy/start.sh.jinja")
    (template / "tests/docker").rename(template / "tests/container")
    lines = (template / "README.md.jinja").read_text().splitlines(keepends=True)
    half = lines.index("{% if 'monitoring' in extras %}\n")
    (template / "README.md.jinja").write_text("".join(lines[:half]))
    imports = [line for line in lines[:half] if " import " in line]
    (template / "MORE.md.jinja").write_text("".join(imports + lines[half:]))


def mark(folder: Path, version: str, *names: str | Path) -> None:
    """Write another last line into files: a comment of most formats."""
    for name in names:
        with (folder / "template" / name).open("a") as file:
            file.write(f"# {version}\n")


def commit(folder: Path, tag: str = "") -> None:
    if not (folder / ".git").exists():
        succeed(run("git", "init", "-q", cwd=folder))
    if tag:
        pack_wheel(folder)
    succeed(run("git", "add", "--all", cwd=folder))
    succeed(run("git", "commit", "-q", "--allow-empty", "-m", tag or "project", cwd=folder))
    if tag:
        succeed(run("git", "tag", tag, cwd=folder))


class State(NamedTuple):
    """What a commit of the project stands for."""

    answers: Answers
    version: str


class Fresh:
    """Projects as they are when just copied, each made once."""

    def __init__(self, origin: Path, folder: Path) -> None:
        self.origin, self.folder = origin, folder
        self.known: dict[tuple[str, str], Contents] = {}

    @cached_property
    def start(self) -> Path:
        """The first commit of each history."""
        folder = self.folder / "start"
        copier.run_copy(
            str(self.origin), folder, data=START, defaults=True, quiet=True, vcs_ref=VERSIONS[0]
        )
        Project(folder).commit()
        return folder

    def __call__(self, state: State) -> Contents:
        key = json.dumps(state.answers), state.version
        if key not in self.known:
            self.known[key] = self._copied(state)
        return self.known[key]

    def _copied(self, state: State) -> Contents:
        source, target = self.folder / state.version, self.folder / "p"
        if not source.exists():
            command = ("git", "worktree", "add", "-q", str(source), state.version)
            succeed(run(*command, cwd=self.origin))
            (source / ".git").unlink()
        copier.run_copy(str(source), target, data=state.answers, defaults=True, quiet=True)
        contents = without_answers(Project(target).contents())
        shutil.rmtree(target)
        return contents


def without_answers(contents: Contents) -> Contents:
    """Return what updates are about: not Copier's own file, nor the one that says which answers are wanted."""
    return {name: c for name, c in contents.items() if name not in (ANSWERS, "pipeline.yml")}


class History:
    """A project, and what was done to it."""

    def __init__(self, fresh: Fresh, folder: Path) -> None:
        self.fresh = fresh
        self.project = Project(Path(shutil.copytree(fresh.start, folder, symlinks=True)))
        self.wanted = deepcopy(START)
        self.lines = 0
        self.states = [State(deepcopy(START), VERSIONS[0])]

    def owned(self) -> list[str]:
        return list(yaml.safe_load((self.project / ANSWERS).read_text())["owned"])

    def break_off(self, version: str, at: int, killed: bool) -> None:
        """An update that is killed, or fails, as it moves a file: all is as it was, at once or when it is undone."""
        before = managed(self.project)
        program = KILLED.replace("if not left:", IF_BROKEN)
        if not killed:
            program = program.replace("os.kill(os.getpid(), signal.SIGKILL)", FAIL)
        version = max(version, self.states[-1].version)
        words = ("-c", program, str(at), "update", f"--vcs-ref={version}")
        process = self.project.run(sys.executable, *words)
        if "is up to date" in process.stdout:
            return
        assert process.returncode == (-signal.SIGKILL if killed else 0), process.stderr
        assert killed or "No space left on device; make room there" in process.stderr
        FIGURES["killed" if killed else "failed"] += 1
        FIGURES["undone"] += len(list(undo_killed(self.project.path)))
        assert managed(self.project) == before
        assert not self.project.changes()

    def edit(self, which: int, where: int) -> None:
        """Add a line of the owner's, anywhere in any eight files."""
        names = sorted(without_answers(managed(self.project)))
        for name in (
            names[(which * factor) % len(names)] for factor in (1, 3, 7, 11, 13, 17, 19, 23)
        ):
            lines = (self.project / name).read_bytes().splitlines(keepends=True)
            self.lines += 1
            FIGURES["edits"] += 1
            lines.insert(where * len(lines) // 100, b"# mine: %d\n" % self.lines)
            (self.project / name).write_bytes(b"".join(lines))
        self._commit(self.states[-1])

    def delete(self, which: int) -> None:
        """A file that is one's own."""
        names = [n for n in self.owned() if n != "pipeline.yml" and (self.project / n).is_file()]
        (self.project / names[which % len(names)]).unlink()
        self._commit(self.states[-1])

    def answer(self, change: str, n: int) -> None:
        CHANGES[change](self.wanted, n)
        (self.project / "pipeline.yml").write_text(yaml.safe_dump(self.wanted, sort_keys=False))
        self._commit(self.states[-1])

    def undo(self) -> None:
        """The last commit."""
        if len(self.states) > 1:
            succeed(run("git", "reset", "-q", "--hard", "HEAD~1", cwd=self.project.path))
            self.states.pop()
            text = (self.project / "pipeline.yml").read_text()
            self.wanted = yaml.safe_load(text) if len(self.states) > 1 else deepcopy(START)

    def update(self, version: str) -> None:
        """To that version, or to the same where Copier would not go back, with pipeline.yml."""
        last = self.states[-1]
        new = State(deepcopy(self.wanted), max(version, last.version))
        before, owned = without_answers(managed(self.project)), self.owned()
        process = self.project.run(*UPDATE, f"--vcs-ref={new.version}")
        assert process.returncode in (0, 1), process.stderr
        said = process.stdout
        FIGURES["updates"] += 1
        FIGURES["conflicts"] += said.count(f"merge {CONFLICTS}")
        after = without_answers(managed(self.project))
        yours = {name for name in {*owned, *self.owned()} if not name.endswith("/")}
        want = expected(before, self.fresh(last), self.fresh(new), yours, set(owned))
        for name in sorted(after.keys() | want.keys()):
            moved_here = mine([after.get(name, b"")]) - mine([before.get(name, b"")])
            if not moved_here:
                assert after.get(name) == want.get(name), f"{name}\n{said}"
        self._check_lines(before, after, said)
        self._commit(new)

    def _check_lines(self, before: Contents, after: Contents, said: str) -> None:
        """Each line of the owner's is somewhere still; and a file whose lines are kept aside is named."""
        here = mine(after.values())
        kept = mine(p.read_bytes() for p in iter_files(self.project / ".apply/kept"))
        lost = mine(before.values()) - here - kept
        assert not lost, f"{lost}\n{said}"
        for name, text in before.items():
            gone = mine([text]) - here
            FIGURES["kept"] += len(gone)
            assert not gone or f"{name}: " in said, f"{name}\n{said}"

    def _commit(self, state: State) -> None:
        self.states.append(state)
        self.project.commit()


def mine(contents: Iterable[bytes]) -> set[bytes]:
    """The lines of the owner's in some files."""
    return {line for text in contents for line in re.findall(rb"# mine: \d+$", text, re.MULTILINE)}


def expected(
    before: Contents, old: Contents, new: Contents, yours: set[str], known: set[str]
) -> Contents:
    """The project after an update from `old` to `new`, as it should be by git's own merge."""
    found = {name: text for name, text in before.items() if name in yours or name not in old}
    for name, text in new.items():
        if name in yours:
            if name not in known:  # new to the pipeline, unless its owner wrote it already
                found.setdefault(name, text)
            elif name in before and before[name] == old.get(name) and FOLLOWS in text:
                found[name] = text
        elif name in before and name in old:
            found[name] = merged(before[name], old[name], text, name)
        else:
            found[name] = text
    return found


def merged(mine: bytes, old: bytes, new: bytes, name: str) -> bytes:
    """The three-way merge, in which the owner's lines stay; the text of the one who changed it alone."""
    if old in (mine, new):
        return new if mine == old else mine
    if name.endswith((".json", ".ipynb", ".whl", "vendor/requirements.txt")):
        return new
    with tempfile.TemporaryDirectory() as folder:
        for file, text in (("mine", mine), ("old", old), ("new", new)):
            Path(folder, file).write_bytes(text)
        command = ["git", "merge-file", "-p", "--ours", "mine", "old", "new"]
        return subprocess.run(command, cwd=folder, capture_output=True).stdout
