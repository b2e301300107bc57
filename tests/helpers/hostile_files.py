"""Shared by tests: repositories in which files are what a stranger may put in their place."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from triton_ensemble.check.examples import MODEL
from triton_ensemble.facts import catalog

SPARSE_BYTES = 20 << 30
TENSORS = """\
input { name: "X" data_type: TYPE_FP32 dims: [4] }
output { name: "Y" data_type: TYPE_FP32 dims: [4] label_filename: "labels.txt" }
"""
WARMUP = """\
model_warmup { name: "w" inputs { key: "X" value { data_type: TYPE_STRING dims: [4] input_data_file: "data" } } }
"""
ANSWERS = """\
_commit: v1.0.0
ensemble_name: e
gpu_count: 0
max_batch_size: 0
triton_release: '26.07'
extras: [monitoring]
stages: {prod: {gpu_count: 2, steps: {p: {instances: 2}}}}
ensemble: {all_outputs: true}
tensors: {X: 'FP32[4]', Y: 'FP32[4]'}
steps:
- {name: p, backend: python, inputs: [X], outputs: [Y], requirements: [regex]}
"""
MAPS = 'input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" }'
# Owned files that decide what a part of the environment has, each with its part.
PART_FILES = {
    path: part
    for row in catalog.table("extras").values()
    for part, path in row.get("parts", {}).items()
    if path in row.get("owned", ())
}
FILES = {
    ".copier-answers.yml": ANSWERS,
    "pipeline.yml": ANSWERS.replace("_commit: v1.0.0\n", ""),
    "requirements.lock": "numpy==1.26.4\n",
    "samples/one.json": '{"inputs": {"X": [1, 2, 3, 4]}}',
    "steps/p.py": "def run(x):\n    return x\n",
    "models/o.py": "def build(path):\n    onnx.save(model, path)\n",
    "deploy/compose.yaml": "services: {triton: {volumes: ['./model_repository:/models']}}\n",
    "deploy/serve.sh": "tritonserver --model-control-mode=poll\n",
    "deploy/kubernetes/kustomization.yaml": "components: [../../components/gateway]\n",
    **{path: "name: m\n" for path in PART_FILES},
    "vendor/project.json": "{}",
    "model_repository/e/config.pbtxt": f'platform: "ensemble"\n{TENSORS}ensemble_scheduling {{ step {{ model_name: "p" {MAPS} }} }}',
    "model_repository/p/config.pbtxt": f'backend: "python"\n{TENSORS}',
    "model_repository/p/configs/prod.pbtxt": f'backend: "python"\n{TENSORS}',
    "model_repository/p/1/model.py": MODEL,
    "model_repository/p/1/step.json": '{"name": "p", "module": "p", "arguments": {}, "calls": {}}',
    "model_repository/p/1/steps/p.py": "import triton_python_backend_utils as pb\npb.InferenceRequest(model_name='e')\n",
    "model_repository/o/config.pbtxt": f'backend: "onnxruntime"\n{TENSORS}{WARMUP}',
    "model_repository/o/labels.txt": "a\nb\nc\nd\n",
    "model_repository/o/warmup/data": "data",
    "model_repository/o/1/model.onnx": "onnx",
    "model_repository/x.python/1/model.py": MODEL,
    "model_repository/e/1/.keep": "",
}
LINKS = ["/dev/zero", "/dev/tty", "/dev/random", "/proc/kmsg", "/", "/usr", "/etc/passwd", "..", ".", "nowhere"]  # fmt: skip
DEEP = 100_000
BOMB = "a: &a {steps: []}\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} {{steps: [{', '.join([f'*{chr(97 + i)}'] * 9)}]}}\n"
    for i in range(12)
)
TEXTS = [
    b"", b"\0" * 9, b"\xef\xbb\xbf", b"\xff\xfe", b"\xf5\0\n\x80", b"9" * 5000, b"[" * DEEP, b"{" * DEEP, b'{"inputs": ' * DEEP,
    b"[" * DEEP + b"]" * DEEP, b"- " * DEEP, b"a: " * DEEP, b"(" * DEEP, b"-" * DEEP + b"1", b"1" + b"+1" * DEEP, b"x" + b".x" * DEEP,
    b"x" + b"[0]" * DEEP, b"a < " * DEEP, b"x" * (3 << 20), b"x\n" * (1 << 20), b"&a [*a]", b"steps: &a [{steps: *a}]", BOMB.encode() + b"steps: [*m]",
    b"null", b"3", b"'a'", b"[3]", b"{3: 4}", b'{"steps": 3, "inputs": 3}', b'{"steps": [3], "inputs": [3]}', b'{"stub": [3]}', b"steps: [3]", b"!!python/name:os.system", b"1: &a {<<: *a}",
]  # fmt: skip
BAD_TEXTS = [r"\777", r"\477", r"\ud83d\ude00", r"\ud83d", r"\udc00\ud800", r"\U00110000", r"\Uffffffff", r"\xff", r"\x", r"\8", "\\", "\0", "\r", r"\u12"]  # fmt: skip
NUMBERS = ["9" * 5000, "1e99999", "0x" + "f" * 99, "-1", "nan", "3", "'a'", "[]", "{}", "null", "[[3]]", "{a: 3}", "true"]  # fmt: skip


def replace(path: Path, kind: str) -> None:
    """Put a FIFO, a folder, a sparse or a deep file in a path's place, or a link to `kind`."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in ("sparse", "deep"):
        path.write_text("[" * DEEP)
        os.truncate(path, SPARSE_BYTES if kind == "sparse" else DEEP)
    else:
        path.symlink_to(kind)


def _place(path: Path, rng: random.Random) -> None:
    replace(path, rng.choice(["fifo", "folder", "sparse", rng.choice([*LINKS, path.name])]))


def _text(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.choice(TEXTS))


def _around(path: Path, rng: random.Random) -> None:
    before, after = rng.choice([(b"\xef\xbb\xbf", b""), (b"", b"\0"), (b"", rng.choice(TEXTS)), (b"#" * (2 << 20), b"")])  # fmt: skip
    path.write_bytes(before + path.read_bytes() + after)


def _line_ends(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n\x85"])))


def _words(path: Path, rng: random.Random) -> None:
    """Put a bad escape into a quoted word, or another value for what follows a colon."""
    text = path.read_text()
    quote, colon = text.find('"', rng.randrange(len(text) + 1)), text.find(": ", rng.randrange(len(text) + 1))  # fmt: skip
    if rng.random() < 0.5 or colon < 0:
        path.write_text(f"{text[: quote + 1]}{rng.choice(BAD_TEXTS)}{text[quote + 1 :]}")
    else:
        end = min((i for c in ",\n }]" if (i := text.find(c, colon + 2)) > 0), default=len(text))
        path.write_text(f"{text[: colon + 2]}{rng.choice(NUMBERS)}{text[end:]}")


KINDS: list[Callable[[Path, random.Random], None]] = [
    *[_place] * 4, *[_text] * 3, _around, _line_ends, *[_words] * 4, lambda path, _: path.chmod(0),
]  # fmt: skip


def write_files(folder: Path) -> Path:
    """Write a project without hostile files, and return its repository."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "model_repository"


def write_hostile(folder: Path, seed: object) -> tuple[Path, list[str]]:
    """Write a project with a few hostile files. Return its repository, and what was done to which path."""
    repository = write_files(folder)
    rng, done = random.Random(str(seed)), []
    for _ in range(rng.randint(1, 3)):
        path = rng.choice([each for name in FILES for each in (folder / name, folder / name, (folder / name).parent)])  # fmt: skip
        kind = rng.choice(KINDS)
        is_file = path.is_file() and path.stat().st_size < SPARSE_BYTES
        if path != folder and (is_file or (kind is _place and path.is_dir())):
            kind(path, rng)
            done.append(f"{kind.__name__} {path.relative_to(folder)}")
    return repository, done
