"""Compares the models of a running server with model_repository/."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

from google.protobuf import json_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.config.message import ModelConfig, new_config
from triton_ensemble.facts.config.repository import model_configs
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local.local_triton import get

TIMEOUT_S = 5


def find_outdated(project: Project, url: str) -> list[str]:
    """Return the models that the server at `url` serves with other tensors, batching or wiring than model_repository/ has.

    A server that does not show its configs, such as one with a certificate, counts as current.
    """
    try:
        configs = model_configs(project.repository)
        return [
            name
            for name, served in _read_served(url, [*configs]).items()
            if _differ(configs[name], served)
        ]
    except (InferenceServerException, OSError, ValueError):
        return []


def _read_served(url: str, models: list[str]) -> dict[str, ModelConfig]:
    """Return the config of each model as the server at `url` has it."""
    parts = urlsplit(url)
    if parts.scheme == "grpc":
        with grpc.InferenceServerClient(parts.netloc) as client:
            return {
                name: client.get_model_config(name, client_timeout=TIMEOUT_S).config
                for name in models
            }
    if parts.scheme != "http":
        return {}
    texts = {name: get(f"{url.rstrip('/')}/v2/models/{quote(name)}/config") for name in models}
    return {
        name: json_format.Parse(text, new_config(), ignore_unknown_fields=True)
        for name, text in texts.items()
    }


def _differ(written: ModelConfig, served: ModelConfig) -> bool:
    """Return whether the config as it is served differs in a fact that the written config states."""
    pairs = zip(_read_facts(written), _read_facts(served), strict=True)
    return any(fact and fact != other for fact, other in pairs)


def _read_facts(config: ModelConfig) -> list[Any]:
    """Return what a client notices of a config, and neither Triton nor the local run fills in."""
    batching = config.dynamic_batching
    return [
        config.max_batch_size,
        [*config.input],
        [*config.output],
        [*config.ensemble_scheduling.step],
        [*batching.preferred_batch_size],
        batching.max_queue_delay_microseconds,
    ]
