"""Python steps of a project"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from inspect import Parameter, Signature

from triton_ensemble.check.examples import A, Files
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rule import error
from triton_ensemble.check.step_code import StepCall, signature_of
from triton_ensemble.facts.config import Problem

STEP = """\
class Step:
    def __init__(self, context): ...

    def __call__(self, X):
        return {"Y": X}
"""
SERVED: Files = {
    "m": A,
    "m/1/step.json": '{"name": "m", "module": "m", "arguments": {"X": "X"}}',
    "m/1/steps/m.py": STEP,
}
ANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def steps(repository: Repository) -> list[StepCall]:
    """Return the calls of Python steps."""
    return repository.step_calls


@error(
    "step-signature",
    of=steps,
    triton="`step x: Step.__call__: missing a required argument: 'y'`, `... got an unexpected keyword argument "
    "'y'`",
    fails={**SERVED, "m/1/steps/m.py": STEP.replace("self, X", "self, OTHER")},
    passes=SERVED,
)
def step_signature(step: StepCall) -> Iterator[Problem]:
    """The class Step of a step's file takes the inputs that pipeline.yml gives it."""
    method = step.method
    if method and not step.suits(signature := signature_of(method)):
        kind = "async def" if isinstance(method, ast.AsyncFunctionDef) else "def"
        instead = f"write {kind} {method.name}({step.written})"
        yield Problem(step.source, method.lineno, _describe_difference(step, signature), instead)


def _describe_difference(step: StepCall, signature: Signature) -> str:
    found = signature.parameters
    takes_any = any(each.kind is Parameter.VAR_KEYWORD for each in found.values())
    lacks = [name for argument, name in step.arguments.items() if argument not in found]
    left = [*found.values()][len(step.positional) :]
    required = [each.name for each in left if each.default is each.empty and each.kind not in ANY]
    extra = [name for name in required if name not in step.arguments]
    said = []
    if lacks and not takes_any:
        plural = "s" * (len(lacks) > 1)
        said.append(f"lacks the input{plural} {', '.join(lacks)} that pipeline.yml gives it")
    if extra:
        said.append(f"takes {', '.join(extra)}, which pipeline.yml does not give it")
    return " and ".join(said) or "takes other arguments than it is given"
