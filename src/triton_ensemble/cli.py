"""The command `triton-ensemble`, also `python -m triton_ensemble`.

A command is a module with `run(arguments) -> exit status`, and `add_arguments(parser)` if it has any. Its docstring
is the command's help. Only the module of the command that is called is imported.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from triton_ensemble import LAUNCHED, __version__
from triton_ensemble.environment.extras import COMMANDS as EXTRA
from triton_ensemble.facts.project import FILE, ProjectError
from triton_ensemble.facts.signals import ignore_signals
from triton_ensemble.facts.terminal import escape_streams

# Module and summary of each command, in the order in which a newcomer meets them.
COMMANDS = {
    "new": ("author.new", "make a project for your own pipeline, step by step"),
    "add-step": ("author.add_step", "add a step to pipeline.yml, step by step"),
    "check": (
        "check.pipeline.command",
        "find what Triton would refuse in a model repository or pipeline.yml",
    ),
    "explain": ("check.rules.explain", "explain a rule of the check, with an example"),
    "apply": ("change.apply", "apply a changed pipeline.yml to the project's files"),
    "adopt": ("author.adopt.command", "print the pipeline.yml of an existing model repository"),
    "setup": ("environment.setup", "make the project's environment"),
    "lock": ("environment.lock", "renew the project's locks"),
    "repository": ("serve.command", "complete the project's model repository"),
    "serve": ("serve.local.command", "serve the project's ensemble with the local Triton"),
    "infer": ("testing.infer", "send the sample requests and print the responses"),
    "sample": ("testing.record", "record a request in samples/, from files and values"),
    "step": ("step.command", "run one Python step on a sample, with --debug in a debugger"),
    "test": ("testing.command", "run the tests of the project, and mypy"),
    "lint": ("testing.lint", "run ruff and mypy over the project"),
    "format": ("testing.format", "format the project's code as `lint` expects it"),
    "golden": ("testing.golden", "record the responses to the sample requests"),
    "samples": (
        "testing.recorded_samples",
        "turn recorded requests into samples with golden responses",
    ),
    "replay": ("testing.replay", "send recorded requests to a server, and compare its responses"),
    "bench": ("measure.bench", "measure throughput, latency and the time of each model"),
    "tune": ("measure.tune", "measure settings and write the best into pipeline.yml"),
    "publish": ("deploy.versions.publish", "freeze a step's code and model file as a version"),
    "shift": (
        "deploy.versions.shift",
        "move the ensemble to a published version, also on a running server",
    ),
    "rollback": ("deploy.versions.rollback", "move the ensemble back to the version before"),
    "unload": ("deploy.versions.unload", "remove a version from pipeline.yml and the server"),
    "store": ("deploy.versions.store", "copy the files of published versions from and to a bucket"),
    "push": ("deploy.push", "upload the model repository to a bucket, as a new version"),
    "sizes": (
        "serve.container.sizes",
        "print the memory and disk that a pod needs for the model files",
    ),
    "ci": ("serve.container.ci", "build, test, sign and tag images in a job of CI"),
    "image": ("serve.container.images", "build the container image of Triton with the models"),
    "up": ("serve.container.up", "build the images and start the containers by compose"),
    "down": ("serve.container.down", "stop the containers that `up` started"),
    "test-docker": ("serve.container.try_out", "run the smoke tests on the container"),
    "digests": ("serve.container.digests", "pin the images of others by digest"),
    "engines": ("serve.container.engines", "build the TensorRT engines of changed models"),
    "pin": ("serve.container.pin", "write the project's images by digest into deploy/"),
    "promote": ("serve.container.promote", "give a stage the images of another, by digest"),
    "update": (
        "change.update",
        "upgrade to the template's newest version, and apply pipeline.yml",
    ),
    "render": ("compile.command", "render the managed files of answers into a folder"),
    "fleet": ("change.fleet", "print how several projects stand: versions, edits, known faults"),
    **{name: (row["module"], row["summary"]) for name, row in EXTRA.items() if "module" in row},
}

# Commands that first apply a changed pipeline.yml of the project that they are called in.
APPLYING = (
    "repository", "serve", "infer", "sample", "step", "golden", "samples", "replay", "bench", "tune", "publish", "shift",
    "rollback", "unload", "push", "sizes", "image", "up",
    "test-docker", "digests", "engines", *EXTRA,
)  # fmt: skip


# Addresses that commands print, and send requests to.
ADDRESSES = ("TRITON_URL", "TRITON_GRPC_URL", "TRITON_METRICS_URL")
READER_LEFT = 141  # the exit status that a shell has for SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. An error of the user is one line on stderr."""
    if arguments is not None:
        return _run(arguments)
    escape_streams()
    is_launched = os.environ.pop(LAUNCHED, "")
    try:
        return _run_launched(sys.argv[1:]) if is_launched else _run(sys.argv[1:])
    finally:
        ignore_signals()


def _run_launched(words: Sequence[str]) -> int:
    from triton_ensemble.targets import run_target

    try:
        return run_target(words, _run)
    except ProjectError as error:
        print(error, file=sys.stderr)
        return 2


def _run(words: Sequence[str]) -> int:
    chosen = next((word for word in words if word in COMMANDS), None)
    try:
        if words and words[0] not in COMMANDS and words[0][:1] != "-":
            raise ProjectError(_explain_unknown(words[0]))
        parsed = _parser(chosen).parse_args(words)
        _refuse_passwords()
        if (status := _apply_first(parsed)) is None:
            status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except ProjectError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if not (line := _explain_lost(error.name or "")):
            raise
        print(line, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # a reader such as `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_LEFT


def _explain_unknown(word: str) -> str:
    """Return a line on a word that is not a command.

    It says which command may be meant, or which page has an extra of that name.
    """
    from triton_ensemble.facts import catalog

    if extra := catalog.table("extras").get(word):
        own = f"{word}.md says how to deploy" if "owned" in extra else ""
        return f"{word} has no command; docs/{own or 'questions.md says what it adds'}"
    near = [f"did you mean {each}? " for each in difflib.get_close_matches(word, COMMANDS, 1)]
    return f"{word}: no such command; {''.join(near)}make lists them"


def _explain_lost(module: str) -> str:
    """Return a line on a package that the project's environment was made with but lacks now, or an empty text."""
    from triton_ensemble.environment.needs import STATE

    name, lock = re.escape(module.split(".")[0].replace("_", "-")), Path("requirements.lock")
    is_made = Path(sys.prefix, STATE).is_file() and lock.is_file()
    if not (is_made and re.search(rf"^[\w.-]*{name}", lock.read_text(), re.I | re.M)):
        return ""
    folder = sys.prefix.removeprefix(os.getcwd() + os.sep)
    return f"{folder}: lacks {module}; remove {folder}, and run the command again"


def _refuse_passwords() -> None:
    """Raise ProjectError for an address with a password, which commands would print and send in the Host header."""
    for name in ADDRESSES:
        if "@" in os.environ.get(name, ""):
            what = "has a user or a password in it, which logs would show"
            raise ProjectError(f"{name} {what}; write http://HOST:PORT or grpc://HOST:PORT")


def _apply_first(parsed: argparse.Namespace) -> int | None:
    """Return the exit status of a command that is not run, as pipeline.yml is not applied, or None."""
    root = Path.cwd()
    if parsed.command not in APPLYING or not all(
        (root / name).is_file() for name in ("pipeline.yml", FILE)
    ):
        return None
    from triton_ensemble.change.apply import apply_first
    from triton_ensemble.change.state import is_changed

    if getattr(parsed, "if_applied", False) and is_changed(root):
        return 0
    return apply_first(root) or None


class _Parser(argparse.ArgumentParser):
    """A parser that prints errors on one line. The usage is in --help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="triton-ensemble",
        description="The toolkit of projects made from triton-ensemble-template. In a project, `make` "
        "calls it; `check` and `adopt` work on any model repository.",
        epilog="`triton-ensemble COMMAND --help` says more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"triton-ensemble {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name == chosen:
            implementation = importlib.import_module(f"triton_ensemble.{module}")
            command.description = implementation.__doc__
            command.formatter_class = argparse.RawDescriptionHelpFormatter
            if add_arguments := getattr(implementation, "add_arguments", None):
                add_arguments(command)
            command.set_defaults(run=implementation.run)
    return parser
