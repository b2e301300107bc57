"""Python code, as the model.py of Python models: parsed, and not run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from triton_ensemble.config import Model, Problem

Function = ast.FunctionDef | ast.AsyncFunctionDef
CLASS = "TritonPythonModel"


@dataclass
class PythonFile:
    """The code of one version of a model, or the error by which it does not compile."""

    path: Path
    tree: ast.Module
    error: Exception | None = None
    is_decoupled: bool = False

    def problem(self, node: ast.AST | None, what: str, instead: str) -> Problem:
        """Return a problem at a node; without one, at the first line."""
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
            yield from _bound(node)

    def only_class(self, name: str) -> ast.ClassDef | None:
        """The class of a name, if its text alone makes it and the module has no other use for the name."""
        nodes = [
            node
            for node in self.module_level
            if (isinstance(node, ast.ClassDef) and node.name == name)
            or not {name, "*"}.isdisjoint(_bound(node))
        ]
        match nodes:
            case [ast.ClassDef(bases=[], keywords=[], decorator_list=[]) as found]:
                return found
        return None

    def only_method(self, node: ast.ClassDef, name: str) -> Function | None:
        """The method of a class, if nothing takes its place: no decorator, condition or assignment."""
        own = methods(node)
        bound = [each for each in _module_level(node) if name in _bound(each)]
        elsewhere = (
            "__new__" in own or self.sets(name) or not all(each in node.body for each in bound)
        )
        match bound[-1:]:
            case [ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[])]:
                return None if elsewhere else own[name]
        return None

    def sets(self, attribute: str) -> bool:
        """Whether code assigns such an attribute: `X.execute = ...`, or `setattr` of some name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if node.attr == attribute:
                    return True
            elif isinstance(node, ast.Name) and node.id == "setattr":
                return True
        return False


def methods(node: ast.ClassDef) -> dict[str, Function]:
    """Return the methods of a class by name."""
    return {each.name: each for each in node.body if isinstance(each, Function)}


def python_files(model: Model) -> Iterator[PythonFile]:
    """Iterate over the files of a Python model's loaded versions."""
    decoupled = bool(model.config.model_transaction_policy.decoupled)
    for version in model.loaded if model.backend == "python" else ():
        path = model.folder / str(version) / (model.config.default_model_filename or "model.py")
        if path.is_file() and path.suffix == ".py":
            yield replace(compiled(path), is_decoupled=decoupled)


def compiled(path: Path) -> PythonFile:
    """Parse a file and compile it, as only the compiler refuses a `return` outside of a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
            compile(tree, path.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return PythonFile(path, ast.Module([], []), error)
    return PythonFile(path, tree)


def _module_level(node: ast.AST) -> Iterator[ast.AST]:
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, Function | ast.ClassDef):
            yield from _module_level(each)


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, Function):
        yield node.name
        for each in ast.walk(node):
            yield from each.names if isinstance(each, ast.Global) else ()
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (name.asname or name.name for name in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
