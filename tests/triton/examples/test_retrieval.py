"""The starting pipeline retrieval behind the gateway, asked by OpenAI's client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from docs_blocks import read_blocks
from gateway_service import gateway
from support import PIPELINES, ROOT, Generate, run, serve, succeed

pytestmark = pytest.mark.slow

SHOW = "\nimport json; print(json.dumps([asked, vectors, results]))"


def test_openais_client_is_answered_as_the_tutorial_says(
    generate: Generate, tmp_path: Path
) -> None:
    page = (ROOT / "docs/tutorial-retrieval.md").read_text()
    [code] = [code for code in read_blocks(page, "python") if "import OpenAI" in code]
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path))
    succeed(run(*pip, "openai==3.57.0", cwd=tmp_path))
    project = generate.complete(**PIPELINES["retrieval"], extras=["gateway"])
    with serve(project) as server, gateway(project, server.urls["grpc"]) as service:
        code = code.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}") + SHOW
        ask = (sys.executable, "-c", code)
        said = succeed(run(*ask, cwd=tmp_path, PYTHONPATH=str(tmp_path))).splitlines()
        asked, vectors, results = json.loads(said[1])
        with project.client(server.urls["grpc"]) as client:
            texts = np.array([[text.encode()] for text in asked["documents"]], object)
            queries = np.full_like(texts, asked["query"].encode())
            answer = client.infer({"TEXT": texts, "QUERY": queries})
    assert said[0].startswith("Triton joins")
    np.testing.assert_allclose(vectors, answer["EMBEDDING"], rtol=0, atol=1e-6)
    assert [result["index"] for result in results] == [1, 0]
    scores = [result["relevance_score"] for result in results]
    np.testing.assert_allclose(scores, answer["SCORE"][::-1, 0], rtol=0, atol=1e-6)
