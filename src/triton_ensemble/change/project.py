"""A project whose pipeline.yml, or whose version of the template, may have changed since its files were made."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from triton_ensemble.change import ChangeError
from triton_ensemble.change.changes import Changes, Files, compare_renderings
from triton_ensemble.change.git import list_skipped
from triton_ensemble.change.kept import (
    CONFLICTS,
    LEFT,
    TEXT,
    keep_edits,
    keep_stage,
    keep_text,
    list_conflicts,
    remember,
)
from triton_ensemble.change.owned import FOLLOWS
from triton_ensemble.change.stage import make_stage
from triton_ensemble.change.state import PIPELINE, State
from triton_ensemble.check.formats import format_text
from triton_ensemble.check.pipeline.check import check_pipeline, read_saved_answers
from triton_ensemble.compile.render import File, render
from triton_ensemble.compile.rules import RefusedAnswers, Rules, rules
from triton_ensemble.facts.answers import FILE, Answers
from triton_ensemble.facts.reading import DATA_BYTES, read_bytes


@dataclass(frozen=True)
class ChangedProject:
    """A project whose pipeline.yml is to be applied."""

    state: State
    rules_of_update: Rules | None = None

    @property
    def rules(self) -> Rules:
        """The template's rules, of this package's version, with what the team says."""
        return self.rules_of_update or rules(self.state.root)

    @cached_property
    def answers(self) -> Answers:
        """The answers of pipeline.yml. An answer that it does not have stays as it was."""
        return read_saved_answers(self.state.root / PIPELINE, self.rules) | self.state.given

    def render_made(self) -> dict[str, File]:
        """Return the files as they were rendered from the answers that they were made from."""
        return self._render(self.rules.questions.select_answers(self.state.made), FILE)

    def change(self) -> Change:
        """Return what becomes of the files, or raise ChangeError with the findings if pipeline.yml has errors."""
        path = self.state.root / PIPELINE
        # of the owner's other files too, which may follow pipeline.yml
        found = check_pipeline(path, is_own=True)
        errors = [each for each in found if each.severity == "error" and each.file == path]
        if errors:
            lines = format_text(errors)
            raise ChangeError(f"{lines}\n{PIPELINE} is not applied: correct it first")
        return self.compare(self.render_made(), self._render(self.answers, PIPELINE))

    def compare(self, old: Files, new: Files, markers: bool = False) -> Change:
        """Return what becomes of the files after two renderings."""
        root = self.state.root
        after = yaml.safe_load(new[FILE].content)
        owned = {*self.state.made["owned"], *(p for p in after["owned"] if (root / p).exists())}
        owned -= {p for p in owned & old.keys() & new.keys() if self._follows(p, old[p].content)}
        skipped = list_skipped(root)
        files = compare_renderings(root, old, new, owned, skipped, markers)
        return Change(self, files, after, old, new, skipped)

    def _follows(self, path: str, rendered: bytes) -> bool:
        """Return whether an owned file is as it was generated, and follows pipeline.yml until its owner changes it."""
        file = self.state.root / path
        return FOLLOWS in rendered and file.is_file() and read_bytes(file, DATA_BYTES) == rendered

    def _render(self, answers: Answers, source: str) -> dict[str, File]:
        try:
            return render(self.rules, answers, self.state.made)
        except RefusedAnswers as error:
            raise ChangeError(f"{source}: {error}") from error


@dataclass(frozen=True)
class Change:
    """The changes to a project's files and answers."""

    of: ChangedProject
    files: Changes
    after: Answers
    old: Files
    new: Files
    skipped: Set[str] = frozenset()  # by a sparse checkout

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.of.state.root

    @property
    def made(self) -> Answers:
        """The answers that the files were made from."""
        return self.of.state.made

    def read_before(self, path: str) -> bytes:
        """Return a file as it was, or empty bytes if there was none."""
        if path in self.files.contents and path in self.old:
            return self.old[path].content
        return self.read_now(path)

    def read_now(self, path: str) -> bytes:
        """Return a file as it is, or empty bytes if there is none."""
        file = self.root / path
        return read_bytes(file, DATA_BYTES) if file.is_file() else b""

    @property
    def conflicts(self) -> Set[str]:
        """The files in which the owner and the template, or pipeline.yml, changed the same lines."""
        return {*self.files.conflicts, *self.files.marked}

    def bring(self) -> None:
        """Change the files: all, or none and raise OSError."""
        root, contents = self.root, self.files.contents | self._update_conflicts()
        keep_edits(root, self.files.replaced)
        with make_stage(root) as stage:
            name = LEFT if self.of.rules_of_update else TEXT
            keep_text(stage, root, self.made, self.old[PIPELINE].content, name)
            with stage.write(root, contents):
                keep_stage(stage, root)
        remember(root)

    def _update_conflicts(self) -> dict[str, bytes | None]:
        """Return new contents of .apply/conflicts/: a conflict moves and goes with its file, and has what is rendered now."""
        contents: dict[str, bytes | None] = {}
        for path in list_conflicts(self.root):
            now = self.files.moved.get(path, path)
            contents[path] = None
            if now in self.new:
                contents[now] = self.new[now].content
        return {f"{CONFLICTS}/{p}": data for p, data in (contents | self.files.conflicts).items()}


def list_edited(project: ChangedProject) -> Iterator[str]:
    """Yield the managed files that differ from what the answers make of them."""
    root, owned = project.state.root, {*project.state.made["owned"], FILE}
    for path, file in project.render_made().items():
        have = root / path
        if path not in owned and have.is_file() and read_bytes(have, DATA_BYTES) != file.content:
            yield path
