"""The blocks of docs/adopt.md: what `adopt` makes of configs, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from docs_blocks import read_blocks
from support import ROOT

from triton_ensemble.author.adopt.command import adopt
from triton_ensemble.author.adopt.refusal import Refused
from triton_ensemble.author.adopt.written import pipeline_yml

PAGE = (ROOT / "docs/adopt.md").read_text()
ENSEMBLE = """
platform: "ensemble" max_batch_size: 16
input { name: "IMAGE" data_type: TYPE_STRING dims: [1] }
output { name: "LOGITS" data_type: TYPE_FP32 dims: [10] }
ensemble_scheduling {
  step { model_name: "preprocess" model_version: -1
         input_map { key: "IMAGE" value: "IMAGE" } output_map { key: "PIXELS" value: "PIXELS" } }
  step { model_name: "classify" model_version: 1
         input_map { key: "input.1" value: "PIXELS" } output_map { key: "389" value: "LOGITS" } }
}
"""


def test_adopt_makes_the_pipeline_of_the_page(tmp_path: Path) -> None:
    [configs], [made] = read_blocks(PAGE, "protobuf"), read_blocks(PAGE, "yaml")
    parts = [part.partition("\n") for part in re.split(r"^# (?=\S+$)", configs, flags=re.M)[1:]]
    written = {path: text for path, _, text in parts} | {"digits/config.pbtxt": ENSEMBLE}
    for path, text in written.items():
        (tmp_path / "digits" / path).parent.joinpath("1").mkdir(parents=True)
        (tmp_path / "digits" / path).write_text(text)
    head, _, rest = pipeline_yml(adopt(tmp_path / "digits").answers, []).partition("\n")
    assert (head[0], rest) == ("#", made)


SOUND = """\
backend: "python"

output { name: "B" data_type: TYPE_FP32 dims: [4] }


input { name: "A" data_type: TYPE_FP32 dims: [4] }
"""
ASKS = """\
input { name: "A" data_type: TYPE_FP32 dims: [4] }
output { name: "B" data_type: TYPE_FP32 dims: [4] }
platform: "ensemble" ensemble_scheduling { step { model_name: "m"
  model_version: 0 input_map { key: "A" value: "A" } output_map { key: "B" value: "B" } } }
"""


def test_adopt_refuses_with_the_messages_of_the_page(tmp_path: Path) -> None:
    for name, config in (("m", SOUND.replace("input", "inputs")), ("e", ASKS)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    (tmp_path / "m/1/model.py").touch()
    with pytest.raises(Refused) as field:
        adopt(tmp_path)
    (tmp_path / "m/config.pbtxt").write_text(SOUND)
    with pytest.raises(Refused) as version:
        adopt(tmp_path)
    assert f"{field.value}\n{version.value}\n" in read_blocks(PAGE, "text")


def test_the_script_that_fetches_a_model_compares_its_hash(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"another file")
    names: dict[str, Any] = {}
    [code] = read_blocks(PAGE, "python")
    exec(code, names)
    names["URL"] = (tmp_path / "there").as_uri()
    with pytest.raises(SystemExit, match="is not the file that"):
        names["build"](tmp_path / "model.onnx")
    names["SHA256"] = names["hashlib"].sha256(b"another file").hexdigest()
    names["build"](tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"another file"
