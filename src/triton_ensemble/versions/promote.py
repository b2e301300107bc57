"""Give a stage the images of another: `python -m triton_ensemble.versions.promote TO [FROM]`.

Writes `images` in deploy/stages/TO/kustomization.yaml: the images of the stage FROM, by default of deploy/kubernetes/.
Only images with a digest are copied, so that the stage gets what was tested before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.pipeline.file import set_values
from triton_ensemble.project import Project, ProjectError

BASE = Path("deploy", "kubernetes", "kustomization.yaml")


def promote(to: str, source: str = "") -> list[str]:
    """Write the images of a stage; return them. ValueError where none has a digest, ProjectError for an unknown stage."""
    if not to:
        raise ValueError("promote: TO names no stage; write TO=NAME, of one in `stages`")
    project = Project.load(Path())
    for stage in filter(None, (to, source)):
        project.check_stage(stage)
    path = _overlay(source) if source else BASE
    images: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["images"] or []
    # An overlay sees the names that the base has given to its images.
    own = [
        {"name": each.get("newName", each["name"]), "digest": each["digest"]}
        for each in images
        if "digest" in each
    ]
    if not own:
        instead = f"make promote TO={source}" if source else "make pin IMAGE=NAME@sha256:..."
        raise ValueError(f"{path}: has no image with a digest; run: {instead}")
    text = _overlay(to).read_text(encoding="utf-8")
    _overlay(to).write_text(set_values(text, {("images",): own}), encoding="utf-8")
    return [f"{each['name']}@{each['digest']}" for each in own]


def _overlay(stage: str) -> Path:
    return Path("deploy", "stages", stage, "kustomization.yaml")


def main(arguments: Sequence[str]) -> int:
    """Promote, and print what the stage has now; return the exit status."""
    try:
        for image in promote(*arguments):
            print(f"{_overlay(arguments[0])}: {image}")
    except FileNotFoundError as error:
        print(
            f"{error.filename}: is missing; add kubernetes to `extras`, then run: make apply",
            file=sys.stderr,
        )
        return 1
    except (ValueError, ProjectError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
