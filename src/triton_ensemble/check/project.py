"""A generated project around the repository: whether pipeline.yml was applied, and folders of steps that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from triton_ensemble.answers import LEFT_OUT, Answers
from triton_ensemble.check.findings import Finding
from triton_ensemble.check.models import Model, Setting


def setting(answers: Answers, release: str) -> Setting:
    own = str(answers.get("triton_release", ""))
    return Setting(release or own, answers.get("gpu_count"), frozenset(all_outputs(answers)))


def all_outputs(answers: Answers) -> Iterator[str]:
    """The ensembles that say so."""
    if (answers.get("ensemble") or {}).get("all_outputs"):
        yield str(answers.get("ensemble_name", answers.get("name")))
    for step in answers.get("steps") or ():
        if "steps" in step:
            yield from all_outputs(step)


def project(root: Path, answers: Answers) -> Iterator[Finding]:
    yield from changed(root / "pipeline.yml", answers)
    yield from unlocked(root, answers)


def strangers(
    root: Path, answers: Answers, models: Mapping[str, Model], found: Iterable[Finding]
) -> Iterator[Finding]:
    """Folders of no step. While an error stands in pipeline.yml or a model of it, a step's may look so."""
    used = of_pipeline(answers, models)
    wrong = {finding.file for finding in found if finding.severity == "error"}
    checked = {root / "pipeline.yml", *(models[name].path for name in used)}
    if answers.get("ensemble_name") not in models or not wrong.isdisjoint(checked):
        return
    for name in sorted(models.keys() - used):
        if not models[name].path.exists():
            what = f"{name} is a folder of no step, and Triton ends at one without a config"
            yield Finding(models[name].path, 1, "config-missing", what, "move its files away")
        elif models[name].config is not None:
            what = f"{name} is a model of no step of the pipeline, and Triton loads it all the same"
            yield models[name].finding(
                "folder-of-no-step", what, "remove the folder, or add the step to pipeline.yml"
            )


def of_pipeline(answers: Answers, models: Mapping[str, Model]) -> set[str]:
    """The models that its ensembles and steps name, and those that the template made for them."""
    used, queue = set[str](), [*step_names(answers)]
    for name in queue:
        if name in models and name not in used:
            used.add(name)
            queue += [step.model_name for step in models[name].steps]
    return used


def step_names(answers: Answers) -> Iterator[str]:
    """Of the ensemble itself too, and of those inside."""
    yield str(answers.get("ensemble_name", answers.get("name")))
    for step in answers.get("steps") or ():
        yield from step_names(step)


def damaged(path: Path, instead: str) -> Iterator[Finding]:
    """Where it is there and is no YAML."""
    try:
        yaml.safe_load(path.read_bytes())
    except OSError:
        return
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        yield Finding(path, line, "pipeline-changed", "is no YAML", instead)


def changed(path: Path, answers: Answers) -> Iterator[Finding]:
    wrong = [*damaged(path, "correct brackets, quotes and indentation here")]
    if wrong or not path.is_file():
        yield from wrong
        return
    text = path.read_bytes()
    given, root = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(given, dict) or not isinstance(root, yaml.MappingNode):
        yield Finding(path, 1, "pipeline-changed", "has no answers", "write `NAME: VALUE`")
        return
    for key, default in LEFT_OUT.items():
        if key not in given and answers.get(key, default) != default:
            what = f"{key} is left out, and the project was made with it"
            yield Finding(path, 1, "pipeline-changed", what, "run `make update`")
    for key, _ in root.value:
        if given.get(key.value) != answers.get(key.value):
            what = f"{key.value} is not what the project was made from"
            yield Finding(
                path, key.start_mark.line + 1, "pipeline-changed", what, "run `make update`"
            )


def unlocked(root: Path, answers: Answers) -> Iterator[Finding]:
    """Packages that steps require and the lock does not have."""
    lock, pipeline = root / "requirements.lock", root / "pipeline.yml"
    if not lock.is_file() or not pipeline.is_file():
        return
    known = {
        plain(name)
        for name in re.findall(r"^[\w.-]+(?===|\[)", lock.read_text(errors="replace"), re.M)
    }
    lines = pipeline.read_text(errors="replace").splitlines()
    for requirement in sorted({*requirements(answers)}):
        if (name := plain(requirement)) not in known:
            line = next((i for i, text in enumerate(lines, 1) if requirement in text), 1)
            what = f"{name} is not in requirements.lock, so that `make image` will stop"
            yield Finding(pipeline, line, "requirement-unlocked", what, "run `make lock`")


def requirements(answers: Answers) -> Iterator[str]:
    for step in answers.get("steps") or ():
        yield from map(str, step.get("requirements") or ())
        yield from requirements(step)


def plain(name: str) -> str:
    """`Foo_Bar[baz]>=1` -> foo-bar, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", name)[0]).lower()
