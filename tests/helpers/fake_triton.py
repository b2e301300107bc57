"""A stand-in for the module that Triton gives Python models, so that the adapter runs without a server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from triton_ensemble.serve.local.environment import BACKENDS

NAME = "triton_python_backend_utils"


@contextmanager
def importable_backends(utils: Any) -> Iterator[None]:
    """Let models of the local backends be imported in a `with` block, with `utils` for Triton's module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, NAME, utils)
        patch.syspath_prepend(BACKENDS / "python")
        for name in _list_importers():
            patch.delitem(sys.modules, name)
        yield
        for name in _list_importers():
            del sys.modules[name]  # it has these `utils`; the patch puts back those of before


def _list_importers() -> list[str]:
    """Return the loaded modules that import Triton's, or may."""
    return [n for n in sys.modules if n.startswith(("local_", "triton_ensemble.adapter."))]


class Tensor:
    def __init__(self, name: str, array: Any) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._array


class TritonError:
    INTERNAL, INVALID_ARG, UNAVAILABLE, CANCELLED = "internal", "invalid", "unavailable", "left"

    def __init__(self, text: str, code: str) -> None:
        self.text, self.code = text, code


class InferenceResponse:
    def __init__(self, tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self.error = error
        self.arrays = {tensor.name(): tensor.as_numpy() for tensor in tensors}

    @property
    def said(self) -> tuple[str, str] | None:
        """The code and the text of its error."""
        return (self.error.code, self.error.text) if self.error else None


class Sender:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[InferenceResponse] = []
        self.flags: list[int] = []
        self.cancelled = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        self.sent += [response] if response else []
        self.flags.append(flags)

    def is_cancelled(self) -> bool:
        return self.cancelled


class Request:
    """A request with some arrays. `timeout_us` of 0 is none."""

    def __init__(
        self, sequence: int = 0, flags: int = 0, timeout_us: int = 0, **arrays: Any
    ) -> None:
        self._arrays, self._sequence, self._flags = arrays, sequence, flags
        self._timeout_us, self.cancelled, self.sender = timeout_us, False, Sender()

    def inputs(self) -> list[Tensor]:
        return [Tensor(name, array) for name, array in self._arrays.items()]

    def is_cancelled(self) -> bool:
        return self.cancelled

    def timeout(self) -> int:
        return self._timeout_us

    def correlation_id(self) -> int:
        return self._sequence

    def flags(self) -> int:
        return self._flags

    def get_response_sender(self) -> Sender:
        return self.sender


class Answer:
    """The response of a model that a step calls: arrays, or the text of an error."""

    def __init__(self, text: str = "", **arrays: Any) -> None:
        self._text, self._arrays = text, arrays

    def has_error(self) -> bool:
        return bool(self._text)

    def error(self) -> Any:
        return SimpleNamespace(message=lambda: self._text)

    def output_tensors(self) -> list[Tensor]:
        return [Tensor(name, array) for name, array in self._arrays.items()]


class InferenceRequest:
    """A step's request to another model, which `reply` answers."""

    reply: Callable[[InferenceRequest], Any]

    def __init__(self, **asked: Any) -> None:
        self.asked = asked

    @property
    def arrays(self) -> dict[str, Any]:
        return {tensor.name(): tensor.as_numpy() for tensor in self.asked["inputs"]}

    def exec(self, decoupled: bool = False) -> Any:
        reply = type(self).reply(self)
        return iter(reply) if decoupled else reply


class MetricFamily:
    COUNTER = 0

    def __init__(self, **declared: Any) -> None:
        self.declared = declared

    def Metric(self, labels: dict[str, str]) -> Any:
        return SimpleNamespace(labels=labels, increment=lambda more: None)


class Adapter:
    """The adapter's modules, imported with the stand-in. `logged` has what they write into Triton's log."""

    def __init__(self) -> None:
        self.logged: list[tuple[str, str]] = []
        for name in ("arrays", "calls", "context", "fused", "model", "pace", "refusal"):
            setattr(self, name, import_module(f"triton_ensemble.adapter.{name}"))
        self.user_step = import_module("triton_ensemble.adapter.user_step")

    def __getattr__(self, name: str) -> Any:  # for mypy: its modules
        raise AttributeError(name)


def install(patch: pytest.MonkeyPatch) -> Adapter:
    """Import the adapter for as long as a patch lasts."""
    utils: Any = ModuleType(NAME)
    utils.Tensor, utils.TritonError, utils.InferenceResponse = (
        Tensor,
        TritonError,
        InferenceResponse,
    )
    utils.InferenceRequest = InferenceRequest
    utils.MetricFamily, utils.TritonModelException = MetricFamily, type("E", (Exception,), {})
    utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
    utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
    patch.setitem(sys.modules, NAME, utils)
    for name in [name for name in sys.modules if name.startswith("triton_ensemble.adapter.")]:
        patch.delitem(sys.modules, name)
    adapter = Adapter()
    utils.Logger = SimpleNamespace(
        log_info=lambda text: adapter.logged.append(("info", text)),
        log_warn=lambda text: adapter.logged.append(("warning", text)),
        log_error=lambda text: adapter.logged.append(("error", text)),
    )
    return adapter
