"""Write what examples/*/about.yml and catalog/extras.yml say into the files that list starting pipelines and extras.

    PYTHONPATH=src python scripts/lists.py

It also links folders in template/, and runs scripts/schema.py and scripts/reference.py, whose files list both too.

about.yml has `help`, what the first question says; `order`, where it offers the pipeline; and `row`, what it takes, what
it returns and a note, for docs/questions.md. It may have `picture`, a file of docs/ that docs/gallery.md shows;
`openai`, the answer of that name in a project with the gateway; `curl`, the file whose bytes README.md sends if the one
input is not text; and `client`, a pattern of what the Python client in the pipeline's README.md prints.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from pprint import pformat
from textwrap import fill
from typing import Any

import yaml

from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog

ROOT = Path(__file__).resolve().parents[1]
CATALOG = ROOT / "hooks/catalog/examples.yml"
EXTRAS: dict[str, dict[str, Any]] = catalog.table("extras")
HEAD = """\
# Written by scripts/lists.py, which explains about.yml: the starting pipelines, in the order in which they are offered.
# code: it has steps/, models/ and tests/ for all of its steps, written for tensors with a batch dimension; otherwise they are
# stubs. files: what else of text the project owns. folders: of any files, each a link in template/.
"""
REGISTERED = ROOT / "src/triton_ensemble/environment/extras.py"
COMMANDS = """\
\"""The commands and images of extras, and the parts of an environment that they need. Written by scripts/lists.py.\"\"\"

# fmt: off
from __future__ import annotations

from typing import Any

COMMANDS: dict[str, dict[str, Any]] = {}
PARTS: dict[str, str] = {}
PINNED: dict[str, list[str]] = {}
IMAGES: dict[str, dict[str, Any]] = {}
"""
GALLERY = """\
<!-- Written by scripts/lists.py. -->
<!-- skip: start "tests/unit/docs/test_reference_pages.py compares this page with its script" -->

# Starting pipelines

Each of these is real code with samples and tests. Start from the pipeline that is most like yours, then change it.

```{toctree}
:hidden:
:glob:

../examples/*/README
```
"""
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


def write_questions(text: str) -> str:
    """Return the page of questions with a row for each starting pipeline and each extra."""
    examples = (
        [f"[`{name}`](../examples/{name}/README.md)", *about["row"]]
        for name, about in read_examples().items()
    )
    extras = ([f"`{name}`", row["adds"]] for name, row in EXTRAS.items())
    text = re.sub(r"(?<=\n)(\| \[`.*\n)+", lambda _: as_rows(examples), text)
    return re.sub(r"(?<=\| adds \|\n\|---\|---\|\n)(\|.*\n)+", lambda _: as_rows(extras), text)


def write_gallery() -> str:
    """Return the page that shows each starting pipeline: a picture, its steps in a line, and the command."""
    return GALLERY + "".join(map(show_example, read_examples().items()))


def show_example(item: tuple[str, Row]) -> str:
    """Return a starting pipeline's section, with the drawing of its steps if there is no picture of an answer."""
    name, about = item
    answered = rules().answer({"starting_pipeline": name})
    graph = answered["graph"]
    ends = (", ".join(each["name"] for each in graph[side]) for side in ("inputs", "outputs"))
    title = (ROOT / f"examples/{name}/README.md").read_text().partition("# ")[2].splitlines()[0]
    drawing = rules().templates.template("hooks/stubs/diagram.jinja").render(answered)
    shown = f"![{about['row'][1]}]({about.get('picture')})"
    picture = shown if "picture" in about else f"```mermaid\n{drawing}```"
    steps = ", ".join(step["name"] for step in graph["steps"])
    return f"""
## [{title}](../examples/{name}/README.md)

{picture}

`{" -> ".join([next(ends), steps, next(ends)])}`

```sh
uvx copier copy --data starting_pipeline={name} gh:org/triton-ensemble-template myproj
```
"""


def as_rows(cells: Iterable[list[str | None]]) -> str:
    return "".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|\n" for row in cells)


def write_backends(text: str) -> str:
    """Return the page of pipeline.yml with the backends."""
    names = ", ".join(
        f"{name} (until {row.until})" if row.until else name
        for name, row in catalog.backends().items()
        if name not in ("auto", "ensemble")
    )
    return re.sub(
        r"(?m)^`backend` is [^`]* (or a name of your own\..*\n(?:.+\n)*)",
        lambda found: fill(f"`backend` is {names}, {found[1]}", 120) + "\n",
        text,
    )


def write_index(text: str) -> str:
    """Return the index of the documentation without pages that are gone."""
    return re.sub(r"(?<=\n)([a-z-]+)\n", lambda m: m[0] * (ROOT / f"docs/{m[1]}.md").exists(), text)


def write_copier(text: str) -> str:
    """Return copier.yml, which keeps what projects own of the extras."""
    kept = [
        path for row in EXTRAS.values() for path in [*row.get("kept", []), *row.get("owned", [])]
    ]
    last = ", ".join(f"/{path}" for path in dict.fromkeys(kept))
    return re.sub(r"(?<=/requirements-dev.lock, ).*(?=\]\n_message_after_copy)", last, text)


def write_packages(text: str) -> str:
    """Return pyproject.toml with the packages of each extra."""
    packages = {name: row["packages"] for name, row in EXTRAS.items() if "packages" in row}
    lines = "".join(f"{name} = {json.dumps(names)}\n" for name, names in packages.items())
    return re.sub(r"(?<=by scripts/lists.py\n)(.+\n)*", lambda _: lines, text)


def write_matrix(text: str) -> str:
    """Return a workflow that tries each starting pipeline."""
    return re.sub(r"\bexample: \[.*\]", f"example: [{', '.join(read_examples())}]", text)


WRITERS = {
    "docs/questions.md": write_questions,
    "copier.yml": write_copier,
    "docs/index.md": write_index,
    "docs/pipeline.md": write_backends,
    "pyproject.toml": write_packages,
    ".github/workflows/test.yml": write_matrix,
    ".github/workflows/gpu.yml": write_matrix,
}


def write_commands() -> str:
    """Return the module that has the commands and images of extras, since no YAML can be read before there is an environment."""
    commands = {
        name: row for extra in EXTRAS.values() for name, row in extra.get("commands", {}).items()
    }
    parts = {
        name: path for extra in EXTRAS.values() for name, path in extra.get("parts", {}).items()
    }
    pinned = {
        name: EXTRAS[name]["packages"]
        for name, path in parts.items()
        if not path.startswith("vendor/")
    }
    # If two extras have the same image, the row of the last counts.
    images = {
        variable: {**image, "extra": extra, "folder": row["paths"][0]}
        for extra, row in EXTRAS.items()
        for variable, image in row.get("images", {}).items()
    }
    tables = [pformat(each, width=120, sort_dicts=False) for each in (commands, images)]
    return COMMANDS.format(tables[0], parts, pinned, tables[1])


def pages() -> dict[Path, str]:
    """Return the text of each file."""
    written = {ROOT / name: write((ROOT / name).read_text()) for name, write in WRITERS.items()}
    return {
        CATALOG: write_catalog(),
        REGISTERED: write_commands(),
        ROOT / "docs/gallery.md": write_gallery(),
        **written,
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
