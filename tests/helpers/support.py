"""Projects made from the template, and what their users do with them."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import yaml
from click.testing import CliRunner
from copier.errors import UserMessageError
from jinja2 import StrictUndefined, UndefinedError

from triton_ensemble.cli import main
from triton_ensemble.facts import catalog
from triton_ensemble.launch import Environment
from triton_ensemble.serve.local.ports import free_ports
from triton_ensemble.serve.sources import iter_adapter_files

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = "1"  # a port on which no server answers
VENV = Path(sys.prefix)
# uv of the machine, or that of `make setup`; None: there is none.
UV = shutil.which("uv") or shutil.which(ROOT / ".venv-uv/bin/uv")
COPIER = VENV / "bin" / "copier"

SOURCES = ROOT / "src"
[MODEL_PY] = ROOT.glob("template/model_repository/*python_models*/*/model.py")

AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "A"), ("EMAIL", "a@example.org"))
}
# Plugins of pytest that no project has. In ours they take three seconds of each start of pytest.
WITHOUT_PLUGINS = " ".join(
    f"-p no:{name}"
    for name in ("anyio", "cloudcoil", "hypothesispytest", "platformdirs", "schemathesis")
)
# What a surrounding `make test` or a user's shell says must not reach the project's own commands.
FOREIGN = ("MAKE", "MFLAGS", "PYTEST", "PYTHONPATH", "TRITON_", "VENV", "VIRTUAL_ENV", "GIT_")


def variables(**more: str) -> dict[str, str]:
    """Return the environment of a command, which adds nothing of Python's own to a project's files, and has no uv."""
    inherited = {name: v for name, v in os.environ.items() if not name.startswith(FOREIGN)}
    options = f"{WITHOUT_PLUGINS} {more.pop('PYTEST_ADDOPTS', '')}".strip()
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": options, "UV": ""}
    return inherited | AUTHOR | own | more


def run(*command: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=variables(**more), capture_output=True, text=True)


def succeed(process: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed. Fail, with all of it, unless the command succeeded."""
    assert process.returncode == 0, f"{process.args}\n{process.stdout}\n{process.stderr}"
    return process.stdout


def validate(schema: str, *files: Path, options: tuple[str, ...] = ()) -> None:
    """Fail unless files keep to a schema that check-jsonschema carries. It runs in this process."""
    from check_jsonschema.cli import main

    names = [str(file) for file in files]
    result = CliRunner().invoke(main, [f"--builtin-schema=vendor.{schema}", *options, *names])
    assert result.exit_code == 0, f"{names}\n{result.output}"


def free_port() -> int:
    """Return a port on which nothing listens."""
    return free_ports({"": 0})[""]


class Project:
    """A folder with a generated project."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def package(self) -> str:
        [package] = (self / "src").glob("*/__init__.py")
        return package.parent.name

    def files(self) -> list[str]:
        """Return its files, without those of git."""
        paths = (path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file())
        return sorted(str(path) for path in paths if path.parts[0] != ".git")

    def contents(self) -> dict[str, bytes]:
        return {name: (self / name).read_bytes() for name in self.files()}

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run(*command, cwd=self.path, PYTHONPATH=f"src:{SOURCES}", **more)

    def make_command(self, *arguments: str) -> list[str]:
        """Return `make` with the environment of this repository, which has all that a project needs."""
        return ["make", "--no-print-directory", "SETUP=", f"VENV={VENV}", *arguments]

    def make(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.make_command(*arguments), **more)

    def client(self, url: str) -> Any:
        """Return the project's own client."""
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(self / "src")
            return importlib.import_module(f"{self.package}.client").Client(url, timeout=30)

    def commit(self) -> None:
        """Commit the project as it is, the first time into a new git repository."""
        for command in ("init -q", "add --all", "commit -q --allow-empty -m project"):
            succeed(run("git", *command.split(), cwd=self.path))

    def changes(self) -> str:
        return succeed(run("git", "status", "--porcelain", cwd=self.path))


def mark_ready(project: Project, venv: str | Path, *parts: str) -> None:
    """Say that an environment has parts of what a project needs, as set-up does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        patch.setenv("VENV", str(venv))
        environment = Environment()
        environment.write_state({part: environment.compute_key(part) for part in parts})


class Said(NamedTuple):
    """The exit code and output of a command."""

    status: int
    out: str
    err: str


def call(project: Project, *words: str, **more: str) -> Said:
    """Run a command in a project, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in more.items():
            patch.setenv(name, value)
        patch.chdir(project.path)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(words)
            except SystemExit as end:  # of argparse
                status = int(end.code or 0)
    return Said(status, out.getvalue(), err.getvalue())


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mount something at a folder for as long as a `with` block lasts. Skip the test where the user may not."""
    if run("mount", *options, str(folder), cwd=folder).returncode:
        pytest.skip("this user may not mount a disk")
    try:
        yield
    finally:
        succeed(run("umount", "--lazy", str(folder), cwd=folder.parent))


class Server(NamedTuple):
    """A project that is served, and its URLs by protocol."""

    project: Project
    urls: dict[str, str]


@contextmanager
def serve(project: Project, *arguments: str) -> Iterator[Server]:
    """Run `make serve` on free ports, until Ctrl-C."""
    process = subprocess.Popen(
        project.make_command("serve", "HTTP_PORT=0", "GRPC_PORT=0", "METRICS_PORT=0", *arguments),
        cwd=project.path,
        env=variables(PYTHONPATH=f"src:{SOURCES}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    lines: list[str] = []
    try:
        while not lines or (lines[-1] and not lines[-1].endswith("/metrics\n")):
            lines.append(process.stdout.readline())
        urls = {line.partition("://")[0]: line.strip() for line in lines[-3:-1]}
        assert urls.keys() == {"http", "grpc"}, "".join(lines)
        yield Server(project, urls)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)


def assert_logged(log: Path, *texts: str) -> None:
    """Wait for a line of the log: Python models log through a queue, so an answer can be there before its line."""
    end = time.monotonic() + 10
    while missing := [text for text in texts if text not in log.read_text(errors="replace")]:
        assert time.monotonic() < end, f"{log} lacks {missing}"
        time.sleep(0.05)


def write_adapter(version: Path) -> None:
    """Write into a version folder what serves its step.json: model.py, and what it imports."""
    for target, source in ((version / "model.py", MODEL_PY), *iter_adapter_files(version)):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


class Generate(Protocol):
    """Generate a project from answers. Those not given are the defaults."""

    def __call__(self, **answers: Any) -> Project: ...

    def complete(self, **answers: Any) -> Project:
        """Generate a project as `make repository` leaves it."""


# Of a case like others that run more often.
MATRIX = [pytest.mark.slow, pytest.mark.matrix]


def first_fast(cases: Iterable[Any], count: int = 2) -> list[Any]:
    """Return the cases of a test as parameters. All but the first run in `make test-slow`."""
    rest = pytest.mark.slow
    return [pytest.param(c, marks=[rest] * (i >= count)) for i, c in enumerate(cases)]


def slow_but(*quick: str, names: Iterable[str]) -> list[Any]:
    """Return parameters of a test: only the quick ones are for `make test`."""
    return [pytest.param(n, marks=MATRIX * (n not in quick)) for n in sorted(names)]


def step(
    name: str, inputs: Any, outputs: Any, backend: str = "python", **fields: Any
) -> dict[str, Any]:
    return {"name": name, "backend": backend, "inputs": inputs, "outputs": outputs, **fields}


NAMED = yaml.safe_load(Path(__file__).with_name("named_pipelines.yml").read_text("utf-8"))
EXAMPLES = {n.replace("-", " "): {"starting_pipeline": n} for n in catalog.table("examples")}
PIPELINES: dict[str, dict[str, Any]] = EXAMPLES | NAMED["pipelines"]
UNUSUAL: dict[str, dict[str, Any]] = NAMED["unusual"]
OPEN_DIMS: dict[str, Any] = NAMED["open dims"]


def explain_undefined(key: str) -> str:
    """Return what Jinja says of a key that a mapping does not have, which is how the template refuses answers."""
    with pytest.raises(UndefinedError) as caught:
        str(StrictUndefined(obj={}, name=key))
    return str(caught.value)


def problem(error: UserMessageError) -> str:
    """Return the template's own line, which Copier prints as an undefined key."""
    line = str(ast.literal_eval(str(error).removeprefix(explain_undefined("")[:-2])))
    assert str(error) == explain_undefined(line)
    return line
