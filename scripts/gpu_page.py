"""Write what was measured on a GPU into docs/gpu.md: `python -m scripts.gpu_page`.

The figures are those of benchmarks/gpu/results.json, which `python3 -m benchmarks.gpu.run` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "gpu" / "results.json"
PAGE = ROOT / "docs" / "gpu.md"
CARD, NO_GPU = "card, driver, memory, MIG", "no GPU: every figure is of the CPU"
COLUMNS = ["at once", "per s", "CPU ms", "GPU", "off", "note"]
BEGIN, END = "<!-- Written by scripts/gpu_page.py: begin -->\n", "<!-- end -->\n"
NOTHING = """\
Nothing yet: the template's tests have not run on a GPU. They check the configs against Triton's rules of
placement. They also run the local Triton, with a stand-in for the driver.
"""
Results = dict[str, Any]
MOST = 32  # callers of the rows in docs/gpu.md; results.md has all rows


def table(results: Results) -> str:
    """Return the results in Markdown: the machine, the command, and a line for each row."""
    lines = [f"- {name}: {text}" for name, text in results["machine"].items()]
    lines += ["", f"| | {' | '.join(COLUMNS)} |", f"|---{'|---' * len(COLUMNS)}|"]
    for name, item in results["items"].items():
        if item["state"] != "measured":
            lines.append(f"| **{name}: {item['state']}** |{' |' * len(COLUMNS)}")
        for row in item["rows"]:
            cells = [str(row.get(column, "")).replace("|", "/") for column in COLUMNS]
            lines.append(f"| {row.get('what', name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_part(page: Path, results: Any) -> str:
    """Return a page with the part of these results; ValueError if they lack the card, the driver or the command."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    machine = results["machine"] if results else {CARD: NO_GPU}
    part = NOTHING
    if machine.get(CARD) != NO_GPU:
        if len(machine.get(CARD, "").split(", ")) < 3 or not machine.get("command"):
            raise ValueError("the results lack the card, its driver or the command; run it again")
        part = table(_shorten(results))
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


def _shorten(results: Any) -> Any:
    """Return the rows of the most callers, and those without callers."""
    items = {
        name: {**item, "rows": [r for r in item["rows"] if r.get("at once", MOST) == MOST]}
        for name, item in results["items"].items()
    }
    return {**results, "items": items}


def read_results() -> Any:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else None


if __name__ == "__main__":
    PAGE.write_text(write_part(PAGE, read_results()))
