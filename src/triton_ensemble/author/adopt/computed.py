"""BLS calls whose model no text of the code names: it is put together, or read from a file, the environment or a request."""

from __future__ import annotations

import ast
from collections import defaultdict

from triton_ensemble.check.calls import is_bls, iter_own_code
from triton_ensemble.check.python_code import Function, PythonFile, compile_file
from triton_ensemble.facts.config import Model

ITEMS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BoolOp)
# Functions and methods whose result has the texts that they are called with, or for.
PASS_ON = {"enumerate", "get", "items", "keys", "list", "set", "sorted", "str", "tuple", "values"}
# A function; None for modules, classes and attributes, which are not told apart.
Scope = ast.AST | None


class _Code:
    """The values that the code of a model gives each name, argument, attribute and result."""

    def __init__(self, files: list[PythonFile], parameters: set[str]) -> None:
        self._values: defaultdict[tuple[Scope, str], list[ast.AST]] = defaultdict(list)
        self._scopes: dict[ast.AST, Scope] = {}
        self._parameters = parameters
        self._known: dict[tuple[Scope, str], bool] = {}
        waiting: list[tuple[ast.AST, Scope]] = [(file.tree, None) for file in files]
        while waiting:
            node, scope = waiting.pop()
            self._scopes[node] = scope
            inside = node if isinstance(node, Function) else scope
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
        self._functions = {node.name: node for node in self._scopes if isinstance(node, Function)}
        for node in self._scopes:
            self._learn(node)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._set(targets, value)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                self._set([target], value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._set([node.target], node.iter)
            case ast.AugAssign(target=target):
                self._set([target], node)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if function := self._functions.get(name):
                    self._pass(function, node)
            case ast.Return(value=ast.expr() as value):
                name = getattr(self._scopes[node], "name", "")
                self._values[None, f"{name}()"].append(value)

    def _set(self, targets: list[ast.expr], value: ast.AST) -> None:
        for target in (each for inside in targets for each in ast.walk(inside)):
            if isinstance(target, ast.Attribute):
                self._values[None, target.attr].append(value)
            elif isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                self._values[self._scopes[target], target.id].append(value)

    def _pass(self, function: Function, call: ast.Call) -> None:
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        own = int(isinstance(call.func, ast.Attribute) and names[:1] == ["self"])
        given = [*zip(names[own:], call.args, strict=False)]
        for name, value in (*given, *((each.arg or "", each.value) for each in call.keywords)):
            self._values[function, name].append(value)

    def knows(self, node: ast.AST) -> bool:
        """Return whether each text that an expression may be is in the code or in the parameters."""
        match node:
            case ast.Constant() | ast.Subscript(slice=ast.Constant(value="string_value")):
                return True
            case ast.Subscript(slice=ast.Constant(value=key)) if key in self._parameters:
                return True
            case ast.Name(id=name):
                return self._knows_name(self._scopes.get(node), name)
            case ast.Attribute(attr=name):
                return self._knows_name(None, name)
            case ast.Subscript(value=inside) | ast.ListComp(elt=inside):
                return self.knows(inside)
            case ast.IfExp(body=one, orelse=other):
                return self.knows(one) and self.knows(other)
            case ast.Call():
                return self._knows_result(node)
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return isinstance(node, ITEMS) and bool(parts) and all(map(self.knows, parts))

    def _knows_name(self, scope: Scope, name: str) -> bool:
        while scope and (scope, name) not in self._values:
            scope = self._scopes[scope]
        key = (scope, name)
        if key not in self._known:
            self._known[key] = True  # meanwhile, where it depends on itself
            values = self._values.get(key, [])
            self._known[key] = bool(values) and all(map(self.knows, values))
        return self._known[key]

    def _knows_result(self, call: ast.Call) -> bool:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name not in PASS_ON:
            return self._knows_name(None, f"{name}()")
        table = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        return all(map(self.knows, (*table, *call.args[name == "get" :])))


def find_computed_calls(model: Model) -> list[str]:
    """Return the places, as `m/1/model.py:7`, of requests to a model whose name the code computes or reads."""
    if any(model.folder.glob("*/step.json")):
        return []
    files = [*map(compile_file, iter_own_code(model))]
    code = _Code(files, {*model.config.parameters})
    return [
        f"{file.path.relative_to(model.folder.parent).as_posix()}:{call.lineno}"
        for file in files
        for call in ast.walk(file.tree)
        if isinstance(call, ast.Call) and is_bls(call) and not _is_known(code, call)
    ]


def _is_known(code: _Code, call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    name = given.get("model_name", given.get(None))
    try:
        return name is None or code.knows(name)
    except RecursionError:
        return False
