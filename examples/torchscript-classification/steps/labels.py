# Yours: written once, never touched by `make update`.
"""What the classifier tells apart, in the order of its logits."""

import numpy as np

LABELS = np.array([b"building", b"flower", b"leaves", b"sky", b"tree"], dtype=np.object_)
