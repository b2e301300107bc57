"""The steps of generated Python models: what step.json gives them, and their code, parsed and not run."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from triton_ensemble.check.python_code import Function, PythonFile, compile_file
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.reading import read_json

CLASS, METHOD = "Step", "__call__"


@dataclass(frozen=True)
class StepCall:
    """A step's code, and how the adapter calls it: its inputs by name, before them some by position."""

    file: PythonFile
    source: Path  # where the file is its owner's
    positional: tuple[str, ...]
    arguments: dict[str, str]  # inputs by the name of the argument

    @property
    def method(self) -> Function | None:
        """The method that is called, or None if the text may not show the right one."""
        found = self.file.only_class(CLASS)
        return self.file.only_method(found, METHOD) if found else None

    @property
    def written(self) -> str:
        """The arguments as a definition takes them."""
        alone = len(self.positional) == 1
        return ", ".join([*self.positional, *([] if alone else ["/"]), *self.arguments])

    def suits(self, signature: Signature) -> bool:
        """Return whether a signature accepts the call.

        The adapter asks the same when it loads the step.
        """
        try:
            signature.bind(*self.positional, **self.arguments)
        except TypeError:
            return False
        return True


def step_calls(model: Model, root: Path) -> Iterator[StepCall]:
    """Iterate over the steps of a model's loaded versions: their copied code, or that in steps/ of `root`."""
    first = ("self", "position") if model.config.HasField("sequence_batching") else ("self",)
    for version in model.loaded:
        folder = model.folder / str(version)
        for module, arguments in _iter_steps(folder / "step.json"):
            file = f"steps/{module}.py"
            for path in [each for each in (folder / file, root / file) if each.is_file()][:1]:
                yield StepCall(compile_file(path), _source(path, root), first, arguments)


def signature_of(function: Function) -> Signature:
    """Return the signature of a definition. Each default is None."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    parameters = [
        _parameter(each.arg, Parameter.POSITIONAL_OR_KEYWORD, i >= required)
        if each in given.args
        else _parameter(each.arg, Parameter.POSITIONAL_ONLY, i >= required)
        for i, each in enumerate(positional)
    ]
    if given.vararg:
        parameters.append(Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL))
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parameters.append(_parameter(each.arg, Parameter.KEYWORD_ONLY, default is not None))
    if given.kwarg:
        parameters.append(Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD))
    return Signature(parameters)


def _parameter(name: str, kind: Any, has_default: bool) -> Parameter:
    return Parameter(name, kind, default=None if has_default else Parameter.empty)


def _iter_steps(manifest: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Iterate over module and arguments of the steps that a step.json names, or over nothing for other files."""
    try:
        content = read_json(manifest)
        steps = [step for step in content.get("steps", [content]) if "module" in step]
        yield from [(str(step["module"]), dict(step["arguments"])) for step in steps]
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return


def _source(path: Path, root: Path) -> Path:
    """Return the file of steps/ that a file is a copy of, else itself: code of a published version is frozen."""
    own = root / "steps" / path.name
    return own if own.is_file() and filecmp.cmp(own, path, shallow=False) else path
