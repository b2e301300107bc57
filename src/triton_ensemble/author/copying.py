"""A pipeline that was told -> a project, by Copier, and the files of its models."""

from __future__ import annotations

from pathlib import Path

from triton_ensemble.author.adopt.files import check_copies, copy_file
from triton_ensemble.author.adopt.refusal import Refused
from triton_ensemble.author.draft import Draft
from triton_ensemble.author.given import read_given_model
from triton_ensemble.author.origin import template
from triton_ensemble.author.step_questions import defaults
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts.project import ProjectError


def copy_project(draft: Draft, folder: Path, address: str | None, version: str | None) -> None:
    """Let Copier ask the other questions and make the project, then copy the models' files to models/."""
    from copier import run_copy
    from copier.errors import CopierAnswersInterrupt, CopierError
    from plumbum.commands import ProcessExecutionError

    files = {
        step: read_given_model(Path(path), defaults(draft)).files
        for step, path in draft.origins.items()
    }
    own, commit = template()
    if address and Path(address).is_dir() and not Path(address, "copier.yml").is_file():
        raise ProjectError(
            f"{address}: is not a template; leave --template out, or name its address"
        )
    named = {"project_name": folder.resolve().name}
    try:
        run_copy(
            address or own,
            folder,
            data=draft.answers,
            user_defaults={} if rules().problem({**draft.answers, **named}) else named,
            vcs_ref=version or (None if address else commit),
        )
    except CopierAnswersInterrupt as error:  # whose text is all that Copier knows
        raise KeyboardInterrupt from error
    except (CopierError, ProcessExecutionError, OSError, ValueError) as error:
        said = getattr(error, "stderr", "") or str(error)
        what = next(iter(reversed(said.strip().splitlines())), type(error).__name__)
        raise ProjectError(f"{address or own}: {what.strip()}; no project was made") from error
    if not (folder / "pipeline.yml").is_file():
        raise ProjectError(f"{address or own}: is a different template; it made {folder}")
    for step, sources in files.items():
        copy_files(sources, folder / "models" / step)


def copy_files(sources: dict[str, Path], folder: Path) -> None:
    """Copy the files of a model to its folder in models/.

    Raise ProjectError if that folder is not in the project, or has no room.
    """
    try:
        check_copies(
            [(source, folder / name) for name, source in sources.items()], folder.parents[1]
        )
    except Refused as error:
        raise ProjectError(str(error)) from error
    for name, source in sources.items():
        copy_file(source, folder / name)
