# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Whether Triton would serve a model repository, without a server: a line for each finding, `file:line: rule: what; what to do`.

    python tools/check.py [REPOSITORY] [--format text|github|json]

The repository is the project's by default, and may be any other. Exit status 1 if a finding is an error.
The rules follow Triton's own (core: model_config_utils.cc, ensemble_utils.cc), and what it loads but never answers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # as a program it sees tools/ only

from tools.answers import answers_of  # noqa: E402
from tools.checks.deployment import deployment  # noqa: E402
from tools.checks.ensembles import ensemble  # noqa: E402
from tools.checks.fields import fields  # noqa: E402
from tools.checks.findings import FORMATS, Finding  # noqa: E402
from tools.checks.layout import broken_links, layout  # noqa: E402
from tools.checks.models import Model, Setting, read  # noqa: E402
from tools.checks.project import project, setting  # noqa: E402
from tools.checks.python_models import python_models  # noqa: E402
from tools.checks.sequences import sequences  # noqa: E402
from tools.checks.warmups import warmups  # noqa: E402
from tools.checks.wiring import wiring  # noqa: E402


def check(repository: Path, release: str = "") -> list[Finding]:
    """All findings in a repository, by file and line; `release` (YY.MM) is the Triton to serve it."""
    answers = answers_of(repository)
    known = setting(answers, release)
    found = [*broken_links(repository)]
    models: dict[str, Model] = {}
    for folder in sorted(path for path in repository.iterdir() if path.is_dir()):
        models[folder.name], unread = read(folder)
        found += [unread] if unread else []
    for model in models.values():
        found += of_model(model, models, known)
    found += project(repository, answers, models)
    found += deployment(repository.parent / "deploy", models) if answers else ()
    return sorted(set(found))


def of_model(model: Model, models: dict[str, Model], known: Setting) -> Iterator[Finding]:
    if model.config is None:
        return
    yield from layout(model, known)
    yield from fields(model, known)
    yield from sequences(model)
    if model.is_ensemble:
        yield from ensemble(model, known)
        yield from wiring(model, models)
    else:
        yield from warmups(model)
        yield from python_models(model)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = ROOT / "model_repository"
    parser.add_argument("repository", type=Path, nargs="?", default=default, metavar="REPOSITORY")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument(
        "--release", default="", metavar="YY.MM", help="the Triton to serve it; the project's"
    )
    args = parser.parse_args(arguments)
    if not args.repository.is_dir():
        parser.error(f"{args.repository}: no such directory; name a model repository")
    found = check(args.repository.resolve(), args.release)
    if found or args.format == "json":
        print(FORMATS[args.format](found))
    return int(any(finding.severity == "error" for finding in found))


if __name__ == "__main__":
    sys.exit(main())
