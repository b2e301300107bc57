"""Projects made from the template, and what their users do with them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from copier.errors import UserMessageError

ROOT = Path(__file__).resolve().parents[1]
VENV = Path(sys.prefix)
COPIER = VENV / "bin" / "copier"
PREFIX = "'dict object' has no attribute "

AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "A"), ("EMAIL", "a@example.org"))
}
# What a surrounding `make test` or a user's shell says must not reach the project's own commands.
FOREIGN = ("MAKE", "MFLAGS", "PYTEST", "PYTHONPATH", "TRITON_URL", "VENV", "VIRTUAL_ENV", "GIT_")


class Project:
    """A folder with a generated project."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def files(self) -> list[str]:
        """Its files, without those of git."""
        paths = (path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file())
        return sorted(str(path) for path in paths if path.parts[0] != ".git")

    def contents(self) -> dict[str, bytes]:
        return {name: (self.path / name).read_bytes() for name in self.files()}

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run(*command, cwd=self.path, PYTHONPATH="src", **variables)

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs `make` with the environment of this repository, which has all that a project needs."""
        ready = f"--assume-old={VENV / '.ready'}"
        return self.run(
            "make", "--no-print-directory", ready, f"VENV={VENV}", *arguments, **variables
        )

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, *arguments)

    def commit(self) -> None:
        """Commits the project as it is, the first time into a new git repository."""
        for command in ("init -q", "add --all", "commit -q --allow-empty -m project"):
            succeed(run("git", *command.split(), cwd=self.path))

    def changes(self) -> str:
        return succeed(run("git", "status", "--porcelain", cwd=self.path))


class Generate(Protocol):
    def __call__(self, **answers: Any) -> Project: ...


def run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: v for name, v in os.environ.items() if not name.startswith(FOREIGN)}
    environment = inherited | AUTHOR | variables
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def succeed(process: subprocess.CompletedProcess[str]) -> str:
    """What a command printed; fails, with all of it, unless the command succeeded."""
    assert process.returncode == 0, f"{process.args}\n{process.stdout}\n{process.stderr}"
    return process.stdout


def step(
    name: str, inputs: Any, outputs: Any, backend: str = "python", **fields: Any
) -> dict[str, Any]:
    return {"name": name, "backend": backend, "inputs": inputs, "outputs": outputs, **fields}


def problem(error: UserMessageError) -> str:
    """The template's own line. Copier prints it behind PREFIX, as a Python literal."""
    prefix, line = str(error)[: len(PREFIX)], str(error)[len(PREFIX) :]
    assert prefix == PREFIX, error
    return str(ast.literal_eval(line))
