"""Write what examples/*/about.yml say into the files that list starting pipelines, and link their folders in template/.

    PYTHONPATH=src python scripts/lists.py

It also runs scripts/schema.py and scripts/reference.py, whose files list them too.

about.yml has `help`, what the first question says; `order`, where it offers the pipeline; `takes`, `returns` and
`note`, the row of docs/questions.md. It may have `openai`, the answer of that name in a project with the gateway;
`curl`, the file whose bytes README.md sends if the one input is not text; and `client`, a pattern of what the Python
client in the pipeline's README.md prints.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CATALOG = ROOT / "src/triton_ensemble/catalog/examples.yml"
WORKFLOWS = [ROOT / f".github/workflows/{name}.yml" for name in ("test", "gpu")]
HEAD = """\
# Written by scripts/lists.py, which explains about.yml: the starting pipelines, in the order in which they are offered.
# code: it has steps/, models/ and tests/ for all of its steps, written for tensors with a batch dimension; otherwise they are
# stubs. files: what else of text the project owns. folders: of any files, each a link in template/.
"""
COLUMNS = ("takes", "returns", "note")
# Templates of their own write these tests.
TESTS = {"tests/test_reference.py", "tests/test_steps.py"}

Row = dict[str, Any]


def read_examples() -> dict[str, Row]:
    """Return what about.yml of each starting pipeline says, in the order in which they are offered."""
    rows = {path.parent.name: read(path) for path in ROOT.glob("examples/*/about.yml")}
    return dict(sorted(rows.items(), key=lambda item: item[1]["order"]))


def read(path: Path) -> Row:
    row: Row = yaml.safe_load(path.read_text(encoding="utf-8"))
    return row


def list_files(name: str) -> Row:
    """Return what the catalogue says of a starting pipeline's files."""
    root = ROOT / "examples" / name
    if not (root / "steps").exists():
        return {}
    data = sorted(p.name for p in root.glob("steps/*") if p.is_dir() and p.name != "__pycache__")
    folders = ["samples/", *(f"steps/{each}/" for each in data)]
    files = [name for name in iter_files(root) if not name.startswith(tuple(folders))]
    return {"code": True, "files": files, "folders": folders}


def iter_files(root: Path) -> Iterator[str]:
    """Yield the paths of a starting pipeline's files that no template of their own brings."""
    steps = {step["name"] for step in read(root / "pipeline.yml")["steps"]}
    for path in sorted(root.glob("*/**/*")):
        name = path.relative_to(root).as_posix()
        is_step = path.parent.parent == root and path.name.partition(".")[0] in steps
        if path.is_file() and path.suffix != ".pyc" and not is_step and name not in TESTS:
            yield name


def write_catalog() -> str:
    """Return the table that the package and the hooks read."""
    rows = {
        name: {"help": about["help"], **list_files(name)}
        | {key: about[key] for key in ("curl", "openai") if key in about}
        for name, about in read_examples().items()
    }
    return HEAD + "".join(
        f"{name}: {json.dumps(row, ensure_ascii=False)}\n" for name, row in rows.items()
    )


def write_rows() -> str:
    """Return the rows of the table in docs/questions.md."""
    rows = (
        [f"[`{name}`](../examples/{name}/README.md)", *(about.get(key) for key in COLUMNS)]
        for name, about in read_examples().items()
    )
    return "".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|\n" for row in rows)


def pages() -> dict[Path, str]:
    """Return the text of each file."""
    matrix = f"example: [{', '.join(read_examples())}]"
    page, rows = ROOT / "docs/questions.md", write_rows()
    return {
        CATALOG: write_catalog(),
        page: re.sub(r"(?<=\n)(\| \[`.*\n)+", lambda _: rows, page.read_text(encoding="utf-8")),
        **{path: re.sub(r"\bexample: \[.*\]", matrix, path.read_text()) for path in WORKFLOWS},
    }


def links() -> dict[Path, Path]:
    """Return the links of template/, each with the folder that it leads to."""
    folders = (
        (name, folder) for name in read_examples() for folder in list_files(name).get("folders", [])
    )
    return {link(name, Path(folder)): ROOT / "examples" / name / folder for name, folder in folders}


def link(name: str, folder: Path) -> Path:
    """Return a link, whose name is empty in projects with another starting pipeline."""
    condition = f"{{% if graph.example == '{name}' %}}{folder.name}{{% endif %}}"
    return ROOT / "template" / folder.parent / condition


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    for path in (ROOT / "template").rglob("*graph.example ==*"):
        path.unlink()
    for path, folder in links().items():
        path.symlink_to(os.path.relpath(folder, path.parent))
    for script in ("schema", "reference"):
        subprocess.run([sys.executable, Path(__file__).with_name(f"{script}.py")], check=True)
