"""How the tensors of an ensemble connect to its composing models' tensors (core: ensemble_utils.cc)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.facts.config import Model, enum_name


@dataclass(eq=False)
class WiredTensor:
    """A tensor as one model declares it: for an ensemble's tensor, the first model that names it."""

    owner: str
    type: str
    dims: list[int]
    batches: bool
    before: list[WiredTensor] = field(default_factory=list)
    after: list[WiredTensor] = field(default_factory=list)
    is_decoupled: bool = False
    step_label: list[int] = field(default_factory=lambda: [-1])  # shared by a step's outputs
    label: int = 0
    visited: bool = False

    @property
    def full_dims(self) -> list[int]:
        """The dims with the batch dimension."""
        return ([-1] if self.batches else []) + self.dims

    @property
    def shown(self) -> str:
        """The full dims and whose they are, in Triton's words."""
        return f"[{','.join(map(str, self.full_dims))}] is inferred from model {self.owner}"

    def matches(self, other: WiredTensor) -> bool:
        """Return whether Triton accepts one tensor for the other, with or without a batch dimension."""
        return is_same_dims(self.dims, other.dims) or is_same_dims(self.full_dims, other.full_dims)


@dataclass(frozen=True)
class Meeting:
    """A composing model's own tensor, and the ensemble's that it is mapped to."""

    step: int
    side: str
    key: str
    name: str  # of the ensemble's tensor
    own: WiredTensor
    first: WiredTensor


class Wiring:
    """The tensors of an ensemble, and where composing models meet them.

    `composing` has the index of each step, the step and its model, and `decoupled` the names of the
    decoupled models among them.
    """

    def __init__(
        self, model: Model, composing: Iterable[tuple[int, Any, Model]], decoupled: set[str]
    ) -> None:
        self.model = model
        self.tensors: dict[str, WiredTensor] = {}
        self.meetings: list[Meeting] = []
        batches = model.config.max_batch_size > 0
        for each in (*model.config.input, *model.config.output):
            dims = each.reshape.shape if each.HasField("reshape") else each.dims
            own = WiredTensor(model.name, enum_name(each, "data_type"), list(dims), batches)
            self.tensors.setdefault(each.name, own)
        self.sink = WiredTensor(model.name, "", [], False)  # takes all outputs
        for each in model.config.output:
            _connect(self.tensors[each.name], self.sink)
        for i, step, used in composing:
            self.meetings += self._meet(i, step, used)
            self._link(step, used.name in decoupled)

    def _meet(self, i: int, step: Any, used: Model) -> Iterator[Meeting]:
        batches = used.config.max_batch_size > 0
        for side, mapped, declared in (
            ("input", step.input_map, used.config.input),
            ("output", step.output_map, used.config.output),
        ):
            for each in declared:
                if each.name in mapped:
                    name = mapped[each.name]
                    own = WiredTensor(
                        used.name, enum_name(each, "data_type"), list(each.dims), batches
                    )
                    first = self.tensors.setdefault(name, own)
                    yield Meeting(i, side, each.name, name, own, first)

    def _link(self, step: Any, is_decoupled: bool) -> None:
        known = [self.tensors[name] for name in step.input_map.values() if name in self.tensors]
        shared = [-1]
        for name in step.output_map.values():
            if tensor := self.tensors.get(name):
                tensor.is_decoupled, tensor.step_label = is_decoupled, shared
                for source in known:
                    _connect(source, tensor)

    @cached_property
    def decoupled_merge(self) -> str:
        """The step or outputs where tensors of different decoupled models meet, or empty if none do."""
        queue = deque(self.tensors[each.name] for each in self.model.config.input)
        for tensor in queue:
            tensor.visited = True
        count = 0
        while queue:
            for tensor in queue.popleft().after:
                if tensor.visited or not all(each.visited for each in tensor.before):
                    continue
                labels = {each.label for each in tensor.before}
                if len(labels) > 1:
                    is_sink = tensor is self.sink
                    return "ensemble outputs" if is_sink else f"step of model '{tensor.owner}'"
                if tensor.step_label[0] < 0:
                    count += tensor.is_decoupled
                    tensor.step_label[0] = count if tensor.is_decoupled else labels.pop()
                tensor.label, tensor.visited = tensor.step_label[0], True
                queue.append(tensor)
        return ""


def _connect(source: WiredTensor, target: WiredTensor) -> None:
    target.before.append(source)
    source.after.append(target)
