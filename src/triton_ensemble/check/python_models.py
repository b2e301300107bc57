"""The model.py of Python models, read and not run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.models import Model

Function = ast.FunctionDef | ast.AsyncFunctionDef
NAME = "TritonPythonModel"
CALLS = {"__init__": ["self"], "initialize": ["self", "args"], "execute": ["self", "requests"]}


def python_models(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    for version in model.loaded if model.backend == "python" else ():
        path = model.folder / str(version) / (model.config.default_model_filename or "model.py")
        if path.is_file() and path.suffix == ".py":
            yield from code(path, bool(model.config.model_transaction_policy.decoupled))


def code(path: Path, decoupled: bool) -> Iterator[Finding]:
    try:
        tree = compiled(path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
        line = getattr(error, "lineno", None) or 1
        yield Finding(path, line, "python-syntax", what, "correct it: the model can't load")
        return
    own = [*of_module(tree)]
    classes = [node for node in own if isinstance(node, ast.ClassDef) and node.name == NAME]
    if not classes and {NAME, "*"}.isdisjoint(name for node in own for name in bound(node)):
        what = f"has no class {NAME}, so the model can't load"
        yield Finding(path, 1, "python-class", what, "name its class so")
    for found in classes:
        yield from methods(path, found, decoupled)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield Finding(
                path,
                node.lineno,
                "python-print",
                "prints beside Triton's log",
                "write pb_utils.Logger.log_info(...)",
            )


def compiled(path: Path) -> ast.Module:
    """Only the compiler minds a `return` outside of a function, and the like."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_bytes())
        compile(tree, path.name, "exec", dont_inherit=True)
    return tree


def of_module(node: ast.AST) -> Iterator[ast.AST]:
    """All but what is inside of functions and classes."""
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, Function | ast.ClassDef):
            yield from of_module(each)


def bound(node: ast.AST) -> Iterator[str]:
    """The names that a module gets by it."""
    if isinstance(node, Function):
        yield node.name
        for each in ast.walk(node):
            yield from each.names if isinstance(each, ast.Global) else ()
    elif isinstance(node, ast.ImportFrom):
        yield from (name.asname or name.name for name in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def methods(path: Path, node: ast.ClassDef, decoupled: bool) -> Iterator[Finding]:
    own = {each.name: each for each in node.body if isinstance(each, Function)}
    assigned = {
        target.id
        for each in node.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for name in own.keys() & CALLS.keys():
        if not takes(own[name], len(CALLS[name])):
            what = f"TypeError: {NAME}.{name}() takes other arguments than Triton gives it"
            instead = f"write def {name}({', '.join(CALLS[name])})"
            yield Finding(path, own[name].lineno, "python-arguments", what, instead)
    execute = own.get("execute")
    if execute is None:
        if not node.bases and "execute" not in assigned:
            yield Finding(
                path,
                node.lineno,
                "python-execute",
                "class TritonPythonModel has no method execute: it loads, and no request is answered",
                "add execute(self, requests)",
            )
    elif not decoupled and not answers(execute):
        yield Finding(
            path,
            execute.lineno,
            "python-return",
            "execute returns nothing, so a request is never answered",
            "return a list with a response for each request",
        )


def takes(function: Function, count: int) -> bool:
    """So many by position, and no more; of a function that is decorated nobody knows."""
    given = function.args
    named = len(given.posonlyargs) + len(given.args)
    enough = given.vararg is not None or count <= named
    too_many = count < named - len(given.defaults) or None in given.kw_defaults
    return bool(function.decorator_list) or (enough and not too_many)


def answers(execute: Function) -> bool:
    """Whether it returns something, or sends or raises."""
    for node in ast.walk(execute):
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if isinstance(node, ast.Raise | ast.Yield | ast.YieldFrom):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "get_response_sender":
            return True
    return False
