"""The flags of Triton in a container whose environment names a collector of traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import SOURCES, variables

SERVE = "import sys; from triton_ensemble.serve.container.serve import main; main(sys.argv[1:])"


@pytest.mark.parametrize(("endpoint", "is_traced"), [("", False), ("http://collector:4318", True)])
def test_triton_records_traces_where_they_are_sent(
    tmp_path: Path, endpoint: str, is_traced: bool
) -> None:
    triton = tmp_path / "tritonserver"
    triton.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/flags\n')
    triton.chmod(0o755)
    environment = {"PYTHONPATH": str(SOURCES), "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    environment["PATH"] = f"{tmp_path}:/usr/bin:/bin"
    command = (sys.executable, "-c", SERVE, "--model-repository=/models")
    # A pipe would stay open: the process that hides the key lives as long as this one.
    subprocess.run(command, env=variables(**environment), stdout=subprocess.DEVNULL, check=True)
    flags = (tmp_path / "flags").read_text()
    assert flags.startswith("--model-repository=/models ")
    assert ("--trace-config=mode=opentelemetry" in flags) is is_traced
