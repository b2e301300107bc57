# Yours: written once, never touched by `make update`.
"""How the model file of step denoiser is made, where models/denoiser/ has none: in small, with seeded weights.

To it, the images of a prompt are one mean, give or take VARIANCE; so the noise in latents is known exactly. The mean is
what cross-attention finds for each place of the image among the tokens of the prompt.
"""

from pathlib import Path

import numpy as np

from models.graph import save
from models.text_encoder import WIDTH
from steps.ddim import ALPHAS

CHANNELS, WAVES = 4, 12
VARIANCE = 0.1

GRAPH = """
denoiser (float[batch, 4, height, width] latents, int64[batch, 1] timestep, float[batch, 77, 16] embeddings)
=> (float[batch, 4, height, width] noise) {
    ones = Conv (latents, none, one)
    y = CumSum (ones, height_axis)
    x = CumSum (ones, width_axis)
    place = Concat <axis = 1> (y, x)
    angles = Conv (place, frequencies, phases)
    waves = Sin (angles)
    queried = Conv (waves, to_query)
    queries = Reshape (queried, flat)
    keys = MatMul (embeddings, to_key)
    scores = MatMul (keys, queries)
    shares = Softmax <axis = 1> (scores)
    valued = MatMul (embeddings, to_value)
    values = Transpose <perm = [0, 2, 1]> (valued)
    mixed = MatMul (values, shares)
    size = Shape (latents)
    mean = Reshape (mixed, size)
    kept = Gather (alphas, timestep)
    alpha = Unsqueeze (kept, pixel_axes)
    root = Sqrt (alpha)
    shown = Mul (root, mean)
    unlike = Sub (latents, shown)
    share = Gather (noise_shares, timestep)
    factor = Unsqueeze (share, pixel_axes)
    noise = Mul (unlike, factor)
}
"""


def build(path: Path) -> None:
    """Write an ONNX file: latents FP32[batch, 4, height, width], timestep INT64[batch, 1], embeddings
    FP32[batch, 77, 16] -> noise, of the latents' shape."""
    normal = np.random.default_rng(1).standard_normal
    floats = {
        "none": np.zeros((1, CHANNELS, 1, 1)),
        "one": np.ones(1),
        "frequencies": normal((WAVES, 2, 1, 1)) * 0.4,
        "phases": normal(WAVES) * np.pi,
        "to_query": normal((WIDTH, WAVES, 1, 1)) * 1.0,
        "to_key": normal((WIDTH, WIDTH)) * 0.5,
        "to_value": normal((WIDTH, CHANNELS)) * 0.05,
        "alphas": ALPHAS,
        "noise_shares": np.sqrt(1 - ALPHAS) / (ALPHAS * VARIANCE + 1 - ALPHAS),
    }
    integers = {"height_axis": 2, "width_axis": 3, "flat": [0, WIDTH, -1], "pixel_axes": [2, 3]}
    weights = {name: array.astype(np.float32) for name, array in floats.items()}
    save(path, GRAPH, **weights, **{name: np.array(value) for name, value in integers.items()})
