"""python server.py PORT CORES; a worker for each core and ZeroMQ, as LitServe's own documentation advises for CPUs and many requests."""

import base64
import sys
from typing import Any

import litserve


class Pipeline(litserve.LitAPI):
    def setup(self, device: str) -> None:
        from pipeline import answers  # in the worker's own process

        self.answers = answers

    def decode_request(self, request: dict[str, str]) -> bytes:
        return base64.b64decode(request["input"])

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def predict(self, rows: list[bytes]) -> list[dict[str, Any]]:
        return self.answers(rows)

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        return output


if __name__ == "__main__":
    port, cores = map(int, sys.argv[1:])
    api = Pipeline(max_batch_size=8, batch_timeout=0.0001)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=cores, fast_queue=True)
    server.run(port=port, log_level="error", generate_client_file=False)
