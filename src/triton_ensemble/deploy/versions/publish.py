"""Freeze a step's code and model file as a version of its model, which never changes again.

The ensemble keeps its version. `make shift` moves it. The files come from the working tree, with --from from
a commit. --file names another model file. The command copies them to versions/, writes their digests into
versions.json, and lists the version in pipeline.yml.

The command writes nothing unless the local Triton loads the new version beside the others.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from triton_ensemble.change.git import git
from triton_ensemble.change.stage import Stage, make_stage
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.deploy.versions.attempt import attempt, version
from triton_ensemble.deploy.versions.candidates import serve_candidate
from triton_ensemble.deploy.versions.change import (
    bring,
    candidate,
    compute_changes,
    write,
)
from triton_ensemble.deploy.versions.pipeline import Pipeline
from triton_ensemble.facts.project import Project
from triton_ensemble.serve import published
from triton_ensemble.serve.complete import complete
from triton_ensemble.serve.sources import list_tree_sources


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the step, the version, and the source of its files."""
    parser.add_argument("name", metavar="NAME", help="a step that has its own model")
    parser.add_argument("version", type=version, metavar="VERSION", help="its number, from 1 on")
    parser.add_argument(
        "--from", dest="commit", metavar="COMMIT", help="take the files of this commit of git"
    )
    parser.add_argument("--file", type=Path, metavar="FILE", help="the model file of the version")


def run(arguments: Namespace) -> int:
    """Publish a version. Print a line and return 1 if that is impossible."""
    return attempt(lambda: _publish(Path.cwd(), arguments))


def _publish(root: Path, arguments: Namespace) -> None:
    name, number = arguments.name, arguments.version
    if arguments.commit and arguments.file:
        raise VersionError(
            "FROM and FILE: write one of them; a version has its files from one place"
        )
    before = Pipeline(root)
    before.step(name)
    record = published.read(root)
    known = record.get(name, {}).get("versions", {})
    if str(number) not in known:
        _check_others(before, name, number, known)
    with make_stage(root) as stage, published.undo_on_failure(root):
        if arguments.commit:
            built = _build_commit(stage, root, name, arguments.commit)
        else:
            built = _build_working_tree(stage, before, name, number, arguments.file)
        one = _freeze(root, *built)
        if str(number) in known:
            _check_existing(name, number, known, one)
            return
        _bring(stage, before, name, number, _replace(record, name, number, one))
    files = ", ".join(f"{path} {digest[:12]}" for path, digest in one["files"].items())
    print(f"{name}: version {number} is published: {files}")
    served_now = before.find_served(name)
    if number != served_now:
        print(
            f"The ensemble asks for version {served_now}; next: make shift NAME={name} VERSION={number}"
        )


def _check_others(before: Pipeline, name: str, number: int, known: dict[str, Any]) -> None:
    """Raise VersionError if another served version comes from the working tree.

    It would change with the tree.
    """
    for other in before.versions(name):
        if str(other) not in known and other != number:
            now = f"make publish NAME={name} VERSION={other} FROM=HEAD"
            raise VersionError(
                f"{name}: version {other} is served, and is not published: it is whatever the working tree is; "
                f"first publish it as the commit has it that you serve: {now}"
            )


def _build_working_tree(
    stage: Stage, before: Pipeline, name: str, number: int, file: Path | None
) -> tuple[Project, Path]:
    """Build the version in a candidate, and return the candidate and the version's folder."""
    versions = sorted({*before.versions(name), number})
    after = before.set_versions(name, versions, before.find_served(name))
    record = published.read(before.root)
    record.get(name, {}).get("versions", {}).pop(str(number), None)
    changes = compute_changes(before, after) | {published.FILE: published.text(record).encode()}
    project = candidate(stage, before.root, changes)
    folder = project.repository / name / str(number)
    if number in before.versions(name) and str(number) in published.read(before.root).get(
        name, {}
    ).get("versions", {}):
        _empty(project, folder, after)
    if file:
        # Else the file is taken for one that was built, and made anew.
        (project.repository / ".built").unlink(missing_ok=True)
        _put(project, folder, file)
    complete(project, lambda line: print(line, flush=True))
    return project, folder


def _empty(project: Project, folder: Path, pipeline: Pipeline) -> None:
    """Leave of a published version's folder what the template writes: the rest is to be the working tree's."""
    shutil.rmtree(folder, ignore_errors=True)
    name = f"{folder.relative_to(project.root)}/"
    files = pipeline.files().items()
    write(project.root, {path: file.content for path, file in files if path.startswith(name)})


def _put(project: Project, folder: Path, file: Path) -> None:
    """Put a model file into a version folder, under the name that Triton looks for."""
    names = [
        Path(path).relative_to(f"{folder.parent.name}/{folder.name}")
        for path in project.model_files
        if path.startswith(f"{folder.parent.name}/{folder.name}/")
    ]
    if not names:
        raise VersionError(f"step {folder.parent.name}: has no model file; leave FILE out")
    if not file.is_file():
        raise VersionError(f"{file}: is not a file; write FILE=path of the model file")
    target = folder / names[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copyfile(file, target)


def _build_commit(stage: Stage, root: Path, name: str, commit: str) -> tuple[Project, Path]:
    """Build a commit's project, and return it and the folder of the version that its ensemble asked for."""
    folder = stage.folder / "commit"
    with tarfile.open(fileobj=io.BytesIO(git(root, "archive", commit))) as archive:
        # Python 3.11.2, which Debian 12 has, knows no filters yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    pipeline, project = Pipeline(folder), Project.load(folder)
    number = pipeline.find_served(name)
    if str(number) in published.read(folder).get(name, {}).get("versions", {}):
        raise VersionError(f"{name}: {commit} has version {number} published; name an older commit")
    complete(project, lambda line: print(line, flush=True))
    return project, project.repository / name / str(number)


def _freeze(root: Path, project: Project, folder: Path) -> dict[str, Any]:
    """Copy the files of a version to the project's store, and return its entry in versions.json."""
    files = published.freeze(root, folder)
    if not files:
        where = f"model_repository/{folder.parent.name}/{folder.name}"
        raise VersionError(f"{where}: does not have a file of yours; put the model's files there")
    sources = published.sources_digest(project, folder, list_tree_sources(project))
    return {"files": files, "sources": sources}


def _check_existing(name: str, number: int, known: dict[str, Any], one: dict[str, Any]) -> None:
    if known[str(number)]["files"] != one["files"]:
        new = max(map(int, known)) + 1
        raise VersionError(
            f"{name}: version {number} is published with other files, and never changes; write VERSION={new}"
        )
    print(f"{name}: version {number} is already published, with the same files")


def _replace(
    record: published.Record, name: str, number: int, one: dict[str, Any]
) -> published.Record:
    entry = record.get(name, {"versions": {}})
    versions = {**entry["versions"], str(number): one}
    return {**record, name: {**entry, "versions": versions}}


def _bring(
    stage: Stage, before: Pipeline, name: str, number: int, record: published.Record
) -> None:
    """Let the local Triton load the version beside the others, then write it."""
    versions = sorted({*before.versions(name), number})
    after = before.set_versions(name, versions, before.find_served(name))
    changes = compute_changes(before, after) | {published.FILE: published.text(record).encode()}
    shutil.rmtree(stage.folder / "candidate", ignore_errors=True)
    project = candidate(stage, before.root, changes)
    complete(project)
    with serve_candidate(project):
        pass
    bring(stage, before.root, changes, lambda: None)
