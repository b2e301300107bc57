"""Add Triton's metrics to Ray's, so that a scrape of the cluster's nodes includes each replica's Triton."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from ray.serve.metrics import Gauge

PERIOD_S = 5.0


class Exporter:
    """Copies the metrics of a Triton to Ray's every few seconds, in a thread, until it is stopped.

    Ray adds `ray_` before their names, and labels of node and replica. Its counters can't be set, so all
    are gauges. `rate` takes them as what they are.
    """

    def __init__(self, read: Callable[[], str]) -> None:
        self._read, self._stopped = read, threading.Event()
        self._gauges: dict[str, Gauge] = {}
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def stop(self) -> None:
        """Copy no more."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_S):
            try:
                text = self._read()
            except OSError:
                continue  # it ends, or is replaced with the replica
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    # The parser adds `_total` to the name of a counter that has none.
                    known = f"{sample.name}{{" in text
                    name = sample.name if known else sample.name.removesuffix("_total")
                    self._gauge(name, family, sample.labels).set(sample.value, dict(sample.labels))

    def _gauge(self, name: str, family: Metric, labels: Iterable[str]) -> Gauge:
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, family.documentation, tuple(labels))
        return self._gauges[name]
