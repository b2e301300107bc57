"""A client that calls each step's model of a Triton in turn, instead of the ensemble. For serving.Program.

python -m benchmarks.peers.by_client HOST:PORT MODELS ROW ...; MODELS is JSON, [[name, {input: tensor}, {output: tensor}], ...]
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferInput, InferRequestedOutput  # type: ignore[import-untyped]
from tritonclient.grpc.aio import InferenceServerClient  # type: ignore[import-untyped]
from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

from benchmarks.peers.driver import obey

Tensors = dict[str, NDArray[Any]]


class Caller:
    """The pipeline as a client's code has it, over one connection."""

    def __init__(self, client: InferenceServerClient, models: list[Any], rows: list[bytes]) -> None:
        self._client, self._models, self._rows = client, models, rows

    async def ask(self, row: int) -> Tensors:
        """Return the outputs of the last model for a row."""
        [(name, _)] = self._models[0][1].items()
        tensors: Tensors = {self._models[0][1][name]: np.array([[self._rows[row]]], np.object_)}
        outputs: Tensors = {}
        for model, given, wanted in self._models:
            outputs = await self._infer(
                model, {name: tensors[tensor] for name, tensor in given.items()}, wanted
            )
            tensors |= outputs
        return outputs

    async def _infer(self, model: str, inputs: Tensors, outputs: dict[str, str]) -> Tensors:
        given = []
        for name, array in inputs.items():
            given.append(InferInput(name, array.shape, np_to_triton_dtype(array.dtype)))
            given[-1].set_data_from_numpy(array)
        wanted = [InferRequestedOutput(name) for name in outputs]
        result = await self._client.infer(model, given, outputs=wanted)
        return {tensor: result.as_numpy(name) for name, tensor in outputs.items()}

    async def load(self, concurrency: int, seconds: float) -> list[float]:
        """Return the seconds that each answer took."""
        took: list[float] = []
        end = time.perf_counter() + seconds

        async def asked(row: int) -> None:
            while (start := time.perf_counter()) < end:
                await self.ask(row % len(self._rows))
                took.append(time.perf_counter() - start)
                row += concurrency

        await asyncio.gather(*map(asked, range(concurrency)))
        return took


def texts(outputs: Tensors) -> dict[str, Any]:
    """Return outputs as JSON has them."""
    return {
        name: np.char.decode(rows.astype(bytes)).tolist() if rows.dtype == object else rows.tolist()
        for name, rows in outputs.items()
    }


def main() -> None:
    url, models, *names = sys.argv[1:]
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    rows = [Path(name).read_bytes() for name in names]

    async def connected() -> InferenceServerClient:
        return InferenceServerClient(url)

    caller = Caller(loop.run_until_complete(connected()), json.loads(models), rows)

    def load(concurrency: int, seconds: float) -> tuple[int, list[float]]:
        took = loop.run_until_complete(caller.load(concurrency, seconds))
        return len(took), took

    obey(lambda row: texts(loop.run_until_complete(caller.ask(row))), load)


if __name__ == "__main__":
    main()
