"""A pipeline drawn in text, as `git log --graph` draws a history: git lays it out."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from triton_ensemble.compile.file import tensors_of
from triton_ensemble.facts.answers import Answers


def draw_steps(steps: Sequence[Answers]) -> str:
    """Return a drawing from the first step to the last, or an empty text without git.

    A step is a commit, and the steps that read from it are its parents, because git draws the last commit first.
    """
    try:
        with TemporaryDirectory() as folder:
            _git(folder, "init", "--quiet", "--bare")
            _git(folder, "fast-import", "--quiet", given=_build_history(steps))
            drawing = _git(folder, "log", "--graph", "--date-order", "--all", "--format=%B")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return "\n".join(line.rstrip() for line in drawing.splitlines())


def _build_history(steps: Sequence[Answers]) -> str:
    """Return commits as git imports them.

    The first one stands for the answer: what clients get of the steps.
    """
    read = {tensor for step in steps for tensor in tensors_of(step, "inputs")}
    written = [tensor for step in steps for tensor in tensors_of(step, "outputs")]
    returned = [tensor for tensor in written if tensor not in read]
    nodes = [*steps, {"name": "answer", "inputs": returned, "outputs": []}]
    lines = []
    for i, node in reversed([*enumerate(nodes)]):
        writes = {*tensors_of(node, "outputs")}
        readers = [
            j for j in range(i + 1, len(nodes)) if writes & {*tensors_of(nodes[j], "inputs")}
        ]
        sides = [", ".join(dict.fromkeys(tensors_of(node, side))) for side in ("inputs", "outputs")]
        label = f"{node['name']}: {' -> '.join(filter(None, sides))}"
        lines += [f"commit refs/heads/{i}", f"mark :{i + 1}"]
        lines += [f"committer <> {len(nodes) - i} +0000", f"data {len(label.encode())}", label]
        lines += [f"{'merge' if k else 'from'} :{reader + 1}" for k, reader in enumerate(readers)]
    return "\n".join([*lines, ""])


def _git(folder: str, *command: str, given: str = "") -> str:
    done = subprocess.run(
        ["git", "-C", folder, *command],
        input=given.encode(),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()
