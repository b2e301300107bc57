"""Each block of code in the documentation: Sybil runs it, or a comment in the page says why not."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml
from docs_blocks import PAGES, find_failures, read_blocks
from support import ROOT, Project
from sybil import Example
from sybil.evaluators.python import PythonEvaluator
from sybil.typing import Evaluator

from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog
from triton_ensemble.testing import files


def check_pipeline(block: Example) -> str:
    """Check the answers of a pipeline.yml, or a team.yml."""
    given = yaml.safe_load(block.parsed)
    if given.keys() <= catalog.table("team")["fields"]["team"].keys():
        return str(rules().templates.macro("validate/schema", "schema_problem")("team", given))
    return rules().problem(given)


def check_sample(block: Example) -> str:
    """Read a sample as the toolkit does. The files that it names are empty."""
    folder = block.namespace["folder"]
    for name in re.findall(r'"file": "(.*?)"', block.parsed):
        (folder / name).touch()
    (folder / "sample.json").write_text(block.parsed)
    sample = files.read(folder / "sample.json", dict)
    return "" if sample.inputs and sample.outputs else "has no inputs or no outputs"


def check_text(block: Example) -> str:
    """Check a pipeline as text, a drawing of folders, or else a message of the toolkit."""
    if re.match(r"\w+ python: ", block.parsed):
        return rules().problem({"flow": block.parsed, "starting_pipeline": "my-own"})
    if re.match(r"copier\.yml |pipeline\.yml |myproj/\n", block.parsed):
        return check_tree(block)
    return check_message(block)


def check_tree(block: Example) -> str:
    """Find each `name  what it is` of a drawing of folders. A folder's files stand below it."""
    root = ROOT if block.parsed.startswith("copier.yml") else block.namespace["project"]
    folder, missing = "", []
    for line in block.parsed.removeprefix("myproj/\n").splitlines():
        names = re.split(r"  +", line.strip())[0].split(", ")
        folder = folder if line.startswith(" ") else names[0]
        inside = folder if line.startswith(" ") and folder.endswith("/") else ""
        paths = [inside + re.sub("NAME|PACKAGE", "*", name.rstrip("/")) for name in names]
        missing += [path for path in paths if not any(root.glob(path))]
    return f"there is no {', '.join(missing)}" if missing else ""


# Values in the messages that the pages show: names of models, packages and ensembles.
VALUES = {"classify", "digits", "embed", "label", "preprocess", "rank", "ranking", "select"}
VALUES |= {"pillow", "sklearn", "torch", "tritonserver"}
WORD = re.compile(r"(?<![\w./:-])[a-z']{4,}(?![\w/:-]|\.\w)")


@cache
def read_phrases() -> list[str]:
    """Return the texts in the toolkit's code, in parts between values, the longest first."""
    texts = [
        line
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for line in node.value.splitlines()
    ]
    for problem in catalog.table("problems").values():
        texts += re.split(r"%\(\w+\)s", problem)
    return sorted({text.strip(" :;,.") for text in texts}, key=len, reverse=True)


def check_message(block: Example) -> str:
    """Compare the sentences of a message with the code. Tables, whose figures vary, have none."""
    lines = [line for line in block.parsed.splitlines() if "  " not in line.strip()]
    left = text = " ".join(line for line in lines if len(re.findall("[a-z'_]{2,}", line)) > 3)
    if not text and not re.search(r"^ *[\d.]+ ", block.parsed, re.MULTILINE):
        return "has neither sentences nor figures"
    for phrase in read_phrases():
        left = left.replace(phrase, " ") if " " in phrase else left
    words = {*WORD.findall(left)} - VALUES
    unknown = sorted(words - {*read_phrases()})
    if unknown:
        return f"the code does not say: {', '.join(unknown)}"
    is_phrased = len(WORD.findall(text)) < 6 or 1.2 * len(left.split()) < len(text.split())
    return "" if is_phrased else "the code says these words, but not in this order"


def leave_block(block: Example) -> None:
    """Leave commands to tests/process/docs/test_docs_shell.py."""


def refuse_block(block: Example) -> str:
    return 'no test runs blocks of this language; write <!-- skip: next "reason" --> above it'


EVALUATORS: defaultdict[str, Evaluator] = defaultdict(lambda: refuse_block)
EVALUATORS |= {
    "console": leave_block,
    "json": check_sample,
    "python": PythonEvaluator(["annotations"]),
    "sh": leave_block,
    "text": check_text,
    "yaml": check_pipeline,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_block_runs_or_has_a_reason(
    page: Path, default_project: Project, tmp_path: Path
) -> None:
    names = {"project": default_project.path, "folder": tmp_path}
    assert [*find_failures(page, EVALUATORS, **names)] == []


def test_python_blocks_compile() -> None:
    for page in PAGES:
        for code in read_blocks(page.read_text(), "python"):
            compile(code, page, "exec")


def test_each_reason_names_a_test_that_exists() -> None:
    """The reason for skipping a block may name the test that runs the same."""
    comments = [
        comment for page in PAGES for comment in re.findall("<!-- skip: .*", page.read_text())
    ]
    named = {path for comment in comments for path in re.findall(r"tests/[\w/]+\.py", comment)}
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert len(named) > 20


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("\n```rust\nfn main() {}\n```\n", "2: no test runs blocks of this language"),
        ("<!-- skip: next -->\n```rust\n```\n", "1: write the reason"),
        ("```yaml\nmax_batch_size: some\n```\n", "1: max_batch_size is "),
        ("```text\none python: A -> B FP32[1]\n```\n", "1: flow: line 1: give A its type"),
        ("```text\nmyproj/\n  pipeline.yaml\n```\n", "1: there is no pipeline.yaml"),
        ("```json\n{\"inputs\": {}}\n```\n", "1: has no inputs"),
        ("```python\nx = 1\n```\n\n```python\nx.y\n```\n", "5: AttributeError: "),
        ("```text\na.py: is missing; please put it elsewhere\n```\n", "say: elsewhere, please"),
        ("```text\nmodel step check input model step\n```\n", "but not in this order"),
        ("```text\none  two\n```\n", "1: has neither sentences nor figures"),
    ],
)  # fmt: skip
def test_a_failing_block_is_found(
    text: str, failure: str, default_project: Project, tmp_path: Path
) -> None:
    (tmp_path / "page.md").write_text(text)
    names = {"project": default_project.path, "folder": tmp_path}
    [found] = find_failures(tmp_path / "page.md", EVALUATORS, **names)
    assert failure in found
