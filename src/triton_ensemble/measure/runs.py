"""Runs of `bench` as files, and whether two of them can be compared."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.measure.figures import Level

CONDITIONS = ("seconds", "server", "cores")


@dataclass(frozen=True)
class Run:
    """The figures of a run and its conditions. If the server ran on this machine, `cores` are the machine's."""

    ensemble: str
    rows: int
    seconds: float
    server: str
    cores: int | None
    levels: list[Level]
    commit: str = ""  # that was measured; empty: none, or a server elsewhere

    @staticmethod
    def read(path: Path) -> Run:
        """Return the run of a file, or raise ValueError if it has none."""
        try:
            saved = json.loads(path.read_text())
            levels = [Level.restore(level) for level in saved["levels"]]
            conditions = {name: saved[name] for name in ("ensemble", "rows", *CONDITIONS)}
            return Run(**conditions, levels=levels, commit=saved.get("commit", ""))
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: is not from `make bench`: {error}") from error

    def write(self, path: Path) -> None:
        """Write the run as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    def check(self, path: Path, ensemble: str, rows: int) -> None:
        """Raise ValueError unless this run, of `path`, can be compared with a run of an ensemble with `rows` a request."""
        if self.ensemble != ensemble:
            raise ValueError(f"{path}: is of {self.ensemble}, not of {ensemble}")
        if self.rows != rows:
            raise ValueError(
                f"{path}: is of {self.rows} rows a request, not of {rows}; "
                f'write ARGS="--rows {self.rows}"'
            )

    def differences(self, new: Run) -> Iterator[str]:
        """Yield the conditions in which a `new` run differs."""
        for name in CONDITIONS:
            was, now = getattr(self, name), getattr(new, name)
            if was != now:
                yield f"{name} {was} -> {now}"
