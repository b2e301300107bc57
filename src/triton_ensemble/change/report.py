"""Reports what a change did: to files, to the interface, and to what its owner wrote."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.change.kept import CONFLICTS, KEPT
from triton_ensemble.change.owned import FOLLOWS, OwnedCode
from triton_ensemble.change.project import Change
from triton_ensemble.change.table import table
from triton_ensemble.compile.graph import Binding, Graph, Step
from triton_ensemble.compile.rules import RefusedAnswers
from triton_ensemble.environment.lock import FACTS, LOCK, list_missing

SPARSE = "some are outside your sparse checkout; to commit those too: git add --all --sparse"
INTERFACE = "hooks/messages/after_update.jinja"
MOST = 50_000  # characters that GitHub allows for a pull request, less some


class Report(NamedTuple):
    """The parts of a report, each of which is lines."""

    headline: str
    news: Sequence[str]
    rows: Sequence[str]
    notes: Sequence[str]

    def print(self, then: str = "") -> None:
        """Print it, with `then` behind the first line."""
        with suppress(BrokenPipeError):  # of a reader like `head`; the change is made
            lines = [*self.news, *self.rows, *self.notes]
            print(self.headline + then, *lines, sep="\n", flush=True)

    def write(self, path: Path) -> None:
        """Write it in Markdown, for a pull request."""
        rows = ["```text", *self.rows, "```", ""] * bool(self.rows)
        lines = [self.headline, "", *self.news, "", *rows, *self.notes]
        path.write_text("\n".join(lines)[:MOST] + "\n", encoding="utf-8")


def report(change: Change, news: Sequence[str] = (), more: Iterable[str] = ()) -> Report:
    """Return the report of a change, with lines of the changelog and notes that a caller adds."""
    name, count = change.after["project_name"], len(change.files.statuses)
    versions = change.made.get("_commit"), change.after.get("_commit")
    what = [f"{versions[0]} -> {versions[1]}"] * (versions[0] != versions[1])
    what += ["pipeline.yml is applied"] * change.of.state.is_changed
    what += ["1 file changed" if count == 1 else f"{count} files changed"]
    headline = f"{name}: {', '.join(what)}"
    if not count:
        headline = f"{name}: is up to date with pipeline.yml and the template's {versions[1]}"
    owned = OwnedCode(change)
    rows, notes = [*table(change, owned)], [*_list_notes(change, owned), *more]
    return Report(headline, news if count else [], rows, notes)


def _list_notes(change: Change, owned: OwnedCode) -> Iterator[str]:
    """Yield what the table does not say."""
    files, of = change.files, change.of
    yield from owned.suggest_renames()
    with suppress(RefusedAnswers):  # a newer version may refuse the former answers
        given = of.rules.questions.select_answers(change.made), of.answers
        before, now = (of.rules.answer(each)["graph"] for each in given)
        yield from _list_unfit_tests(change, owned, before, now)
        yield from _list_unfit_scripts(change, before, now)
    yield from _list_unfit_lines(change)
    yield from _describe_interface(change).splitlines()
    for path in files.replaced:
        yield f"{path}: had edits of yours, which are kept in {KEPT}/{path}"
    is_update = change.made.get("_commit") != change.after.get("_commit")
    both = f"you and {'the template' if is_update else 'pipeline.yml'} changed"
    for path in files.conflicts:
        then = f"merge {CONFLICTS}/{path} into it, then remove that file"
        yield f"{path}: {both} the same lines, and yours stay; {then}"
    for path in files.marked:
        yield f"{path}: {both} lines that stand between <<<<<<< and >>>>>>>; choose"
    yield from _list_skipped(change)
    yield from _list_packages(change)


def _list_skipped(change: Change) -> Iterator[str]:
    """Yield what to run for files that a sparse checkout leaves out, and that git's index still has."""
    skipped = change.skipped & change.files.statuses.keys()
    gone = sorted(path for path in skipped if change.files.statuses[path] == "D")
    if skipped:
        yield SPARSE + f" && git rm -q --cached --sparse {shlex.join(gone)}" * bool(gone)


def _describe_interface(change: Change) -> str:
    rules = change.of.rules
    before = {name: change.made[name] for name in ("interface",) if name in change.made}
    text = rules.templates.template(INTERFACE).render({**rules.answer(change.of.answers), **before})
    return re.sub(r"\n+", "\n", text).strip()


def _list_unfit_tests(change: Change, owned: OwnedCode, before: Graph, now: Graph) -> Iterator[str]:
    """Yield a line for each step that is called otherwise now, and each test of the owner's that imports it."""
    tests = {p for p in owned.imports if p.startswith("tests/") and p not in change.files.contents}
    described = _describe_steps(before)
    for step, words in _describe_steps(now).items():
        for path in sorted(tests) if described.get(step, words) != words else ():
            if step in owned.imports[path]:
                yield f"{path}: {step} {words} now; change its test"


def _list_unfit_scripts(change: Change, before: Graph, now: Graph) -> Iterator[str]:
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


def _describe_steps(graph: Graph) -> dict[str, str]:
    """Return what each Python step takes, returns and calls, in words, by its file."""
    return {f"steps/{step['module']}.py": _describe_step(step) for step in graph["python_steps"]}


def _describe_bindings(bindings: Iterable[Binding]) -> list[str]:
    return [f"{each['argument']} {each['type']}{each['dims']}" for each in bindings]


def _describe_step(step: Step) -> str:
    position = ["a SequencePosition"] * ("sequence" in step)
    takes, returns = map(_describe_bindings, (step["takes"], step["outputs"]))
    verb = "yields" if step["decoupled"] else "returns"
    words = [f"takes {', '.join(position + takes)}", f"{verb} {', '.join(returns)}"]
    return " and ".join(words + [f"calls {', '.join(step['called'])}"] * bool(step["called"]))


def _list_packages(change: Change) -> Iterator[str]:
    """Name packages that the lock lacks, and let the next set-up renew it."""
    lock, facts = change.root / LOCK, json.loads(change.new[str(FACTS)].content)
    if lacked := list_missing(lock, facts):
        lock.touch()
        yield f"{LOCK}: lacks {', '.join(lacked)}; `make setup` adds it"
