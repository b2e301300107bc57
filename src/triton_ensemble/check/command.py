"""Whether Triton would serve a model repository, without a server: a line for each finding, `file:line: severity: rule: what; what to do`.

    .venv/bin/python tools/check.py [REPOSITORY] [--format text|github|json]

The repository is the project's by default, and may be any other. Exit status 1 if a finding is an error, 2 if there is nothing to check.
The rules follow Triton's own (core: model_config_utils.cc, ensemble_utils.cc), and what it loads but never answers.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # as a program it sees tools/ only

try:
    from triton_ensemble.answers import FILE, answers_of
    from triton_ensemble.check.deployment import deployment
    from triton_ensemble.check.ensembles import ensemble
    from triton_ensemble.check.fields import fields
    from triton_ensemble.check.findings import FORMATS, Finding
    from triton_ensemble.check.layout import OLDEST, broken_links, layout
    from triton_ensemble.check.models import Model, Setting, read
    from triton_ensemble.check.project import damaged, project, setting, strangers
    from triton_ensemble.check.python_models import python_models
    from triton_ensemble.check.sequences import sequences
    from triton_ensemble.check.warmups import warmups
    from triton_ensemble.check.wiring import wiring
except ModuleNotFoundError as error:
    instead = (
        "use .venv/bin/python, which `make setup` makes, or install PyYAML and tritonclient[grpc]"
    )
    print(f"{sys.executable}: {error}; {instead}", file=sys.stderr)
    sys.exit(2)


def check(repository: Path, release: str = "") -> list[Finding]:
    """All findings in a repository, by file and line; `release` (YY.MM) is the Triton to serve it."""
    answers = answers_of(repository)
    known = setting(answers, release)
    found: list[Finding] = []
    models: dict[str, Model] = {}
    for folder in folders(repository):
        models[folder.name], unread = read(folder)
        found += [unread] if unread else []
    for folder in (repository, *folders(repository)):
        found += broken_links(folder)
    for model in models.values():
        found += of_model(model, models, known)
    if answers:
        found += project(repository.parent, answers)
        found += deployment(repository.parent / "deploy", models)
        found += strangers(repository.parent, answers, models, found)
    else:
        found += damaged(repository.parent / FILE, f"take it back: git checkout {FILE}")
    return sorted(set(found))


def folders(repository: Path) -> list[Path]:
    return sorted(path for path in repository.iterdir() if path.is_dir())


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


def release(text: str) -> str:
    if not re.fullmatch(r"[0-9]{2}\.(0[1-9]|1[0-2])", text) or text < OLDEST:
        what = f"{text} is no release of Triton's container; write YY.MM, {OLDEST} or later"
        raise argparse.ArgumentTypeError(what)
    return text


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS,  # the description has it, and an error is one line without
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = ROOT / "model_repository"
    parser.add_argument("repository", type=Path, nargs="?", default=default, metavar="REPOSITORY")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument(
        "--release",
        type=release,
        metavar="YY.MM",
        help=f"the Triton to serve it, {OLDEST} or later; the project's",
    )
    args = parser.parse_args(arguments)
    if not args.repository.is_dir():
        parser.error(f"{args.repository}: no such directory; name a model repository")
    try:
        found = check(args.repository.resolve(), args.release or "")
    except OSError as error:
        parser.error(f"{error.filename}: can't be read: {error.strerror}")
    if found or args.format == "json":
        print(FORMATS[args.format](found))
    if not found:
        count = len(folders(args.repository))
        print(f"{count} model{'s' * (count != 1)}: nothing found", file=sys.stderr)
    return int(any(finding.severity == "error" for finding in found))


if __name__ == "__main__":
    sys.exit(main())
