# Yours: written once, never touched by `make update`.
"""Exports a Stable Diffusion 1 or 2 to models/NAME/1/model.onnx, and its tokenizer to steps/generate/.

    python3 -m venv build/export
    build/export/bin/pip install --requirement models/export.txt
    build/export/bin/python -m models.export FOLDER

FOLDER is one of diffusers, or a name on Hugging Face. Each file is compared with its original at two sizes.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline
from torch import Tensor, nn
from torch.export import Dim

from steps.ddim import ALPHAS

ROOT = Path(__file__).parents[1]
TOKENIZER = ROOT / "steps/generate/tokenizer.json"
LENGTH = 77  # of a text, in tokens
CHANNELS, SCALE = 4, 8  # of latents, of which one is 8 x 8 pixels
OPSET = 18  # the lowest that torch exports to
TOLERANCE = 1e-3  # of the largest value
# What is exported, and the other size that it is compared at: rows, height and width of latents.
SIZES = (2, 32, 32), (4, 24, 40)
WHOLE = {
    "token_ids": 500,
    "timestep": len(ALPHAS),
}  # inputs that are not real numbers: what they are below


class Model(NamedTuple):
    """A function of tensors, the module that it calls, and the names and dims of its inputs, -1 where they vary."""

    module: nn.Module
    function: Callable[..., Any]
    inputs: Mapping[str, tuple[int, ...]]
    output: str


class Graph(nn.Module):  # type: ignore[misc, unused-ignore]
    """A model as torch exports it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.module, self.function = model.module, model.function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def models(original: Any) -> dict[str, Model]:
    """Return the three models, with the tensors that pipeline.yml declares."""
    encoder, unet, vae = original.text_encoder, original.unet, original.vae
    predicts = original.scheduler.config.prediction_type
    alphas = torch.tensor(ALPHAS, dtype=torch.float32)

    def denoise(latents: Tensor, timestep: Tensor, embeddings: Tensor) -> Any:
        answer = unet(latents, timestep[:, 0], embeddings, return_dict=False)[0]
        if predicts == "epsilon":
            return answer
        alpha = alphas[timestep][..., None, None]  # v_prediction: Salimans and Ho 2022, appendix D
        return alpha.sqrt() * answer + (1 - alpha).sqrt() * latents

    def decode(latents: Tensor) -> Any:
        return vae.decode(latents / vae.config.scaling_factor, return_dict=False)[0]

    latents, width = (unet.config.in_channels, -1, -1), encoder.config.hidden_size
    texts = {"token_ids": (LENGTH,)}
    noisy = {"latents": latents, "timestep": (1,), "embeddings": (LENGTH, width)}
    return {
        "text_encoder": Model(encoder, lambda ids: encoder(ids)[0], texts, "embeddings"),
        "denoiser": Model(unet, denoise, noisy, "noise"),
        "vae": Model(vae, decode, {"latents": latents}, "pixels"),
    }


def problem(original: Any) -> str:
    """Return why steps/generate.py can't drive a pipeline; "" where it can."""
    schedule = DDIMScheduler.from_config(original.scheduler.config)
    if not np.allclose(schedule.alphas_cumprod, ALPHAS, rtol=1e-3):
        return "its noise is not that of steps/ddim.py; change ALPHAS there"
    if schedule.config.prediction_type not in ("epsilon", "v_prediction"):
        return (
            f"it predicts {schedule.config.prediction_type}; take one that predicts the noise or v"
        )
    if original.unet.config.in_channels != CHANNELS:
        return f"its denoiser takes more than {CHANNELS} channels; take one that makes images of texts alone"
    if original.vae_scale_factor != SCALE or original.tokenizer.model_max_length != LENGTH:
        return (
            f"its latents are not of {SCALE} x {SCALE} pixels, or its texts not of {LENGTH} tokens"
        )
    return ""


def example(model: Model, size: tuple[int, int, int]) -> tuple[Tensor, ...]:
    """Return random inputs of a size."""
    rows, *sides = size
    shapes = {
        name: (rows, dims[0], *sides) if -1 in dims else (rows, *dims)
        for name, dims in model.inputs.items()
    }
    return tuple(
        torch.randint(WHOLE[name], shape) if name in WHOLE else torch.randn(shape)
        for name, shape in shapes.items()
    )


def export(model: Model, path: Path) -> None:
    """Write an ONNX file, and beside it its weights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    vary = tuple(
        {0: Dim.DYNAMIC, **{axis: Dim.DYNAMIC for axis, dim in enumerate(dims, 1) if dim < 0}}
        for dims in model.inputs.values()
    )
    torch.onnx.export(
        Graph(model).eval(),
        example(model, SIZES[0]),
        path,
        dynamo=True,
        verbose=False,
        external_data=True,
        opset_version=OPSET,
        input_names=list(model.inputs),
        output_names=[model.output],
        dynamic_shapes=(vary,),
    )


def difference(model: Model, path: Path, size: tuple[int, int, int]) -> float:
    """Return how far a file's answer is from the original's, as a part of the largest value."""
    inputs = example(model, size)
    with torch.no_grad():
        wanted = model.function(*inputs).numpy()
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {name: array.numpy() for name, array in zip(model.inputs, inputs, strict=True)}
    [answer] = session.run([model.output], feeds)
    return float(np.abs(answer - wanted).max() / np.abs(wanted).max())


def save_tokenizer(original: Any) -> None:
    """Write it with what it does to a text: to cut off, and to pad."""
    tokenizer = original.tokenizer.backend_tokenizer
    padding = {"pad_id": original.tokenizer.pad_token_id, "pad_token": original.tokenizer.pad_token}
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH, **padding)
    tokenizer.save(str(TOKENIZER))


def main() -> None:
    parser = argparse.ArgumentParser(description="Exports a Stable Diffusion 1 or 2 to ONNX.")
    parser.add_argument("folder", help="of diffusers, or a name on Hugging Face")
    folder = parser.parse_args().folder
    original = StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    if reason := problem(original):
        raise SystemExit(f"{folder}: {reason}")
    torch.manual_seed(0)
    for name, model in models(original).items():
        path = ROOT / "models" / name / "1/model.onnx"
        export(model, path)
        off = max(difference(model, path, size) for size in SIZES)
        print(
            f"{path.relative_to(ROOT)}: {off:.0e} of the largest value off the original", flush=True
        )
        if not off <= TOLERANCE:
            raise SystemExit(f"{path.relative_to(ROOT)}: answers unlike the original")
    save_tokenizer(original)
    print(f"{TOKENIZER.relative_to(ROOT)}: written")
    width, size = original.text_encoder.config.hidden_size, original.unet.config.sample_size * SCALE
    print(f"pipeline.yml: embeddings have dims: [{LENGTH}, {width}]; width and height are {size}")


if __name__ == "__main__":
    main()
