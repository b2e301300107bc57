"""Histories of a project: edits, other answers, new versions of the template, kills, undos, commits taken back."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import copier
import yaml
from apply_support import run_broken
from support import Project, Said, call, run, step, succeed
from update_support import managed
from wheels import pack_wheel

from triton_ensemble.change.owned import FOLLOWS
from triton_ensemble.change.stage import PREFIX, alone
from triton_ensemble.facts import catalog
from triton_ensemble.facts.reading import iter_files

ANSWERS = ".copier-answers.yml"
VERSIONS = ("v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0")
CONFLICTS = ".apply/conflicts/"
FULL_DISK = 0  # in place of a signal
# What a broken command may leave: edits that are kept twice, and the text that was applied.
ASIDE = (".apply/kept/", ".apply/last/", ".apply/pipeline.yml", ".apply/.gitignore")
EXTRAS = sorted(catalog.table("extras").keys() - {"ray"})
Answers = dict[str, Any]
Change = Callable[[Answers, int], None]
Contents = dict[str, bytes]
FIGURES: Counter[str] = Counter()

START: Answers = {
    "project_name": "p",
    "ensemble_name": "p",  # as pipeline.yml has it: a default would follow the name of the project
    "tensors": {"A": "FP32[4]", "B": "FP32[4]", "C": "FP32[4]"},
    "steps": [step("one", ["A"], ["B"]), step("two", ["B"], ["C"], "onnxruntime")],
}


def add(answers: Answers, n: int) -> None:
    """A step that reads any tensor."""
    tensors, new = [*answers["tensors"]], f"T{n}"
    if new not in tensors and f"step-{n}" not in {s["name"] for s in answers["steps"]}:
        answers["tensors"][new] = "FP32[4]"
        backend = ["python", "onnxruntime"][n % 2]
        answers["steps"].append(step(f"step-{n}", [tensors[n % len(tensors)]], [new], backend))


def remove(answers: Answers, n: int) -> None:
    """A step that no other reads from."""
    read = {name for each in answers["steps"] for name in each["inputs"]}
    last = [each for each in answers["steps"] if not {*each["outputs"]} & read]
    if len(answers["steps"]) > 1:
        answers["steps"].remove(last[n % len(last)])
        used = {n for each in answers["steps"] for n in [*each["inputs"], *each["outputs"]]}
        answers["tensors"] = {n: spec for n, spec in answers["tensors"].items() if n in used}


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


def part(answers: Answers, n: int) -> None:
    """A step that may share a process gets one of its own, or back."""
    chosen = answers["steps"][n % len(answers["steps"])]
    chosen["fuse"] = "auto" if chosen.get("fuse") is False else False


def settle(answers: Answers, n: int) -> None:
    """Other settings: of each model, of the CI, of the project."""
    answers["max_batch_size"] = n + 1
    answers["ci"] = ["github", "gitlab", "none"][n % 3]
    answers["gpu_count"] = n % 2
    answers.pop("gpu_runner", None)
    if answers["gpu_count"] and answers["ci"] != "none":
        answers["gpu_runner"] = "gpu"  # its default depends on the CI, and stays when that changes


def extend(answers: Answers, n: int) -> None:
    answers["extras"] = EXTRAS[n % len(EXTRAS) :]


CHANGES = (
    add, remove, rename, rebase, retype, reorder, rename_project, rename_ensemble, part, settle, extend
)  # fmt: skip
# All but those that leave a file of an edit without a place, which Copier does not look for elsewhere.
STAYING = (add, rebase, retype, reorder, part, settle, extend)


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
    mark(folder, "v1.2.0", *configs, "../hooks/stubs/step.py.jinja", "Makefile.jinja")
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
    "hooks/catalog/fields.yml": ("answer:\n", "answer:\n  note: text\n"),
}


def move(template: Path) -> None:
    """Rename a file, move a folder, and split a file."""
    (template / "deploy/serve.sh.jinja").rename(template / "deploy/start.sh.jinja")
    (template / "tests/docker").rename(template / "tests/container")
    lines = (template / "README.md.jinja").read_text().splitlines(keepends=True)
    half = lines.index("## From Python\n")
    (template / "README.md.jinja").write_text("".join(lines[:half]))
    imports = [line for line in lines[:half] if " import " in line]
    (template / "MORE.md.jinja").write_text("".join(imports + lines[half:]))


def mark(folder: Path, version: str, *names: str | Path) -> None:
    """Write another last line into files: a comment of most formats."""
    for name in names:
        with (folder / "template" / name).open("a") as file:
            file.write(f"# {version}\n")


def commit(folder: Path, tag: str) -> None:
    if not (folder / ".git").exists():
        succeed(run("git", "init", "-q", cwd=folder))
    pack_wheel(folder)
    for words in (["add", "--all"], ["commit", "-q", "--allow-empty", "-m", tag], ["tag", tag]):
        succeed(run("git", *words, cwd=folder))


class State(NamedTuple):
    """The version and answers that the files of a project are made from."""

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

    def source(self, version: str) -> Path:
        """Return a folder with the files of a version."""
        source = self.folder / version
        if not source.exists():
            command = ("git", "worktree", "add", "-q", str(source), version)
            succeed(run(*command, cwd=self.origin))
            (source / ".git").unlink()
        return source

    def __call__(self, state: State) -> Contents:
        key = json.dumps(state.answers), state.version
        if key not in self.known:
            target = self.folder / "p"
            source, data = str(self.source(state.version)), state.answers
            copier.run_copy(source, target, data=data, defaults=True, quiet=True)
            self.known[key] = without_answers(Project(target).contents())
            shutil.rmtree(target)
        return self.known[key]


def without_answers(contents: Contents) -> Contents:
    """Return what changes are about: not Copier's own file, nor the one that says which answers are wanted."""
    return {name: c for name, c in contents.items() if name not in (ANSWERS, "pipeline.yml")}


class History:
    """A project, and what was done to it."""

    def __init__(self, fresh: Fresh, folder: Path, random: Random) -> None:
        self.fresh, self.random = fresh, random
        self.project = Project(Path(shutil.copytree(fresh.start, folder, symlinks=True)))
        self.state = State(deepcopy(START), VERSIONS[0])
        self.text = (self.project / "pipeline.yml").read_bytes()  # as it was applied
        self.states = [self.state]  # of commits
        self.last: tuple[Contents, State, bool] | None = (
            None  # before the last change; of an update
        )
        self.touched: set[str] = set()  # edited since the last change
        self.lines = 0
        self.ever = {*self.owned()}  # owned at some time
        self.log: list[str] = []

    def go(self) -> None:
        """Do one thing, then check that all is there."""
        moves = [self.edit] * 4 + [self.change] * 4 + [self.update] * 3
        move = self.random.choice([*moves, self.undo, self.delete, self.resolve, self.take_back])
        self.log.append(f"{move.__name__}: {self.state}")
        move()
        self.check()

    def owned(self) -> list[str]:
        return list(yaml.safe_load((self.project / ANSWERS).read_text())["owned"])

    def edit(self) -> None:
        """Add a line of the owner's to any files, or to the end of a line."""
        names = sorted(without_answers(managed(self.project)))
        likely = [name for name in names if re.search("config|client|Makefile|README", name)]
        for name in sorted({*self.random.sample(names, 4), *self.random.sample(likely, 2)}):
            lines = (self.project / name).read_bytes().splitlines(keepends=True)
            self.lines += 1
            at, text = self.random.randrange(len(lines) + 1), b"# mine: %d\n" % self.lines
            # Behind a pattern of .gitignore it would be another pattern, and git would not take a file back.
            is_pattern = name == ".gitignore" or (at < len(lines) and b"# mine: " in lines[at])
            if at < len(lines) and self.random.random() < 0.4 and not is_pattern:
                lines[at] = lines[at].rstrip() + b" " + text
            else:
                lines.insert(at, text)
            (self.project / name).write_bytes(b"".join(lines))
            self.touched.add(name)
            self.log.append(f"  {text!r} in {name}:{at}")

    def delete(self) -> None:
        """A file that is one's own."""
        names = [n for n in self.owned() if n != "pipeline.yml" and (self.project / n).is_file()]
        name = self.random.choice(names)
        (self.project / name).unlink()
        self.touched.add(name)

    def resolve(self) -> None:
        """All conflicts: the files are as they should be."""
        shutil.rmtree(self.project / CONFLICTS, ignore_errors=True)

    def take_back(self) -> None:
        """Take the last commit back. A pipeline.yml that it had and that was not applied is applied."""
        self.commit()
        if len(self.states) > 1:
            succeed(run("git", "reset", "-q", "--hard", "HEAD~1", cwd=self.project.path))
            self.states.pop()
            self.state = self.states[-1]
            given = yaml.safe_load((self.project / "pipeline.yml").read_text())
            self.bring(State(given, self.state.version), "apply")
            self.last = None
            shutil.rmtree(self.project / ".apply/last", ignore_errors=True)

    def commit(self) -> None:
        self.states.append(self.state)
        self.project.commit()

    def answer(self, changes: Sequence[Change] = CHANGES) -> Answers:
        """Write other answers into pipeline.yml."""
        answers = deepcopy(self.state.answers)
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(changes)(answers, self.random.randrange(6))
        (self.project / "pipeline.yml").write_text(yaml.safe_dump(answers, sort_keys=False))
        return answers

    def change(self) -> None:
        """The pipeline, by `apply`."""
        self.bring(State(self.answer(), self.state.version), "apply")

    def update(self) -> None:
        """To a version, or to the same if that is older, perhaps with other answers."""
        answers = self.answer() if self.random.random() < 0.5 else self.state.answers
        new = State(answers, max(self.random.choice(VERSIONS), self.state.version))
        self.commit()
        self.bring(new, "update", f"--vcs-ref={new.version}")

    def update_both_ways(self) -> None:
        """By `make update`, and a copy by `copier update`: the files are the same, unless edits are in the way."""
        self.edit()
        new = State(self.answer(STAYING), max(self.random.choice(VERSIONS[:3]), self.state.version))
        self.log.append(f"update_both_ways: {new}")
        self.commit()
        other = Project(self.project.path.with_name("other"))
        shutil.copytree(self.project.path, other.path, symlinks=True)
        said = self.bring(new, "update", f"--vcs-ref={new.version}")
        # Copier leaves edits of a file that moves, as it does where two steps become one model.
        if not re.search(r"\.apply/|^  moved ", said, re.MULTILINE):
            copier.run_update(
                str(other.path), new.answers, vcs_ref=new.version, defaults=True, overwrite=True, quiet=True
            )  # fmt: skip
            ours, theirs = managed(self.project), managed(other)
            # Copier leaves stubs and generated tests as they are, which follow pipeline.yml until they are changed.
            names = {p for p in ours.keys() | theirs.keys() if FOLLOWS not in theirs.get(p, b"")}
            assert not {p for p in names if ours.get(p) != theirs.get(p)}
            FIGURES["both ways"] += 1
        self.resolve()
        shutil.rmtree(other.path)

    def bring(self, new: State, *words: str) -> str:
        """Run a command, before that some that are broken off, check what it has done, and return what it says."""
        while self.random.random() < 0.3:
            self.break_off(*words)
        before, owned = managed(self.project), {*self.owned()}
        process = self.run("-m", "triton_ensemble", *words)
        said = process.stdout
        assert process.returncode == (f"merge {CONFLICTS}" in said), process.stderr
        FIGURES[words[0]] += 1
        FIGURES["conflicts"] += said.count(f"merge {CONFLICTS}")
        if re.search(r"\d files? changed", said):
            is_update = (
                words[0] == "update"
            )  # which leaves pipeline.yml as it is, and so does its undo
            given = {} if is_update else {"pipeline.yml": self.text}
            self.last = before | given, self.state, is_update
            self.touched = set()
        after = without_answers(managed(self.project))
        before = without_answers(before)
        names = before.keys() | after.keys() | self.fresh(new).keys()
        yours, known = select(names, {*owned, *self.owned()}), select(names, owned)
        want = expected(before, self.fresh(self.state), self.fresh(new), yours, known)
        for name in sorted(after.keys() | want.keys()):
            if not mine([after.get(name, b"")]) - mine([before.get(name, b"")]):
                assert after.get(name) == want.get(name), f"{name}\n{said}"
        self.check_lines(before, said)
        self.state, self.text = new, (self.project / "pipeline.yml").read_bytes()
        return said

    @property
    def sources(self) -> Path:
        """The toolkit of the project's version."""
        return self.fresh.source(self.state.version) / "src"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = f"src:{self.sources}"
        command = (sys.executable, *words)
        return run(*command, cwd=self.project.path, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")

    def break_off(self, *words: str) -> None:
        """A command is killed, or fails, as it moves a file: all is as it was, at once or when it is undone."""
        before = self.contents()
        by = self.random.choice([signal.SIGKILL, signal.SIGKILL, FULL_DISK])
        at = self.random.randrange(40)
        self.log.append(f"  broken off at {at}: {words} {by}")
        # At the latest when all files are moved.
        process = run_broken(self.project, *words, at=at, by=by, file="last", sources=self.sources)
        with alone(self.project.path) as was_killed:
            FIGURES["undone"] += was_killed
        if process.returncode == -signal.SIGKILL:
            FIGURES["killed"] += 1
        elif "No space left on device; make room there" in process.stderr:
            FIGURES["failed"] += 1
        else:
            assert process.stdout == "" or "is up to date" in process.stdout, process.stderr
        assert self.contents() == before
        if not (self.project / ".apply/last").exists():
            self.last = None

    def contents(self) -> Contents:
        """Return all files, with open conflicts."""
        return {p: data for p, data in self.project.contents().items() if not p.startswith(ASIDE)}

    def undo(self) -> None:
        """Undo the last change, unless its files were edited since. The first try may be killed."""
        now = managed(self.project)
        words = (self.random.choice(["apply", "update"]), "--undo")
        if self.random.random() < 0.3:
            run_broken(self.project, *words, at=self.random.randrange(40), sources=self.sources)
            with alone(self.project.path) as was_killed:
                FIGURES["killed undos"] += was_killed
        elif (said := self.run("-m", "triton_ensemble", *words)).returncode:
            assert managed(self.project) == now
            assert self.last is None or "was changed since" in said.stderr, said
            return
        if managed(self.project) != now:  # else it was refused, or is undone itself
            self.end_undo(managed(self.project))

    def end_undo(self, after: Contents) -> None:
        """Check that the files are as before the last change, but for those that were edited since."""
        assert self.last is not None
        before, self.state, is_update = self.last
        differ = {p for p in after.keys() | before.keys() if after.get(p) != before.get(p)}
        assert differ <= self.touched | {"pipeline.yml"}, differ
        # An undo brings it back last.
        is_killed = "pipeline.yml" in differ - self.touched
        self.text, self.last = (before if is_killed else after)["pipeline.yml"], None
        FIGURES["undos"] += 1
        if is_update or is_killed:  # its answers may not be applied
            given = yaml.safe_load(after["pipeline.yml"])
            self.bring(State(given, self.state.version), "apply")

    def check(self) -> None:
        """Nothing is left to do or to undo, and no file is of older answers."""
        assert not [*self.project.path.glob(f"{PREFIX}*")]
        assert call(self.project, "apply") == Said(0, "", "")
        have, fresh = without_answers(managed(self.project)), self.fresh(self.state)
        self.ever |= {*self.owned()}
        other = {p for p in have.keys() | fresh.keys() if have.get(p) != fresh.get(p)}
        other -= select(other, self.ever) | {name for name in have if mine([have[name]])}
        assert not other, other

    def check_lines(self, before: Contents, said: str) -> None:
        """Check that each line of the owner's is somewhere still. A file whose lines are kept aside is named."""
        here = mine(without_answers(managed(self.project)).values())
        kept = mine(p.read_bytes() for p in iter_files(self.project / ".apply/kept"))
        lost = mine(before.values()) - here - kept
        assert not lost, f"{lost}\n{said}"
        for name, text in before.items():
            gone = mine([text]) - here
            FIGURES["kept"] += len(gone)
            assert not gone or f"{name}: " in said, f"{name}\n{said}"


def select(names: Iterable[str], owned: set[str]) -> set[str]:
    """Return the names of owned files, also those in owned folders."""
    folders = tuple(name for name in owned if name.endswith("/"))
    return {name for name in names if name in owned or name.startswith(folders)}


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
    """Return the three-way merge, in which the owner's lines stay, or the only text that was changed."""
    if old in (mine, new):
        return new if mine == old else mine
    if name.endswith((".json", ".ipynb", ".whl", "vendor/requirements.txt")):
        return new
    with tempfile.TemporaryDirectory() as folder:
        for file, text in (("mine", mine), ("old", old), ("new", new)):
            Path(folder, file).write_bytes(text)
        command = ["git", "merge-file", "-p", "--ours", "mine", "old", "new"]
        return subprocess.run(command, cwd=folder, capture_output=True).stdout
