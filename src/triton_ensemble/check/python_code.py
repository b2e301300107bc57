"""Python code, as the model.py of Python models: parsed, and not run."""

from __future__ import annotations

import ast
import builtins
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from triton_ensemble.facts.config import Model, Problem
from triton_ensemble.facts.reading import CODE_BYTES, read_bytes

Function = ast.FunctionDef | ast.AsyncFunctionDef
Version = tuple[int, int]
CLASS = "TritonPythonModel"
# What gives an object or a module an attribute, or the module a name, that no text shows.
BY_NAME = {
    "setattr",
    "delattr",
    "globals",
    "locals",
    "vars",
    "exec",
    "eval",
    "builtins",
    "__path__",
}
CALLED = {"initialize", "execute"}
CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.While, ast.Match, ast.With)
F_STRING = r"\b([fF][rR]?|[rR][fF])(?P<quote>[\"']).*\{[^}]*"  # up to inside of its braces
# Syntax by the Python that brought it: what an older one says of it, or the line at which that one stops.
NEWER = {
    (3, 11): r"^\s*except\s*\*|\[(.*, *)?\*\w|: \*",
    (3, 12): r"\Af-string|^\s*type \w+|\b(def|class) \w+\["
    rf"|\A(unterminated|invalid decimal|unexpected|'.' was never closed).*\n.*{F_STRING}(?P=quote)"
    rf"|\Aunterminated .*\n.*{F_STRING.replace('quote', 'other')}$",
    (3, 13): r"\b(def|class|type) \w+\[.*=",
    (3, 14): r"\b([tT][rR]?|[rR][tT])[\"']|^\s*except\b.*, *(\w+(\.\w+)+|[A-Z]\w*) *:",
    (3, 15): r"^\s*lazy (import|from) ",
}
BY_ATTRIBUTE = {"__setattr__", "__dict__", "__globals__", "f_globals", "modules"}


@dataclass
class PythonFile:
    """The code of one version of a model, or the error by which it does not compile."""

    path: Path
    tree: ast.Module
    error: Exception | None = None
    is_decoupled: bool = False

    @property
    def newer(self) -> Version | None:
        """The Python that has the syntax at which the check's own stops, or None if the code is wrong for all."""
        said = f"{getattr(self.error, 'msg', '')}\n{getattr(self.error, 'text', '')}"
        known = {python for python, text in NEWER.items() if re.search(text, said, re.M)}
        return min((python for python in known if python > sys.version_info[:2]), default=None)

    def find_newer_syntax(self, python: Version) -> int:
        """Return the line of syntax that an older Python lacks, as far as the check's own knows, or 0 without one."""
        try:
            ast.parse(read_bytes(self.path, CODE_BYTES), feature_version=python)
        except SyntaxError as error:
            return error.lineno or 1
        return 0

    def problem(self, node: ast.AST | None, what: str, instead: str) -> Problem:
        """Return a problem at a node, or at the first line without a node."""
        return Problem(self.path, getattr(node, "lineno", 1), what, instead)

    @cached_property
    def module_level(self) -> list[ast.AST]:
        """All nodes but those inside functions and classes."""
        return [*_module_level(self.tree)]

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """The classes of the name that Triton looks for."""
        for node in self.module_level:
            if isinstance(node, ast.ClassDef) and node.name == CLASS:
                yield node

    @property
    def names(self) -> Iterator[str]:
        """The names that the module gets by other means than a class."""
        for node in self.module_level:
            yield from _iter_bound(node)

    @property
    def exits(self) -> Iterator[ast.stmt]:
        """The statements that end each import of the module."""
        for node in self.tree.body:
            is_exit = isinstance(node, ast.Expr) and ast.unparse(node).startswith("sys.exit(")
            if is_exit or isinstance(node, ast.Raise):
                yield node

    def lacks(self, name: str) -> bool:
        """Return whether another module can't import a name from this one."""
        classes = {node.name for node in self.module_level if isinstance(node, ast.ClassDef)}
        known = {*self.names, *classes}
        is_known = name in known or re.fullmatch("__.*__", name)
        return not (is_known or {"*", "__getattr__"} & known or self.sets(name))

    def removes(self, target: str) -> bool:
        """Return whether the module's last statement about a name or its attribute is `del`, or sets a constant."""
        name, _, attribute = target.partition(".")
        for node in reversed(self.tree.body):
            match node:
                case (
                    ast.Delete(targets=targets) | ast.Assign(targets=targets, value=ast.Constant())
                ) if target in map(ast.unparse, targets):
                    return True
                case ast.Assign(targets=[ast.Attribute()], value=ast.Constant()):
                    continue
                case ast.ClassDef(name=found) if found == name:
                    return False
            for part in ast.walk(node):
                is_named = isinstance(part, ast.Name) and part.id == name
                if is_named or {name, "*"} & {*_iter_bound(part)} or _sets(part, attribute):
                    return False
        return False

    def find_undefined_names(self) -> Iterator[ast.Name]:
        """Iterate over names that no statement binds, but Python surely reads, which raises NameError.

        It reads them in the bases and decorators of a class, and in `initialize` and `execute` outside of conditions.
        """
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        classes = {node.name for node in self.module_level if isinstance(node, ast.ClassDef)}
        known = {*self.names, *classes, *dir(builtins)}
        if not BY_NAME.isdisjoint(used) or "*" in known:
            return
        parts: list[tuple[ast.AST, set[str]]] = [
            part
            for node in self.tree.body
            if isinstance(node, ast.ClassDef)
            for part in _iter_run_at_once(node)
        ]
        for node in self.classes:
            called = [each for name, each in methods(node).items() if name in CALLED]
            parts += [(each, _locals(each)) for each in called]
        for part, local in parts:
            for each in _iter_surely_run(part):
                if isinstance(each, ast.Name) and each.id not in known | local:
                    yield each

    def only_class(self, name: str) -> ast.ClassDef | None:
        """Return the class of a name, if its text alone makes it and the module does not use the name otherwise.

        A class under a condition may be for type checkers only.
        """
        nodes = [
            node
            for node in self.module_level
            if (isinstance(node, ast.ClassDef) and node.name == name)
            or not {name, "*"}.isdisjoint(_iter_bound(node))
        ]
        match nodes:
            case [ast.ClassDef(bases=[], keywords=[], decorator_list=[]) as found]:
                return found if found in self.tree.body and not self.sets(name) else None
        return None

    def only_method(self, node: ast.ClassDef, name: str) -> Function | None:
        """Return the method of a class, if nothing replaces it: no decorator, condition or assignment."""
        inside = [*_module_level(node)]
        bound = [each for each in inside if name in _iter_bound(each)]
        makes_others = any("__new__" in _iter_bound(each) for each in inside)
        elsewhere = makes_others or self.sets(name) or not all(each in node.body for each in bound)
        match bound[-1:]:
            case [
                ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]) as last
            ]:
                return None if elsewhere else last
        return None

    def sets(self, attribute: str) -> bool:
        """Return whether code may assign such an attribute: by `X.execute = ...`, `X.__class__ = ...`, or a name it computes."""
        return any(_sets(node, attribute) for node in ast.walk(self.tree))


def methods(node: ast.ClassDef) -> dict[str, Function]:
    """Return the methods of a class by name."""
    return {each.name: each for each in node.body if isinstance(each, Function)}


def python_files(model: Model) -> Iterator[PythonFile]:
    """Iterate over the files of a Python model's loaded versions."""
    decoupled = bool(model.config.model_transaction_policy.decoupled)
    for version in model.loaded if model.backend == "python" else ():
        path = model.folder / str(version) / (model.config.default_model_filename or "model.py")
        if path.is_file() and path.suffix == ".py" and not model.is_foreign(path):
            yield replace(compile_file(path), is_decoupled=decoupled)


def compile_file(path: Path) -> PythonFile:
    """Parse a file and compile it, as only the compiler refuses a `return` outside of a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(read_bytes(path, CODE_BYTES))
            compile(tree, path.name, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return PythonFile(path, ast.Module([], []), error)
    return PythonFile(path, tree)


def _module_level(node: ast.AST) -> Iterator[ast.AST]:
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, Function | ast.ClassDef):
            yield from _module_level(each)


def _iter_run_at_once(node: ast.ClassDef) -> Iterator[tuple[ast.AST, set[str]]]:
    """Iterate over what the definition of a class runs around its body and its methods, with the names of the class."""
    yield from ((each, set()) for each in (*node.bases, *node.decorator_list))
    own = {name for each in _module_level(node) for name in _iter_bound(each)}
    for method in methods(node).values():
        yield from ((each, own) for each in method.decorator_list)


def _locals(function: Function) -> set[str]:
    """Return the names that a function binds."""
    bound = {name for node in ast.walk(function) for name in _iter_bound(node)}
    classes = {node.name for node in ast.walk(function) if isinstance(node, ast.ClassDef)}
    return bound | classes | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}


def _iter_surely_run(node: ast.AST) -> Iterator[ast.AST]:
    """Iterate over the nodes that run whenever one does: none of a condition, or of a function inside."""
    yield node
    inside = node.body if isinstance(node, Function) else ast.iter_child_nodes(node)
    for each in inside:
        if not isinstance(each, (*CONDITIONS, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _iter_surely_run(each)


def _iter_bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield from () if isinstance(node, ast.ClassDef) else (node.name,)
            for each in ast.walk(node):
                yield from each.names if isinstance(each, ast.Global) else ()
        case ast.Import():
            yield from (name.asname or name.name.partition(".")[0] for name in node.names)
        case ast.ImportFrom():
            yield from (name.asname or name.name for name in node.names)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name


def _sets(node: ast.AST, attribute: str) -> bool:
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
            return name == attribute or (name.startswith("__") and name.endswith("__"))
        case ast.Attribute(attr=name):
            return name in BY_ATTRIBUTE
        case ast.Name(id=name):
            return name in BY_NAME
        case ast.alias(name=name):
            return name in BY_NAME | BY_ATTRIBUTE
    return False
