"""Complete the project's model_repository/: copy step code and make missing model files.

models/NAME.py makes a model file, and makes it again after a change of that script. Files of removed models
are deleted, so that the folder has exactly what Triton, an image or a bucket needs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from triton_ensemble.facts.project import STAGE, Project
from triton_ensemble.serve import RepositoryError, published
from triton_ensemble.serve.complete import complete
from triton_ensemble.serve.sources import list_tree_sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare when to do nothing."""
    changed = "do nothing if pipeline.yml changed and is not applied yet"
    parser.add_argument("--if-applied", action="store_true", help=changed)


def run(arguments: argparse.Namespace) -> int:
    """Complete the repository. Print a line for each reason and return 1 if that is impossible."""
    project = Project.load(Path.cwd())
    project.check_stage(os.environ.get(STAGE, ""))
    try:
        complete(project, lambda line: print(line, flush=True))
        notes = [*published.notes(project, list_tree_sources(project))]
    except RepositoryError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"model_repository: can't be completed: {error}", file=sys.stderr)
        return 1
    print(*notes, sep="\n", end="\n" * bool(notes), file=sys.stderr)
    return 0
