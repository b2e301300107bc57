"""Completes model_repository/ with what is not in git: the code of Python steps, and model files.

It remembers what it built, so that a model that left the pipeline leaves no folder behind: one without a config stops Triton.
"""

from __future__ import annotations

import filecmp
import hashlib
import importlib
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.project import (
    MODEL_DATA,
    MODEL_FILES,
    MODELS,
    OWN_MODELS,
    REPOSITORY,
    ROOT,
    STEP_MODULES,
)

BUILT = REPOSITORY / ".built"


def copies() -> Iterator[tuple[Path, Path]]:
    """Target and source of each file that is copied: what Python models import, and models' data."""
    steps, modules = ROOT / "steps", {name for names in STEP_MODULES.values() for name in names}
    own = {steps / folder for folder in OWN_MODELS.values()}
    for version, own_modules in STEP_MODULES.items():
        for shared in sorted((ROOT / "src").glob("*.py")):
            yield REPOSITORY / version / shared.name, shared
        for source in {*files(steps), *(steps / f"{name}.py" for name in own_modules)}:
            other_step = source.suffix == ".py" and source.stem in modules - {*own_modules}
            if not other_step and own.isdisjoint(source.parents):
                yield REPOSITORY / version / "steps" / source.relative_to(steps), source
    for version, name in OWN_MODELS.items():
        folder = steps / name
        for source in {*files(folder), folder / "model.py"}:
            yield REPOSITORY / version / source.relative_to(folder), source
    for path, name in MODEL_DATA.items():
        yield REPOSITORY / path, ROOT / "models" / name


def files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def copy(source: Path, target: Path) -> None:
    if not target.exists() or not filecmp.cmp(source, target, shallow=False):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def path_of(script: str) -> Path:
    return Path(ROOT, "models", f"{script}.py")


def digest(script: str) -> str:
    path = path_of(script)
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()[:16]


def make(script: str, target: Path) -> Iterator[Path]:
    """Lets models/SCRIPT.py write a model file; the files made."""
    print(f"{target.relative_to(ROOT)}: made by models/{script}.py ...", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A build that fails leaves no model file; one that ends well may leave others beside it, such as weights.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="half-") as folder:
        half = Path(folder, target.name)
        build(script, half)
        for path in sorted(half.parent.iterdir()):
            yield path.rename(target.with_name(path.name))


def build(script: str, path: Path) -> None:
    where = f"models/{script}.py"
    try:
        importlib.import_module(f"models.{script}").build(path)
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        sys.exit(f"{where}: ended with exit status {end.code}, so there is no {path.name}")
    except Exception as error:
        # From the owner's code on: how this program came to call it is of no use.
        trace = error.__traceback__
        while trace and not trace.tb_frame.f_code.co_filename.startswith(str(ROOT / "models")):
            trace = trace.tb_next
        traceback.print_exception(error.with_traceback(trace))
        sys.exit(
            f"{where}: failed, so there is no {path.name}; it needs a build(path) that writes it"
        )
    if not path.exists():
        sys.exit(f"{where}: build(path) wrote no {path.name}; write the model to `path`")


def remove(path: Path) -> None:
    """Removes a built file, and the folders that it leaves empty."""
    path.unlink(missing_ok=True)
    for folder in path.parents:
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if folder == REPOSITORY or not folder.exists() or any(folder.iterdir()):
            return
        folder.rmdir()


class Built(NamedTuple):
    """Why a file is there: the target that it is, or was made beside of, and the digest of the script that made it."""

    target: Path
    script: str = ""


def remembered() -> dict[Path, Built]:
    try:
        found = json.loads(BUILT.read_text()) if BUILT.exists() else {}
    except ValueError:
        sys.exit(f"{BUILT.relative_to(ROOT)}: is damaged; remove it")
    return {REPOSITORY / path: Built(REPOSITORY / of, by) for path, (of, by) in found.items()}


def remember(built: dict[Path, Built]) -> None:
    found = {
        str(path.relative_to(REPOSITORY)): (str(of.relative_to(REPOSITORY)), by)
        for path, (of, by) in sorted(built.items())
    }
    BUILT.write_text(json.dumps(found, indent=1))


def without_config() -> Iterator[str]:
    for folder in (REPOSITORY / name for name in MODELS):
        if not (folder / "config.pbtxt").is_file():
            path = folder.relative_to(ROOT)
            yield f"{path}: has no config.pbtxt; restore it, as by `git checkout {path}`"


def without_source(
    sources: dict[Path, Path], scripts: dict[Path, str], built: Collection[Path]
) -> Iterator[str]:
    """A model file that its owner put there needs no script."""
    made = {
        target: path_of(script)
        for target, script in scripts.items()
        if target in built or not target.exists()
    }
    targets = {source: target for target, source in (sources | made).items()}
    for source, target in sorted(targets.items()):
        if not source.is_file():
            yield f"{source.relative_to(ROOT)}: is missing, and {target.relative_to(ROOT)} is made of it; put it there"


def complete() -> None:
    managed = {REPOSITORY / version / "model.py" for version in STEP_MODULES}
    before = {path: built for path, built in remembered().items() if path not in managed}
    sources = dict(copies())
    scripts = {REPOSITORY / path: script for path, script in MODEL_FILES.items()}
    if problems := [*without_config(), *without_source(sources, scripts, before)]:
        sys.exit("\n".join(problems))
    wanted = {target: Built(target) for target in sources}
    wanted |= {target: Built(target, digest(script)) for target, script in scripts.items()}
    now = {path: built for path, built in before.items() if built == wanted.get(built.target)}
    for path in before.keys() - now.keys():
        remove(path)
    for target, source in sources.items():
        now[target] = wanted[target]
        copy(source, target)
    remember(now)
    for target, script in scripts.items():
        if not target.exists():
            now |= dict.fromkeys(make(script, target), wanted[target])
            remember(now)
    for folder in REPOSITORY.iterdir():
        if folder.is_dir() and not (folder / "config.pbtxt").exists():
            sys.exit(f"{folder.relative_to(ROOT)}: is no model of the pipeline; move it away")


def main() -> None:
    try:
        complete()
    except OSError as error:
        sys.exit(f"{REPOSITORY.relative_to(ROOT)}: can't be completed: {error}")


if __name__ == "__main__":
    main()
