# Yours: written once, never touched by `make update`.
"""How the model file of step vae is made, where models/vae/ has none: in small, with seeded weights."""

from pathlib import Path

import numpy as np

from models.graph import save

GRAPH = """
vae (float[batch, 4, height, width] latents) => (float[batch, 3, y, x] pixels) {
    large = Resize <mode = "linear"> (latents, , scales)
    mixed = Conv (large, colours)
    pixels = Tanh (mixed)
}
"""


def build(path: Path) -> None:
    """Write an ONNX file: latents FP32[batch, 4, height, width] -> pixels FP32[batch, 3, 8 * height, 8 * width]."""
    colours = np.random.default_rng(2).standard_normal((3, 4, 1, 1), np.float32)
    save(path, GRAPH, scales=np.array([1, 1, 8, 8], np.float32), colours=colours)
