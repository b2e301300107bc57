"""The parts of an environment that each command needs. Python 3.9 reads this too, before there is an environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_ensemble.environment.extras import COMMANDS, PARTS

FACTS = "vendor/project.json"
STATE = "ready.json"  # in the folder of an environment: what it was made from
TOOLKIT = "vendor/requirements.txt"
# The file that decides what a part has. Those after `dev` have folders of their own, so that they can't conflict with the lock.
SOURCES = {
    "packages": "requirements.lock",
    "toolkit": TOOLKIT,
    "dev": "requirements-dev.lock",
    "push": "vendor/push.txt",
    **PARTS,
}
DEV = ("lint", "format", "test", "test-docker", "tune", "add-step", "shift", "rollback")
# These apply pipeline.yml and complete the model repository first.
COMPLETING = (
    "repository", "serve", "infer", "sample", "step", "golden", "test", "bench", "tune",
    "push", "sizes", "image", "engines", "up", "test-docker",
    *(name for name, row in COMMANDS.items() if row.get("completes")),
)  # fmt: skip
# With STORE, these need the packages of `push`.
STORED = (*COMPLETING, "check", "publish", "unload", "shift", "rollback")
BESIDE = {"push": "push", **{name: row["part"] for name, row in COMMANDS.items() if "part" in row}}
# Commands for which an environment is good whose packages are older: they need none, or apply pipeline.yml first.
EARLY = (*COMPLETING, "apply", "check", "update")


def read_given(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of make's command line: a shell may have a NAME for another purpose."""
    # make writes them behind its options
    flags = variables.get("MAKEFLAGS", "").split("-- ", 1)[-1]
    names = [re.match(r"(\w+)[:+?]*=", word) for word in re.split(r"(?<!\\)\s+", flags)]
    return {name[1]: variables.get(name[1], "") for name in names if name}


def read_torch_index(variables: Mapping[str, str]) -> str:
    """Return the address of the package index for PyTorch alone: `torch_index`, unless a variable names another.

    The line of pipeline.yml counts before it is applied: without PyTorch there is no environment to apply it in.
    """
    path = Path("pipeline.yml")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"""^torch_index: *["']?(https?://[^\s"'#]+)""", text, re.MULTILINE)
    return variables.get("TORCH_INDEX") or (found[1] if found else "")


def read_state(path: str | Path) -> dict[str, str]:
    """Return the content of a JSON file, or an empty mapping if it can't be read."""
    try:
        return dict(json.loads(Path(path).read_bytes()))
    except (OSError, TypeError, ValueError):
        return {}


def is_on(text: str) -> bool:
    """Return whether the text of a variable that is yes or no means yes."""
    return text.strip().lower() not in ("", "0", "no", "false")


def is_undo(words: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Return whether a command takes a change back, by whatever toolkit the environment has."""
    undo = "--undo" in words or is_on(read_given(variables).get("UNDO", ""))
    return words[0] in ("apply", "update") and undo


def list_parts(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Return the parts that a command needs, in the order of their installation.

    `setup ray` names one more.
    """
    given = read_given(variables)
    command, more = words[0], [*words[1:], *given.get("ARGS", "").split()]
    if command == "setup":
        return ["packages", "toolkit", *filter(SOURCES.get, more)]
    parts = ["packages", "toolkit", *["dev"] * (command in DEV)]
    unless = COMMANDS.get(command, {}).get("unless", "")
    if command in BESIDE and not is_on(given.get(unless, "")):
        parts.append(BESIDE[command])
    if command in STORED and variables.get("STORE"):
        parts.append("push")
    return parts if command != "lock" else []  # the lock may be wrong
