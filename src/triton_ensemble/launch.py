"""Finds or makes a project's environment, and goes on inside of it: `python3 vendor/NAME.whl/triton_ensemble COMMAND`.

This runs before there is an environment. So it and what it imports need the standard library alone, and are valid for
Python 3.9. The project is in the current folder. `.venv/ready.json` has a hash of what each part was installed from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from triton_ensemble import LAUNCHED
from triton_ensemble.environment import needs
from triton_ensemble.environment.extras import COMMANDS, PINNED
from triton_ensemble.environment.remedies import explain

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FITS = "import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))"
PYTHONS = ("python3", "python3.12", "python3.11", "python3.10")
NAME_ONE = "name one: make PYTHON=/path/to/python3.12"
NONE_FITS = "Python 3.10, 3.11 or 3.12 was not found. Install uv (https://docs.astral.sh/uv), which installs one, or "
MADE = "made"


class SetupError(Exception):
    """Raised if the environment can't be made, with the place, what is wrong and what to do."""


def main(words: Sequence[str], *, is_applied: bool = False) -> int:
    """Run a command inside the project's environment. Print a line and return 2 if that can't be made."""
    environment = Environment()
    if words[:1] in ([], ["help"]):
        from triton_ensemble.environment.help import print_help

        return print_help()
    try:
        if "$(MAKEOVERRIDES)" in os.environ.get("MAKEFLAGS", ""):
            raise SetupError("make -e hides the variables of its command line; leave out -e")
        if os.environ.get("SETUP") != "":
            environment.set_up(words, is_applied)
        environment.enter(words)
    except SetupError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(explain(str(error.filename), str(error)), file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2


class Environment:
    """The environment of the project in the current folder."""

    def __init__(self) -> None:
        self.folder = os.environ.get("VENV") or ".venv"
        inside = "Scripts/python.exe" if os.name == "nt" else "bin/python"
        self.python = os.path.join(self.folder, inside)
        self.uv = os.environ.get("UV", shutil.which("uv") or "")
        self.wheel = next(map(str, sorted(Path("vendor").glob("triton_ensemble-*.whl"))), "")
        index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
        self._index = {"UV_DEFAULT_INDEX": index} if index else {}
        self.state = needs.read_state(os.path.join(self.folder, needs.STATE))

    def set_up(self, words: Sequence[str], is_applied: bool) -> None:
        """Make the parts that a command needs and that are not current, or raise SetupError if that fails."""
        if not (self.wheel and os.path.exists(needs.TOOLKIT)):
            what = f"{needs.TOOLKIT}: not found"
            raise SetupError(f"{what}; run this in the folder of a generated project")
        with open(needs.TOOLKIT, "rb") as file:
            if fcntl:  # of several commands the others wait, and find what the first has made
                with suppress(OSError):  # not every file system has locks
                    fcntl.flock(file, fcntl.LOCK_EX)
            self.state = needs.read_state(os.path.join(self.folder, needs.STATE))
            self._make()
            for part in self.list_outdated(self._list_parts(words, is_applied)):
                self._install_part(part, needs.SOURCES[part])
                self.write_state({part: self.compute_key(part)})

    def _list_parts(self, words: Sequence[str], is_applied: bool) -> list[str]:
        """Return the parts that have to be current, of an environment that perhaps has older ones."""
        if words[0] not in needs.EARLY or is_applied or "packages" not in self.state:
            return needs.list_parts(words, os.environ)
        is_enough = needs.is_undo(words, os.environ) and "toolkit" in self.state
        return [] if is_enough else ["toolkit"]

    def list_outdated(self, parts: Sequence[str]) -> list[str]:
        """Return the parts that were installed from other contents than the project has now."""
        return [each for each in parts if self.compute_key(each) not in ("", self.state.get(each))]

    def compute_key(self, part: str) -> str:
        """Return a hash of all that decides what a part has, or an empty text if the project lacks the part."""
        if not os.path.exists(needs.SOURCES[part]):
            return ""
        contents = [b"" if part in PINNED else Path(needs.SOURCES[part]).read_bytes()]
        if part == "toolkit":
            chosen = os.environ.get("TOOLKIT", "").encode()
            contents += [Path(self.wheel).read_bytes(), chosen, os.getcwdb()]
        if part == "packages":
            packages = needs.read_state(needs.FACTS).get("packages")
            contents.append(f"{packages} {needs.read_torch_index(os.environ)}".encode())
        return hashlib.sha256(b"\0".join(contents)).hexdigest()

    def enter(self, words: Sequence[str]) -> NoReturn:
        """Run a command inside of the environment, in place of this process if the system can do that."""
        command, variables = words[0], {**os.environ, LAUNCHED: "1"}
        if COMMANDS.get(command, {}).get("spawns"):  # their processes need it too
            variables = _add_path(variables, os.path.join(self.folder, needs.BESIDE[command]))
        inside = [self.python, "-m", "triton_ensemble", *words]
        if command in ("lock", "update"):
            variables = {**self._get_settings(), LAUNCHED: "1"}
        if command == "lock":  # it needs no toolkit in the environment
            variables = _add_path(variables, self.wheel)
        sys.stdout.flush()
        if os.name == "nt":
            sys.exit(subprocess.run(inside, env=variables).returncode)
        os.execve(self.python, inside, variables)

    def write_state(self, keys: Mapping[str, str]) -> None:
        """Write down what parts were made from."""
        self.state = {**self.state, "root": os.getcwd(), **keys}
        new = Path(self.folder, f"{needs.STATE}.new")
        new.write_text(json.dumps(self.state), encoding="utf-8")
        new.replace(Path(self.folder, needs.STATE))

    def _make(self) -> None:
        """Make the environment if there is none, or if its Python is gone."""
        known, remedy = (
            self.state.get("python"),
            f"remove {self.folder}, or name another folder as VENV",
        )
        if os.path.exists(self.python) and known in (None, os.path.realpath(self.python)):
            if not known:  # its owner has made it
                _check(self.python, remedy)
                self.write_state({"python": os.path.realpath(self.python)})
            return
        if known and (MADE not in self.state or os.path.islink(self.folder)):
            raise SetupError(f"{self.folder}: its Python has gone, or is another one; {remedy}")
        python = _find_python(self.uv)
        if known:
            shutil.rmtree(self.folder)
            self.state = {}
        print(f"Making the environment in {self.folder} ...", flush=True)
        uv = [self.uv, "venv", "--quiet", "--allow-existing", "--python", python or ">=3.10,<3.13"]
        _run(self.folder, [*(uv if self.uv else [python, "-m", "venv"]), self.folder], os.environ)
        self.write_state({"python": os.path.realpath(self.python), MADE: "by set-up"})

    def _install_part(self, part: str, source: str) -> None:
        print(f"Installing the packages of {source} ...", flush=True)
        if part == "packages":
            self._run_inside("triton_ensemble.environment.lock", "--set-up")
            index = needs.read_torch_index(os.environ)
            best = ["--index-strategy", "unsafe-best-match"] * bool(self.uv)
            options = ["--extra-index-url", index, *best] if index else []
            self._install(source, *options, "--requirement", source)
        elif part == "toolkit":
            if any(Path().glob(".make-update-*")):  # wheel and hash may be of two versions
                self._run_inside("triton_ensemble.change.stage")
                if not os.path.exists(self.wheel):
                    program = f"{Environment().wheel}/triton_ensemble"
                    os.execv(sys.executable, [sys.executable, program, *sys.argv[1:]])
            chosen = os.environ.get("TOOLKIT") or f"--require-hashes --requirement {needs.TOOLKIT}"
            self._install(source, "--force-reinstall", "--no-deps", *chosen.split())
            self._run_inside("triton_ensemble.environment.setup")
        elif part == "dev":
            self._install(source, "--requirement", source)
        else:
            folder = os.path.join(self.folder, part)
            shutil.rmtree(folder, ignore_errors=True)
            locked = PINNED.get(part, ["--require-hashes", "--requirement", source])
            self._install(source, "--target", folder, *locked)

    def _install(self, source: str, *options: str) -> None:
        command = [self.uv, "pip", "install", "--python", self.python]
        if not self.uv:
            command = [self.python, "-m", "pip", "--disable-pip-version-check", "install"]
            if not shutil.which("pip", path=os.path.dirname(self.python)):  # uv has made it
                _run(self.folder, [self.python, "-m", "ensurepip", "--default-pip"], os.environ)
        _run(source, [*command, "--quiet", "--no-compile", *options], self._get_settings())

    def _run_inside(self, module: str, *words: str) -> None:
        """Run a module of the wheel in the environment. The module prints itself what fails."""
        variables = _add_path(self._get_settings(), self.wheel)
        if subprocess.run([self.python, "-m", module, *words], env=variables).returncode:
            raise SystemExit(2)

    def _get_settings(self) -> dict[str, str]:
        """Return the variables of an installer. uv does not read pip's settings, so it gets their index."""
        if self.uv and not self._index and shutil.which("python3"):  # asked once, before an install
            command = ["python3", "-m", "pip", "config", "list"]
            said = subprocess.run(command, capture_output=True, text=True).stdout
            found = re.findall(r"^global\.index-url='(.*)'", said, re.MULTILINE)
            self._index = {"UV_DEFAULT_INDEX": found[0]} if found else {"UV": self.uv}
        own = {"UV": self.uv, "PROJECT_ROOT": os.getcwd()}  # by which pip finds wheels/
        return {**os.environ, **self._index, **own}


def _find_python(uv: str) -> str:
    """Return a Python for a new environment, or an empty text if uv has to find one."""
    if named := os.environ.get("PYTHON"):
        return _check(named, NAME_ONE)
    found = next(filter(_fits, (sys.executable, *PYTHONS)), "")
    if not (found or uv):
        raise SetupError(NONE_FITS + NAME_ONE)
    return found


def _check(python: str, remedy: str) -> str:
    if not _fits(python):
        raise SetupError(f"{python} is not Python 3.10, 3.11 or 3.12; {remedy}")
    return python


def _fits(python: str) -> bool:
    found = shutil.which(python)
    return bool(found) and not subprocess.run([python, "-c", FITS], capture_output=True).returncode


def _run(what: str, command: Sequence[str], variables: Mapping[str, str]) -> None:
    """Run a command and show its seconds on a terminal, or raise SetupError with what it says if it fails."""
    unwrapped = {**variables, "COLUMNS": "9999"}  # remedies are found by whole lines
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(command, env=unwrapped, stdout=output, stderr=output)
        start, is_shown = time.monotonic(), sys.stderr.isatty()
        while is_shown and process.poll() is None:
            print(f"\r{time.monotonic() - start:.0f} s ", end="", file=sys.stderr, flush=True)
            time.sleep(0.1)
        print("\r\033[K" * is_shown, end="", file=sys.stderr, flush=True)
        if process.wait():
            output.seek(0)
            raise SetupError(explain(what, output.read(), os.path.basename(command[0])))


def _add_path(variables: Mapping[str, str], path: str) -> dict[str, str]:
    paths = filter(None, [path, variables.get("PYTHONPATH")])
    return {**variables, "PYTHONPATH": os.pathsep.join(paths)}
