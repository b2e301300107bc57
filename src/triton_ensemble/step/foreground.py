"""A step in this process: its code from the owner's steps/, between the adapter's arrays and checks."""

from __future__ import annotations

import asyncio
import dis
import importlib
import json
import pdb
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isasyncgen, isawaitable
from pathlib import Path
from types import TracebackType
from typing import Any

from triton_ensemble.adapter.seams import StepManifest
from triton_ensemble.facts.client import Arrays
from triton_ensemble.facts.project import Project
from triton_ensemble.step.manifests import Served
from triton_ensemble.step.upstream import SEQUENCE, split_requests
from triton_ensemble.testing import fake_triton
from triton_ensemble.testing.harness import config_json

# What "next" of the debugger goes past: the code between Triton and the step.
NOT_THE_OWNERS = ("triton_ensemble.*", "triton_adapter.*", "asyncio.*")


class ForegroundStep:
    """The steps of a model up to the one asked for, made as Triton would make them.

    `call(model, inputs)` answers what steps ask of other models.
    """

    def __init__(self, project: Project, step: Served, call: fake_triton.Call) -> None:
        fake_triton.InferenceRequest.call = staticmethod(call)
        self.seconds: dict[str, float] = {}  # by part of the work
        with self._time("loading"):
            self._load(project, step)

    def _load(self, project: Project, step: Served) -> None:
        self._project, self._folder, self._fused = project, step.folder, step.shared
        self._config = json.loads(config_json(step.folder.parent / "config.pbtxt"))
        _import_from(project.root, step.folder)
        self._adapter = importlib.import_module("triton_adapter.user_step")
        library = importlib.import_module("triton_adapter.arrays").LIBRARIES
        self._arrays = library[step.manifest["arrays"]]("cpu")
        self._calls = importlib.import_module("triton_adapter.calls")
        self._answered = self._calls.Answered()
        self._parts = [(part, self._make_adapter(part)) for part in step.parts]

    @contextmanager
    def _time(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start

    def _make_adapter(self, part: StepManifest) -> Any:
        """Return the adapter's object for a step, whose constructor it calls."""
        name, config = self._folder.parent.name, self._config
        if self._fused:
            fused = importlib.import_module("triton_adapter.fused")
            part = {**part, "threads": fused.threads_of(config)}
            config = fused.config_of(part, config)
        names = {"model_name": name, "model_instance_name": f"{name}_0"}
        args = {"model_version": self._folder.name, "model_instance_kind": "CPU", **names}
        return self._adapter.UserStep(part, args, config, self._arrays, self._answered)

    def run(
        self, tensors: Arrays, show: Callable[[Arrays], None], *, debug: bool = False
    ) -> list[Arrays]:
        """Return the checked answers: several of a decoupled step, and those to each row of a sequence.

        Raise whatever the step does. `show` gets the step's inputs, of which steps of its model may make some first.
        """
        if len(self._parts) == 1:
            show(self._select(self._parts[0][0], tensors))
        return [
            answer
            for row, flags in split_requests(self._project, tensors)
            for answer in self._run_request(row, show, flags, debug)
        ]

    def _run_request(
        self, tensors: Arrays, show: Callable[[Arrays], None], flags: int, debug: bool
    ) -> list[Arrays]:
        self._request = fake_triton.InferenceRequest(correlation_id=SEQUENCE, flags=flags)
        self._answered.of_step = self._calls.Waiting([self._request])
        known: Arrays = dict(tensors)
        for part, step in self._parts[:-1]:
            [outputs] = self._answers(part, step, known)
            named = ((each["tensor"], outputs.get(each["name"])) for each in part["output"])
            known |= {name: array for name, array in named if name and array is not None}
        part, step = self._parts[-1]
        if len(self._parts) > 1:
            show(self._select(part, known))
        if not debug:
            return self._answers(part, step, known)
        code = self._adapter.step_class(part).__call__.__code__
        return _debug(code, lambda: self._answers(part, step, known))

    def _answers(self, part: StepManifest, step: Any, known: Arrays) -> list[Arrays]:
        own = "step" if part is self._parts[-1][0] else "steps before it"
        with self._time("inputs"):
            given = self._read(part, known)
            rows = self._adapter.rows_of(given) if self._config["max_batch_size"] else None
        with self._time(own):
            returned = step.start(given, self._first())
            if isasyncgen(returned):
                returned = asyncio.run(_collect(returned))
            elif isawaitable(returned):
                returned = asyncio.run(_run_awaitable(returned))
        with self._time("outputs"):
            return self._check(step, returned, rows)

    def _check(self, step: Any, returned: Any, rows: Any) -> list[Arrays]:
        decoupled = self._config.get("model_transaction_policy", {}).get("decoupled", False)
        checked = (
            [step.check_outputs(one, None) for one in returned]
            if decoupled
            else [step.check_outputs(returned, rows)]
        )
        return [self._convert(outputs) for outputs in checked]

    def _read(self, part: StepManifest, known: Arrays) -> list[Any]:
        """Return the arrays of a step's arguments, in its library, and None for an optional input that is left out."""
        names = self._names(part)
        tensors = [fake_triton.Tensor(n, known[n]) if n in known else None for n in names]
        return [tensor and self._arrays.read(tensor) for tensor in tensors]

    def _select(self, part: StepManifest, known: Arrays) -> Arrays:
        return {name: known[name] for name in self._names(part) if name in known}

    def _names(self, part: StepManifest) -> list[Any]:
        """Return the tensors that are a step's arguments.

        If steps share a model, these are names in the pipeline, or None if nothing feeds an argument.
        """
        bound = {t["name"]: t["tensor"] for t in part["input"]} if self._fused else {}
        return [bound.get(name, name) for name in part["arguments"].values()]

    def _first(self) -> tuple[Any, ...]:
        """Return the arguments that a step gets before its inputs: the position, if its model has sequences."""
        if "sequence_batching" not in self._config:
            return ()
        return (self._calls.position_of(self._request),)

    def _convert(self, outputs: Mapping[str, Any]) -> Arrays:
        return {n: self._arrays.tensor(n, array).as_numpy() for n, array in outputs.items()}


async def _collect(returned: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in returned]


async def _run_awaitable(returned: Any) -> Any:
    return await returned


def _debug(code: Any, run: Callable[[], list[Arrays]]) -> list[Arrays]:
    """Call `run` in the debugger, which stops at the beginning of `code`."""
    lines = [line for _, line in dis.findlinestarts(code) if line]
    first = next((line for line in lines if line > code.co_firstlineno), code.co_firstlineno)
    debugger = pdb.Pdb(skip=NOT_THE_OWNERS)
    debugger.set_break(code.co_filename, first, temporary=True)
    debugger.rcLines.append("continue")  # it would stop before the step too
    return debugger.runcall(run) or []


def _import_from(root: Path, folder: Path) -> None:
    """Let `steps` be the owner's folder, and the rest what the step has in Triton, without more of the project."""
    sys.modules["triton_python_backend_utils"] = fake_triton
    sys.path[:] = [
        str(root / "src"),
        str(folder),
        *(p for p in sys.path if Path(p).resolve() != root),
    ]
    code = root / "steps" / "__init__.py"
    spec = spec_from_file_location("steps", code) if code.exists() else None
    spec = spec or ModuleSpec("steps", None, is_package=True)
    spec.submodule_search_locations = [str(root / "steps")]
    package = sys.modules["steps"] = module_from_spec(spec)
    if spec.loader:
        spec.loader.exec_module(package)


def from_owner(project: Project, trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the owner's code on, or None if the owner's code is not in it."""
    folders = [f"{project.root / name}/" for name in ("steps", "src")]
    while trace and not trace.tb_frame.f_code.co_filename.startswith(tuple(folders)):
        trace = trace.tb_next
    return trace
