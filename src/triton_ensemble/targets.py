"""The targets of a project's Makefile: what is done before and after each, and which variables it takes.

Without make, the same commands start from the wheel: `python3 vendor/NAME.whl/triton_ensemble infer`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path

from triton_ensemble import launch
from triton_ensemble.environment.extras import COMMANDS as EXTRA
from triton_ensemble.environment.extras import PARTS
from triton_ensemble.environment.needs import (
    BESIDE,
    COMPLETING,
    STORED,
    is_on,
    list_parts,
    read_given,
)
from triton_ensemble.facts.project import STAGE, Project
from triton_ensemble.facts.variables import read_port, split_words
from triton_ensemble.serve import stubs

Call = Callable[[Sequence[str]], int]

NAMING_STUBS = ("check", "infer", "test", "push")
# A conflict that is open would be in what these deliver.
DELIVERING = ("image", "up", "push", *(name for name, row in EXTRA.items() if row.get("delivers")))
# Words of a target, if they are not its name.
WORDS = {name: row["words"] for name, row in EXTRA.items() if "words" in row}
# The option of a command that a variable is; one with ! is yes or no, and an empty one is a positional word.
SHELL_OPTIONS = {
    "serve": {
        "HTTP_PORT": "--http-port",
        "GRPC_PORT": "--grpc-port",
        "METRICS_PORT": "--metrics-port",
    },
    **{name: row["shell"] for name, row in EXTRA.items() if "shell" in row},
}
ASKED = ("HTTP_PORT", "GRPC_PORT")  # of a server that commands ask
# These variables count if make's command line has them, as a shell may have a NAME for another purpose.
MAKE_OPTIONS = {
    "apply": {"UNDO": "--undo!"},
    "check": {"FORMAT": "--format"},
    "serve": {"RELOAD": "--reload!", "CONTROL": "--control"},
    "sample": {"NAME": "--name", "REQUEST": "--request", "OUTPUTS": "--outputs!"},
    "step": {"NAME": "", "SAMPLE": "--sample", "DEBUG": "--debug!"},
    "samples": {"FROM": "--from", "N": "--most"},
    "replay": {"AGAINST": "--against", "FROM": "--from"},
    "bench": {"BASE": "--base", "GATE": "--gate"},
    "tune": {"TIME": "--time", "P99": "--p99", "CONCURRENCY": "--concurrency"},
    "publish": {"NAME": "", "VERSION": "", "FROM": "--from", "FILE": "--file"},
    "shift": {"NAME": "", "VERSION": "", "GOLDEN": "--golden!", "ROLL": "--roll"},
    "rollback": {"NAME": "", "ROLL": "--roll"},
    "unload": {"NAME": "", "VERSION": "", "ROLL": "--roll"},
    "push": {"TO": "", "VERSION": "--version"},
    "promote": {"TO": "", "FROM": ""},
    "update": {"UNDO": "--undo!", "MARKERS": "--markers!"},
    **{name: row["make"] for name, row in EXTRA.items() if "make" in row},
}


Step = Callable[[], int]


def run_target(words: Sequence[str], call: Call) -> int:
    """Run a target of the Makefile, which the wheel has started, until a part of it fails.

    Return its exit status.
    """
    given, command = dict(os.environ), words[0]
    options = list_options(words, os.environ)
    _add_packages(command)
    chosen = [*WORDS.get(command, [command]), *options, *words[1:]]
    for step in _list_steps(command, chosen, given, call):
        if status := step():
            return status
    return 0


def list_options(words: Sequence[str], environment: MutableMapping[str, str]) -> list[str]:
    """Return the words that variables stand for, and remove what make's command line gave to this command alone."""
    table = SHELL_OPTIONS.get(words[0], {})
    for name in {*table, *(ASKED if words[0] in COMPLETING else ())}:
        if name.endswith("_PORT"):
            read_port(name, 0, environment)
    options = _make_words(table, environment)
    if words[1:]:  # make names a command alone
        return options
    given, table = read_given(environment), MAKE_OPTIONS.get(words[0], {})
    for name in given.keys() & {*table, "ARGS", "ENV"}:
        environment.pop(name, None)
    if "ENV" in given:
        environment[STAGE] = given["ENV"]
    return [*options, *_make_words(table, given), *split_words("ARGS", given.get("ARGS", ""))]


def _make_words(table: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """Return options before positional words. Of several words, each that is missing is an empty one."""
    options, words, positional = [], [], [*table.values()].count("")
    for name, option in table.items():
        text = variables.get(name, "")
        if not option and (text or positional > 1):
            words.append(text)
        elif option.endswith("!"):
            options += [option[:-1]] * is_on(text)
        elif option and text:
            options.append(f"{option}={text}")
    return [*options, *words]


def _list_steps(
    command: str, words: list[str], given: Mapping[str, str], call: Call
) -> Iterator[Step]:
    if command in COMPLETING:
        yield lambda: call(["apply", "--unless-ci"])
        yield lambda: _renew(command, given)
    if command in DELIVERING:
        yield _check_applied
    if (store := os.environ.get("STORE")) and command in STORED:
        yield lambda: call(["store", store])
    if command == "test":
        yield lambda: call(["lint", "--quick"])
    if command in COMPLETING:
        yield lambda: call(["repository"])
    if command in BESIDE:
        Project.load(Path.cwd()).check_extra(BESIDE[command])
    if command == "check":
        yield lambda: call(["repository", "--if-applied"])
    if command == "test":
        yield lambda: call(["check", *_make_words(MAKE_OPTIONS["check"], read_given(given))])
    if command != "repository":
        yield lambda: call(words)
    if store and command == "publish":
        yield lambda: call(["store", store, "--send"])
    if command in NAMING_STUBS:
        yield stubs.main


def _add_packages(command: str) -> None:
    """Put packages that only this process needs on its path."""
    spawning = {row["part"] for row in EXTRA.values() if row.get("spawns")}  # launch.py adds these
    for part in set(list_parts([command], os.environ)) & {"push", *PARTS} - spawning:
        sys.path.insert(0, os.path.join(sys.prefix, part))


def _renew(command: str, given: Mapping[str, str]) -> int:
    """If an applied pipeline.yml needs other packages, install them, and start again."""
    environment = launch.Environment()
    if given.get("SETUP") == "" or not environment.list_outdated(list_parts([command], given)):
        return 0
    os.environ.update(given)
    return launch.main(sys.argv[1:], is_applied=True)


def _check_applied() -> int:
    from triton_ensemble.change.apply import attempt, refuse_unapplied

    return attempt(refuse_unapplied)
