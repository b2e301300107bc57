"""Whether traces are exported by OpenTelemetry, and Triton's part in them."""

from __future__ import annotations

import os
from collections.abc import Mapping

# A request without `traceparent` is not recorded: health checks would be traces of their own.
SETTINGS = ("mode=opentelemetry", "level=TIMESTAMPS", "rate=0")


def is_exported(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names a collector, in a variable that Triton's exporter reads, too."""
    return any(v for name, v in environment.items() if name.startswith("OTEL_EXPORTER_OTLP"))


def list_flags() -> list[str]:
    """Return the flags of a Triton that records the requests of traces."""
    return [f"--trace-config={setting}" for setting in SETTINGS] if is_exported() else []
