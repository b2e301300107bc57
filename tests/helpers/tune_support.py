"""Shared by tests: `make tune`: its edits of pipeline.yml, the configs it tries, and all of it on a real Triton."""

from __future__ import annotations

from tritonclient import grpc  # type: ignore[import-untyped]


def instances(url: str) -> int:
    """Return how many the server has of the step."""
    with grpc.InferenceServerClient(url.removeprefix("grpc://")) as client:
        return int(client.get_model_config("only").config.instance_group[0].count)
