# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Completes model_repository/ with what is not in git: the code of Python steps, and model files.

It remembers what it built, so that a model that left the pipeline leaves no folder behind: one without a config stops Triton.
"""

from __future__ import annotations

import filecmp
import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.project import MODEL_DATA, MODEL_FILES, REPOSITORY, ROOT, STEP_MODULES

BUILT = REPOSITORY / ".built"


def copies() -> Iterator[tuple[Path, Path]]:
    """Target and source of each file that is copied: what Python models import, and models' data."""
    modules = set(STEP_MODULES.values())
    for version, module in STEP_MODULES.items():
        for shared in sorted((ROOT / "src").glob("*.py")):
            yield REPOSITORY / version / shared.name, shared
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


def make(script: str, target: Path) -> dict[Path, Path]:
    """Lets models/SCRIPT.py write the model file, unless it is there; the files made, each with the target."""
    if target.exists():
        return {}
    print(f"{target.relative_to(ROOT)}: made by models/{script}.py ...", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A build that fails leaves no model file; one that ends well may leave others beside it, such as weights.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="half-") as folder:
        half = Path(folder, target.name)
        importlib.import_module(f"models.{script}").build(half)
        beside = sorted(path for path in half.parent.iterdir() if path != half)
        return {path.rename(target.with_name(path.name)): target for path in [*beside, half]}


def remove(path: Path) -> None:
    """Removes a built file, and the folders that it leaves empty."""
    path.unlink(missing_ok=True)
    for folder in path.parents:
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if folder == REPOSITORY or not folder.exists() or any(folder.iterdir()):
            return
        folder.rmdir()


def remembered() -> dict[Path, Path]:
    """What is built: each file, with the one that it was made beside of."""
    lines = BUILT.read_text().splitlines() if BUILT.exists() else []
    pairs = [line.partition("\t") for line in lines]
    return {REPOSITORY / path: REPOSITORY / (target or path) for path, _, target in pairs}


def remember(built: dict[Path, Path]) -> None:
    pairs = sorted((p.relative_to(REPOSITORY), t.relative_to(REPOSITORY)) for p, t in built.items())
    BUILT.write_text("".join(f"{p}\n" if p == t else f"{p}\t{t}\n" for p, t in pairs))


def main() -> None:
    before = remembered()
    sources = dict(copies())
    scripts = {REPOSITORY / path: script for path, script in MODEL_FILES.items()}
    now = {path: path for path in [*sources, *scripts]}
    for path, target in before.items():
        if target in now:
            now.setdefault(path, target)
        else:
            remove(path)
    remember(now)
    for target, source in sources.items():
        copy(source, target)
    for target, script in scripts.items():
        now |= make(script, target)
    remember(now)


if __name__ == "__main__":
    main()
