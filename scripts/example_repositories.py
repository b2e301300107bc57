"""Render each starting pipeline into a folder, as a repository of its own would hold it.

    .venv/bin/python scripts/example_repositories.py FOLDER [NAME ...]

The projects say that they come from ADDRESS, so that `make update` works after they are published (docs/releasing.md).
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import copier
import yaml

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "gh:org/triton-ensemble-template"
EXTRAS = ["monitoring", "gateway", "kubernetes"]


def list_names() -> list[str]:
    """Return the names of the starting pipelines, but for the one that is stubs."""
    rows = yaml.safe_load((ROOT / "hooks/catalog/examples.yml").read_text(encoding="utf-8"))
    return [name for name, row in rows.items() if row.get("code")]


def render(name: str, folder: Path) -> None:
    """Copy the project of a starting pipeline to `folder`/`name`, with the extras that people look at."""
    answers = {"starting_pipeline": name, "extras": EXTRAS}
    copier.run_copy(
        str(ROOT), folder / name, data=answers, defaults=True, quiet=True, vcs_ref="HEAD"
    )
    known = folder / name / ".copier-answers.yml"
    text = known.read_text(encoding="utf-8")
    known.write_text(
        re.sub(r"(?m)^_src_path: .*$", f"_src_path: {ADDRESS}", text), encoding="utf-8"
    )


def main() -> None:
    """Render the pipelines that are named, or all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list_names(), metavar="NAME")
    given = parser.parse_args()
    for name in given.names:
        render(name, given.folder)
        print(given.folder / name)


if __name__ == "__main__":
    main()
