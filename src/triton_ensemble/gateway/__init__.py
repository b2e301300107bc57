"""A REST service before Triton, for people who do not speak tensors: what `gateway/` of a project is made of."""

from triton_ensemble.gateway.depends import Key, Pipeline
from triton_ensemble.gateway.service import Text, service

__all__ = ["Key", "Pipeline", "Text", "service"]
