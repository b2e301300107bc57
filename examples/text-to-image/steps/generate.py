# Yours: written once, never touched by `make update`.
"""Step generate: a prompt -> a PNG, by the models text_encoder, denoiser and vae, which it calls.

Tested without a server by tests/test_steps.py.
"""

import asyncio
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tokenizers import Tokenizer

from step_types import GenerateOutputs
from steps.ddim import denoised, timesteps
from triton_step import Context, InvalidRequest, text

TOKENIZER = Path(__file__).with_suffix("") / "tokenizer.json"  # pads, and cuts off, to 77 tokens
CHANNELS, SCALE = 4, 8  # of latents, of which one is 8 x 8 pixels
# By input: what a row is without it, the least and the most.
NUMBERS = {"STEPS": (20, 1, 100), "SEED": (0, 0, 2**63 - 1), "GUIDANCE": (7.5, 0, 50)}


class Step:
    """PROMPT, NEGATIVE STRING[batch, 1], STEPS INT32[batch, 1], SEED INT64[batch, 1],
    GUIDANCE FP32[batch, 1] -> IMAGE STRING[batch, 1], a PNG file each.

    What a request leaves out is None. Equal rows are equal images, whatever the others of a request are.
    Raises InvalidRequest, which names the row, for a number out of range.
    """

    def __init__(self, context: Context) -> None:
        self.calls = context.calls
        height, width = (int(context.parameters[name]) for name in ("height", "width"))
        self.shape = (1, CHANNELS, height // SCALE, width // SCALE)
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER))

    async def __call__(
        self,
        PROMPT: NDArray[np.object_],
        NEGATIVE: NDArray[np.object_] | None,
        STEPS: NDArray[np.int32] | None,
        SEED: NDArray[np.int64] | None,
        GUIDANCE: NDArray[np.float32] | None,
    ) -> GenerateOutputs:
        rows = zip(
            [""] * len(PROMPT) if NEGATIVE is None else text(NEGATIVE)[:, 0],
            text(PROMPT)[:, 0],
            _numbers("STEPS", STEPS, len(PROMPT)),
            _numbers("SEED", SEED, len(PROMPT)),
            _numbers("GUIDANCE", GUIDANCE, len(PROMPT)),
            strict=True,
        )
        # All rows wait for the models at the same time, and Triton joins what they ask into batches.
        images = await asyncio.gather(*(self._image(*row) for row in rows))
        return {"IMAGE": np.array(images, np.object_).reshape(-1, 1)}

    async def _image(
        self, negative: str, prompt: str, steps: int, seed: int, guidance: float
    ) -> bytes:
        tokens = self.tokenizer.encode_batch([negative, prompt])
        answer = await self.calls.text_encoder(token_ids=np.array([text.ids for text in tokens]))
        embeddings = answer["embeddings"]
        latents = np.random.default_rng(seed).standard_normal(self.shape, np.float32)
        for timestep, following in pairwise([*timesteps(steps), 0]):
            answer = await self.calls.denoiser(
                latents=np.repeat(latents, 2, axis=0),  # for either text
                timestep=np.full((2, 1), timestep),
                embeddings=embeddings,
            )
            unwanted, wanted = np.split(answer["noise"], 2)
            noise = unwanted + np.float32(guidance) * (wanted - unwanted)
            latents = denoised(latents, noise, timestep, following)
        return _png((await self.calls.vae(latents=latents))["pixels"][0])


def _numbers(name: str, values: NDArray[Any] | None, rows: int) -> list[Any]:
    default, least, most = NUMBERS[name]
    numbers = [default] * rows if values is None else values[:, 0].tolist()
    for row, number in enumerate(numbers):
        if not least <= number <= most:
            raise InvalidRequest(f"{name}, row {row}: is {number:g}; send {least} to {most}")
    return numbers


def _png(pixels: NDArray[np.float32]) -> bytes:
    """The PNG of FP32[3, height, width] from -1 to 1: red, green and blue, rows from the top."""
    shades = ((pixels.clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)
    file = BytesIO()
    Image.fromarray(shades.transpose(1, 2, 0)).save(file, "PNG", compress_level=1)
    return file.getvalue()
