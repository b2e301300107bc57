"""The guided session: what it reads from model files, how it draws, and what it writes to pipeline.yml."""

from __future__ import annotations

import os
import pickle
from difflib import ndiff
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import yaml
from guide_support import FAN, write_onnx

from triton_ensemble.author import origin
from triton_ensemble.author.adopt.fields import Defaults
from triton_ensemble.author.draft import Draft, RefusedLine, accept_answers
from triton_ensemble.author.drawing import draw_steps
from triton_ensemble.author.given import models_in, read_given_model
from triton_ensemble.author.tensor import DraftTensor
from triton_ensemble.author.written import add_step_text
from triton_ensemble.facts.project import ProjectError

BATCHED, SINGLE = Defaults(0, 8, 100), Defaults(0, 0, 0)


def fan() -> Draft:
    draft = Draft()
    for line in FAN.splitlines():
        draft = draft.add_line(line, {})
    return draft


def test_an_onnx_file_tells_its_tensors(tmp_path: Path) -> None:
    write_onnx(tmp_path / "m.onnx")
    model = read_given_model(tmp_path / "m.onnx", BATCHED)
    assert (model.backend, model.settings) == ("onnxruntime", {"adopted": True})
    assert model.inputs == [DraftTensor("pixels", "FP32", [4])]
    assert model.outputs == [DraftTensor("score", "FP32", [4])]
    assert model.files == {"1/model.onnx": tmp_path / "m.onnx"}


def test_weights_beside_an_onnx_file_go_along(tmp_path: Path) -> None:
    write_onnx(tmp_path / "m.onnx", external=True)
    assert read_given_model(tmp_path / "m.onnx", BATCHED).files == {
        "1/model.onnx": tmp_path / "m.onnx",
        "1/weights.bin": tmp_path / "weights.bin",
    }


@pytest.mark.parametrize(
    "place", ["/etc/passwd", "../key", "sub/../../key", "link", "\0", "x" * 5000]
)
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, place: str) -> None:
    onnx, file, key = pytest.importorskip("onnx"), tmp_path / "m/m.onnx", tmp_path / "key"
    file.parent.mkdir()
    (tmp_path / "m/link").symlink_to(key)
    key.write_text("secret")
    write_onnx(file, external=True)
    model = onnx.load(str(file), load_external_data=False)
    model.graph.initializer[0].external_data[0].value = place
    file.write_bytes(model.SerializeToString())
    with pytest.raises(
        ProjectError,
        match=r"m\.onnx: its weights are in .*, (out of the model's fold|which is not a file)",
    ):
        read_given_model(file, BATCHED)


def test_an_onnx_file_without_a_batch_dimension(tmp_path: Path) -> None:
    write_onnx(tmp_path / "m.onnx", 1)
    with pytest.raises(ProjectError, match=r"its pixels is FP32\[1, 4\], which has no batch dim"):
        read_given_model(tmp_path / "m.onnx", BATCHED)
    assert read_given_model(tmp_path / "m.onnx", SINGLE).inputs == [
        DraftTensor("pixels", "FP32", [1, 4])
    ]


def test_torchscript_tells_names_and_what_it_was_traced_with(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")

    class Two(torch.nn.Module):  # type: ignore[misc]
        def forward(self, pixels: torch.Tensor, mask: torch.Tensor) -> Any:
            return pixels * mask, pixels.sum(1)

    given = (torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.int64))
    torch.jit.trace(Two(), given).save(tmp_path / "traced.pt")
    model = read_given_model(tmp_path / "traced.pt", BATCHED)
    assert model.inputs == [DraftTensor("pixels", "FP32", [4]), DraftTensor("mask", "INT64", [4])]
    assert model.outputs == [DraftTensor("OUTPUT__0"), DraftTensor("OUTPUT__1")]

    class One(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    torch.jit.script(One()).save(tmp_path / "scripted.pt")
    model = read_given_model(tmp_path / "scripted.pt", BATCHED)
    assert (model.inputs, model.outputs) == ([DraftTensor("x")], [DraftTensor("OUTPUT__0")])


class Malicious:
    def __reduce__(self) -> Any:
        return (os.mkdir, (self.path,))

    def __init__(self, path: Path) -> None:
        self.path = str(path)


def test_nothing_in_a_pickle_is_called(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02c__torch__\nM\n.")
        archive.writestr(
            "m/code/__torch__.py", "class M:\n  def forward(self, x: T) -> T:\n    return x"
        )
        archive.writestr(
            "m/traced_inputs.pkl", pickle.dumps({"forward": [Malicious(tmp_path / "called")]}, 2)
        )
    assert read_given_model(tmp_path / "m.pt", BATCHED).inputs == [DraftTensor("x")]
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
@pytest.mark.parametrize("name", ["m.pt", "m.onnx"])
def test_what_is_no_model_is_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ProjectError, match=r"export it again|torch\.jit\.save") as refused:
        read_given_model(tmp_path / name, BATCHED)
    assert "\n" not in str(refused.value)


def test_a_model_of_a_repository_keeps_its_settings(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "scores"
    (folder / "3").mkdir(parents=True)
    (folder / "3" / "model.onnx").write_bytes(b"weights")
    (folder / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 4\n'
        'input { name: "x" data_type: TYPE_FP32 dims: [4] }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: [-1] }\n'
        "instance_group { count: 2 kind: KIND_CPU }"
    )
    assert models_in(tmp_path / "repository") == [folder]
    assert models_in(folder) == []
    model = read_given_model(folder, BATCHED)
    assert model.inputs == [DraftTensor("x", "FP32", [4])]
    assert model.outputs == [DraftTensor("y", "FP32", [-1])]
    assert model.settings["instances"] == 2
    assert model.settings["max_batch_size"] == 4
    assert model.files == {"3/model.onnx": folder / "3" / "model.onnx"}


def test_git_draws_the_pipeline() -> None:
    assert draw_steps(fan().steps) == (
        "*   features: EVENT -> FEATURES\n"
        "|\\\n"
        "* | click: FEATURES -> CLICK\n"
        "| * buy: FEATURES -> BUY\n"
        "|/\n"
        "* rank: CLICK, BUY -> SCORE\n"
        "* answer: SCORE"
    )


def test_steps_that_share_no_tensor_are_drawn_apart() -> None:
    """The next one may join them, without which the template refuses the pipeline."""
    draft = Draft().add_line("a python: A FP32[1] -> B FP32[1]", {})
    draft = draft.add_line("c python: C FP32[1] -> D FP32[1]", {})
    assert draw_steps(draft.steps) == "* a: A -> B\n| * c: C -> D\n|/\n* answer: B, D"
    with pytest.raises(RefusedLine, match=r"outputs: B needs only some of the inputs"):
        accept_answers(draft.answers, whole=True)
    accept_answers(draft.add_line("e python: B, D -> E FP32[1]", {}).answers, whole=True)


def test_another_text_keeps_what_a_text_does_not_say() -> None:
    draft = Draft().add_line(
        "a onnxruntime x2: A FP32[1] -> B FP32[1]",
        {"adopted": True, "outputs": {"B": {"reshape": []}}},
        "/m.onnx",
    )
    [step] = draft.steps
    kept = {**{key: step[key] for key in ("backend", "inputs", "outputs", "adopted")}, "name": "b"}
    renamed = draft.replace_text("b onnxruntime: A FP32[1] -> B FP32[1]")
    assert (renamed.steps, renamed.origins) == ([kept], {"b": "/m.onnx"})
    assert step["outputs"] == {"B": {"tensor": "B", "reshape": []}}
    replaced = draft.replace_text("a python: A FP32[1] -> B FP32[1]")
    assert (replaced.steps[0]["outputs"], replaced.origins) == (["B"], {})
    assert "adopted" not in replaced.steps[0]


def test_a_classifier_of_scikit_learn(tmp_path: Path) -> None:
    """Its label is a vector, one value a row, and zipmap would make a sequence of maps of the rest."""
    skl2onnx: Any = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    model = LogisticRegression().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    for name, options in (("plain", {"zipmap": False}), ("zipped", {})):
        made = skl2onnx.to_onnx(model, np.zeros((1, 1), np.float32), options=options)
        (tmp_path / f"{name}.onnx").write_bytes(made.SerializeToString())
    given = read_given_model(tmp_path / "plain.onnx", BATCHED)
    assert given.outputs[0] == DraftTensor("label", "INT64", [1])
    draft = Draft().add_line(
        "m onnxruntime: X FP32[1] -> label INT64[1], probabilities FP32[3]", given.settings
    )
    assert draft.steps[0]["outputs"]["label"] == {"tensor": "label", "reshape": []}
    with pytest.raises(ProjectError, match=r"its output_probability is of a type that"):
        read_given_model(tmp_path / "zipped.onnx", BATCHED)


def test_a_draft_is_text_and_is_saved(tmp_path: Path) -> None:
    draft = fan()
    assert draft.text == FAN
    draft.save(tmp_path / "draft.yml")
    assert Draft.load(tmp_path / "draft.yml") == draft
    assert draft.drop_last_step().text == "\n".join(FAN.splitlines()[:-1])
    (tmp_path / "draft.yml").write_text("answers: {steps: 3}")
    with pytest.raises(ProjectError, match=r"draft.yml: is not a saved pipeline; remove it"):
        Draft.load(tmp_path / "draft.yml")


def test_the_last_step_goes_with_its_outputs() -> None:
    draft = Draft().replace_text("a python: X FP32[4] -> Y FP32[4]\noutputs: Y").drop_last_step()
    assert draft.add_line("b python: X FP32[4] -> Z FP32[4]", {}).steps[0]["name"] == "b"


def test_a_link_out_of_a_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r/m").mkdir(parents=True)
    tensor = '{ name: "x" data_type: TYPE_FP32 dims: [4] }'
    (tmp_path / "r/m/config.pbtxt").write_text(f'backend: "x" input {tensor} output {tensor}')
    (tmp_path / "r/m/1").symlink_to(tmp_path)
    with pytest.raises(ProjectError, match=r"m/1: is a link out of the repository, to "):
        read_given_model(tmp_path / "r/m", BATCHED)


def test_a_folder_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"config.pbtxt: Invalid model name.*; name an .onnx"):
        read_given_model(tmp_path, BATCHED)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x onnx: BUY -> T FP32[1]", "did you mean onnxruntime?"),
        ("x python: BU -> T FP32[1]", "give BU its type"),
        ("x python: BUY -> CLICK FP32[1]", "drop FP32[1]; CLICK has its type"),
        ("rank python: BUY -> Z FP32[1]", "step rank: is written twice"),
        ("x python: SCORE -> CLICK", "step click writes too"),
    ],
)
def test_a_line_is_refused_by_the_rules_of_the_template(line: str, said: str) -> None:
    with pytest.raises(RefusedLine) as refused:
        fan().add_line(line, {})
    assert said in str(refused.value)
    assert not str(refused.value).startswith("line")


PIPELINE = """\
# what this is for
tensors: # types
  A: FP32[4] # first

  # and the second
  B: {type: FP32, dims: [4]}
steps:
  - name: one # work
    backend: python
    inputs: [A]
    outputs:
      B: B # the model's: ours
# between
outputs: [B] # to clients
# the end
"""


def test_a_step_is_added_and_all_else_of_the_file_stays() -> None:
    draft = Draft(yaml.safe_load(PIPELINE)).add_line(
        'two python: B -> "on" FP32[4], null=Z INT8[2], "a, b" BOOL[1]', {"adopted": True}
    )
    text = add_step_text(PIPELINE, draft)
    changes = [*ndiff(PIPELINE.splitlines(), text.splitlines())]
    assert [line[2:] for line in changes if line[0] == "-"] == ["outputs: [B] # to clients"]
    assert [line[2:] for line in changes if line[0] == "+"] == [
        '  "on": FP32[4]',
        "  Z: INT8[2]",
        "  a, b: BOOL[1]",
        "  - name: two",
        "    backend: python",
        "    inputs: [B]",
        '    outputs: {"on": "on", "null": Z, \'a, b\': \'a, b\'}',
        "    adopted: true",
        "outputs: [B, \"on\", Z, 'a, b'] # to clients",
    ]
    assert yaml.safe_load(text) == draft.answers


@pytest.mark.parametrize(
    ("direct_url", "template"),
    [
        (None, (origin.ADDRESS, None)),
        ('{"url": "file:///wheels/t-1-py3-none-any.whl"}', (origin.ADDRESS, None)),
        (
            '{"url": "https://host/org/t", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            ("git+https://host/org/t", "abc"),
        ),
        ('{"url": "file://{root}", "dir_info": {}}', ("{root}", "HEAD")),
    ],
)
def test_the_template_is_what_the_package_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: str | None, template: Any
) -> None:
    (tmp_path / "template/vendor").mkdir(parents=True)
    (tmp_path / "template/vendor/requirements.txt").touch()
    (tmp_path / "copier.yml").touch()

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return direct_url and direct_url.replace("{root}", str(tmp_path))

    assert origin.template()[1] == "HEAD"  # this clone
    monkeypatch.setattr(origin, "distribution", lambda name: Installed())
    monkeypatch.setattr(origin, "template_root", lambda: tmp_path / "site-packages")
    address, version = template
    assert origin.template() == (address.replace("{root}", str(tmp_path)), version)
