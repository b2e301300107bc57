"""python server.py PORT CORES; an instance for each core, and Triton's dynamic batching."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pipeline import OUTPUTS, outputs
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def infer(ROW: NDArray[np.object_]) -> dict[str, NDArray[Any]]:
    return outputs(ROW[:, 0])


if __name__ == "__main__":
    port, cores = map(int, sys.argv[1:])
    with Triton(
        config=TritonConfig(http_port=port, grpc_port=port + 1, metrics_port=port + 2)
    ) as triton:
        triton.bind(
            model_name="served",
            infer_func=[infer] * cores,
            inputs=[Tensor(name="ROW", dtype=bytes, shape=(1,))],
            outputs=[
                Tensor(name=name, dtype=dtype, shape=shape)
                for name, (dtype, shape) in OUTPUTS.items()
            ],
            config=ModelConfig(
                max_batch_size=8, batcher=DynamicBatcher(max_queue_delay_microseconds=100)
            ),
        )
        triton.serve()
