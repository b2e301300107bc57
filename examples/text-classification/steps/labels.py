# Yours: written once, never touched by `make update`.
"""What the classifier tells apart, in the order of its logits."""

import numpy as np

LABELS = np.array(
    [
        b"cluster",
        b"fft",
        b"integrate",
        b"interpolate",
        b"linalg",
        b"ndimage",
        b"optimize",
        b"signal",
        b"sparse",
        b"spatial",
        b"special",
        b"stats",
    ],
    dtype=np.object_,
)
