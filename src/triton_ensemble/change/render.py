"""Call Copier in its own process. The last line on stderr says what went wrong.

    python -m triton_ensemble.change.render update FOLDER VERSION PRERELEASES
    python -m triton_ensemble.change.render copy FOLDER < .copier-answers.yml

`update` updates the project in FOLDER with ./pipeline.yml; if VERSION is empty, to the newest tag, and to a pre-release
only if PRERELEASES is not empty. `copy` renders into FOLDER the version of the template to
which the answers were given. A relative path of the template begins here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.answers import FILE, LEFT_OUT
from triton_ensemble.change.git import last_line

# How Copier prints the template's line about an answer: as a name that is not defined.
UNDEFINED = "'dict object' has no attribute "
REFUSAL = re.compile(rf"^{UNDEFINED}(['\"])(.*)\1$", re.DOTALL)


def copy(folder: Path, answers: Mapping[str, Any]) -> None:
    """Render what the project was made from, by its answers; its owner's changes are not in it."""
    from copier import run_copy  # only the environment of `make update` has it

    given = {name: value for name, value in answers.items() if not name.startswith("_")}
    source, version = str(answers.get("_src_path")), answers.get("_commit")
    run_copy(source, folder, given, vcs_ref=version, defaults=True, quiet=True)


def update(folder: Path, version: str, prereleases: str) -> None:
    """Update a project; what pipeline.yml leaves out is the default again."""
    from copier import VcsRef, run_update

    data = LEFT_OUT | yaml.safe_load(Path("pipeline.yml").read_bytes())
    chosen = VcsRef.CURRENT if version == VcsRef.CURRENT.value else version or None
    # The stub among samples is for a project that has none yet.
    exclude = ["/samples/"] if any(folder.glob("samples/*.json")) else []
    run_update(
        folder,
        data,
        vcs_ref=chosen,
        use_prereleases=bool(prereleases),
        defaults=True,
        overwrite=True,
        exclude=exclude,
    )


def main() -> int:
    """Update or copy; return 1 after a line that says what went wrong."""
    command, folder, *chosen = sys.argv[1:]
    answers: dict[str, Any] = {}
    try:
        if command == "copy":
            answers = yaml.safe_load(sys.stdin.buffer)
            copy(Path(folder), answers)
        else:
            answers = yaml.safe_load(Path(folder, FILE).read_bytes())
            update(Path(folder), *chosen)
    except Exception as error:  # whatever it is, it is one line
        print(f"\n{_line(error, answers)}", file=sys.stderr)
        return 1
    return 0


def _line(error: Exception, answers: Mapping[str, Any]) -> str:
    """Return where, what, and what to do."""
    text = str(getattr(error, "message", None) or error)
    source = f"{FILE}: _src_path {answers.get('_src_path')}"
    if refusal := REFUSAL.match(text):
        return refusal[2]
    commit = f"{FILE}: _commit {answers.get('_commit')}"
    if "version from last update not detected" in text:
        return f"{commit} is not a version; tag the template vX.Y.Z+team.N, write that, and commit"
    if "Downgrades are not supported" in text:
        return (
            f"{commit} is newer than the template's newest version; wait for "
            "the next, or apply pipeline.yml alone: make apply"
        )
    instead = "write the template's URL or its absolute path, and commit"
    if isinstance(error, ValueError) and "must be a directory" in text:
        return f"{source}: is not a folder here; {instead}"
    if f"Unknown revision: '{answers.get('_commit')}'" in text:
        return f"{source}: is not a template with the version {answers.get('_commit')}; {instead}"
    if stderr := getattr(error, "stderr", None):  # of a git that Copier has run
        return f"{source}: git says: {last_line(stderr)}; do the template and the network exist?"
    if isinstance(error, OSError):
        return f"update: {error.filename or 'a temporary file'}: {error.strerror}; make room, or name another folder with TMPDIR"
    return f"{source}: {' '.join(text.split())}"


if __name__ == "__main__":
    sys.exit(main())
