"""Writes a Stable Diffusion of diffusers' own classes, tiny and of random weights, and images that diffusers makes by it.

    python tiny_diffusion.py FOLDER epsilon|v_prediction

FOLDER/images.npy has an image FP64[64, 64, 3], 0 to 1, for each of REQUESTS. It needs models/export.txt of
examples/text-to-image.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

# PROMPT, NEGATIVE, STEPS, SEED, GUIDANCE. Of other steps diffusers' DDIM skips parts of a timestep.
REQUESTS = [
    ("A red fox", "", 20, 0, 7.5),
    ("the sea  at night", "fog", 10, 1, 5.0),
    ("a fox " * 50, "", 1, 2, 1.0),
]
WORDS = ["fo", "fox</w>", "<|startoftext|>", "<|endoftext|>"]
MERGES = "#version: 0.2\nf o\nfo x</w>\n"


def pipeline(folder: Path, predicts: str) -> Any:
    import torch
    from diffusers import (
        AutoencoderKL,
        DDIMScheduler,
        StableDiffusionPipeline,
        UNet2DConditionModel,
    )
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    vocabulary = tokenizer(folder)
    last = len(vocabulary.get_vocab()) - 1
    config = CLIPTextConfig(
        vocab_size=last + 1,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=last - 1,
        eos_token_id=last,
        pad_token_id=last,
    )
    unet = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=32,
        norm_num_groups=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(16, 16, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        norm_num_groups=8,
    )
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        timestep_spacing="trailing",
        prediction_type=predicts,
    )
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=CLIPTextModel(config),
        tokenizer=vocabulary,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def tokenizer(folder: Path) -> Any:
    """Return CLIP's, of single bytes and the word fox."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), *WORDS]
    files = folder / "vocab.json", folder / "merges.txt"
    files[0].write_text(json.dumps({word: number for number, word in enumerate(words)}))
    files[1].write_text(MERGES)
    return CLIPTokenizer(*map(str, files), model_max_length=77)


def image(made: Any, prompt: str, negative: str, steps: int, seed: int, guidance: float) -> Any:
    import torch

    latents = np.random.default_rng(seed).standard_normal((1, 4, 8, 8), np.float32)
    return made(
        prompt,
        negative_prompt=negative,
        num_inference_steps=steps,
        guidance_scale=guidance,
        latents=torch.tensor(latents),
        output_type="np",
    ).images[0]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    made = pipeline(folder, sys.argv[2])
    made.save_pretrained(folder / "pipeline")
    np.save(folder / "images.npy", [image(made, *request) for request in REQUESTS])


if __name__ == "__main__":
    main()
