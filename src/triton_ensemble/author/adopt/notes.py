"""Notes for the owner of an adopted repository beside pipeline.yml: what to copy, what is not kept, what is missing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from triton_ensemble.author.adopt.calls import Calls
from triton_ensemble.author.adopt.ensembles import Models, declares_all
from triton_ensemble.author.adopt.files import files_of
from triton_ensemble.author.adopt.placeholders import find_quoted
from triton_ensemble.author.adopt.refusal import config_of
from triton_ensemble.check.calls import nodes
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rules.backends import find_wanted_file, list_known_backends
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.config.syntax import has_comments
from triton_ensemble.facts.reading import read_codes, read_text

LISTED = 6  # names that a line has
LARGE_BYTES = 50_000_000  # from which on hosts of git repositories warn; they refuse twice as much
FIRST_PARTY = {"c_python_backend_utils", "numpy", "triton_python_backend_utils"}


def to_copy(models: Iterable[Model]) -> Iterator[str]:
    """Iterate over lines on the files that a project keeps of its models."""
    for model in models:
        if files := [path.as_posix() for path in files_of(model)]:
            yield f"{model.name}: copy {_join_names(files)} to models/{model.name}/, in the same folders"


def notes_on(repository: Path, needed: Models) -> Iterator[str]:
    """Iterate over the lines on what the project does not have of a repository, and on what to do."""
    for model in needed.values():
        for note in NOTES:
            yield from note(model)
    commented = [model.name for model in needed.values() if _is_commented(model)]
    if commented:
        yield f"comments are not kept, of the configs of {_join_names(commented)}"
    beside = sorted(path.name for path in repository.iterdir() if path.is_file())
    if beside:
        yield f"files beside the models are not kept: {_join_names(beside)}"


def name_left_out(
    repository: Repository, needed: Models, faults: Iterable[Finding], calls: Calls
) -> Iterator[str]:
    """Iterate over lines on the models that are not adopted, with the reason."""
    left = {name: each for name, each in repository.folders.items() if name not in needed}
    for fault in faults:
        if left.pop(name := fault.file.parent.name, None):
            yield f"not adopted: {name}/{fault.file.name}:{fault.line}: {fault.words}"
    for caller in sorted(calls.computed.keys() & needed.keys()):
        for name in [name for name in left if not declares_all(repository.models[name])]:
            what = f"{caller} may call it, and it declares no inputs or no outputs"
            yield f"not adopted: {config_of(left.pop(name).folder.name)}: {what}; declare them"
    if unused := sorted(left):
        yield f"not adopted, as nothing of the ensemble uses them: {_join_names(unused)}"


def name_computed(needed: Models, calls: Calls, called: Mapping[str, list[str]]) -> Iterator[str]:
    """Iterate over lines on calls of a model that no text names."""
    for caller in sorted(calls.computed.keys() & needed.keys()):
        names = [name for name in called.get(caller, ()) if name not in calls.named[caller]]
        others = f": {_join_names(names)}; drop from `calls` what it never calls" if names else ""
        for place in calls.computed[caller]:
            what = "computes the name of the model that it calls, so that all others are adopted"
            yield f"{place}: {what}{others}"


def _find_missing(model: Model) -> Iterator[str]:
    for file in dict.fromkeys(filter(None, _iter_named_files(model))):
        if not (model.folder / file).exists():
            yield f"{model.name}: has no {file}; put it at models/{model.name}/{file}"


def _iter_named_files(model: Model) -> Iterator[str]:
    """Yield the paths of the files that a config names, in the model's folder. Some paths are empty."""
    if file := find_wanted_file(model):
        yield from (f"{version}/{file.lstrip('/')}" for version in model.loaded)
    yield from (tensor.label_filename for tensor in model.config.output)
    for sample in model.config.model_warmup:
        for tensor in sample.inputs.values():
            yield tensor.input_data_file and f"warmup/{tensor.input_data_file}"


def _large(model: Model) -> Iterator[str]:
    how = "keep it by Git LFS, or let a script fetch it"
    for path in files_of(model):
        size = (model.folder / path).stat().st_size
        if size > LARGE_BYTES:
            megabytes = f"{size // 10**6} MB are too much for git"
            yield f"models/{model.name}/{path.as_posix()}: {megabytes}; {how}"


def _find_ignored(model: Model) -> Iterator[str]:
    for path in sorted(model.folder.rglob(".gitignore")):
        file = path.relative_to(model.folder).as_posix()
        yield f"{model.name}: {file} is not kept, as it may keep models out of git"


def _imports(model: Model) -> Iterator[str]:
    if packages := _packages(model):
        how = "add them to its `requirements`"
        yield f"{model.name}: imports {_join_names(packages)}; {how}"


def _own_backend(model: Model) -> Iterator[str]:
    name = model.backend
    if name.startswith("$"):
        yield f"{model.name}: its backend is still {name}; write the name of one, like tensorrtllm"
    elif not model.is_ensemble and name not in list_known_backends():
        what = f"the backend {name} is not one of Triton's"
        where = f"in models/{model.name}/ or in the image that TRITON_IMAGE names"
        yield f"{model.name}: {what}; its library must be {where}"


NOTES = (_find_missing, _large, _find_ignored, _imports, _own_backend, find_quoted)


def _packages(model: Model) -> list[str]:
    """Return the packages that a Python model imports, unless it has an environment of its own."""
    if model.backend != "python" or "EXECUTION_ENV_PATH" in model.config.parameters:
        return []
    files = [path for path in files_of(model) if path.suffix == ".py"]
    own = {part for path in files_of(model) for part in (*path.parts[:-1], path.stem)}
    known = own | FIRST_PARTY | sys.stdlib_module_names
    imported = {name for path in files for name in _iter_imported(model.folder / path)} - known
    names = catalog.table("imports")
    return sorted({names.get(name, name.replace("_", "-")) for name in imported})


def _iter_imported(path: Path) -> Iterator[str]:
    """Iterate over the outermost names of the modules that a file imports, wherever in it."""
    for node in nodes(b"".join(read_codes([path]))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _is_commented(model: Model) -> bool:
    return model.has_config and has_comments(read_text(model.path))


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
