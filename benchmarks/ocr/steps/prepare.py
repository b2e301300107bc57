"""IMAGE STRING[1] -> SIZE INT32[2], TOP INT32[1], PAGE UINT8[height, width, 3], PIXELS FP32[1, 3, height, width]."""

import numpy as np

from steps import lines
from steps.read import decode


class Step:
    def __init__(self, context):
        pass

    def __call__(self, IMAGE):
        page = lines.fit(decode(IMAGE[0], 0))
        return {
            "SIZE": np.array(page.size, np.int32),
            "TOP": np.array([page.top], np.int32),
            "PAGE": page.image,
            "PIXELS": lines.prepare(page.image)[None],
        }
