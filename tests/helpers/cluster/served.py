"""A pod that runs: waited for by a probe, and asked by the smoke tests of its project."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cluster.pods import Pod
from support import Project, succeed


@contextmanager
def running(pod: Pod, probe: Mapping[str, Any], timeout_s: float) -> Iterator[Pod]:
    """Run a pod, from when a probe passes on."""
    try:
        pod.start()
        end = time.monotonic() + timeout_s
        while not asyncio.run(pod.passes(dict(probe))):
            assert pod.process.poll() is None, pod.log.read_text()
            assert time.monotonic() < end, pod.log.read_text()
            time.sleep(0.2)
        yield pod
    finally:
        pod.remove()


def smoke_tests(project: Project, pod: Pod) -> str:
    """Return what the smoke tests print through the ports that the pod names. They pass."""
    urls = {"TRITON_URL": pod.url("http"), "TRITON_GRPC_URL": pod.url("grpc")}
    metrics = f"{pod.url('metrics')}/metrics"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_live.py")
    return succeed(project.run(sys.executable, *command, **urls, TRITON_METRICS_URL=metrics))
