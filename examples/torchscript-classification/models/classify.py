# Yours: written once, never touched by `make update`.
"""How the model file of step classify is made: trained in seconds, saved as TorchScript."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor, nn

from models.photographs import SUBJECTS, split

SIZE = 32
EPOCHS = 8
BATCH = 32
RANGES = {"pixels": (0, 256)}  # what tests/test_reference.py sends


class Classifier(nn.Module):
    """pixels UINT8[batch, 3, 32, 32] -> logits FP32[batch, 5].

    It normalises its pixels itself, so that no step before it can do so twice, or forget it.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, pixels: Tensor) -> None:
        """`pixels`, those to train on, say what is normal for each channel."""
        super().__init__()
        channels = pixels.float()
        self.register_buffer("mean", channels.mean((0, 2, 3), keepdim=True))
        self.register_buffer("deviation", channels.std((0, 2, 3), keepdim=True))
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(SUBJECTS))),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.layers((pixels.float() - self.mean) / self.deviation)
        return logits


def build(path: Path) -> None:
    """Write a TorchScript file; Triton knows its input by the name of forward's argument."""
    torch.jit.save(torch.jit.script(classifier()), path)


@cache
def classifier() -> Classifier:
    """The trained network; always the same."""
    torch.set_num_threads(1)  # several add up in an order of their own
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        train, _ = split()
        pixels, labels = tensor(train.images), torch.from_numpy(train.labels)
        module = Classifier(pixels)
        _train(module, pixels, labels)
    return module.eval().requires_grad_(False)


def tensor(images: list[Image.Image]) -> Tensor:
    """UINT8[n, 3, 32, 32], made smaller as steps/preprocess.py does."""
    squares = [ImageOps.fit(image, (SIZE, SIZE), Image.Resampling.BILINEAR) for image in images]
    return torch.from_numpy(np.array([np.asarray(image) for image in squares])).permute(0, 3, 1, 2)


def _train(module: Classifier, pixels: Tensor, labels: Tensor) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(pixels)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(pixels[rows]), labels[rows]).backward()
            optimizer.step()


def reference(inputs: dict[str, NDArray[np.uint8]]) -> dict[str, NDArray[np.float32]]:
    """What the file must answer: tests/test_reference.py compares."""
    return {"logits": classifier()(torch.from_numpy(inputs["pixels"])).numpy()}
