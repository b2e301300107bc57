# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The model.py of Python models, read and not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.checks.findings import Finding
from tools.checks.models import Model

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_models(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    for version in model.loaded if model.backend == "python" else ():
        path = model.folder / str(version) / (model.config.default_model_filename or "model.py")
        if path.is_file() and path.suffix == ".py":
            yield from code(path, bool(model.config.model_transaction_policy.decoupled))


def code(path: Path, decoupled: bool) -> Iterator[Finding]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        yield Finding(
            path,
            line,
            "python-syntax",
            f"{type(error).__name__}: {getattr(error, 'msg', error)}",
            "correct it: the model can't load",
        )
        return
    classes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel"
    ]
    if not classes and "TritonPythonModel" not in bound(tree):
        yield Finding(
            path,
            1,
            "python-class",
            "has no class TritonPythonModel, so the model can't load",
            "name its class so",
        )
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


def bound(tree: ast.Module) -> set[str]:
    """Names that are imported or assigned."""
    found = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    return (
        found
        | {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        | ({"TritonPythonModel"} if "*" in found else set())
    )


def methods(path: Path, node: ast.ClassDef, decoupled: bool) -> Iterator[Finding]:
    own = {each.name: each for each in node.body if isinstance(each, Function)}
    assigned = {
        target.id
        for each in node.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
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
