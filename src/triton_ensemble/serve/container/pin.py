"""Write the images that CI builds, such as IMAGE and GATEWAY_IMAGE, by digest into deploy/.

Their variables are in the environment or on make's command line: IMAGE=NAME@sha256:... An entry of `images`
in a kustomization.yaml is named as the project, with a suffix. The suffix `-mounted` is the image without
models: it is the entry without a suffix where the models come from elsewhere. The rest of the file stays
as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.facts import catalog
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.kinds import IMAGES

# The variables that have the digests of images, by the suffixes of their entries.
VARIABLES = {image.suffix: image.variable for image in IMAGES.values()}
PINNED = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
MOUNTED = {
    "deploy/kserve/base",
    "deploy/kubernetes/components/image-volume",
    "deploy/kubernetes/components/s3",
}
# The suffix of the entry that a kustomization.yaml needs if it lists this.
NEEDED = {
    "deploy/kserve/base": "",
    "deploy/kubernetes/base": "",
    **{image.listed: image.suffix for image in IMAGES.values() if image.listed},
}


def pin(path: Path, name: str, by_suffix: Mapping[str, str]) -> list[str]:
    """Write images into a kustomization.yaml, and return what each of its entries is now.

    Raise ValueError if it lacks an entry, or can't be changed in place.
    """
    text = path.read_bytes().decode()
    content = _load(text)
    listed = _list_resources(path, content)
    names = {entry["name"] for entry in content["images"]}
    for needed in sorted(name + NEEDED[part] for part in listed & NEEDED.keys()):
        if needed not in names:
            raise ValueError(f"images lacks {needed}; add an entry `name: {needed}`")
    unused = "-mounted" if MOUNTED.isdisjoint(listed) else ""
    images = {
        name + suffix.removesuffix("-mounted"): image
        for suffix, image in by_suffix.items()
        if suffix != unused
    }
    edits: list[tuple[int, int, str]] = []
    with suppress(KeyError, ValueError, yaml.YAMLError):
        for node, entry in zip(_entries(text), content["images"], strict=True):
            if image := images.get(entry["name"]):
                edits.extend(_iter_edits(node, image, "\r\n" if "\r\n" in text else "\n"))
                entry.pop("newTag", None)
                entry["newName"], _, entry["digest"] = image.partition("@")
        for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            text = text[:start] + new + text[end:]
        if _load(text) == content:
            path.write_bytes(text.encode())
            return [f"{entry} is {images[entry]}" for entry in sorted(names & images.keys())]
    raise ValueError(
        "write entries of images without anchors and merge keys, and with newTag or digest"
    )


def _load(text: str) -> dict[str, Any]:
    """Return the content of a kustomization.yaml, with `images`."""
    content: dict[str, Any] = yaml.safe_load(text)
    try:
        content["images"] = content.get("images") or []
        _ = {entry["name"] for entry in content["images"]}
    except (AttributeError, KeyError, TypeError):
        raise ValueError("images is not a list of entries with a name") from None
    return content


def _list_resources(path: Path, content: Mapping[str, Any]) -> set[str]:
    """Return the resources and components of a kustomization.yaml, from the project's folder."""
    listed = [*(content.get("resources") or ()), *(content.get("components") or ())]
    return {os.path.normpath(path.parent / str(item)) for item in listed}


def _entries(text: str) -> Iterator[yaml.MappingNode]:
    """Yield the entries of `images` in the text of a kustomization.yaml."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    for key, value in root.value:
        if key.value == "images":
            yield from value.value


def _iter_edits(
    entry: yaml.MappingNode, image: str, line_end: str
) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the new text of what an entry says of its image."""
    fields = {key.value: (key, value) for key, value in entry.value}
    key, name = fields["name"]
    between = ", " if entry.flow_style else line_end + " " * key.start_mark.column
    repository, _, digest = image.partition("@")
    for field, old, new in (
        ("digest", fields.get("digest") or fields.get("newTag"), digest),
        ("newName", fields.get("newName"), repository),
    ):
        begin = old[0].start_mark if old else name.end_mark
        end = old[1].end_mark if old else name.end_mark
        yield begin.index, end.index, f"{'' if old else between}{field}: {new}"


def run(arguments: argparse.Namespace) -> int:
    """Pin the images that CI builds, and return the exit status."""
    images = {suffix: os.environ.get(name, "") for suffix, name in VARIABLES.items()}
    return pin_all(Project.load(Path.cwd()).cluster_name, images)


def list_clusters() -> list[str]:
    """Return the extras with a kustomization.yaml, which names images."""
    extras = catalog.table("extras").items()
    return [
        name for name, row in extras if f"deploy/{name}/kustomization.yaml" in row.get("owned", ())
    ]


def pin_all(name: str, images: Mapping[str, str]) -> int:
    """Pin the images that have a digest, print where, and return the exit status."""
    by_suffix = {suffix: image for suffix, image in images.items() if "@" in image}
    if not by_suffix:
        print("pin: no image has a digest; write IMAGE=NAME@sha256:...", file=sys.stderr)
        return 1
    for image in by_suffix.values():
        if not PINNED.fullmatch(image):
            lacks = "lacks a name, or a digest of 64 hex digits"
            print(f"pin: {image} {lacks}; write IMAGE=NAME@sha256:...", file=sys.stderr)
            return 1
    if not (paths := sorted(Path("deploy").glob("*/kustomization.yaml"))):
        *most, last = list_clusters()
        lacks = f"pipeline.yml: extras lacks {', '.join(most)} and {last}; add one"
        print(f"{lacks}, and run the command again", file=sys.stderr)
        return 1
    for path in paths:
        try:
            lines = pin(path, name, by_suffix)
        except (OSError, ValueError, yaml.YAMLError) as error:
            print(f"{path}: can't be pinned: {' '.join(str(error).split())}", file=sys.stderr)
            return 1
        for line in lines or ["takes none of these images"]:
            print(f"{path}: {line}")
    return 0
