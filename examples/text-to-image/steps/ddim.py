# Yours: written once, never touched by `make update`.
"""DDIM (Song et al. 2021, equation 12 without its random part), with the noise that Stable Diffusion is trained on."""

import numpy as np
from numpy.typing import NDArray

TIMESTEPS = 1000  # of the training
# What is left of an image at each timestep: it is sqrt(ALPHAS) * image + sqrt(1 - ALPHAS) * noise there.
ALPHAS = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, TIMESTEPS) ** 2)

Latents = NDArray[np.float32]


def timesteps(steps: int) -> list[int]:
    """Return the timesteps to remove noise at, the first of which is noise alone; `steps` is 1 to TIMESTEPS."""
    spaced = np.arange(TIMESTEPS, 0, -TIMESTEPS / steps)[:steps]
    return [int(timestep) for timestep in spaced.round() - 1]


def denoised(latents: Latents, noise: Latents, timestep: int, following: int) -> Latents:
    """Return latents of a timestep as they are at the following one, given the noise that is seen in them."""
    now, then = ALPHAS[timestep], ALPHAS[following]
    image = (latents - np.float32((1 - now) ** 0.5) * noise) / np.float32(now**0.5)
    return np.float32(then**0.5) * image + np.float32((1 - then) ** 0.5) * noise
