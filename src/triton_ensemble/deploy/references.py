"""The owner's files in deploy/ that name a version of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.facts.reading import iter_files
from triton_ensemble.serve.s3_address import Address

MANAGED = "Managed by triton-ensemble-template"
LARGEST_BYTES = 1 << 20


def rewrite(root: Path, address: Address, version: int) -> Iterator[str]:
    """Replace other versions of the repository by this one, and yield a line for each line that names it.

    The repository is known by bucket and prefix: a cluster may reach a store by another host than this machine.
    """
    names = re.compile(
        r"(s3://(?:(?:https?://)?[\w.-]+:\d+/)?"
        rf"{re.escape(f'{address.bucket}/{address.prefix}/')})\d+(?![\w.-]|/[\w.-])"
    )
    for path in _iter_owned(root / "deploy"):
        before = path.read_bytes().decode()
        after = names.sub(rf"\g<1>{version}", before)
        if after != before:
            path.write_bytes(after.encode())
        for number, line in enumerate(after.splitlines(), 1):
            for match in names.finditer(line):
                slash = line[match.end() : match.end() + 1].strip("\"' ,")
                yield f"{path.relative_to(root)}:{number}: {match[0]}{'/' if slash == '/' else ''}"


def _iter_owned(folder: Path) -> Iterator[Path]:
    """Yield the texts in a folder that the template does not manage."""
    for path in iter_files(folder):
        if not path.is_symlink() and path.stat().st_size < LARGEST_BYTES:
            try:
                head = path.read_bytes().decode().partition("\n")[0]
            except UnicodeDecodeError:
                continue
            if MANAGED not in head:
                yield path
