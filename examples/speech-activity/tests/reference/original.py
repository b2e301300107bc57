# Yours: written once, never touched by `make update`.
"""Records what the model's own package hears in the WAV files and requests of samples/, in heard.json beside it.

The package needs torch, so it has an environment of its own:

    python3 -m venv build/original
    build/original/bin/pip install silero-vad==6.2.3 onnxruntime
    build/original/bin/python tests/reference/original.py
"""

import json
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEARD = Path(__file__).with_name("heard.json")
SAMPLES = Path(__file__).parents[2] / "samples"
CHUNK = 512


def read(path: Path) -> NDArray[np.int16]:
    """Return the chunks of a WAV file, or that of a request, whose bytes are the rows of an array."""
    if path.suffix == ".json":
        return np.array(json.loads(path.read_text())["inputs"]["AUDIO"], np.int16)
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return np.pad(samples, (0, -len(samples) % CHUNK)).reshape(-1, CHUNK)


def hear(chunks: NDArray[np.int16]) -> dict[str, Any]:
    """Return the probability of speech in each chunk of a stream, and its events: kind and sample."""
    import torch
    from silero_vad import VADIterator, load_silero_vad

    sounds = torch.from_numpy(chunks.astype(np.float32) / 2**15)
    model = load_silero_vad(onnx=True)
    probabilities = [round(model(sound, 16_000).item(), 6) for sound in sounds]
    said = [*map(VADIterator(model), sounds)]
    events = [[kind, at] for each in said if each for kind, at in each.items()]
    return {"PROBABILITY": probabilities, "EVENTS": events}


def main(folder: Path, heard: Path) -> None:
    """Write what is heard in each file of a folder, a line each."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".wav"))
    lines = [f"{json.dumps(path.name)}: {json.dumps(hear(read(path)))}" for path in paths]
    heard.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3] or (SAMPLES, HEARD)))
