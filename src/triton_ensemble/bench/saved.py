"""Runs of `make bench` as files, and whether two of them can be compared."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.bench.figures import Level

CONDITIONS = ("seconds", "load", "server", "cores")


@dataclass(frozen=True)
class Run:
    """What was measured, how, and the figures. `cores` are those of this machine, if the server was on it."""

    ensemble: str
    rows: int
    seconds: float
    load: str
    server: str
    cores: int | None
    levels: list[Level]

    @staticmethod
    def read(path: Path) -> Run:
        """ValueError if the file is of none."""
        try:
            saved = json.loads(path.read_text())
            levels = [Level.of(level) for level in saved.pop("levels")]
            return Run(**saved, levels=levels)
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: is of no earlier `make bench`: {error}") from error

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    def check(self, path: Path, ensemble: str, rows: int) -> None:
        """ValueError if a run of `rows` a request of an ensemble can't be compared with this one of `path`."""
        if self.ensemble != ensemble:
            raise ValueError(f"{path}: is of {self.ensemble}, not of {ensemble}")
        if self.rows != rows:
            raise ValueError(
                f"{path}: is of {self.rows} rows a request, not of {rows}; "
                f'write ARGS="--rows {self.rows}"'
            )

    def differences(self, new: Run) -> Iterator[str]:
        """What else than the ensemble may make the figures differ."""
        for name in CONDITIONS:
            was, now = getattr(self, name), getattr(new, name)
            if was != now:
                yield f"{name} {was} -> {now}"


def make_writable(folder: Path) -> None:
    """Before anything is measured: OSError if files can't be written to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: can't be written to; give other files by --out")
