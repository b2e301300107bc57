"""The server under load: what it says of its models, and how busy its machine is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.bench.closed_loop import Address
from triton_ensemble.bench.figures import ModelTimes
from triton_ensemble.project import ENSEMBLE, REPOSITORY
from triton_ensemble.server.local_triton import LocalTriton

Counters = dict[str, Counter[str]]


class ServerUnderLoad:
    """A Triton that serves the ensemble, inside a `with` block; RuntimeError if there is none.

    `local`: it runs on this machine, and for us alone.
    """

    def __init__(self, url: str, *, local: bool = False) -> None:
        parts = urlsplit(url)
        secure = parts.scheme in ("https", "grpcs")
        self.url, self.local = url, local
        self.address = Address(_target(url), secure)
        self.client = grpc.InferenceServerClient(self.address.target, ssl=secure)

    def __enter__(self) -> ServerUnderLoad:
        names = sorted(path.parent.name for path in REPOSITORY.glob("*/config.pbtxt"))
        try:
            self.client.is_server_ready(client_timeout=10)
            self.configs = {name: self.config(name) for name in names}
        except InferenceServerException as error:
            self.client.close()
            raise RuntimeError(self._problem(error)) from None
        return self

    def _problem(self, error: InferenceServerException) -> str:
        if "UNAVAILABLE" not in str(error.status()):
            return f"{self.url} does not serve this project: {error.message()}"
        return (
            f"no Triton takes gRPC at {self.address.target} ({error.message()}); "
            "write TRITON_URL=grpc://host:port, or its port as GRPC_PORT"
        )

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def config(self, model: str) -> Any:
        """The model's ModelConfig as it is served; as it is here, where the server keeps it to itself."""
        try:
            return self.client.get_model_config(model, client_timeout=10).config
        except InferenceServerException as error:
            if "restricted" not in error.message():
                raise
            text = (REPOSITORY / model / "config.pbtxt").read_text()
            return text_format.Parse(text, model_config_pb2.ModelConfig())

    def has(self, field: str) -> bool:
        """Whether a model's config has the field."""
        return any(config.HasField(field) for config in self.configs.values())

    @property
    def decoupled(self) -> bool:
        return any(c.model_transaction_policy.decoupled for c in self.configs.values())

    def counters(self) -> Counters:
        """What each model of the project has done since it loaded, all versions together."""
        found: Counters = {}
        try:
            entries = self.client.get_inference_statistics(client_timeout=10).model_stats
        except InferenceServerException:  # a server may keep them to itself
            return found
        for entry in entries:
            if entry.name in self.configs:
                found.setdefault(entry.name, Counter()).update(_counter(entry))
        return found


def _target(url: str) -> str:
    """host:port for gRPC. With the address of HTTP, it is the same host's GRPC_PORT."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname:
        raise RuntimeError(f"{url} is no server; write grpc://host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    over_grpc = parts.scheme.startswith("grpc")
    return f"{host}:{(parts.port if over_grpc else None) or os.environ.get('GRPC_PORT', 8001)}"


def _counter(entry: Any) -> Counter[str]:
    stats, batches = entry.inference_stats, entry.batch_stats
    parts = ("compute_input", "compute_infer", "compute_output")
    return Counter(
        requests=stats.success.count,
        failed=stats.fail.count,
        rows=entry.inference_count,
        executions=entry.execution_count,
        cache_hits=stats.cache_hit.count,
        request_ns=stats.success.ns,
        queue_ns=stats.queue.ns,
        compute_ns=sum(getattr(stats, part).ns for part in parts),
        busy_ns=sum(getattr(batch, part).ns for batch in batches for part in parts),
    )


def model_times(
    before: Counters, after: Counters, seconds: float, configs: Any
) -> list[ModelTimes]:
    """Of the models that worked in between, but for ensembles; in the pipeline's order."""
    found = []
    for name in in_order(configs):
        done = Counter(after.get(name, {}))
        done.subtract(before.get(name, {}))
        if done["requests"] > 0 and configs[name].platform != "ensemble":
            found.append(_times(name, done, seconds, instances(configs[name])))
    return found


def in_order(configs: Any) -> list[str]:
    """The models as the ensemble's steps come to them, then those that they call."""
    found = [ENSEMBLE]
    for name in found:  # it grows
        steps = configs[name].ensemble_scheduling.step if name in configs else []
        found += [step.model_name for step in steps if step.model_name not in found]
    return [name for name in dict.fromkeys([*found, *sorted(configs)]) if name in configs]


def _times(name: str, done: Counter[str], seconds: float, count: int) -> ModelTimes:
    return ModelTimes(
        name,
        requests=done["requests"],
        batch=done["rows"] / max(done["executions"], 1),
        queue_us=done["queue_ns"] / done["requests"] / 1000,
        compute_us=done["compute_ns"] / done["requests"] / 1000,
        instances=count,
        busy=done["busy_ns"] / 1e9 / seconds / count,
        cache_hits=done["cache_hits"],
    )


def instances(config: Any) -> int:
    counts = (group.count * max(len(group.gpus), 1) for group in config.instance_group)
    return max(int(sum(counts)), 1)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def cpu_times() -> tuple[float, float]:
    """Busy and all CPU time of this machine since it started, in the same unit."""
    user, nice, system, idle, iowait, *others = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    busy = user + nice + system + sum(others)
    return busy, busy + idle + iowait


@contextmanager
def under_load(*server_args: str) -> Iterator[ServerUnderLoad]:
    """The server at TRITON_GRPC_URL or TRITON_URL, else a local one that runs meanwhile with `server_args`."""
    if url := os.environ.get("TRITON_GRPC_URL") or os.environ.get("TRITON_URL"):
        with ServerUnderLoad(url) as server:
            yield server
        return
    print("Starting a local Triton ...", flush=True)
    with LocalTriton(REPOSITORY, ENSEMBLE, server_args=server_args) as triton:
        print(*triton.notes, sep="\n", end="\n" if triton.notes else "")
        with ServerUnderLoad(triton.grpc_url, local=True) as server:
            yield server
