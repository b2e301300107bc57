"""bentoml serve server:Pipeline --port PORT; a worker for each core, and adaptive batching."""

import base64
import os
from typing import Any

import bentoml


@bentoml.service(workers=int(os.environ["CORES"]))
class Pipeline:
    def __init__(self) -> None:
        from pipeline import answers

        self.answers = answers

    @bentoml.api(batchable=True, max_batch_size=8, max_latency_ms=60_000)
    def infer(self, rows: list[str]) -> list[dict[str, Any]]:
        return self.answers([base64.b64decode(row) for row in rows])
