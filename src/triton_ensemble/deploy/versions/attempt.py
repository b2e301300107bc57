"""The common part of the commands: their arguments, and one line for an error."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.stage import alone, file_problem
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.facts.project import ProjectError
from triton_ensemble.serve import RepositoryError
from triton_ensemble.serve.local.process import interruptible


def version(text: str) -> int:
    """Return the number of a version folder.

    Raise ArgumentTypeError for a text that Triton does not take for a version.
    """
    if not text.isdecimal() or text != str(int(text)) or not 0 < int(text) < 2**63:
        what = f"{text!r} is not a version number" if text else "is missing"
        raise ArgumentTypeError(f"{what}; write VERSION=1, 2, 3 ...")
    return int(text)


def attempt(action: Callable[[], None]) -> int:
    """Do an action and return 0. If it was not done, print a line that says why and return 1.

    Return 130 if it was interrupted.
    """
    interruptible()
    root = Path.cwd()
    try:
        with alone(root):
            action()
    except (VersionError, RepositoryError, ProjectError, ChangeError) as error:
        print(str(error), file=sys.stderr)
        return 1
    except OSError as error:
        print(file_problem(error, root), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "interrupted; pipeline.yml and the model repository are as they were", file=sys.stderr
        )
        return 130
    return 0
