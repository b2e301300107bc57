"""Record the first minute of README.md, and a change of pipeline.yml, in a real terminal: two pictures in docs/.

    make wheel
    python3 -m venv build/record && build/record/bin/pip install pexpect termtosvg-ng
    build/record/bin/python scripts/record.py

The commands run as they stand here, in bash. That the template is not fetched is all that differs: git takes its
address for this clone, and `uvx` runs the Copier of .venv. Waits are cut: a second is left of each.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pexpect  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
FIRST_MINUTE, CHANGE = ROOT / "docs/first-minute.svg", ROOT / "docs/change.svg"
ADDRESS = "https://github.com/org/triton-ensemble-template"
COLUMNS, ROWS = 110, 25
# Seconds: a key, until somebody has read a question, and what came of a command.
KEY, GLANCE, READING = 0.04, 0.4, 2.0
# What is shown of the seconds between two ticks of a progress display, and of a longer wait.
TICK, WAIT = 0.15, 1.0
# Milliseconds: a frame at least, and the last.
FRAME, END = 100, 6000
PROMPT = "$ "
# The first two are the README's; the first asks this many questions.
COPY = "uvx copier copy gh:org/triton-ensemble-template myproj"
INFER = "cd myproj && make infer"
QUESTIONS = 7
SLIP = "sed -i 's/PIXELS}/PIXEL}/' pipeline.yml    # a slip"
CHECK = ".venv/bin/triton-ensemble check pipeline.yml"
LOOP = (
    "sed -i 's/max_batch_size: 8/max_batch_size: 16/' pipeline.yml",
    "make check",
    "make infer",
    "git status --short",
)


class Terminal:
    """A shell, and what it has shown so far, with the times at which it did."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.events: list[tuple[float, str, str]] = []
        self.shown, self.clock, self.last = "", 0.0, time.monotonic()
        self.shell = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile"],
            cwd=folder,
            env=environment,
            encoding="utf-8",
            dimensions=(ROWS, COLUMNS),
        )
        self.waits_for(PROMPT, GLANCE)

    def waits_for(self, text: str, read: float, times: int = 1) -> None:
        """Take what is shown until it has a text so many times, and leave it to be read."""
        while self.shown.count(text) < times:
            self.take(timeout=300)
        with suppress(pexpect.TIMEOUT):
            while True:
                self.take(timeout=0.5)
        self.clock += read
        self.last = time.monotonic()

    def take(self, timeout: float) -> None:
        text = self.shell.read_nonblocking(65536, timeout)
        now = time.monotonic()
        waited = now - self.last
        self.clock += min(waited, TICK if waited < 2 else WAIT)
        self.last = now
        self.shown += text
        self.events.append((round(self.clock, 3), "o", text))

    def types(self, line: str) -> None:
        """Type a command and Enter; what is shown counts from here."""
        for key in line:
            self.shell.send(key)
            self.take(timeout=10)  # its echo
            time.sleep(KEY)
        self.shown = ""
        self.shell.send("\r")

    def runs(self, command: str) -> None:
        self.types(command)
        self.waits_for(f"\n{PROMPT}", READING)

    def saves(self, path: Path) -> None:
        """Write it as asciinema's format has it, version 2."""
        head = {"version": 2, "width": COLUMNS, "height": ROWS}
        path.write_text("\n".join(map(json.dumps, [head, *self.events])) + "\n")


def published(folder: Path) -> Path:
    """Return a clone whose one tag is the version of the sources, as a release is."""
    clone = folder / "template"
    version = (ROOT / "src/triton_ensemble/__init__.py").read_text().split('"')[-2]
    git("clone", "--quiet", "--no-tags", str(ROOT), str(clone))
    git("-C", str(clone), "tag", f"v{version}")
    return clone


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)


def environment(folder: Path) -> dict[str, str]:
    """Return what the shell knows: this machine's environment, the address, and `uvx`."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "uvx").write_text(f'#!/bin/sh\nPATH={ROOT}/.venv/bin:$PATH exec "$@"\n')
    (programs / "uvx").chmod(0o755)
    (folder / "inputrc").write_text("set enable-bracketed-paste off\n")
    foreign = ("GIT_", "MAKE", "MFLAGS", "PYTHON", "TRITON_", "VENV", "VIRTUAL_ENV")
    inherited = {name: v for name, v in os.environ.items() if not name.startswith(foreign)}
    told = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PS1": PROMPT,
        "TERM": "xterm-256color",
        "HISTFILE": "/dev/null",
        "INPUTRC": str(folder / "inputrc"),
        "PIP_QUIET": "1",  # no warnings about the settings of this machine
        "PROMPT_TOOLKIT_NO_CPR": "1",  # it would wait a second for each answer about the cursor
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{published(folder)}.insteadOf",
        "GIT_CONFIG_VALUE_0": f"{ADDRESS}.git",
    }
    return inherited | told


def record_first_minute(home: Path, known: dict[str, str]) -> Terminal:
    home.mkdir()
    terminal = Terminal(home, known)
    terminal.types(COPY)
    for asked in range(1, QUESTIONS + 1):
        terminal.waits_for("\U0001f3a4", GLANCE, asked)
        terminal.shell.send("\r")
    terminal.waits_for(f"\n{PROMPT}", READING)
    for command in (INFER, SLIP, CHECK):
        terminal.runs(command)
    return terminal


def record_change(project: Path, known: dict[str, str]) -> Terminal:
    """Record a change of the project that the first minute has left, committed without its slip."""
    pipeline = project / "pipeline.yml"
    pipeline.write_text(pipeline.read_text().replace("PIXEL}", "PIXELS}"))
    author = ("-c", "user.name=owner", "-c", "user.email=owner@example.org")
    for command in (("init", "-q"), ("add", "--all"), (*author, "commit", "-qm", "First version")):
        git("-C", str(project), *command)
    terminal = Terminal(project, known)
    for line in LOOP:
        terminal.runs(line)
    return terminal


def draw(terminal: Terminal, picture: Path, folder: Path) -> None:
    """Write what a terminal has shown; exit with a line if that has a path of this machine."""
    cast, svg = folder / "cast", folder / "svg"
    terminal.saves(cast)
    options = ["-t", "window_frame", "--theme", "dracula", "-m", str(FRAME), "-D", str(END)]
    render = [sys.executable, "-m", "termtosvg", "render", str(cast), str(svg)]
    subprocess.run([*render, *options], check=True)
    text = svg.read_text(encoding="utf-8")
    if found := re.search(
        rf"{re.escape(str(folder))}|{re.escape(str(ROOT))}|{Path.home()}\b", text
    ):
        sys.exit(
            f"{picture.name}: would show {found[0]}, a path of this machine; it is not written"
        )
    picture.write_text(text, encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home, known = folder / "home", environment(folder)
        draw(record_first_minute(home, known), FIRST_MINUTE, folder)
        draw(record_change(home / "myproj", known), CHANGE, folder)


if __name__ == "__main__":
    main()
