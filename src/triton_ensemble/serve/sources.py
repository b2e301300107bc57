"""The sources of a complete model repository: files to copy, and scripts that make model files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.facts.config.repository import model_config
from triton_ensemble.facts.project import Project
from triton_ensemble.serve import adopted, published

# Packages that lie beside each generated model.py, by the names under which it imports them. To import them here takes NumPy.
INSTALLED = Path(__file__).parents[2]
PACKAGES = {
    "triton_adapter": INSTALLED / "triton_ensemble/adapter",
    "triton_step": INSTALLED / "triton_step",
}


def copies(project: Project) -> dict[Path, Path]:
    """Return the source of each file to copy, by its target: what Python models import, and models' data.

    Of a published version it is what was frozen.
    """
    blobs = {target: file.blob for target, file in published.list_frozen(project).items()}
    return _not_frozen(project, list_tree_sources(project)) | blobs


def list_tree_sources(project: Project) -> dict[Path, Path]:
    """Return the source of each file to copy, by its target, as if no version were published."""
    pairs = (
        *_step_code(project),
        *_iter_model_data(project),
        *_iter_backend_files(project),
        *adopted.copies(project),
    )
    return dict(pairs)


def _not_frozen(project: Project, files: dict[Path, Path]) -> dict[Path, Path]:
    """Return the files without the owner's in the folders of published versions."""
    folders = published.folders(project)
    return {
        target: source
        for target, source in files.items()
        if not any(
            target.is_relative_to(folder) and not published.is_toolkits(target.relative_to(folder))
            for folder in folders
        )
    }


def scripts(project: Project) -> dict[Path, Path]:
    """Return the script of models/ that makes a model file, by the file."""
    made = {
        project.repository / path: project.root / "models" / f"{script}.py"
        for path, script in project.model_files.items()
    }
    return _not_frozen(project, made | dict(adopted.iter_made_files(project)))


def iter_adapter_files(version: Path) -> Iterator[tuple[Path, Path]]:
    """Yield target and source of what a generated model.py imports, for its version folder."""
    for name, folder in PACKAGES.items():
        for source in _files(folder, "*.py"):
            yield version / name / source.name, source


def _step_code(project: Project) -> Iterator[tuple[Path, Path]]:
    """Return the code of a step's version folder: all of steps/ except other steps' NAME.py and folders NAME/."""
    steps = project.root / "steps"
    modules = {module for served in project.step_modules.values() for module in served}
    for version, served in project.step_modules.items():
        folder = project.repository / version
        yield from iter_adapter_files(folder)
        for source in sorted((project.root / "src").glob("*.py")):
            yield folder / source.name, source
        for source in {*_files(steps), *(steps / f"{module}.py" for module in served)}:
            path = source.relative_to(steps)
            if path.parts[0].removesuffix(".py") not in modules - {*served}:
                yield folder / "steps" / path, source


def _iter_model_data(project: Project) -> Iterator[tuple[Path, Path]]:
    for path, name in project.model_data.items():
        yield project.repository / path, project.root / "models" / name


def _iter_backend_files(project: Project) -> Iterator[tuple[Path, Path]]:
    """Yield the files of `backends/NAME/` for each model of that backend, whose library Triton finds beside the config."""
    own = {path.name: path for path in (project.root / "backends").glob("*") if path.is_dir()}
    for name in project.models if own else ():
        backend = model_config(project.repository, name).backend
        for source in _files(own[backend]) if backend in own else ():
            yield project.repository / name / source.relative_to(own[backend]), source


def _files(folder: Path, pattern: str = "*") -> Iterator[Path]:
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
