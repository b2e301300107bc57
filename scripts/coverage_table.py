"""Print what the tests of `make test COVERAGE=1` ran: lines and branches of each package, lines and macros of templates.

Exit with 1 where the lines and branches of src/ that were run are below `fail_under` of tests/coverage.toml, in percent,
or below WORKERS if the argument is `workers`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coverage import Coverage, CoverageData
from coverage.exceptions import CoverageWarning, DataError

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "build/coverage"
COMBINED = ROOT / "build/coverage.data"
DETAILS = ROOT / "build/coverage.json"
WORKERS = 64  # percent of src/ that pytest's own processes run in `make test`; 64.9 was measured
Summary = dict[str, Any]  # of a file, in the JSON report


class Counts(NamedTuple):
    """How many lines and branches there are, and how many of them were run."""

    lines: int = 0
    run_lines: int = 0
    branches: int = 0
    run_branches: int = 0

    def plus(self, summary: Summary) -> Counts:
        keys = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        return Counts(*(mine + summary.get(key, 0) for mine, key in zip(self, keys, strict=True)))

    @property
    def percent(self) -> float:
        """Return the percentage of lines and branches that were run, as coverage.py counts it."""
        whole = self.lines + self.branches
        return 100 * (self.run_lines + self.run_branches) / whole if whole else 100


def sources() -> Iterator[str]:
    """Yield each file that can be run, also those that no test imports."""
    patterns = ("src/**/*.py", "hooks/**/*.jinja", "template/**/*.jinja")
    for pattern in patterns:
        yield from (str(path) for path in ROOT.glob(pattern) if path.is_file())


def is_combinable(path: Path) -> bool:
    """Return whether data can be combined: a process that ran our templates without their plugin counts other lines."""
    data = CoverageData(str(path))
    try:
        data.read()
    except DataError:  # of a process that was killed
        return False
    templates = [f for f in data.measured_files() if f.endswith(".jinja")]
    return all(data.file_tracer(f) for f in templates if f.startswith(f"{ROOT}/"))


def report(coverage: Coverage) -> dict[str, Any]:
    """Combine the data of all processes, and return the JSON report on the sources."""
    if found := [str(path) for path in DATA.glob("data.*") if is_combinable(path)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)  # of a process that was killed
            coverage.combine(found, strict=True)
        coverage.save()
        for path in DATA.glob("data.*"):
            path.unlink(missing_ok=True)
    coverage.load()
    files = sorted(sources())
    coverage.get_data().touch_files([f for f in files if f.endswith(".py")])
    coverage.get_data().touch_files(
        [f for f in files if f.endswith(".jinja")], "jinja_coverage.JinjaPlugin"
    )
    include = [file.replace("[", "[[]").replace("{", "[{]") for file in files]
    coverage.json_report(outfile=str(DETAILS), include=include, ignore_errors=True)
    details: dict[str, Any] = json.loads(DETAILS.read_text())["files"]
    return details


def package_of(name: str) -> str:
    """Return the row of the table that a file counts in: a package of the toolkit, or a folder of templates."""
    top, *rest = Path(name).parts
    if top == "src":
        return "/".join(["src", *rest[:-1]][:3])
    return "/".join([top, *rest[:-1]][:2]) if top == "hooks" else top


def count(details: dict[str, Any]) -> dict[str, Counts]:
    """Return the counts by row of the table."""
    rows: dict[str, Counts] = defaultdict(Counts)
    for name, file in details.items():
        package = package_of(name)
        for row in (package, f"{package.partition('/')[0]}, all"):
            rows[row] = rows[row].plus(file["summary"])
    return dict(sorted(rows.items()))


def silent_macros(details: dict[str, Any]) -> Iterator[str]:
    """Yield each macro of which no line was run."""
    for name, file in sorted(details.items()):
        for macro, region in file.get("macros", {}).items():
            if macro and not region["summary"]["covered_lines"]:
                yield f"{name}: {macro}"


def table(rows: dict[str, Counts]) -> Iterable[str]:
    """Yield the table's lines."""
    yield f"{'':34}{'lines':>8}{'run':>7}{'branches':>10}{'run':>7}{'both':>7}"
    for name, row in rows.items():
        lines = 100 * row.run_lines / max(row.lines, 1)
        branches = f"{100 * row.run_branches / row.branches:.0f}%" if row.branches else "-"
        yield (
            f"{name:34}{row.lines:8}{lines:6.0f}%{row.branches or '-':>10}{branches:>7}"
            f"{row.percent:6.1f}%"
        )


def main() -> None:
    """Print the table, the macros that no test calls, and what is too low."""
    coverage = Coverage(str(COMBINED), config_file=str(ROOT / "tests/coverage.toml"))
    details = report(coverage)
    rows = count(details)
    print("\n".join(table(rows)))
    macros = list(silent_macros(details))
    print(f"macros that no test calls: {len(macros)}", *macros, sep="\n  ")
    least = float(str(coverage.get_option("report:fail_under")))
    if "workers" in sys.argv:
        least = WORKERS
    if rows["src, all"].percent < least:
        sys.exit(f"src: {rows['src, all'].percent:.1f} %, of at least {least} %")


if __name__ == "__main__":
    main()
