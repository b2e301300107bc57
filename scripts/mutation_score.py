"""Change the package in one place at a time, and count the changes that no unit test notices.

A change is an operator of mutmut, applied to one node of a file: a comparison turned round, an argument dropped, a
name spelt otherwise. Strings with a space are words for a reader, and stay as they are; so do annotations, docstrings
and decorators, with the constants that only they use: the examples of rules. mutmut itself changes no decorated
function, and each rule of the check is one.

    python scripts/mutation_score.py --seed 7 --count 500 tests/unit
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import libcst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).resolve().parents[1]
COPY = ROOT / "build/mutants"
LOG = ROOT / "build/mutants.log"  # what the last run of pytest printed
PACKAGES = ("check", "config", "adapter")
# Imported once, before a process is forked for each mutant.
LIBRARIES = [
    *("copier", "google.protobuf.text_format", "hypothesis", "jinja2.sandbox", "numpy", "pytest"),
    *("onnx", "onnxruntime", "support", "torch", "tritonclient.grpc.model_config_pb2", "yaml"),
]
LEFT_ALONE = (libcst.Annotation, libcst.Decorator, libcst.Import, libcst.ImportFrom)
REFUSED = ("os.exec", "os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen")
MOST_MEMORY = 8 << 30
MISSING = 4  # pytest's exit status where a test does not exist: a mutant made it go


class Mutant(NamedTuple):
    """A file of the package with one change."""

    path: Path  # from the root of the repository
    line: int
    before: str
    after: str
    text: str

    @property
    def package(self) -> str:
        return self.path.parts[2]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


class Place(NamedTuple):
    """A node of a file that can be changed, and one of its changes."""

    path: Path
    line: int
    module: libcst.Module
    node: libcst.CSTNode
    changed: libcst.CSTNode


def is_text(node: libcst.CSTNode) -> bool:
    """Say whether a node is for a reader: a docstring, a string with a space, or what a linter checks, `__all__`."""
    if isinstance(node, libcst.Assign):
        target = node.targets[0].target
        return isinstance(target, libcst.Name) and target.value == "__all__"
    if isinstance(node, libcst.Expr):
        return isinstance(node.value, libcst.BaseString)
    return isinstance(node, libcst.SimpleString) and " " in node.value


def walk(node: Any) -> Iterator[Any]:
    """Yield a node and those inside it that may be changed."""
    if not isinstance(node, LEFT_ALONE) and not is_text(node):
        yield node
        for child in node.children:
            yield from walk(child)


def example_lines(source: str) -> set[int]:
    """Return the lines of what a module of rules defines for examples, which only decorators use."""
    body = ast.parse(source).body
    defined = {name: node for node in body for name in names_of(node)}
    used, waiting = set[str](), [node for node in body if getattr(node, "decorator_list", None)]
    while waiting:
        node = waiting.pop()
        calls = [each for each in getattr(node, "decorator_list", []) if isinstance(each, ast.Call)]
        examples = [each for call in calls for each in call.keywords if each.arg != "of"]
        outside = {part for each in examples for part in ast.walk(each)}
        parts = {part for part in ast.walk(node) if isinstance(part, ast.Name)} - outside
        for name in {part.id for part in parts} & defined.keys() - used:
            used.add(name)
            waiting.append(defined[name])
    unused = [node for name, node in defined.items() if name not in used]
    plain = [node for node in unused if not getattr(node, "decorator_list", None)]
    return {line for node in plain for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def names_of(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        part.id for each in targets if each for part in ast.walk(each) if isinstance(part, ast.Name)
    ]


def find_places(path: Path) -> Iterator[Place]:
    """Yield each change of a file."""
    wrapper = MetadataWrapper(libcst.parse_module(path.read_text()))
    positions = wrapper.resolve(PositionProvider)
    is_rules = path.parent.name == "rules" and path.name != "__init__.py"
    left_alone = example_lines(path.read_text()) if is_rules else set()
    for node in walk(wrapper.module):
        for kind, operator in mutation_operators:
            line = positions[node].start.line
            if isinstance(node, kind) and line not in left_alone:
                for changed in operator(node):
                    yield Place(path.relative_to(ROOT), line, wrapper.module, node, changed)


def make_mutant(place: Place) -> Mutant | None:
    """Return the file with a change, or None where the change leaves it as it is, or is not Python."""
    text = place.module.deep_replace(place.node, place.changed).code
    try:
        if ast.dump(ast.parse(text)) == ast.dump(ast.parse(place.module.code)):
            return None
    except SyntaxError:
        return None
    before, after = place.module.code.splitlines(), text.splitlines()
    shown = [
        " ".join(place.module.code_for_node(node).split()) for node in (place.node, place.changed)
    ]
    if shown[0] == shown[1] or not before or not after:
        return None
    return Mutant(place.path, place.line, shown[0], shown[1], text)


def choose(seed: int, count: int, packages: list[str]) -> list[Mutant]:
    """Return a sample of all mutants."""
    files = [
        path
        for name in packages
        for path in sorted((ROOT / "src/triton_ensemble" / name).rglob("*.py"))
    ]
    places = [place for path in files for place in find_places(path)]
    print(f"{len(places)} places; {count} of them with seed {seed}", flush=True)
    random.Random(seed).shuffle(places)
    mutants: list[Mutant] = []
    for place in places:
        if len(mutants) == count:
            break
        if mutant := make_mutant(place):
            mutants.append(mutant)
    return mutants


def statement_lines(source: str, line: int) -> set[int]:
    """Return the lines of the innermost statement at a line; of one with a body, those before it."""
    spans = [{line}]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno
            spans.append(set(range(node.lineno, (end or node.lineno) + 1)) | {node.lineno})
    holding = [span for span in spans[1:] if line in span] or spans
    return min(holding, key=len)


def copy_tree() -> None:
    """Copy what git knows or would add to a folder where files may change."""
    shutil.rmtree(COPY, ignore_errors=True)
    command = ["git", "ls-files", "-zco", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.rstrip("\0").split("\0"):
        if (ROOT / name).exists():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name, follow_symlinks=False)


def fork(action: Callable[[], int], limit_s: float) -> int | None:
    """Return the exit status of what a forked process does, or None where it takes too long."""
    pid = os.fork()
    if not pid:
        with open(LOG, "w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        status = 70
        try:
            status = action()
        finally:
            os._exit(status)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def run_tests(arguments: list[str], *plugins: object) -> int:
    """Run pytest in this process, where no test may start another or listen on a port."""
    import pytest

    def refuse(event: str, _: Any) -> None:
        if event in REFUSED:
            raise PermissionError("a unit test starts no process and no server")

    sys.addaudithook(refuse)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    sys.dont_write_bytecode = True
    options = ["-q", "-p", "no:xdist", "-m", "not slow"]
    options += ["--continue-on-collection-errors"]
    return int(pytest.main([*options, *arguments], plugins=plugins))


class Recorder:
    """A plugin of pytest: which lines each test runs, whether it passes, and how long it takes."""

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.passed = coverage, dict[str, float]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.passed[report.nodeid] = report.duration


class Tests(NamedTuple):
    """The unit tests: how long each takes, and by file and line those that run it."""

    seconds: dict[str, float]
    by_line: dict[str, dict[str, list[str]]]

    def of_file(self, path: Path) -> set[str]:
        return {name for names in self.by_line.get(str(path), {}).values() for name in names} - {""}

    def of_imports(self, path: Path) -> set[str]:
        """Return the tests in files that import a module: they may use no more of it than what it defines on import."""
        *package, module = path.with_suffix("").parts[1:]
        imported = re.compile(rf"{'[.]'.join(package)}([.]| import .*\b){module}\b")
        files = {name.partition("::")[0] for name in self.seconds}
        importing = {file for file in files if imported.search((ROOT / file).read_text())}
        return {name for name in self.seconds if name.partition("::")[0] in importing}

    def of(self, mutant: Mutant) -> set[str]:
        """Return the tests of a mutant's line; where it runs on import, those of its file."""
        lines = self.by_line.get(str(mutant.path), {})
        at = statement_lines((ROOT / mutant.path).read_text(), mutant.line)
        names = {name for line in at for name in lines.get(str(line), [])}
        at_import = "" in names
        return self.of_file(mutant.path) | self.of_imports(mutant.path) if at_import else names

    def sort(self, names: set[str]) -> list[str]:
        """Return those that passed, the quickest first."""
        return sorted(names & self.seconds.keys(), key=lambda name: self.seconds[name])


def record(paths: list[str]) -> Tests:
    """Run the tests once as the package is."""
    target = COPY / "tests.json"

    def action() -> int:
        from coverage import Coverage

        coverage = Coverage(None, include=[f"{COPY}/src/triton_ensemble/*"], config_file=False)
        recorder = Recorder(coverage)
        coverage.start()
        run_tests(paths, recorder)
        coverage.stop()
        data = coverage.get_data()
        lines = {
            str(Path(file).relative_to(COPY)): data.contexts_by_lineno(file)
            for file in data.measured_files()
        }
        target.write_text(json.dumps([recorder.passed, lines]))
        return 0

    status = fork(action, 3600)
    if status or not target.exists():
        raise SystemExit(f"the tests can't be recorded: {status}")
    return Tests(*json.loads(target.read_text()))


def judge(mutant: Mutant, tests: Tests) -> str:
    """Return what becomes of a mutant: killed, timeout, survived or not covered."""
    first = tests.of(mutant)
    if not first:
        return "not covered"
    target = COPY / mutant.path
    original = target.read_bytes(), target.stat()
    target.write_text(mutant.text)
    try:
        for names in (tests.sort(first), tests.sort(tests.of_file(mutant.path) - first)):
            limit_s = 20 + 10 * sum(tests.seconds[name] for name in names)
            status = fork(lambda names=names: run_tests(["-x", *names]), limit_s) if names else 0  # type: ignore[misc]
            if status == MISSING:  # a parameter of theirs is gone: all of their functions
                functions = sorted({name.partition("[")[0] for name in names})
                status = fork(lambda names=functions: run_tests(["-x", *names]), limit_s)  # type: ignore[misc]
            if status:
                return "killed"
            if status is None:
                return "timeout"
        return "survived"
    finally:
        target.write_bytes(original[0])
        os.utime(target, ns=(original[1].st_atime_ns, original[1].st_mtime_ns))


def print_scores(outcomes: dict[str, Counter[str]]) -> None:
    """Print, for each package, how many of its mutants were killed."""
    for package, counts in outcomes.items():
        killed, total = counts["killed"] + counts["timeout"], counts.total()
        details = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print(f"{package:8} {killed}/{total} = {killed / max(total, 1):.0%} ({details})")


def main() -> None:
    """Judge a sample of mutants, and print those that no test notices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("tests", nargs="+", help="files and folders of tests that start no process")
    arguments = parser.parse_args()
    packages = arguments.package or list(PACKAGES)
    mutants = choose(arguments.seed, arguments.count, packages)
    copy_tree()
    os.chdir(COPY)
    os.environ["CI"] = "true"  # Hypothesis then draws the same cases each time
    sys.path[:0] = [str(COPY), str(COPY / "src"), str(COPY / "tests")]
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    forget_package()
    tests = record(arguments.tests)
    if not tests.seconds:
        raise SystemExit(f"no test passes, as the package is: see {LOG}")
    print(f"{len(tests.seconds)} tests in {sum(tests.seconds.values()):.0f} s", flush=True)
    if fork(lambda: run_tests(["-x", *tests.sort({*tests.seconds})]), 3600):
        raise SystemExit(f"the tests fail in another order, as the package is: see {LOG}")
    outcomes = {package: Counter[str]() for package in packages}
    for number, mutant in enumerate(mutants, 1):
        outcome = judge(mutant, tests)
        outcomes[mutant.package][outcome] += 1
        if outcome in ("survived", "not covered"):
            print(f"{number}: {outcome}: {mutant}", flush=True)
    print_scores({**outcomes, "all": sum(outcomes.values(), Counter())})


def forget_package() -> None:
    """Drop what was imported of this repository, so that each process imports the mutant's."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(f"{COPY}/"):
            del sys.modules[name]


if __name__ == "__main__":
    main()
