"""A project whose pipeline.yml may have changed since its files were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from triton_ensemble.answers import FILE
from triton_ensemble.change import ApplyError
from triton_ensemble.change.bring import write_contents
from triton_ensemble.change.changes import Changes, compare_renderings
from triton_ensemble.change.files import CONFLICTS, FOLDER, keep_edits, open_conflicts, remember
from triton_ensemble.change.git import list_skipped
from triton_ensemble.change.owned import FOLLOWS
from triton_ensemble.change.stage import make_stage, remove_empty_folders
from triton_ensemble.change.state import PIPELINE, State
from triton_ensemble.change.undo import keep, keep_text
from triton_ensemble.check.formats import format_text
from triton_ensemble.check.pipeline.check import check_pipeline, read_saved_answers
from triton_ensemble.pipeline.render import File, render
from triton_ensemble.pipeline.rules import Answers, RefusedAnswers, Rules, rules
from triton_ensemble.reading import DATA_BYTES, read_bytes


@dataclass(frozen=True)
class ChangedProject:
    """A project whose pipeline.yml is to be applied."""

    state: State
    rules_of_update: Rules | None = None

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.state.root

    @property
    def made(self) -> Answers:
        """The answers that the files were made from."""
        return self.state.made

    @property
    def rules(self) -> Rules:
        """The template's rules, of this package's version, with what the team says."""
        return self.rules_of_update or rules(self.root)

    @cached_property
    def answers(self) -> Answers:
        """The answers of pipeline.yml; an answer that it does not have stays as it was."""
        return read_saved_answers(self.root / PIPELINE, self.rules) | self.state.given

    def render_made(self) -> dict[str, File]:
        """Return the files as the answers made them that they were made from."""
        return self._render(self.rules.select_answers(self.made), FILE)

    def change(self) -> Change:
        """Return what becomes of the files; ApplyError with the findings if pipeline.yml has errors."""
        path = self.root / PIPELINE
        # of the owner's other files too, which may follow pipeline.yml
        found = check_pipeline(path, is_own=True)
        errors = [each for each in found if each.severity == "error" and each.file == path]
        if errors:
            raise ApplyError(
                f"{format_text(errors)}\npipeline.yml is not applied: correct it first"
            )
        return self.compare(self.render_made(), self._render(self.answers, PIPELINE))

    def compare(
        self,
        old: Mapping[str, File],
        new: Mapping[str, File],
        moves: Mapping[str, str] | None = None,
        markers: bool = False,
    ) -> Change:
        """Return what becomes of the files after two renderings."""
        after = yaml.safe_load(new[FILE].content)
        owned = {*self.made["owned"]}
        owned |= {each for each in after["owned"] if (self.root / each).exists()}
        owned -= {
            path
            for path in owned & old.keys() & new.keys()
            if self._follows(path, old[path].content)
        }
        skipped = list_skipped(self.root)
        files = compare_renderings(
            self.root, old, new, owned, moves=moves, skipped=skipped, markers=markers
        )
        return Change(self, files, after, old, new, skipped)

    def _follows(self, path: str, rendered: bytes) -> bool:
        """Return whether an owned file is as it was generated, and follows pipeline.yml until its owner changes it."""
        file = self.root / path
        return FOLLOWS in rendered and file.is_file() and read_bytes(file, DATA_BYTES) == rendered

    def _render(self, answers: Answers, source: str) -> dict[str, File]:
        try:
            return render(self.rules, answers, self.made)
        except RefusedAnswers as error:
            raise ApplyError(f"{source}: {error}") from error


@dataclass(frozen=True)
class Change:
    """The changes to a project's files and answers."""

    of: ChangedProject
    files: Changes
    after: Answers
    old: Mapping[str, File]
    new: Mapping[str, File]
    skipped: Set[str] = frozenset()  # by a sparse checkout

    @property
    def root(self) -> Path:
        """The owner's project."""
        return self.of.root

    @property
    def project(self) -> Path:
        """The folder with the files as they are now."""
        return self.of.root

    @cached_property
    def statuses(self) -> dict[str, str]:
        """The status of each file: A, M or D by path."""
        return {
            path: "D" if content is None else "M" if self._has(path) else "A"
            for path, content in self.files.contents.items()
        }

    def _has(self, path: str) -> bool:
        return (self.root / path).exists() or path in self.skipped

    def read_before(self, path: str) -> bytes:
        """Return a file as it was; empty if there was none."""
        if path in self.files.contents and path in self.old:
            return self.old[path].content
        file = self.root / path
        return read_bytes(file, DATA_BYTES) if file.is_file() else b""

    def conflicts(self) -> set[str]:
        """Return the files in which the owner and pipeline.yml changed the same lines."""
        return {*self.files.conflicts, *self.files.marked}

    def find_moved(self, files: Iterable[str]) -> dict[str, str]:
        """Return the new paths of files that were elsewhere before, by the old ones."""
        return self.files.moved

    def bring(self) -> None:
        """Change the files: all, or none and raise OSError."""
        root, statuses = self.root, self.statuses
        conflicts = self._write_conflicts()
        keep_edits(root, self.files.replaced)
        with make_stage(root) as stage:
            keep_text(stage, root, self.of.made, self.old[PIPELINE].content)
            write_contents(stage, root, self.files.contents | conflicts, self.skipped)
            try:
                keep(stage, root)
            except BaseException:
                stage.undo(root)
                raise
        remember(root)
        removed = [path for path, status in statuses.items() if status == "D"]
        remove_empty_folders(root, removed + [path for path in conflicts if not conflicts[path]])

    def _write_conflicts(self) -> dict[str, bytes | None]:
        """Return new contents of .apply/conflicts/: a conflict moves and goes with its file, and has what is rendered now."""
        contents: dict[str, bytes | None] = {}
        for path in open_conflicts(self.root):
            now = self.files.moved.get(path, path)
            contents[path] = None
            if now in self.new:
                contents[now] = self.new[now].content
        folder = f"{FOLDER}/{CONFLICTS}"
        return {
            f"{folder}/{path}": data for path, data in (contents | self.files.conflicts).items()
        }


def list_edited(project: ChangedProject) -> Iterator[str]:
    """Yield the managed files that differ from what the answers make of them."""
    owned = {*project.made["owned"]}
    for path, file in project.render_made().items():
        have = project.root / path
        managed = path not in owned and path != FILE
        if managed and have.is_file() and read_bytes(have, DATA_BYTES) != file.content:
            yield path
