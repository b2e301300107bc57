"""Says what applying pipeline.yml did: to files, to the interface, and to what its owner wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from triton_ensemble.change.files import CONFLICTS, FOLDER, KEPT
from triton_ensemble.change.owned import (
    FOLLOWS,
    Owned,
    compare_owned_code,
    read_imports,
    suggest_renames,
)
from triton_ensemble.change.project import Change
from triton_ensemble.change.table import table
from triton_ensemble.environment.lock import FACTS, LOCK, list_missing
from triton_ensemble.pipeline.rules import Answers, RefusedAnswers

SPARSE = "some are outside your sparse checkout; to commit those too: git add --all --sparse"
INTERFACE = "hooks/messages/after_update.jinja"


def report(change: Change) -> Iterator[str]:
    """Yield the lines to print once the files are changed."""
    count = len(change.statuses)
    yield f"{change.after['project_name']}: pipeline.yml is applied, {count} files changed"
    owned = compare_owned_code(change, change.of.made, change.after)
    yield from table(change, change.statuses, owned)
    yield from list_notes(change, owned, "pipeline.yml")


def list_notes(change: Change, owned: Owned, by: str) -> Iterator[str]:
    """Yield what the table does not say of a change `by` pipeline.yml or the template."""
    files = change.files
    yield from suggest_renames(owned, change.statuses)
    with suppress(RefusedAnswers):  # a newer version may refuse the former answers
        of = change.of
        given = of.rules.select_answers(of.made), of.answers
        before, now = (of.rules.answer(each)["graph"] for each in given)
        yield from _list_unfit_tests(change, before, now)
        yield from _list_unfit_scripts(change, before, now)
    yield from _list_unfit_lines(change)
    yield from _interface(change).splitlines()
    for path in files.replaced:
        yield f"{path}: had edits of yours, which are kept in {FOLDER}/{KEPT}/{path}"
    for path in files.conflicts:
        what = f"you and {by} changed the same lines, and yours stay"
        other = f"{FOLDER}/{CONFLICTS}/{path}"
        yield f"{path}: {what}; merge {other} into it, then remove that file"
    for path in files.marked:
        what = f"you and {by} changed lines that stand between <<<<<<< and >>>>>>>"
        yield f"{path}: {what}; choose"
    if change.skipped & change.statuses.keys():
        yield SPARSE
    yield from _packages(change)


def _interface(change: Change) -> str:
    project = change.of
    answered = project.rules.answer(project.answers)
    before = {name: project.made[name] for name in ("interface",) if name in project.made}
    text = project.rules.template(INTERFACE).render({**answered, **before})
    return re.sub(r"\n+", "\n", text).strip()


def _list_unfit_tests(change: Change, before: Answers, now: Answers) -> Iterator[str]:
    """Yield a line for each step that is called otherwise now, and each test of the owner's that imports it."""
    imports = read_imports(change.root)
    tests = {p for p in imports if p.startswith("tests/") and p not in change.files.contents}
    described = _describe_steps(before)
    for step, words in _describe_steps(now).items():
        for path in sorted(tests) if described.get(step, words) != words else ():
            if step in imports[path]:
                yield f"{path}: {step} {words} now; change its test"


def _list_unfit_scripts(change: Change, before: Answers, now: Answers) -> Iterator[str]:
    """Yield a line for each model whose script stays, although the file that it makes is of another backend now."""
    stubs = {model["module"]: model["stub"] for model in before["made_models"]}
    for model in now["made_models"]:
        path, stub = f"models/{model['module']}.py", model["stub"]
        stays = path not in change.files.contents and (change.root / path).is_file()
        if stays and stubs.get(model["module"], stub) != stub:
            what = f"{model['name']} has backend {model['backend']} now"
            yield f"{path}: {what}; let build(path) write its {model['file']}"


def _list_unfit_lines(change: Change) -> Iterator[str]:
    """Yield a line for each script of models/ that its owner changed, and of which one line would be another now."""
    for path in sorted(change.old.keys() & change.new.keys() - change.files.contents.keys()):
        before, after = (files[path].content for files in (change.old, change.new))
        if path.startswith("models/") and FOLLOWS in after and (change.root / path).is_file():
            lines = {*after.decode().splitlines()} - {*before.decode().splitlines()}
            what = "you changed it, so it does not follow pipeline.yml; its line is now"
            yield from (f"{path}: {what}: {line.strip()}" for line in lines if len(lines) == 1)


def _describe_steps(graph: Answers) -> dict[str, str]:
    """Return what each Python step takes, returns and calls, in words, by its file."""
    return {f"steps/{step['module']}.py": _describe_step(step) for step in graph["python_steps"]}


def _describe_step(step: Answers) -> str:
    position = ["a SequencePosition"] * ("sequence" in step)
    takes, returns = (
        [f"{each['argument']} {each['type']}{each['dims']}" for each in step[side]]
        for side in ("takes", "outputs")
    )
    verb = "yields" if step["decoupled"] else "returns"
    words = [f"takes {', '.join(position + takes)}", f"{verb} {', '.join(returns)}"]
    return " and ".join(words + [f"calls {', '.join(step['called'])}"] * bool(step["called"]))


def _packages(change: Change) -> Iterator[str]:
    """Name packages that the lock lacks, and let the next set-up renew it."""
    lock, facts = change.root / LOCK, json.loads(change.new[str(FACTS)].content)
    if lacked := list_missing(lock, facts):
        lock.touch()
        yield f"{LOCK}: lacks {', '.join(lacked)}; `make setup` adds it"
