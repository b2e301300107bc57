"""A REST service before Triton, for people who do not speak tensors: what `gateway/` of a project is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triton_ensemble.gateway import worker

if TYPE_CHECKING:
    from triton_ensemble.gateway.api import (
        Key,
        Pipeline,
        Text,
        service,
    )

__all__ = ["Key", "Pipeline", "Text", "service"]
worker.reserve()  # before another module imports prometheus_client


def __getattr__(name: str) -> object:
    """Import a name of the gateway when it is asked for.

    The process that starts the workers needs none of them, nor the time that importing FastAPI takes.
    """
    if name not in __all__:
        raise AttributeError(name)
    from triton_ensemble.gateway import api

    return getattr(api, name)
