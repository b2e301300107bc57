"""python server.py PORT CORES; a replica for each core."""

import sys
from typing import Any

from ray import serve
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=128, ray_actor_options={"num_cpus": 0.5})
class Pipeline:
    def __init__(self) -> None:
        from pipeline import answers

        self.answers = answers

    @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.0001)
    async def batch(self, rows: list[bytes]) -> list[dict[str, Any]]:
        return self.answers(rows)

    async def __call__(self, request: Request) -> dict[str, Any]:
        return await self.batch(await request.body())


if __name__ == "__main__":
    port, cores = map(int, sys.argv[1:])
    serve.start(http_options={"port": port})
    serve.run(Pipeline.options(num_replicas=cores).bind(), blocking=True)  # type: ignore[attr-defined, unused-ignore]
