"""Write images by their digests into deploy/: `python -m triton_ensemble.container.pin NAME SUFFIX=IMAGE@DIGEST ...`.

An entry of `images` in a kustomization.yaml is named NAME and a suffix. The suffix `-mounted` is the image without
models: it is the entry NAME where the models come from elsewhere. The rest of the file stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

MOUNTED = {"components/s3", "components/image-volume"}


def pin(path: Path, images: Mapping[str, str]) -> Iterator[str]:
    """Write images, by the names of their entries, into a kustomization.yaml; yield the names that it has."""
    text = path.read_text()
    edits: list[tuple[int, int, str]] = []
    for entry in _entries(text):
        fields = {key.value: (key, value) for key, value in entry.value}
        key, name = fields["name"]
        if name.value not in images:
            continue
        yield name.value
        between = ", " if entry.flow_style else "\n" + " " * key.start_mark.column
        repository, _, digest = images[name.value].partition("@")
        for field, old, new in (
            ("digest", fields.get("digest") or fields.get("newTag"), digest),
            ("newName", fields.get("newName"), repository),
        ):
            begin = old[0].start_mark if old else name.end_mark
            end = old[1].end_mark if old else name.end_mark
            edits.append((begin.index, end.index, f"{'' if old else between}{field}: {new}"))
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    path.write_text(text)


def _entries(text: str) -> Iterator[yaml.MappingNode]:
    """Yield the entries of `images` in the text of a kustomization.yaml."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    for key, value in root.value:
        if key.value == "images":
            yield from value.value


def main(name: str, images: Sequence[str]) -> int:
    """Pin the images that have a digest, print where; return the exit status."""
    pairs = (image.split("=", 1) for image in images)
    by_suffix = {suffix: image for suffix, image in pairs if "@sha256:" in image}
    if not by_suffix:
        print("pin: no image has a digest; write IMAGE=NAME@sha256:...", file=sys.stderr)
        return 1
    if not (paths := sorted(Path("deploy").glob("*/kustomization.yaml"))):
        lacks = "pipeline.yml: extras lacks kubernetes, kserve and ray; add one"
        print(f"{lacks}, and run the command again", file=sys.stderr)
        return 1
    for path in paths:
        try:
            components = yaml.safe_load(path.read_text()).get("components") or []
        except yaml.YAMLError as error:
            print(f"{path}: is not YAML: {' '.join(str(error).split())}", file=sys.stderr)
            return 1
        mounted = path.parent.name == "kserve" or MOUNTED.intersection(components)
        unused = "" if mounted else "-mounted"
        by_name = {
            f"{name}{suffix}".removesuffix("-mounted"): image
            for suffix, image in by_suffix.items()
            if suffix != unused
        }
        for entry in pin(path, by_name):
            print(f"{path}: {entry} is {by_name[entry]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
