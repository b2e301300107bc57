"""An extra is its folders and its row: where these are gone, nothing else knows it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import shared_work
from support import ROOT, run, succeed

# The package, the template's folder, the page and the tests of each.
FOLDERS = {
    "tir": "src/triton_ensemble/deploy/tir template/deploy/tir docs/tir.md tests/*/test_tir.py",
    "ray": "src/triton_ensemble/deploy/ray template/deploy/ray template/vendor/ray.txt.jinja docs/ray.md tests/*/test_ray.py tests/rayserve tests/helpers/rayserve",
}
# Those that read the lists of extras, and the code around them.
TESTS = "architecture check_rules cli docs_commands launch pin reference_pages repository_rules rule_places schema tir"


@pytest.mark.slow
@pytest.mark.parametrize("extra", FOLDERS)
def test_an_extra_is_gone_with_its_folders_and_its_row(extra: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in succeed(run("git", "ls-files", "-z", cwd=ROOT)).split("\0"):
        if name and os.path.lexists(ROOT / name):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    for path in (path for pattern in FOLDERS[extra].split() for path in copy.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    table = copy / "hooks/catalog/extras.yml"
    table.write_text(re.sub(rf"(?m)^{extra}:\n(  .*\n)*", "", table.read_text()))
    # Some tests list the files of a repository, and generate projects from its commit.
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Remove it"]):
        succeed(run("git", *words, cwd=copy))
    variables = {"PYTHONPATH": str(copy / "src"), shared_work.VARIABLE: ""}
    for script in ("lists", "check_page"):
        succeed(run(sys.executable, f"scripts/{script}.py", cwd=copy, **variables))
    tests = [copy / f"tests/unit/test_{name}.py" for name in TESTS.split()]
    command = ["-m", "pytest", "-q", "-n", "0", *(str(path) for path in tests if path.exists())]
    succeed(run(sys.executable, *command, cwd=copy, **variables))
