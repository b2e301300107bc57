"""What a complete model repository is made of: files that are copied, and scripts that make model files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import triton_step
from triton_ensemble import adapter
from triton_ensemble.project import Project
from triton_ensemble.repository import adopted

# Packages that lie beside each generated model.py, under the names by which it imports them.
PACKAGES = {"triton_adapter": adapter, "triton_step": triton_step}


def copies(project: Project) -> dict[Path, Path]:
    """Return the source of each file to copy, by its target: what Python models import, and models' data."""
    pairs = (
        *_step_code(project),
        *_own_models(project),
        *_model_data(project),
        *adopted.copies(project),
    )
    return dict(pairs)


def scripts(project: Project) -> dict[Path, Path]:
    """Return the script of models/ that makes a model file, by the file."""
    made = {
        project.repository / path: project.root / "models" / f"{script}.py"
        for path, script in project.model_files.items()
    }
    return made | dict(adopted.made(project))


def adapter_files(version: Path) -> Iterator[tuple[Path, Path]]:
    """Yield target and source of what a generated model.py imports, for its version folder."""
    for name, package in PACKAGES.items():
        for source in _files(Path(str(package.__file__)).parent, "*.py"):
            yield version / name / source.name, source


def _step_code(project: Project) -> Iterator[tuple[Path, Path]]:
    """A step's version folder has all of steps/ but the modules of other steps and models of their own."""
    steps = project.root / "steps"
    modules = {module for served in project.step_modules.values() for module in served}
    own_models = {steps / folder for folder in project.own_models.values()}
    for version, served in project.step_modules.items():
        folder = project.repository / version
        yield from adapter_files(folder)
        for source in sorted((project.root / "src").glob("*.py")):
            yield folder / source.name, source
        for source in {*_files(steps), *(steps / f"{module}.py" for module in served)}:
            other_step = source.suffix == ".py" and source.stem in modules - {*served}
            if not other_step and own_models.isdisjoint(source.parents):
                yield folder / "steps" / source.relative_to(steps), source


def _own_models(project: Project) -> Iterator[tuple[Path, Path]]:
    for version, name in project.own_models.items():
        folder = project.root / "steps" / name
        for source in {*_files(folder), folder / "model.py"}:
            yield project.repository / version / source.relative_to(folder), source


def _model_data(project: Project) -> Iterator[tuple[Path, Path]]:
    for path, name in project.model_data.items():
        yield project.repository / path, project.root / "models" / name


def _files(folder: Path, pattern: str = "*") -> Iterator[Path]:
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
