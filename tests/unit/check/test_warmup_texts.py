"""Files with the texts of a warmup request: just those of one row, each behind its length."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.rules.engine import check

CONFIG = """\
backend: "python"
max_batch_size: 4
input {{ name: "X" data_type: TYPE_STRING dims: [2] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [4] }}
model_warmup {{
  name: "w"
  batch_size: {rows}
  inputs {{ key: "X" value {{ data_type: TYPE_STRING dims: [2] input_data_file: "texts" }} }}
}}
"""


def texts(*given: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in given)


# What Triton 2.51 says of each, of a model that takes rows of two texts.
CASES = {
    "two": (texts(b"a", b"bc"), 1, ""),
    "two, sent as each of two rows": (texts(b"a", b"bc"), 2, ""),
    "empty ones": (texts(b"", b""), 1, ""),
    "three": (texts(b"a", b"b", b"c"), 1, "unexpected number of string elements"),
    "two rows": (texts(b"a", b"bc") * 2, 2, "unexpected number of string elements"),
    "one": (texts(b"a long one"), 1, "unexpected number of string elements"),
    "cut off": (texts(b"a", b"bcd")[:-1], 1, "incomplete string data"),
    "a byte too many": (texts(b"a", b"bc") + b"x", 1, "incomplete string length indicator"),
    "lines": (b"one\ntwo\nthree\n", 1, "incomplete string data"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_of_texts(tmp_path: Path, case: str) -> None:
    content, rows, said = CASES[case]
    repository = examples.write(CONFIG.format(rows=rows), tmp_path)
    (repository / "m/warmup").mkdir()
    (repository / "m/warmup/texts").write_bytes(content)
    found = [each for each in check(repository) if each.rule == "warmup-data"]
    assert [each.what.startswith(said) for each in found] == [True] * bool(said)
