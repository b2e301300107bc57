"""The rules of the check: a module for each topic, a function for each rule."""

from importlib import import_module
from types import ModuleType

from triton_ensemble.check.rule import REGISTERED, Rule
from triton_ensemble.check.rules import (
    backends,
    batching,
    calls,
    deployment,
    ensembles,
    folders,
    model_files,
    open_dims,
    project,
    python_models,
    python_steps,
    samples,
    sequences,
    served,
    steps,
    tensors,
    text,
    versions,
    warmups,
)
from triton_ensemble.facts import catalog

__all__ = ["RULES", "TOPICS", "Rule", "rules_of"]

OF_EXTRAS = [
    import_module(f"triton_ensemble.{row['rules']}")
    for row in catalog.table("extras").values()
    if "rules" in row
]
# In the order in which they are asked, folders last: it depends on the errors in what is used which
# of them are not. The docstring of a module is the title of its topic.
TOPICS: tuple[ModuleType, ...] = (
    text,
    versions,
    backends,
    model_files,
    tensors,
    batching,
    sequences,
    warmups,
    python_models,
    python_steps,
    calls,
    ensembles,
    steps,
    open_dims,
    served,
    deployment,
    *OF_EXTRAS,
    project,
    samples,
    folders,
)


def rules_of(topic: ModuleType) -> list[Rule]:
    """Return the rules of a topic, as they are written."""
    return [rule for rule in REGISTERED if rule.find.__module__ == topic.__name__]


RULES: dict[str, Rule] = {rule.id: rule for topic in TOPICS for rule in rules_of(topic)}
