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

from tools.project import MODEL_DATA, MODEL_FILES, REPOSITORY, ROOT, STEP_MODULES

BUILT = REPOSITORY / ".built"


def copies() -> Iterator[tuple[Path, Path]]:
    """Target and source of each file that is copied: what Python models import, and models' data."""
    modules = set(STEP_MODULES.values())
    for version, module in STEP_MODULES.items():
        yield REPOSITORY / version / "triton_step.py", ROOT / "src" / "triton_step.py"
        for source in sorted((ROOT / "steps").rglob("*")):
            other_step = source.suffix == ".py" and source.stem in modules - {module}
            if source.is_file() and not other_step and "__pycache__" not in source.parts:
                yield REPOSITORY / version / "steps" / source.relative_to(ROOT / "steps"), source
    for path, name in MODEL_DATA.items():
        yield REPOSITORY / path, ROOT / "models" / name


def copy(source: Path, target: Path) -> None:
    if not source.exists():
        sys.exit(
            f"{source.relative_to(ROOT)}: is missing, and {target.relative_to(ROOT)} is made of it; put it there"
        )
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
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if folder == REPOSITORY or not folder.exists() or any(folder.iterdir()):
            return
        folder.rmdir()


def paths(lines: set[Path]) -> str:
    return "".join(f"{path.relative_to(REPOSITORY)}\n" for path in sorted(lines))


def main() -> None:
    before = (
        {REPOSITORY / line for line in BUILT.read_text().splitlines()} if BUILT.exists() else set()
    )
    sources = dict(copies())
    scripts = {REPOSITORY / path: script for path, script in MODEL_FILES.items()}
    now = sources.keys() | scripts.keys()
    for path in before - now:
        remove(path)
    BUILT.write_text(paths(now))
    for target, source in sources.items():
        copy(source, target)
    for target, script in scripts.items():
        make(script, target)


if __name__ == "__main__":
    main()
