"""The command adopt: an existing model repository -> a pipeline.yml that generates equal configs, or the reason why Triton would refuse it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from adopt_support import (
    CORPUS,
    adopt,  # noqa: F401
    alone,
    write,
)
from support import ROOT, run, succeed


def test_as_a_command(tmp_path: Path) -> None:
    repository = write(tmp_path / "repository", alone())
    command = (sys.executable, "-m", "triton_ensemble", "adopt", str(repository))
    assert "project_name: e" in succeed(run(*command, cwd=ROOT, PYTHONPATH="src"))


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of public ensembles")
def test_the_corpus_of_public_ensembles() -> None:
    spec = importlib.util.spec_from_file_location("measure", CORPUS / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    records = json.loads((CORPUS / "public-ensembles.json").read_text())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(lambda record: measure.measure(record, ROOT), records))
    bad = {
        record["id"]: verdict
        for record, verdict in zip(records, verdicts, strict=True)
        if verdict[0] != "equal" and not (verdict[0] == "refused" and record.get("triton_refuses"))
    }
    assert len(records) - len(bad) >= 49, bad
