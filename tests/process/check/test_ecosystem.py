"""The differences between two versions on a list of model repositories, by scripts/ecosystem.py."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from adopt_support import alone, write
from support import run

RULE = "src/triton_ensemble/check/rules/steps.py"


@pytest.mark.slow
def test_only_a_changed_verdict_is_printed(git_template: Path, tmp_path: Path) -> None:
    template = Path(shutil.copytree(git_template, tmp_path / "template", symlinks=True))
    write(tmp_path / "right", alone())
    write(tmp_path / "wrong", {"e": alone()["e"]})
    (tmp_path / "list").write_text("right # a step without code\n\nwrong\n")
    command = [sys.executable, "scripts/ecosystem.py", str(tmp_path / "list"), "--base", "v1.0.0"]
    same = run(*command, "--head", "v1.0.0", cwd=template)
    assert (same.returncode, same.stdout, same.stderr) == (0, "", "")

    old = (template / RULE).read_text()
    (template / RULE).write_text(old.replace('f"add the folder {name}"', 'f"write {name}"'))
    changed = run(*command, cwd=template)
    assert changed.returncode == 1
    diff = changed.stdout.splitlines()
    assert [line for line in diff if line.startswith(("---", "+++"))] == [
        f"{side} {command} wrong" for command in ("check", "adopt") for side in ("--- base", "+++ head")
    ]  # fmt: skip
    assert [line[0] + line.rpartition("; ")[2] for line in diff if line[:2] in ("-e", "+e")] == [
        "-add the folder m",
        "+write m",
    ] * 2


@pytest.mark.parametrize(
    ("line", "base", "message"),
    [
        ("p", "v9", "v9: is not a commit of this repository; write one that `git log` shows\n"),
        ("p", "v1.0.0", "list: p has no config.pbtxt; name a model repository\n"),
        (
            "file:///nowhere/at/all",
            "v1.0.0",
            "file:///nowhere/at/all: can't be cloned, as git says above; correct the list\n",
        ),
    ],
)
def test_a_mistake_is_one_line(
    git_template: Path, tmp_path: Path, line: str, base: str, message: str
) -> None:
    (tmp_path / "list").write_text(line)
    command = [sys.executable, str(git_template / "scripts/ecosystem.py"), "list", "--base", base]
    failed = run(*command, cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr.endswith(message)
    assert "Traceback" not in failed.stderr
