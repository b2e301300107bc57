# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Completes model_repository/ with what is not in git: the code of Python steps, and model files.

It remembers what it built, so that a model that left the pipeline leaves no folder behind: one without a config stops Triton.
"""

from __future__ import annotations

import filecmp
import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.project import ENSEMBLE, MODEL_FILES, REPOSITORY, ROOT, STEP_MODULES

BUILT = REPOSITORY / ".built"


def step_files() -> Iterator[tuple[Path, Path]]:
    """Source and target of each file that a Python model needs: its steps, what they share, and triton_step.py."""
    of_steps = {module for modules in STEP_MODULES.values() for module in modules}
    for model, modules in STEP_MODULES.items():
        version = REPOSITORY / model / "1"
        yield ROOT / "src" / "triton_step.py", version / "triton_step.py"
        for source in sorted((ROOT / "steps").rglob("*")):
            other_step = source.suffix == ".py" and source.stem in of_steps - set(modules)
            if source.is_file() and not other_step and "__pycache__" not in source.parts:
                yield source, version / "steps" / source.relative_to(ROOT / "steps")


def copy(source: Path, target: Path) -> None:
    if not target.exists() or not filecmp.cmp(source, target, shallow=False):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def make(script: str, target: Path) -> None:
    """Lets models/SCRIPT.py write the model file, unless it is there."""
    if target.exists():
        return
    print(f"{target.relative_to(ROOT)}: made by models/{script}.py ...", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"half-{target.name}")  # a build that fails leaves no model file
    importlib.import_module(f"models.{script}").build(half)
    half.rename(target)


def remove(path: Path) -> None:
    """Removes a built file, and the folders that it leaves empty."""
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == REPOSITORY or not folder.exists() or any(folder.iterdir()):
            return
        folder.rmdir()


def main() -> None:
    before = (
        {REPOSITORY / line for line in BUILT.read_text().splitlines()} if BUILT.exists() else set()
    )
    copies = {target: source for source, target in step_files()}
    files = {REPOSITORY / model / path: script for model, (script, path) in MODEL_FILES.items()}
    now = copies.keys() | files.keys()
    for path in before - now:
        remove(path)
    BUILT.write_text("".join(f"{path.relative_to(REPOSITORY)}\n" for path in sorted(before | now)))
    for target, source in copies.items():
        copy(source, target)
    for target, script in files.items():
        make(script, target)
    BUILT.write_text("".join(f"{path.relative_to(REPOSITORY)}\n" for path in sorted(now)))
    if not (REPOSITORY / ENSEMBLE / "1").is_dir():
        sys.exit(
            f"model_repository/{ENSEMBLE}: has no version folder 1; restore it with git checkout"
        )


if __name__ == "__main__":
    main()
