"""Find what Triton would refuse in a model repository, or load and never answer, without a server.

Prints a line for each finding: `file:line: severity: rule: what is wrong; what to do`. docs/check.md
has an example for each rule. The check reads only the first and last bytes of model files, and the text
of Python code. It runs only the rules of your own team (docs/team.md). In a project, it checks
model_repository/. If pipeline.yml has a change that is not applied yet, it checks the configs that the
change would make, and your steps, samples and model scripts against them. `check pipeline.yml` does the
same.

Exit status: 0 if no finding is an error (there may be warnings), 1 if one is an error, 2 if there is
nothing to check.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.formats import FORMATS
from triton_ensemble.facts.terminal import OneLine

DEFAULT = Path("model_repository")


class CheckError(OneLine, RuntimeError):
    """An error that says why there is nothing to check, and what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `triton-ensemble check`."""
    parser.add_argument(
        "repository",
        type=Path,
        nargs="?",
        default=DEFAULT,
        metavar="REPOSITORY",
        help="a model repository, or a pipeline.yml; default: %(default)s",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text for people, github for annotations of a pull request, json for programs, sarif for "
        "code scanning, junit for test reports; default: %(default)s",
    )
    parser.add_argument(
        "--release",
        metavar="YY.MM",
        help="the Triton release that serves the repository, 24.10 or later; default: the project's, "
        "outside a project the newest",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings, and return 1 if one is an error, or 2 if there is nothing to check."""
    try:
        findings, subject = _findings(arguments.repository, arguments.release)
    except CheckError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        instead = "in a project use .venv/bin/triton-ensemble, elsewhere install numpy, pyyaml and tritonclient[grpc]"
        print(f"{sys.executable}: {error}; {instead}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: can't be read: {error.strerror}", file=sys.stderr)
        return 2
    if findings or arguments.format not in ("text", "github"):
        print(FORMATS[arguments.format](findings))
    if arguments.repository is DEFAULT and (skipped := _name_skipped()):
        print(skipped, file=sys.stderr)
    if unknown := _name_unknown(arguments.release):
        print(unknown, file=sys.stderr)
    if not findings:
        print(f"{subject}: nothing found", file=sys.stderr)
    return int(any(finding.severity == "error" for finding in findings))


def _name_skipped() -> str:
    """Return a line if the team of the project in the current folder has rules that may not run here."""
    from triton_ensemble.check.team import FOLDER, is_set_up

    if not any(FOLDER.glob("rules/*.py")) or is_set_up(Path.cwd()):
        return ""
    return f"{FOLDER}/rules: did not run, because `make setup` of this project has not installed this toolkit; run: make check"


def _name_unknown(release: str | None) -> str:
    """Return a line if a release came after the newest that the toolkit knows, or else an empty string."""
    from triton_ensemble.facts import catalog

    if not release or release in catalog.releases():
        return ""
    newest = max(catalog.releases())
    return f"{release}: is not a release that this toolkit knows, so it was checked as {newest}"


def _findings(path: Path, release: str | None) -> tuple[list[Finding], str]:
    """Return the findings, and what was checked in words."""
    if path.suffix in (".yml", ".yaml"):
        from triton_ensemble.check.pipeline.check import check_pipeline  # needs the extra `answers`

        return check_pipeline(path), str(path)
    from triton_ensemble.check.rules.engine import check

    known = _check_release(release)
    if not path.is_dir():
        raise CheckError(f"{path}: no such directory; name a model repository")
    folder = path.resolve()
    is_own = path is DEFAULT  # a path may be anybody's
    findings = check(folder, known, is_own=is_own)
    findings = _check_pipeline(folder, findings, is_own) or findings
    count = sum(each.is_dir() for each in folder.iterdir())
    if not count:
        raise CheckError(f"{path}: has no models; name a model repository")
    return findings, f"{count} model{'s' * (count != 1)}"


def _check_pipeline(repository: Path, findings: list[Finding], is_own: bool) -> list[Finding]:
    """Return the findings that refuse a project's pipeline.yml.

    If the file has a change that is not applied yet, all findings are returned. The findings are
    empty if the package that renders the template's rules is not installed.
    """
    from triton_ensemble.compile.templates import RulesError

    pipeline = repository.parent / "pipeline.yml"
    try:
        from triton_ensemble.check.pipeline.check import check_answers, check_pipeline
        from triton_ensemble.facts.answers import answers_of

        if any(each.rule == "pipeline-changed" for each in findings):
            changed = check_pipeline(pipeline, is_own=is_own)
            refused = any(each.severity == "error" and each.file == pipeline for each in changed)
            still = ("apply-conflict",) if refused else ("apply-conflict", "pipeline-changed")
            return [*changed, *(each for each in findings if each.rule in still)]
        return check_answers(pipeline) if answers_of(repository) and pipeline.is_file() else []
    except (ModuleNotFoundError, RulesError):
        return []


def _check_release(release: str | None) -> str:
    if release is None:
        return ""
    from triton_ensemble.facts import catalog

    oldest = min(catalog.releases())
    if not re.fullmatch(r"[0-9]{2}\.(0[1-9]|1[0-2])", release) or release < oldest:
        what = f"{release} is not a release of Triton's container"
        raise CheckError(f"{what}; write YY.MM, {oldest} or later")
    return release
