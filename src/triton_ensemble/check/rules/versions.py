"""Versions"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.examples import A
from triton_ensemble.check.repository import models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts.config import Model, Problem
from triton_ensemble.facts.config.versions import VERSION_LIMIT, folder_of_version, version_of

NO_VERSIONS = ("__pycache__", "configs", "initial_state", "warmup")  # folders with other uses


@error(
    "version",
    of=models,
    triton="`at least one version must be available under the version policy of model 'x'`; ends with "
    "exit code -6 at a folder like 99999999999999999999",
    fails='backend: "python"\nversion_policy { latest { } }\n',
    passes='backend: "python"\nversion_policy { latest { num_versions: 1 } }\n',
)
def version(model: Model) -> Iterator[Problem]:
    """The version policy leaves a version to load, and each version is a 64-bit number."""
    for folder in model.folders:
        number = version_of(folder)
        if number is not None and not -VERSION_LIMIT <= number < VERSION_LIMIT:
            what = f"version directory '{folder}' is not a 64-bit number, and Triton dies of it"
            yield model.problem(what, "rename it to a number, or move it away")
    if not model.loaded:
        what = (
            "at least one version must be available under the version policy of model "
            f"'{model.name}'"
        )
        yield model.problem(what, _to_load(model), "version_policy")


def _to_load(model: Model) -> str:
    """Return what to do for a version to be loaded."""
    policy, present = model.config.version_policy, ", ".join(map(str, model.versions))
    if policy.specific.versions:
        add = f"add the folder {model.name}/{policy.specific.versions[0]}"
        return f"{add}, or take one of those that are there: {present}" if present else add
    if present:
        return f"the folder has {present}"
    return f"add the folder {model.name}/1 (not 01, not v1)"


@warning(
    "version-folder",
    of=models,
    triton="`ignore version directory '01' which contains leading zeros in its directory name`, "
    "`ignore version directory 'v1' which fails to convert to integral number`; takes 2.bak for "
    "version 2, and looks for its files in 2",
    fails={"m": A, "m/v2": None},
    passes={"m": A, "m/2/model.py": "class TritonPythonModel:\n    execute = list\n"},
)
def version_folder(model: Model) -> Iterator[Problem]:
    """Each folder of a model is a version, or has a name that Triton knows."""
    for folder in model.folders:
        number = version_of(folder)
        if folder in NO_VERSIONS or (folder == str(number) and 0 <= int(folder) < VERSION_LIMIT):
            continue
        if number is None:
            zeros = "contains leading zeros in its directory name"
            why = zeros if folder[0] == "0" else "fails to convert to integral number"
            what = f"ignore version directory '{folder}' which {why}"
        elif -VERSION_LIMIT <= number < VERSION_LIMIT:
            what = (
                f"version directory '{folder}' counts as version {number}, "
                f"whose files Triton seeks in '{folder_of_version(number)}'"
            )
        else:
            continue
        yield model.problem(what, "rename it to a number, or move it away")


@warning(
    "version-listed",
    of=models,
    triton="`version 2 is specified for model 'x', but the version directory is not present`",
    fails='backend: "python"\nversion_policy { specific { versions: [1, 2] } }\n',
    passes='backend: "python"\nversion_policy { specific { versions: [1] } }\n',
)
def version_listed(model: Model) -> Iterator[Problem]:
    """Versions that the version policy lists have folders."""
    for number in model.config.version_policy.specific.versions:
        if number not in model.versions:
            what = (
                f"version {number} is specified for model '{model.name}', "
                "but the version directory is not present"
            )
            yield model.problem(
                what, "add its folder, or take it out", "version_policy", "specific"
            )
