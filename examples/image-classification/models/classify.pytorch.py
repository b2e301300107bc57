# Yours: written once, never touched by `make update`.
"""How the model file of step classify is made: trained in a second, saved as TorchScript."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.digits import classifier


class Classifier(nn.Module):
    """pixels FP32[batch, 64] -> logits FP32[batch, 10]."""

    def __init__(self, hidden: nn.Linear, output: nn.Linear) -> None:
        super().__init__()
        self.hidden = hidden
        self.output = output

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.output(torch.relu(self.hidden(pixels)))
        return logits


def build(path: Path) -> None:
    """Write a TorchScript file; Triton knows its input by the name of forward's argument."""
    hidden, output = map(_linear, classifier().coefs_, classifier().intercepts_)
    module = Classifier(hidden, output).eval().requires_grad_(False)
    torch.jit.save(torch.jit.script(module), path)


def _linear(weights: NDArray[np.float32], bias: NDArray[np.float32]) -> nn.Linear:
    inputs, outputs = weights.shape
    layer = nn.Linear(inputs, outputs)
    layer.weight.data = torch.from_numpy(weights.T)
    layer.bias.data = torch.from_numpy(bias)
    return layer


def reference(inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """What the file must answer: tests/test_reference.py compares."""
    return {"logits": classifier().predict_proba(inputs["pixels"])}
