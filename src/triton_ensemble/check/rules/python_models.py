"""Python models"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from triton_ensemble.check.examples import MODEL
from triton_ensemble.check.python_code import (
    CLASS,
    Function,
    PythonFile,
    Version,
    compile_file,
    methods,
)
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Problem
from triton_ensemble.facts.reading import is_outside

PARAMETERS = {"__init__": ["self"], "initialize": ["self", "args"], "execute": ["self", "requests"]}
ELSEWHERE = {*sys.stdlib_module_names, "numpy", "triton_python_backend_utils"}  # which come first
CONFIG = 'backend: "python"\n'
GOOD = {"m": CONFIG, "m/1/model.py": MODEL}


def code(text: str) -> dict[str, str]:
    """Return the files of a Python model with this code."""
    return {"m": CONFIG, "m/1/model.py": text}


def python_files(repository: Repository) -> Iterator[PythonFile]:
    """Iterate over the code of the loaded versions of Python models, and of the steps that they serve."""
    yield from repository.python_files
    yield from (replace(step.file, path=step.source) for step in repository.step_calls)


def iter_compiled_files(repository: Repository) -> Iterator[PythonFile]:
    """Iterate over the files that compile."""
    return (file for file in repository.python_files if not file.error)


@error(
    "python-syntax",
    of=python_files,
    triton="`SyntaxError: ...`",
    fails=code(MODEL.replace("requests):", "requests)")),
    passes=GOOD,
)
def python_syntax(file: PythonFile) -> Iterator[Problem]:
    """A model.py compiles, and so does the code of a step."""
    if file.error and not file.newer:
        said = getattr(file.error, "msg", None) or getattr(file.error, "strerror", file.error)
        what = f"{type(file.error).__name__}: {said}"
        line = getattr(file.error, "lineno", None) or 1
        yield Problem(file.path, line, what, "correct it: the model can't load")


def iter_read_files(repository: Repository) -> Iterator[tuple[PythonFile, str, Version]]:
    """Iterate over the same files, each with the release and the Python of its image."""
    known = catalog.releases()
    release = repository.release if repository.release in known else max(known)
    major, minor = map(int, known[release].python.split("."))
    return ((file, release, (major, minor)) for file in python_files(repository))


@warning(
    "python-version",
    of=iter_read_files,
    triton="`SyntaxError: ...`, if the Python of its image is older",
    fails=code(MODEL.replace("return ", "name = t'{requests}'; return ")),
    passes=code(MODEL.replace("return ", "name = f'{requests}'; return ")),
)
def python_version(found: tuple[PythonFile, str, Version]) -> Iterator[Problem]:
    """The Python of the image has the syntax of a model.py, and of a step."""
    file, release, image = found
    its = f"Python {_write_version(image)}, which the image of {release} has"
    line, needed = getattr(file.error, "lineno", None) or 1, file.newer
    if needed:
        own = _write_version(sys.version_info[:2])
        what = f"is written for Python {_write_version(needed)}, so Python {own} can't check it"
        instead = f"{'write it for' if needed > image else 'check it with'} {its}"
        yield Problem(file.path, line, what, instead)
    elif not file.error and (line := file.find_newer_syntax(image)):
        yield Problem(
            file.path, line, f"is written for a newer Python than {its}", "write it otherwise"
        )


def _write_version(version: Version) -> str:
    return ".".join(map(str, version))


@error(
    "python-class",
    of=iter_compiled_files,
    triton="`AttributeError: module 'model' has no attribute 'TritonPythonModel'`",
    fails=code(MODEL.replace(CLASS, "Model")),
    passes=GOOD,
)
def python_class(file: PythonFile) -> Iterator[Problem]:
    """A model.py has a class TritonPythonModel, or gets one from elsewhere."""
    is_defined = any(file.classes) or not {CLASS, "*"}.isdisjoint(file.names)
    if not is_defined or file.removes(CLASS):
        what = f"has no class {CLASS}, so the model can't load"
        yield file.problem(None, what, "name its class so")
    for node in file.exits:
        what = "raises an error as Triton imports it, so the model can't load"
        yield file.problem(node, what, f"take `{ast.unparse(node)}` out")
    for each in file.classes:
        for name in ("__new__", "__init__", "initialize"):
            method = methods(each).get(name)
            if method and _raises(method):
                what = f"{name} only raises an error, so the model can't load"
                yield file.problem(method, what, "write it, or take it out")


def _raises(method: Function) -> bool:
    statements = method.body[ast.get_docstring(method) is not None :]
    return isinstance(next(iter(statements), None), ast.Raise)


@error(
    "python-name",
    of=iter_compiled_files,
    triton="`NameError: name 'np' is not defined`, of `execute` at each request",
    fails=code(MODEL.replace("return ", "np.zeros(1); return ")),
    passes=code("import numpy as np\n" + MODEL.replace("return ", "np.zeros(1); return ")),
)
def python_name(file: PythonFile) -> Iterator[Problem]:
    """Names in the bases of classes, in initialize and in execute are bound somewhere."""
    for node in file.find_undefined_names():
        what = f"NameError: name '{node.id}' is not defined"
        yield file.problem(node, what, "import it, or correct its name")


@error(
    "python-import",
    of=iter_compiled_files,
    triton="`ModuleNotFoundError: No module named 'x.y'`, `ImportError: cannot import name 'x' from 'y'`",
    fails={**code(f"from helper import scale\n{MODEL}"), "m/1/helper.py": "size = 1\n"},
    passes={**code(f"from helper import scale\n{MODEL}"), "m/1/helper.py": "scale = 1\n"},
)
def python_import(file: PythonFile) -> Iterator[Problem]:
    """The modules beside a model.py have what it imports from them."""
    for node in file.tree.body:
        for module, names in _iter_imports(node):
            for what in _find_import_errors(file.path.parent, module, names):
                yield file.problem(node, f"{what}, so the model can't load", "correct the import")


def _iter_imports(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    match node:
        case ast.Import():
            yield from ((each.name, []) for each in node.names)
        case ast.ImportFrom(module=str(module), level=0 | 1):
            yield module, [each.name for each in node.names if each.name != "*"]


def _find_import_errors(folder: Path, module: str, names: list[str]) -> Iterator[str]:
    """Iterate over what is wrong with the import of a module that is in a folder."""
    outer, _, inner = module.partition(".")
    here, package = folder / f"{outer}.py", folder / outer
    is_here = here.is_file() or package.is_dir()
    if outer in ELSEWHERE or not is_here or [*folder.glob(f"{outer}.*so")]:
        return
    if any(is_outside(path, folder) for path in (here, package)):
        return  # a link, to what may be somebody else's
    found = compile_file(package / "__init__.py" if package.is_dir() else here)
    if inner and [*package.glob(f"{inner.partition('.')[0]}*")]:
        yield from _find_import_errors(package, inner, names)
    elif inner and not found.error and not found.sets(inner):
        yield f"ModuleNotFoundError: {outer} has no module {inner}"
    elif not inner:
        if found.error and found.path.is_file() and not found.newer:
            yield f"{found.path.name} does not compile: {found.error}"
        elif not found.error:
            yield from (f"{found.path.name} runs `{ast.unparse(each)}`" for each in found.exits)
            lost = [each for each in names if found.lacks(each) and not [*package.glob(f"{each}*")]]
            yield from (f"ImportError: {module} has no {each}" for each in lost)


@error(
    "python-arguments",
    of=iter_compiled_files,
    triton="`TypeError: TritonPythonModel.initialize() takes 1 positional argument but 2 were given`; "
    "for `execute` it loads it, and fails each request",
    fails=code(
        MODEL.replace(
            "    def execute",
            "    def initialize(self):\n        self.count = 0\n\n    def execute",
        )
    ),
    passes=code(
        MODEL.replace(
            "    def execute",
            "    def initialize(self, args):\n        self.count = 0\n\n    def execute",
        )
    ),
)
def python_arguments(file: PythonFile) -> Iterator[Problem]:
    """Methods that Triton calls take the arguments that it passes."""
    for node in file.classes:
        for name, method in methods(node).items():
            if name in PARAMETERS and not _takes(method, len(PARAMETERS[name])):
                what = f"TypeError: {CLASS}.{name}() takes other arguments than Triton gives it"
                instead = f"write def {name}({', '.join(PARAMETERS[name])})"
                yield file.problem(method, what, instead)


def _takes(function: Function, count: int) -> bool:
    """Return whether a function takes so many arguments by position, and no more.

    Return True for a decorated function, of which nothing is known.
    """
    given = function.args
    named = len(given.posonlyargs) + len(given.args)
    enough = given.vararg is not None or count <= named
    too_many = count < named - len(given.defaults) or None in given.kw_defaults
    return bool(function.decorator_list) or (enough and not too_many)


@error(
    "python-execute",
    of=iter_compiled_files,
    triton="loads it, and fails each request",
    fails=code(MODEL.replace("def execute", "def run")),
    passes=GOOD,
)
def python_execute(file: PythonFile) -> Iterator[Problem]:
    """The class has a method execute, or gets one from elsewhere."""
    for node in file.classes:
        assigns = [each for each in node.body if isinstance(each, ast.Assign)]
        values = [each for each in assigns if not isinstance(each.value, ast.Constant)]
        targets = [target for each in values for target in each.targets]
        assigned = {target.id for target in targets if isinstance(target, ast.Name)}
        elsewhere = bool(node.bases or node.keywords or node.decorator_list) or file.sets("execute")
        is_missing = not elsewhere and "execute" not in methods(node).keys() | assigned
        if is_missing or file.removes(f"{CLASS}.execute"):
            what = f"class {CLASS} has no method execute: it loads, and no request is answered"
            yield file.problem(node, what, "add execute(self, requests)")
        execute, initialize = methods(node).get("execute"), methods(node).get("initialize")
        if execute and "classmethod" in map(ast.unparse, execute.decorator_list):
            lacking = _own_attributes(execute, ast.Load) & _own_attributes(initialize, ast.Store)
            for name in sorted(lacking)[:1]:
                what = f"execute is a class method, and the class has no {name}: each request fails"
                yield file.problem(execute, what, "take @classmethod out")


def _own_attributes(method: Function | None, use: type[ast.expr_context]) -> set[str]:
    """Return the attributes of its first argument that a method reads or sets."""
    own = method.args.args[0].arg if method and method.args.args else ""
    nodes = [node for node in ast.walk(method or ast.Pass()) if isinstance(node, ast.Attribute)]
    return {
        node.attr
        for node in nodes
        if isinstance(node.ctx, use) and isinstance(node.value, ast.Name) and node.value.id == own
    }


@error(
    "python-async",
    of=iter_compiled_files,
    triton="loads it, never runs what stands in `initialize`, and fails each request for what is not set there",
    fails=code(
        MODEL.replace(
            "    def execute",
            "    async def initialize(self, args):\n        self.count = 0\n\n    def execute",
        ).replace("([])", "([][: self.count])")
    ),
    passes=code(MODEL.replace("    def execute", "    async def execute")),
)
def python_async(file: PythonFile) -> Iterator[Problem]:
    """A method initialize is not a coroutine: nothing awaits it."""
    for node in file.classes:
        initialize = methods(node).get("initialize")
        if isinstance(initialize, ast.AsyncFunctionDef):
            what = f"{CLASS}.initialize is a coroutine, which Triton makes and never runs"
            yield file.problem(initialize, what, "write def initialize, without async")


@error(
    "python-list",
    of=iter_compiled_files,
    triton="loads it, and fails each request: `Expected a list in the execute return, found type '<class "
    "'tuple'>'.`, `Number of InferenceResponse objects do not match the number of InferenceRequest "
    "objects.`, `Task got bad yield: x`",
    fails=code(MODEL.replace("return [", "return tuple([").replace("requests]", "requests])")),
    passes=GOOD,
)
def python_list(file: PythonFile) -> Iterator[Problem]:
    """A method execute returns a list with a response for each request, where it returns a value."""
    node = file.only_class(CLASS)
    execute = node and file.only_method(node, "execute")
    if execute and not file.is_decoupled:
        own = [*_iter_outer_nodes(execute)]
        returned = [each for each in own if isinstance(each, ast.Return) and each.value]
        yields = [each for each in own if isinstance(each, ast.Yield) and each.value]
        is_generator = yields and isinstance(execute, ast.FunctionDef)
        if is_generator or (returned and all(_is_no_answer(each.value) for each in returned)):
            first = (yields if is_generator else returned)[0]
            what = "execute does not return a list of responses, so each request fails"
            if not _sends([each for each in own if getattr(each, "lineno", 0) < first.lineno]):
                yield file.problem(first, what, "return a list with a response for each request")


def _iter_outer_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Iterate over the nodes of a function, without the functions and classes inside it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, Function | ast.ClassDef | ast.Lambda):
            yield each
            yield from _iter_outer_nodes(each)


def _is_no_answer(value: ast.expr | None) -> bool:
    """Return whether a value is surely another than a list with an item or more, or None."""
    match value:
        case ast.Tuple() | ast.Dict() | ast.Set() | ast.GeneratorExp() | ast.List(elts=[]):
            return True
        case ast.DictComp() | ast.SetComp():
            return True
        case ast.Constant(value=constant):
            return constant is not None
        case ast.Call(func=ast.Name(id="tuple" | "dict" | "set" | "map" | "filter")):
            return True
        case ast.Call(func=ast.Attribute(attr="InferenceResponse")):
            return True
    return False


@error(
    "python-decoupled",
    of=iter_compiled_files,
    triton="loads it, and fails each request: `Python model 'x' is using the decoupled mode and the execute "
    "function must return None.`",
    fails={"m/1/model.py": MODEL, "m": f"{CONFIG}model_transaction_policy {{ decoupled: true }}\n"},
    passes=GOOD,
)
def python_decoupled(file: PythonFile) -> Iterator[Problem]:
    """A method execute of a decoupled model sends its responses, and returns none."""
    node = file.only_class(CLASS)
    execute = node and file.only_method(node, "execute")
    if file.is_decoupled and isinstance(execute, ast.FunctionDef):
        nodes = [*_iter_outer_nodes(execute)]
        returned = [each for each in nodes if isinstance(each, ast.Return)]
        first = next((each for each in execute.body if isinstance(each, ast.Return)), None)
        if first and not _sends(nodes) and all(_is_value(each.value) for each in returned):
            what = "execute of a decoupled model returns a value, so each request fails"
            instead = "send the responses by request.get_response_sender(), and return nothing"
            yield file.problem(first, what, instead)


def _sends(nodes: list[ast.AST]) -> bool:
    """Return whether code gets the sender of a request, with which it can answer in both modes."""
    return "get_response_sender" in {getattr(each, "attr", "") for each in nodes}


def _is_value(value: ast.expr | None) -> bool:
    """Return whether a value is surely not None."""
    return isinstance(value, ast.List | ast.ListComp) or _is_no_answer(value)


@warning(
    "python-return",
    of=iter_compiled_files,
    triton="waits for ever for an answer",
    fails=code(MODEL.replace("return [", "responses = [")),
    passes=GOOD,
)
def python_return(file: PythonFile) -> Iterator[Problem]:
    """A method execute returns responses, sends them, or raises."""
    for node in file.classes:
        execute = methods(node).get("execute")
        if execute and not file.is_decoupled and not _answers(execute):
            what = "execute returns nothing, so a request is never answered"
            yield file.problem(execute, what, "return a list with a response for each request")


def _answers(execute: Function) -> bool:
    for node in ast.walk(execute):
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if isinstance(node, ast.Raise | ast.Yield | ast.YieldFrom):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "get_response_sender":
            return True
    return False


@warning(
    "python-print",
    of=iter_compiled_files,
    triton="mixes the text into its log",
    fails=code(MODEL.replace("        return", "        print(len(requests))\n        return")),
    passes=GOOD,
)
def python_print(file: PythonFile) -> Iterator[Problem]:
    """Code writes to Triton's log instead of printing."""
    for node in ast.walk(file.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            instead = "write pb_utils.Logger.log_info(...)"
            yield file.problem(node, "prints beside Triton's log", instead)
