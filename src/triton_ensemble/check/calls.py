"""Which models a Python model calls by BLS, as far as its code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.check.python_code import Function, PythonFile
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.config.repository import read_manifest_calls
from triton_ensemble.facts.reading import iter_files, read_codes

BLS = "InferenceRequest"  # the class by whose objects code calls a model
RUNS = ("exec", "async_exec")
# What makes a tensor, and which of its arguments is the name.
MADE = {"Tensor": 0, "Tensor.from_dlpack": 0, "get_input_tensor_by_name": 1}
# What may leave out a part of itself, so that a call there need not be made.
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.Try,
    ast.While,
    ast.Match,
    ast.BoolOp,
    ast.Lambda,
    ast.comprehension,
)
QUOTED = re.compile(rb"[\"']([^\"'\\\n]+)[\"']")
EXITS = (ast.Return, ast.Continue, ast.Break, ast.Raise)


@dataclass(frozen=True)
class Call:
    """A call of a model by BLS that code makes whenever it runs the function around it."""

    file: PythonFile
    node: ast.Call  # of `exec` or `async_exec`
    function: str
    given: Mapping[str, ast.expr]  # to the request, by argument
    values: Mapping[str, ast.expr]  # of the function's variables that are set once
    is_certain: bool  # nothing above it may leave the function

    @property
    def model(self) -> str:
        """The name of the model, or empty if no text says which."""
        name = self.given.get("model_name")
        return str(name.value) if isinstance(name, ast.Constant) else ""

    @property
    def says_model(self) -> bool:
        """Whether the code says which model it calls, or that it names none."""
        return isinstance(self.given.get("model_name"), ast.Constant)

    @property
    def version(self) -> int | None:
        """The version of the model, -1 for the latest, or None if no number says which."""
        given = self.given.get("model_version")
        with suppress(TypeError, ValueError):
            return int(ast.literal_eval(given)) if given else -1
        return None

    @property
    def tensors(self) -> Iterator[tuple[str, str]]:
        """The inputs and outputs that the request names by a text, each with its side."""
        names = [
            ("output", each) for each in _iter_elements(self.given.get("requested_output_names"))
        ]
        for element in _iter_elements(self.given.get("inputs")):
            made = self.values.get(element.id) if isinstance(element, ast.Name) else element
            if isinstance(made, ast.Call):
                place = MADE.get(ast.unparse(made.func).removeprefix("pb_utils."), len(made.args))
                names += [("input", each) for each in made.args[place : place + 1]]
        for side, name in names:
            if isinstance(name, ast.Constant):
                yield side, str(name.value)

    @property
    def gives_known_inputs(self) -> bool:
        """Whether a list in the request names each input by a text."""
        given = self.given.get("inputs")
        named = [name for side, name in self.tensors if side == "input"]
        return isinstance(given, ast.List) and len(named) == len(given.elts)

    @property
    def caller(self) -> str:
        """The name of the model whose code it is."""
        return self.file.path.parents[1].name


def iter_calls(file: PythonFile) -> Iterator[Call]:
    """Iterate over the calls in a file, as far as its text shows the request of each."""
    for function in ast.walk(file.tree):
        if isinstance(function, Function):
            yield from _list_calls(function, file)


def _list_calls(function: Function, file: PythonFile) -> Iterator[Call]:
    sure = [*_iter_always(function)]
    inside = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = [node.id for node in inside if isinstance(node.ctx, ast.Store)]
    requests: dict[str, list[ast.Call]] = {}
    values: dict[str, ast.expr] = {}
    exits = [node for node in ast.walk(function) if isinstance(node, EXITS) and node not in sure]
    first_exit = min((node.lineno for node in exits), default=function.end_lineno or 0)

    def call(node: ast.Call, request: ast.Call) -> Call:
        given = {each.arg: each.value for each in request.keywords if each.arg}
        if len(given) == len(request.keywords) and not request.args:
            given.setdefault("model_name", ast.Constant(""))
        is_certain = node.lineno <= first_exit
        return Call(file, node, function.name, given, values, is_certain)

    for node in sure:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made) if is_bls(made):
                requests.setdefault(name, []).append(made)
            case ast.Assign(targets=[ast.Name(id=name)], value=made) if stored.count(name) == 1:
                values[name] = made
    for node in sure:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr=attribute)) if (
                attribute in RUNS and is_bls(made)
            ):
                yield call(node, made)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if (
                attribute in RUNS and len(requests.get(name, [])) == stored.count(name) > 0
            ):
                before = [made for made in requests[name] if made.lineno < node.lineno]
                yield from (call(node, made) for made in before[-1:])


def _iter_always(node: ast.AST) -> Iterator[ast.AST]:
    """Iterate over what a function does whenever it runs, in order of the text."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*BRANCHES, Function, ast.ClassDef)):
            yield child
            yield from _iter_always(child)


def is_bls(call: ast.Call) -> bool:
    """Return whether a call makes a request to another model."""
    return BLS in (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))


def _iter_elements(node: ast.expr | None) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else []


def find_called_models(model: Model, models: Mapping[str, object]) -> set[str]:
    """Return the models that step.json names, or else the names in texts of its parameters or of code that calls."""
    with suppress(
        AttributeError, KeyError, OSError, TypeError, ValueError
    ):  # another's file of that name
        if manifests := [*model.folder.glob("*/step.json")]:
            return {
                name for path in manifests for name in read_manifest_calls(path)
            } & models.keys()
    codes = [*read_codes(iter_own_code(model))]
    if not any(BLS.encode() in code for code in codes):
        return set()
    texts = {parameter.string_value for parameter in model.config.parameters.values()}
    texts.update(text for code in codes for text in _list_texts(code))
    return (texts & models.keys()) - {model.name}


def iter_own_code(model: Model) -> Iterator[Path]:
    """Iterate over the Python files of a Python model, without packages and links out of the repository."""
    for path in iter_files(model.folder) if model.backend == "python" else ():
        is_code = path.suffix == ".py" and "site-packages" not in path.parts
        if is_code and not model.is_foreign(path):
            yield path


def _list_texts(code: bytes) -> list[str]:
    """Return the texts of a Python file, or what stands in quotes if a newer Python than this has its syntax."""
    constants = (node.value for node in nodes(code) if isinstance(node, ast.Constant))
    texts = [value for value in constants if isinstance(value, str)]
    return texts or [text.decode(errors="replace") for text in QUOTED.findall(code)]


def nodes(code: bytes) -> Iterator[ast.AST]:
    """Iterate over the nodes of a Python file's tree, or over nothing if the file is not valid Python."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        yield from ast.walk(ast.parse(code))


def iter_call_cycles(calls: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Iterate over the shortest ways on which models call themselves, each once."""
    found = set()
    for start in sorted(calls):
        way = _find_way_back(start, calls)
        if way and frozenset(way) not in found:
            found.add(frozenset(way))
            yield way


def _find_way_back(start: str, calls: Mapping[str, set[str]]) -> list[str]:
    """Return the shortest way from a model to itself, or an empty list if there is none."""
    ways, seen = [[start]], set[str]()
    for way in ways:  # grows meanwhile
        for name in sorted(calls[way[-1]] - seen):
            seen.add(name)
            ways.append([*way, name])
            if name == start:
                return ways[-1]
    return []
