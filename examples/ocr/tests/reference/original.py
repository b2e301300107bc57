# Yours: written once, never touched by `make update`.
"""Records what the models' own package reads in the images of samples/, in read.json beside it.

It needs another OpenCV than this project, so it has an environment of its own:

    python3 -m venv build/original
    build/original/bin/pip install rapidocr-onnxruntime==1.4.4
    build/original/bin/python tests/reference/original.py
"""

import json
import sys
from pathlib import Path

RECORDED = Path(__file__).with_name("read.json")
SAMPLES = Path(__file__).parents[2] / "samples"


def main(folder: Path, recorded: Path) -> None:
    """Write of each image of a folder the lines: text, corners, score."""
    from rapidocr_onnxruntime import RapidOCR

    engine = RapidOCR()
    pages = []
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".jpg", ".png")):
        lines = engine(path.read_bytes())[0] or []
        rows = [json.dumps([text, box, round(score, 6)]) for box, text, score in lines]
        pages.append(f"{json.dumps(path.name)}: [" + ",".join(f"\n  {row}" for row in rows) + "]")
    recorded.write_text("{\n" + ",\n".join(pages) + "\n}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3] or (SAMPLES, RECORDED)))
