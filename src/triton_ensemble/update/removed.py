"""Edits of managed files that an update by v0.2.0 removed: which they are, and where they still can be read.

An edited file is told from an untouched one by rendering the version of the template that a commit
before the update was made from, with the answers of that commit, as `copier update` itself does.

    python -m triton_ensemble.update.removed COMMIT
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from triton_ensemble.answers import FILE
from triton_ensemble.update.render import copy

MANAGED = b"Managed by triton-ensemble-template"
# Where the code of tools/ went, by the first part of its path that fits.
SUCCESSORS = {
    "tools/checks/": "triton_ensemble.check",
    "tools/check.py": "triton_ensemble.check",
    "tools/load/": "triton_ensemble.bench",
    "tools/bench.py": "triton_ensemble.bench",
    "tools/tun": "triton_ensemble.tune",
    "tools/backends/": "triton_ensemble.server.backends",
    "tools/serve": "triton_ensemble.server",
    "tools/local_": "triton_ensemble.server",
    "tools/repository.py": "triton_ensemble.repository",
    "tools/update.py": "triton_ensemble.update",
    "tools/ready.py": "triton_ensemble.container.health",
    "tools/container.py": "triton_ensemble.container",
    "tools/harness.py": "triton_ensemble.testing",
    "tools/fake_triton.py": "triton_ensemble.testing",
    "tools/project.py": "vendor/project.json",
    "tools/": "triton_ensemble.samples",
    "deploy/": "triton_ensemble.container",
    "src/triton_step.py": "triton_step",
    "src/triton_": "triton_ensemble.adapter",
}


def removed_edits(root: Path, commit: str = "HEAD") -> Iterator[str]:
    """Yield a line for each managed file that is gone since a commit and held edits."""
    names = _git(root, "diff", "--name-only", "--relative", "--diff-filter=D", "-z", commit)
    gone = [path for path in names.decode().split("\0") if path]
    managed = [path for path in gone if MANAGED in _committed(root, commit, path)[:200]]
    if not managed:
        return
    with tempfile.TemporaryDirectory() as folder:
        if not _render(root, commit, Path(folder)):
            all_of_them = ", ".join(managed)
            yield f"{all_of_them}: are gone; if you edited one, see git diff {commit} -- {managed[0]}"
            return
        for path in managed:
            original = Path(folder, path)
            before = original.read_bytes() if original.is_file() else b""
            if _committed(root, commit, path) != before:
                yours = f"git show {commit}:{path}"
                yield f"{path}: is gone, with your edits{_successor(path)}; yours: {yours}"


def _successor(path: str) -> str:
    found = next((new for start, new in SUCCESSORS.items() if path.startswith(start)), "")
    return f"; {found} does its work now" if found else ""


def _render(root: Path, commit: str, folder: Path) -> bool:
    """Render the template as the commit had it; False where it can't be reached."""
    try:
        copy(folder, yaml.safe_load(_committed(root, commit, FILE)) or {})
    except Exception:  # whatever it is, the caller says where the old files are
        return False
    return True


def main() -> None:
    """Print the lines for the project in the current folder."""
    for line in removed_edits(Path.cwd(), *sys.argv[1:]):
        print(line)


def _committed(root: Path, commit: str, path: str) -> bytes:
    return _git(root, "show", f"{commit}:./{path}")


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True).stdout


if __name__ == "__main__":
    main()
