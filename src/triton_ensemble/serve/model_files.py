"""Model files are made by the owner's scripts: `build(path)` of models/NAME.py writes the file at `path`."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType

from triton_ensemble.facts.model_formats import BY_ENDING, recognise
from triton_ensemble.facts.terminal import give_streams
from triton_ensemble.serve import RepositoryError

UNFINISHED = "half-"  # and the process that writes in the folder of this name


def digest(script: Path) -> str:
    """Return a digest of models/NAME.py and of the files in models/NAME/, by which a change of them is noticed."""
    data = sorted(path for path in script.with_suffix("").rglob("*") if path.is_file())
    content = hashlib.sha256(script.read_bytes() if script.exists() else b"")
    for path in data:
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()[:16]


def make(script: Path, target: Path, root: Path) -> Iterator[Path]:
    """Let a script write a model file, and yield the place of each file before it is there, to be recorded first.

    A build that fails or is interrupted leaves no file. A successful build may write others beside the model file, such
    as weights. The model file comes last.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_unfinished(target.parent)
    prefix = f"{UNFINISHED}{os.getpid()}-"
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=prefix) as folder:
        unfinished = Path(folder, target.name)
        with _raise_interrupts():
            _build(script, unfinished, root)
        for path in sorted(
            unfinished.parent.iterdir(), key=lambda path: (path == unfinished, path)
        ):
            place = target.with_name(path.name)
            yield place
            path.rename(place)


def _remove_unfinished(folder: Path) -> None:
    """Remove what builds that were killed have left."""
    for path in folder.glob(f"{UNFINISHED}*-*"):
        process = path.name.removeprefix(UNFINISHED).partition("-")[0]
        if process.isdecimal() and not _runs(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


@contextmanager
def _raise_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end too: scikit-learn takes Ctrl-C for the end of the training."""
    interrupted: list[int] = []

    def interrupt(number: int, _: object) -> None:
        interrupted.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


def _build(script: Path, path: Path, root: Path) -> None:
    where = script.relative_to(root)
    try:
        with _make_importable(root), give_streams():
            _module(script).build(path)
    except SystemExit as end:
        if isinstance(end.code, str):
            raise RepositoryError(end.code) from end
        status = f"ended with exit status {end.code}, so there is no {path.name}"
        raise RepositoryError(f"{where}: {status}") from end
    except Exception as error:
        traceback.print_exception(
            error.with_traceback(_cut_traceback(script.parent, error.__traceback__))
        )
        reason = f"failed, so there is no {path.name}; it needs a build(path) that writes it"
        raise RepositoryError(f"{where}: {reason}") from error
    if not path.exists():
        raise RepositoryError(
            f"{where}: build(path) wrote no {path.name}; write the model to `path`"
        )
    wanted = BY_ENDING.get(path.suffix)
    if wanted and path.is_file() and (wrote := recognise(path).format) not in ("", *wanted):
        instead = f"write {wanted[0]}, as the backend needs"
        raise RepositoryError(f"{where}: build(path) wrote {wrote} into {path.name}; {instead}")


def _cut_traceback(folder: Path, trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the owner's code on, without this program's own calls."""
    while trace and not trace.tb_frame.f_code.co_filename.startswith(str(folder)):
        trace = trace.tb_next
    return trace


def _module(script: Path) -> ModuleType:
    return importlib.import_module(f"models.{script.stem}")


@contextmanager
def _make_importable(root: Path) -> Iterator[None]:
    """Let a script import its neighbours as `models.NAME`, as if the project were the current folder."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
