"""docs/troubleshooting.md: a real Triton says each message that the page shows, of a repository made by hand."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import asked, connect
from hand_made import PYTHON, HandMade, code, ensemble, step
from troubleshooting_support import shown

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError

BATCHES = f"{PYTHON}max_batch_size: 8\n"
DIES = code("os._exit(1)")
QUEUE = "dynamic_batching { default_queue_policy { %s } }\n"
MODELS = {
    "add": (BATCHES, code("x + 1")),
    "raises": (PYTHON, code("1 / 0")),
    "dies": (PYTHON, DIES),
    "empty": (PYTHON, code("x").replace("return answers", "return []")),
    "tuple": (PYTHON, code("x").replace("return answers", "return tuple(answers)")),
    "misnamed": (PYTHON, code("x").replace('Tensor("OUT"', 'Tensor("OUTT"')),
    "flat": (PYTHON, code("x[:2]")),
    "full": (BATCHES + QUEUE % "max_queue_size: 1", code("time.sleep(1) or x", "import time")),
    "late": (
        BATCHES + QUEUE % "default_timeout_microseconds: 1000",
        code("time.sleep(1) or x", "import time"),
    ),
    "counts": (f"{BATCHES}sequence_batching {{ }}\n", code("x")),
    "streams": (f"{PYTHON}model_transaction_policy {{ decoupled: true }}\n", code("x")),
}
ENSEMBLES = {
    "e": ensemble(step("add", written="T"), step("add", read="T"), more="max_batch_size: 8\n"),
    "renamed": ensemble(step("misnamed", written="T"), step("raises", read="T")),
    "resized": ensemble(step("flat", written="T"), step("raises", read="T")),
}
X = np.ones((1, 4), np.float32)


def answers(triton: LocalTriton) -> Iterator[Any]:
    """Iterate over what requests are answered, most of them wrong."""
    row = X[0]
    with connect(triton) as client:
        yield asked(client, "e", {"IN": np.ones((9, 4), np.float32)})
        yield asked(client, "e", {"IN": np.ones((1, 5), np.float32)})
        yield asked(client, "e", {"IN": row})
        yield asked(client, "e", {"IN": np.ones((1, 4))})
        yield asked(client, "e", {"INPUT": X})
        yield asked(client, "e", {"IN": X, "MORE": X})
        yield asked(client, "ensemble", {"IN": X})
        yield asked(client, "e", {"IN": X}, model_version="2")
        for name in ("raises", "empty", "tuple", "misnamed", "dies", "renamed", "resized"):
            yield asked(client, name, {"IN": row})
        yield asked(client, "dies", {"IN": row})
        yield asked(client, "counts", {"IN": X})
        yield asked(client, "counts", {"IN": X}, sequence_id=7)
        yield asked(client, "streams", {"IN": row})
        for name in ("full", "late"):
            with ThreadPoolExecutor(20) as pool:
                yield from pool.map(partial(asked, client, arrays={"IN": X}), [name] * 20)


def repository(folder: Path, models: dict[str, tuple[str, str]]) -> Path:
    """Write models and the ensembles that only need some of them."""
    files: dict[str, Any] = {}
    for name, (config, source) in models.items():
        files |= {f"{name}/config.pbtxt": config, f"{name}/1/model.py": source}
    for name, config in ENSEMBLES.items() if models is MODELS else ():
        files |= {f"{name}/config.pbtxt": config, f"{name}/1/": b""}
    return HandMade(files).write(folder)


@pytest.mark.slow
def test_what_requests_are_answered(tmp_path: Path) -> None:
    with LocalTriton(repository(tmp_path, MODELS), "e") as triton:
        said = [answer for answer in answers(triton) if isinstance(answer, str)]
    messages = shown("A request is refused", "A Python model fails")
    assert len(messages) > 12
    assert [text for text in messages if not any(text in each for each in said)] == []
    known = [text for text in messages for each in said if text in each]
    assert {each for each in said if not any(text in each for text in known)} == set()


NOT_STARTED = {
    "ModuleNotFoundError": (PYTHON, code("x", "import nosuchpackage")),
    "Stub process": (PYTHON, code("x", first="os._exit(3)")),
    "no model file": (PYTHON.replace("python", "onnxruntime"), code("x")),
}


@pytest.mark.parametrize("words", NOT_STARTED)
def test_what_keeps_a_server_from_starting(tmp_path: Path, words: str) -> None:
    [message] = [text for text in shown("It does not start") if words in text]
    folder = repository(tmp_path, {"a": NOT_STARTED[words]})
    with pytest.raises(ServerError, match=re.escape(message)), LocalTriton(folder, "a"):
        pass


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    [message] = [text for text in shown("It does not start") if "in use" in text]
    folder = repository(tmp_path, {"a": MODELS["add"]})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=message), LocalTriton(folder, "a", http_port=port):
            pass


def test_each_message_before_a_start_is_tried() -> None:
    assert len(shown("It does not start")) == len(NOT_STARTED) + 1
