"""Published versions: `versions.json` names the files of each by digest, `versions/` has them.

A version folder of the model repository that is published gets its files from there, and no other from the working
tree but the toolkit's own. A published version never changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from triton_ensemble.facts.project import Project, list_foreign
from triton_ensemble.facts.reading import (
    DATA_BYTES,
    iter_files,
    read_bytes,
    read_json,
)
from triton_ensemble.serve import RepositoryError, model_files

FILE = "versions.json"
STORE = "versions"
# What the toolkit or the template writes into a version folder: it follows the toolkit in each version alike.
TOOLKITS = ("triton_adapter", "triton_step", "step_types.py", "model.py", "step.json", "README.md")

Files = dict[str, str]  # digests by path in a version folder
Record = dict[str, dict[str, Any]]  # by model: its `versions`, and the `previous` one


class Frozen(NamedTuple):
    """A file of a published version: its place in the store, and its digest."""

    blob: Path
    digest: str
    said: str  # of which version, in words


def read(root: Path) -> Record:
    """Return the content of versions.json, or raise RepositoryError if it is damaged."""
    path = root / FILE
    try:
        record: Record = read_json(path) if path.exists() else {}
        for model in record.values():
            for version, one in model["versions"].items():
                int(version), dict(one["files"]), str(one["sources"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RepositoryError(_describe_damage(read_bytes(path, DATA_BYTES))) from None
    return record


def _describe_damage(content: bytes) -> str:
    """Return what is wrong with a file that can't be read.

    That may be git's conflict, after two branches published a version.
    """
    before, conflict, _ = content.partition(b"<<<<<<< ")
    if not conflict:
        return f"{FILE}: is damaged; restore it: git checkout {FILE}"
    keep = "keep the entries of both branches, one as a version with a new number"
    marks = "without the lines <<<<<<<, ======= and >>>>>>>"
    line = before.count(b"\n") + 1
    return f"{FILE}:{line}: has a conflict; {keep}, {marks}; then: git add {FILE}"


def text(record: Record) -> str:
    """Return a record as versions.json has it."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def keep(root: Path, path: Path, name: str) -> str:
    """Copy a file into the store, unless it is there, and return its digest."""
    known = digest(path)
    place = _find_place(root, name, known)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_suffix(".new")
        shutil.copyfile(path, unfinished)
        take(unfinished, place)
    return known


def take(unfinished: Path, place: Path) -> None:
    """Give the store a file that is complete."""
    unfinished.chmod(0o444)  # large ones are linked into the model repository
    unfinished.replace(place)


@contextmanager
def undo_on_failure(root: Path) -> Iterator[None]:
    """Remove from the store what a block has put there, if the block fails."""
    before = {*(root / STORE).glob("*/*")}
    try:
        yield
    except BaseException:
        for path in {*(root / STORE).glob("*/*")} - before:
            path.unlink()
        raise


def _find_place(root: Path, name: str, known: str) -> Path:
    """Return the place of a file in the store: git keeps code, but not model files."""
    kind = "code" if name.startswith("steps/") or name.endswith((".py", ".json")) else "models"
    return root / STORE / kind / known


def find_kept_file(root: Path, name: str, known: str) -> Path:
    """Return the path of a file in the store, or raise RepositoryError if it is missing or is another."""
    place = _find_place(root, name, known)
    if problem := _problem(Frozen(place, known, name), root):
        raise RepositoryError(problem)
    return place


def freeze(root: Path, folder: Path) -> Files:
    """Copy what the owner has in a version folder into the store, and return the digests by path.

    Raise RepositoryError for links out of the project.
    """
    paths = [path for path in iter_files(folder) if not is_toolkits(path.relative_to(folder))]
    if foreign := list_foreign(paths, folder):
        raise RepositoryError("\n".join(foreign))
    names = sorted(str(path.relative_to(folder)) for path in paths)
    return {name: keep(root, folder / name, name) for name in names}


def is_toolkits(path: Path) -> bool:
    """Return whether a file, by its path in a version folder, is not the owner's."""
    return path.parts[0] in TOOLKITS or "__pycache__" in path.parts


def sources_digest(project: Project, folder: Path, copies: Mapping[Path, Path]) -> str:
    """Return a digest of what the working tree has for a version folder: code, and the scripts of model files."""
    code = sorted(
        (str(target.relative_to(folder)), digest(source))
        for target, source in copies.items()
        if target.is_relative_to(folder) and not is_toolkits(target.relative_to(folder))
    )
    name = str(folder.relative_to(project.repository))
    scripts = sorted(
        {script for path, script in project.model_files.items() if path.startswith(f"{name}/")}
    )
    made = [model_files.digest(project.root / "models" / f"{script}.py") for script in scripts]
    return hashlib.sha256(json.dumps([code, made]).encode()).hexdigest()


def list_frozen(project: Project) -> dict[Path, Frozen]:
    """Return the files of the published versions that the project serves, by their places in the model repository."""
    found = {}
    for model, version, one in _list_published(project):
        for name, known in one["files"].items():
            said = f"{name} of {model}'s version {version}"
            place = _find_place(project.root, name, known)
            found[project.repository / model / version / name] = Frozen(place, known, said)
    return found


def iter_kept_files(root: Path) -> Iterator[Frozen]:
    """Yield what the store must have, also of versions that are not served."""
    for model, entry in read(root).items():
        for version, one in entry["versions"].items():
            for name, known in one["files"].items():
                said = f"{name} of {model}'s version {version}"
                yield Frozen(_find_place(root, name, known), known, said)


def folders(project: Project) -> set[Path]:
    """Return the version folders that are published, and served."""
    return {project.repository / model / version for model, version, _ in _list_published(project)}


def _list_published(project: Project) -> Iterator[tuple[str, str, dict[str, Any]]]:
    served = {tuple(Path(path).parts[:2]) for path in (*project.step_modules, *project.model_files)}
    for model, entry in read(project.root).items():
        for version, one in entry["versions"].items():
            bare = project.repository / model / version / "README.md"
            if (model, version) in served or bare.is_file():
                yield model, version, one


def problems(project: Project) -> Iterator[str]:
    """Yield a line for each file of a published version that is missing in the store, or is another there."""
    for target, file in list_frozen(project).items():
        known = target.exists() and file.blob.exists() and _same(target, file.blob)
        if not known and (problem := _problem(file, project.root)):
            yield problem


def _same(target: Path, blob: Path) -> bool:
    """Return whether a file was copied from the store, which compared its digest: the content is not read again."""
    have, want = target.stat(), blob.stat()
    return target.samefile(blob) or (have.st_size, have.st_mtime_ns) == (
        want.st_size,
        want.st_mtime_ns,
    )


def _problem(file: Frozen, root: Path) -> str:
    where = file.blob.relative_to(root)
    if not file.blob.is_file():
        there = "copy it from where that was published, or name the bucket that has it: STORE=s3://bucket/prefix"
        return f"{where}: is missing, which is {file.said}; {there}"
    if digest(file.blob) != file.digest:
        return f"{where}: is damaged, which is {file.said}; copy it again from where that was published"
    return ""


def notes(project: Project, copies: Mapping[Path, Path]) -> Iterator[str]:
    """Yield a line for each model whose working tree is in none of its published versions."""
    known = read(project.root)
    of_model: dict[str, list[tuple[str, str]]] = {}
    for model, version, one in _list_published(project):
        of_model.setdefault(model, []).append((version, one["sources"]))
    for model, versions in of_model.items():
        now = sources_digest(project, project.repository / model / versions[0][0], copies)
        if now not in {sources for _, sources in versions}:
            new = max(map(int, known[model]["versions"])) + 1
            then = f"make publish NAME={model} VERSION={new}"
            yield f"{model}: no published version has the code of the working tree, so Triton does not serve it; {then}"
