# Yours: written once, never touched by `make update`.
"""Records what the model's own package finds in the images of samples/, in found.json beside it.

It needs another OpenCV than this project, so it has an environment of its own:

    python3 -m venv build/original
    build/original/bin/pip install rapid-layout==1.2.1 onnxruntime
    build/original/bin/python tests/reference/original.py
"""

import json
import sys
from pathlib import Path
from typing import Any

FOUND = Path(__file__).with_name("found.json")
SAMPLES = Path(__file__).parents[2] / "samples"
WIDTH, HEIGHT = 608, 800


def find(engine: Any, path: Path) -> list[list[Any]]:
    """Return label, box and score of each object; the package would distort an image that is not letterboxed."""
    import cv2
    import numpy as np

    image = cv2.imread(str(path))
    height, width = image.shape[:2]
    scale = min(WIDTH / width, HEIGHT / height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (WIDTH - size[0]) // 2, (HEIGHT - size[1]) // 2
    page = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    page[top : top + size[1], left : left + size[0]] = cv2.resize(image, size)
    found = engine(page)
    # None where it finds nothing.
    boxes = np.array(found.boxes or []).reshape(-1, 2, 2)
    boxes = (boxes - (left, top)) * np.divide((width, height), size)
    boxes = boxes.clip(0, (width, height)).round(3).reshape(-1, 4).tolist()
    scores = [round(score, 6) for score in found.scores or []]
    return [*map(list, zip(found.class_names or [], boxes, scores, strict=True))]


def main(folder: Path, recorded: Path) -> None:
    """Write of each image of a folder the objects, the best first."""
    from rapid_layout import RapidLayout

    engine = RapidLayout(conf_thresh=0.5, iou_thresh=0.5)
    images = []
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".jpg", ".png")):
        objects = sorted(find(engine, path), key=lambda each: -each[2])
        rows = [json.dumps(each) for each in objects]
        images.append(f"{json.dumps(path.name)}: [" + ",".join(f"\n  {row}" for row in rows) + "]")
    recorded.write_text("{\n" + ",\n".join(images) + "\n}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3] or (SAMPLES, FOUND)))
