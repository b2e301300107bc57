"""Names the parts of a project that are still as they were generated, and so make up its results.

    python -m triton_ensemble.serve.stubs

With STRICT in the environment its exit status is 1 if there is any.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.environment.needs import is_on
from triton_ensemble.facts.project import STUB_MARK, Project, is_stub_code
from triton_ensemble.facts.terminal import escape_streams

REFERENCE = "tests/test_reference.py"


def stubs(project: Project) -> list[str]:
    """Return the paths of the Python steps and of the scripts of model files that are stubs, sorted."""
    steps = {f"steps/{module}.py" for served in project.step_modules.values() for module in served}
    models = {f"models/{script}.py" for script in project.model_files.values()}
    return [path for path in sorted(steps | models) if is_stub_code(project.root / path)]


def lines(project: Project) -> Iterator[str]:
    """Yield a line for the stubs, and a line if sample requests are missing.

    Yield nothing if the owner wrote everything.
    """
    if found := stubs(project):
        kind = "1 file is a stub" if len(found) == 1 else f"{len(found)} files are stubs"
        yield f"{kind}: {', '.join(found)}; fill in and delete the line `{STUB_MARK}...`"
    if made_up := ", ".join(f"samples/{path.name}" for path in project.sample_stubs()):
        yield f"{made_up}: is a stub; record a request: {project.sample_command()}"
    elif not project.sample_files():
        yield f"samples/ has no request, so zeros are sent; record one: {project.sample_command()}"
    reference = project.root / REFERENCE
    if is_strict() and reference.is_file() and "fill in pipeline()" in reference.read_text():
        yield f"{REFERENCE}: pipeline() is a stub; compute the outputs by the original code, or delete it"


def is_strict() -> bool:
    """Return whether stubs are errors. Otherwise a skipped test names the stub of tests/test_reference.py."""
    return is_on(os.environ.get("STRICT", ""))


def main() -> int:
    """Print the lines. Return 1 if there are any and STRICT forbids them."""
    found = list(lines(Project.load(Path.cwd())))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return int(bool(found) and is_strict())


if __name__ == "__main__":
    escape_streams()
    sys.exit(main())
