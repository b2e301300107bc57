"""Give a stage the images of another, by digest.

The command copies `images` from the kustomization.yaml of the stage FROM, or else of deploy/kubernetes/, to
deploy/stages/TO/. For KServe it does the same in deploy/kserve-stages/. It copies only images with a digest,
so that the stage gets what was tested.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.compile.file import set_values
from triton_ensemble.facts.project import Project, ProjectError

# The folder that `make pin` writes to, and the folder of its stages.
FOLDERS = {"deploy/kubernetes": "deploy/stages", "deploy/kserve": "deploy/kserve-stages"}
FILE = "kustomization.yaml"


def promote(to: str, source: str = "") -> Iterator[str]:
    """Write the images of a stage, and yield a line for each.

    Raise ValueError if the images lack digests or deploy/ lacks the folder of the stage, or ProjectError for
    an unknown stage.
    """
    if not to:
        raise ValueError("promote: TO names no stage; write TO=NAME, of one in `stages`")
    project = Project.load(Path())
    project.check_stage(to)
    project.check_stage(source)
    used = {base: stages for base, stages in FOLDERS.items() if Path(stages, to, FILE).exists()}
    if not used:
        what = f"deploy/ has no folder of the stage {to}"
        raise ValueError(f"{what}; add kubernetes or kserve to `extras`, then run: make apply")
    for base, stages in used.items():
        path = Path(stages, source, FILE) if source else Path(base, FILE)
        target = Path(stages, to, FILE)
        images = _read_images(path)
        if not images:
            instead = f"make promote TO={source}" if source else "make pin IMAGE=NAME@sha256:..."
            raise ValueError(f"{path}: has no image with a digest; run: {instead}")
        text = set_values(target.read_text(encoding="utf-8"), {("images",): images})
        target.write_text(text, encoding="utf-8")
        yield from (f"{target}: {each['name']}@{each['digest']}" for each in images)


def _read_images(path: Path) -> list[dict[str, Any]]:
    """Return the images with a digest, by the names that the folder has given to them: an overlay sees these."""
    images = yaml.safe_load(path.read_text(encoding="utf-8")).get("images") or []
    return [
        {"name": each.get("newName", each["name"]), "digest": each["digest"]}
        for each in images
        if "digest" in each
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the stages."""
    parser.add_argument(
        "to", nargs="?", default="", metavar="TO", help="the stage that gets the images"
    )
    source = "the stage that has them; default: the images that `pin` wrote"
    parser.add_argument("source", nargs="?", default="", metavar="FROM", help=source)


def run(arguments: argparse.Namespace) -> int:
    """Promote, print what the stage has now, and return the exit status."""
    try:
        for line in promote(arguments.to, arguments.source):
            print(line)
    except (OSError, ValueError, ProjectError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
