"""The ROLL of docs/versions.md for KServe, by the real kubectl: what stands for the cluster answers it alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, run
from web import Handler, serve_http

SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"
KINDS = {
    "apps/v1": ("deployments", "Deployment"),
    "serving.kserve.io/v1beta1": ("inferenceservices", "InferenceService"),
}
GROUPS = [
    {
        "name": name.split("/")[0],
        "versions": [{"groupVersion": name, "version": name.split("/")[1]}],
    }
    for name in KINDS
]


class Cluster:
    """An InferenceService of version 2, and the Deployment of version 1, which may become that of 2."""

    def __init__(self, changes_after_s: float) -> None:
        self._changes_at = time.monotonic() + changes_after_s

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment, one of whose two pods is of version 2 in the second after its change."""
        since = time.monotonic() - self._changes_at
        version = 2 if since > 0 else 1
        pods = {name: 2 for name in ("replicas", "readyReplicas", "availableReplicas")}
        annotations = {SOURCE: f"s3://models/myproj/{version}/"}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "myproj-predictor", "namespace": "default", "generation": version},
            "spec": {"replicas": 2, "template": {"metadata": {"annotations": annotations}}},
            "status": {
                **pods,
                "updatedReplicas": 1 if 0 < since < 1 else 2,
                "observedGeneration": version,
            },
        }

    def answer(self, path: str) -> dict[str, Any]:
        if path in ("/api", "/apis"):
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": GROUPS}
        if (group := path.removeprefix("/apis/")) in KINDS:
            name, kind = KINDS[group]
            row = {"name": name, "kind": kind, "namespaced": True, "verbs": ["get"]}
            return {"kind": "APIResourceList", "groupVersion": group, "resources": [row]}
        if path.endswith("/inferenceservices/myproj"):
            return {
                "apiVersion": "serving.kserve.io/v1beta1",
                "kind": "InferenceService",
                "metadata": {"name": "myproj"},
                "spec": {"predictor": {"model": {"storageUri": "s3://models/myproj/2/"}}},
            }
        return self.deployment()

    def watched(self) -> Iterator[dict[str, Any]]:
        """Yield what a watch of the Deployment is told: what there is, that this is all, and what becomes of it."""
        yield {"type": "ADDED", "object": self.deployment()}
        metadata = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        end = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
        yield {"type": "BOOKMARK", "object": end}
        for _ in range(20):
            time.sleep(0.5)
            yield {"type": "MODIFIED", "object": self.deployment()}


@contextmanager
def listening(cluster: Cluster) -> Iterator[str]:
    """Yield the address at which kubectl finds a cluster."""

    class Api(Handler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            watch = "watch=true" in query
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            for each in cluster.watched() if watch else [cluster.answer(path)]:
                self.wfile.write(json.dumps(each).encode() + b"\n")
                self.wfile.flush()

        def handle(self) -> None:
            with suppress(BrokenPipeError):  # kubectl has seen enough
                super().handle()

    with serve_http(Api) as place:
        yield f"http://{place}"


@pytest.mark.parametrize(("after_s", "status"), [(1.5, 0), (60, 1)])
def test_the_documented_roll_waits_for_the_controller(
    tmp_path: Path, after_s: float, status: int
) -> None:
    """Before the Deployment changes, `rollout status` alone would say that all is well."""
    page = (ROOT / "docs/versions.md").read_text()
    [roll] = re.findall(r"^(uri=.*?)^```", page, re.MULTILINE | re.DOTALL)
    cluster = Cluster(after_s)
    with listening(cluster) as url:
        script = roll.replace("kubectl ", f"kubectl --server={url} ").replace("2m", "3s")
        ended = run("sh", "-ec", script, cwd=tmp_path, HOME=str(tmp_path))
    assert ended.returncode == status, ended.stderr
    if status:
        assert "timed out waiting for the condition" in ended.stderr
    else:
        assert "1 out of 2 new replicas have been updated" in ended.stdout
        assert "successfully rolled out" in ended.stdout
