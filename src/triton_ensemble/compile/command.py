"""Render a project's managed files from its answers, by this package's version of the template.

`make update` calls this in the toolkit that the project had before. FILE is a .copier-answers.yml or a
pipeline.yml. If the current folder has vendor/team, the rules of that team hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from triton_ensemble.compile.render import render_project, write_files
from triton_ensemble.compile.rules import RefusedAnswers, rules
from triton_ensemble.facts.answers import UnreadableAnswers, read_answers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the answers and the folder."""
    answers = "the answers, and the origin that the rendered .copier-answers.yml names"
    parser.add_argument("--answers", type=Path, required=True, metavar="FILE", help=answers)
    into = "the folder to write the files into"
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help=into)


def run(arguments: argparse.Namespace) -> int:
    """Write the files. Print a line and return 1 if the answers can't be read or are refused."""
    path: Path = arguments.answers
    try:
        made, _ = read_answers(path)
        files = render_project(rules(), rules().questions.select_answers(made), made)
        write_files(files, arguments.into)
    except UnreadableAnswers as error:
        print(f"{path}:{error}", file=sys.stderr)
    except RefusedAnswers as error:
        print(f"{path}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{error.filename or path}: {error.strerror}", file=sys.stderr)
    else:
        return 0
    return 1
