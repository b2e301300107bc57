"""A step's context in Triton: its log, its metrics, and the models that it calls."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Protocol

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from triton_step import Context, Counter, Metrics

from .arrays import NumpyArrays
from .calls import Answered, Call
from .seams import ModelConfig, StepManifest

FLUSH_SECONDS = 0.5
VERSION_FOLDER = Path(__file__).parents[1]  # of the model: the adapter is a folder in it

if isinstance(sys.stdout, TextIOWrapper):
    # What a step prints comes when it does, not when its process ends; and fails in no locale.
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def printable(text: str) -> str:
    """Return a text as Triton can take it: a path beyond ASCII has surrogates in a process whose locale is C."""
    return text.encode("utf-8", "backslashreplace").decode()


class TritonHandler(logging.Handler):
    """Hands log records to Triton's log."""

    def emit(self, record: logging.LogRecord) -> None:
        text, logger = printable(self.format(record)), pb_utils.Logger
        if record.levelno >= logging.ERROR:
            logger.log_error(text)
        elif record.levelno >= logging.WARNING:
            logger.log_warn(text)
        else:
            logger.log_info(text)


class Metric(Protocol):
    """A metric of Triton."""

    def increment(self, by: float) -> None: ...


class TritonMetrics(Metrics):
    """Counters that a thread carries to Triton: a metric costs Triton 17 us each time it moves, a good part of a cheap request."""

    def __init__(self, labels: Mapping[str, str], process: str) -> None:
        super().__init__()
        self._labels = dict(labels)
        self._shown: dict[str, tuple[object, Metric]] = {}
        # Triton notices late, or never, that a process has died: this one stops growing.
        name = "step_process_seconds_total"
        description = "Seconds that the step's processes have lived; its rate is how many do"
        self._add_counter(name, description, self._labels | {"process": process})
        self._lived = self.counter(name, description)
        threading.Thread(target=self._flush_for_ever, daemon=True).start()

    def counter(self, name: str, description: str) -> Counter:
        if name not in self._shown:
            self._add_counter(name, description, self._labels)
        return super().counter(name, description)

    def _add_counter(self, name: str, description: str, labels: dict[str, str]) -> None:
        kind = pb_utils.MetricFamily.COUNTER
        family = pb_utils.MetricFamily(name=name, description=description, kind=kind)
        # Triton drops a family that nothing refers to.
        self._shown[name] = family, family.Metric(labels=labels)

    def _flush_for_ever(self) -> None:
        wait, sent, last = threading.Event(), dict[str, float](), perf_counter()
        while not wait.wait(FLUSH_SECONDS):
            self._lived.add(perf_counter() - last)
            last = perf_counter()
            for (name, _), counter in list(self.counters.items()):
                if more := counter.value - sent.get(name, 0.0):
                    self._shown[name][1].increment(more)
                    sent[name] = sent.get(name, 0.0) + more


def step_context(
    manifest: StepManifest,
    args: Mapping[str, str],
    config: ModelConfig,
    arrays: NumpyArrays,
    answered: Answered,
    call: type[Call],
) -> Context:
    name, version = manifest["name"], args["model_version"]
    labels = {"model": args["model_name"], "version": version, "step": name}
    calls = {spelled: call(model, arrays, answered) for spelled, model in manifest["calls"].items()}
    return Context(
        parameters={key: value["string_value"] for key, value in config["parameters"].items()},
        directory=VERSION_FOLDER,
        version=version,
        device=device(args),
        logger=step_logger(name),
        metrics=TritonMetrics(labels, args["model_instance_name"]),
        calls=SimpleNamespace(**calls),
    )


def step_logger(name: str) -> logging.Logger:
    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [TritonHandler()], False
    logger.setLevel(logging.INFO)
    return logger


def device(args: Mapping[str, str]) -> str:
    on_gpu = args["model_instance_kind"] == "GPU"
    return f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
