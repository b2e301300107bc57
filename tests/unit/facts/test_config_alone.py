"""The configs of a repository as they are read: their text, versions, backends, and the lines of their fields."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.facts.config import (
    ConfigSyntaxError,
    Model,
    UnreadModel,
    did_you_mean,
    parse,
    read_model,
    read_models,
)
from triton_ensemble.facts.config.fields import Field, fields_of
from triton_ensemble.facts.config.repository import (
    list_called_models,
    list_fused_steps,
    model_config,
    model_configs,
)
from triton_ensemble.facts.config.syntax import has_comments, readable
from triton_ensemble.facts.config.versions import folder_of_version, version_of

TEXT = """\
name: "m"
max_batch_size: -1
input [
  { name: "A" dims: [1, -2] },
  { name: "B"
    dims: 3 }
]
parameters { key: "one" value: { string_value: "1" } }
parameters <
  key: "two"
  value: { string_value: "2" }
>
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def model(folder: Path, config: str = "", *files: str) -> Model:
    read = read_model(write(folder, {"config.pbtxt": config, **dict.fromkeys(files, "x")}))
    assert isinstance(read, Model)
    return read


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("max_batch_size",), 2),
        ((("input", 0),), 4),
        ((("input", 0), ("dims", 1)), 4),
        ((("input", 1),), 5),
        ((("input", 1), "dims"), 6),
        ((("input", -1), "dims"), 6),
        ((("input", 2), "dims"), 1),
        ((("input", 1), "nothing"), 5),
        ((("parameters", "one"),), 8),
        ((("parameters", "two"),), 9),
        ((("parameters", "two"), "value"), 11),
        ((("parameters", "three"),), 1),
    ],
)
def test_the_line_of_a_field(path: tuple[Any, ...], line: int) -> None:
    assert fields_of(TEXT).line_of(*path) == line


def test_the_lines_of_many_fields_are_found_in_time() -> None:
    top = Field("", 1, inside=[Field("input", line) for line in range(10_000)])
    began = time.process_time()
    assert [top.line_of(("input", i)) for i in range(10_000)] == [*range(10_000)]
    assert time.process_time() - began < 1


def test_fields_have_their_values() -> None:
    fields = fields_of(TEXT)
    assert [each.name for each in fields.inside] == ["name", "max_batch_size", "input", "input"] + [
        "parameters"
    ] * 2
    assert [each.value for each in fields.inside[:2]] == ["m", "-1"]
    assert [each.value for each in fields.inside[2].find_fields("dims")] == ["1", "-2"]
    assert [each.key for each in fields.find_fields("parameters")] == ["one", "two"]
    assert fields.inside[0].key == ""
    assert [each.name for each in fields.inside[3].walk()] == ["input", "name", "dims"]


@pytest.mark.parametrize("separator", [",", ";", ""])
def test_fields_may_be_separated(separator: str) -> None:
    fields = fields_of(f'name: "a"{separator}\nbackend: "b"')
    assert fields.inside == [Field("name", 1, "a"), Field("backend", 2, "b")]


@pytest.mark.parametrize(
    ("one", "two", "match"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([-1, 2], [5, 2], True),
        ([1, 2], [1, -1], True),
        ([1, 2], [1], False),
        ([], [], True),
    ],
)
def test_dims_that_match(one: list[int], two: list[int], match: bool) -> None:
    assert is_same_dims(one, two) is match


def test_the_nearest_name_is_named() -> None:
    assert did_you_mean("LOGIT", ["LABEL", "LOGITS"], "no") == "did you mean LOGITS?"
    assert did_you_mean("X", ["LABEL"], "take it out") == "take it out"


@pytest.mark.parametrize(
    ("folder", "version"),
    [
        ("1", 1),
        ("0", 0),
        ("12x", 12),
        ("-3", -3),
        ("+4", 4),
        (" 5", 5),
        ("01", None),
        ("00", None),
        ("v1", None),
    ],
)
def test_the_version_of_a_folder(folder: str, version: int | None) -> None:
    assert version_of(folder) == version


def test_the_folder_of_a_negative_version() -> None:
    assert folder_of_version(7) == "7"
    assert folder_of_version(-1) == str(2**64 - 1)


@pytest.mark.parametrize(
    ("policy", "loaded"),
    [
        ("", [12]),
        ("latest { num_versions: 2 }", [12, 3]),
        ("all { }", [12, 3, 1]),
        ("specific { versions: [1, 3, 9] }", [3, 1]),
    ],
)
def test_versions_that_are_loaded(tmp_path: Path, policy: str, loaded: list[int]) -> None:
    config = f"version_policy: {{ {policy} }}" if policy else ""
    read = model(tmp_path, config, "1/x", "3/x", "12/x", "notes/x", "4")
    assert read.versions == [12, 3, 1]
    assert read.loaded == loaded


def test_versions_are_assumed_only_where_there_are_none(tmp_path: Path) -> None:
    empty = model(tmp_path / "a")
    empty.assumed_versions = (1, 2)
    assert empty.versions == [2, 1]
    full = model(tmp_path / "b", "", "5/x")
    full.assumed_versions = (1, 2)
    assert full.versions == [5]


@pytest.mark.parametrize(
    ("config", "files", "backend"),
    [
        ('backend: "python"', [], "python"),
        ('platform: "onnxruntime_onnx"', [], "onnxruntime"),
        ('platform: "nothing"', [], ""),
        ('default_model_filename: "model.onnx"', [], "onnxruntime"),
        ('default_model_filename: "other.onnx"', ["1/model.pt"], ""),
        ("", ["1/model.pt"], "pytorch"),
        ("", ["1/model.py", "1/README"], "python"),
        ("", ["1/README"], ""),
    ],
)
def test_the_backend(tmp_path: Path, config: str, files: list[str], backend: str) -> None:
    assert model(tmp_path, config, *files).backend == backend


def test_the_backend_of_a_folders_name(tmp_path: Path) -> None:
    assert model(tmp_path / "net.onnx").backend == "onnx"


@pytest.mark.parametrize(
    ("config", "is_ensemble", "steps"),
    [
        ('platform: "ensemble"', True, 0),
        ("ensemble_scheduling { step { } step { } }", True, 2),
        ('backend: "python"', False, 0),
    ],
)
def test_an_ensemble(tmp_path: Path, config: str, is_ensemble: bool, steps: int) -> None:
    read = model(tmp_path, config)
    assert (read.is_ensemble, len(read.steps)) == (is_ensemble, steps)


@pytest.mark.parametrize(("code", "completes"), [("def auto_complete_config", True), ("", False)])
def test_a_python_model_says_whether_it_completes_its_config(
    tmp_path: Path, code: str, completes: bool
) -> None:
    folder = write(tmp_path, {"config.pbtxt": 'backend: "python"', "1/model.py": code})
    read = read_model(folder)
    assert isinstance(read, Model)
    assert read.completes_config is completes


@pytest.mark.parametrize(
    ("backend", "completes"), [("onnxruntime", True), ("pytorch", False), ("mine", True)]
)
def test_a_backend_completes_configs(tmp_path: Path, backend: str, completes: bool) -> None:
    assert model(tmp_path, f'backend: "{backend}"').completes_config is completes


def test_a_path_stays_in_the_models_folder(tmp_path: Path) -> None:
    assert model(tmp_path).file("/etc", "x") == tmp_path / "etc/x"


def test_a_problem_is_at_its_field(tmp_path: Path) -> None:
    problem = model(tmp_path, TEXT).problem("a", "b", ("input", 1))
    assert problem == (problem.__class__)(tmp_path / "config.pbtxt", 5, "a", "b")


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    files = {
        "bad/config.pbtxt": "\n\nname: 5",
        "directory/config.pbtxt/x": "",
        "empty/x": "",
        "other/config.pbtxt.txt": "",
        "file": "",
        "good/config.pbtxt": "",
        "made/1/model.onnx": "",
    }
    models = read_models(write(tmp_path, files))
    unread = {name: each for name, each in models.items() if isinstance(each, UnreadModel)}
    assert set(models) - set(unread) == {"good", "made"}
    made = models["made"]
    assert isinstance(made, Model)
    assert (made.has_config, models["good"].has_config) == (False, True)
    assert {name: each.has_config for name, each in unread.items()} == {
        "bad": True,
        "directory": True,
        "empty": False,
        "other": False,
    }
    assert unread["bad"].problem.line == 3
    assert unread["bad"].path == tmp_path / "bad/config.pbtxt"
    assert "Is a directory" in unread["directory"].problem.what
    assert "for model 'empty'" in unread["empty"].problem.what
    assert "config.pbtxt.txt" in unread["other"].problem.instead


class TestText:
    """The text of a config."""

    @pytest.mark.parametrize(
        ("written", "number"), [("- 1", -1), ("-1", -1), ("0x1F", 31), ("017", 15)]
    )
    def test_numbers_as_triton_reads_them(self, written: str, number: int) -> None:
        assert parse(readable(f"max_batch_size: {written}")).max_batch_size == number

    @pytest.mark.parametrize(("written", "flag"), [("01", True), ("0x1", True), ("00", False)])
    def test_flags_as_triton_reads_them(self, written: str, flag: bool) -> None:
        config = parse(readable(f"dynamic_batching {{ preserve_ordering: {written} }}"))
        assert config.dynamic_batching.preserve_ordering is flag

    def test_what_is_quoted_stays(self) -> None:
        text = 'name: "- 1 01" # 01 - 1'
        assert readable(text) == text
        assert parse(readable(r'name: "a\303"')).name == "a?"
        assert parse(readable(r'name: "\303\274"')).name == "ü"

    def test_comments(self) -> None:
        assert has_comments("# a")
        assert not has_comments('name: "# a"')

    @pytest.mark.parametrize(
        ("text", "line", "what", "instead"),
        [
            ("max_batch_size: 0b1", 1, "got: 0b1", "0x"),
            ("\nmax_batch_size: +1", 2, "got: +", "digits"),
            ("max_batch_size: 1_0", 1, "got: 1_", "digits"),
            ("nam: 'a'", 1, "nam", "did you mean name?"),
            ("xyzzy: 'a'", 1, "xyzzy", "take it out"),
            ("input { data_type: FP32 }", 1, "FP32", "write TYPE_FP32"),
            ("input { data_type: TYPE_DOUBLE }", 1, "TYPE_DOUBLE", "write TYPE_FP64"),
            ("input { data_type: INT7 }", 1, "INT7", "TYPE_INT8"),
            ("\n\nmax_batch_size: ${SIZE}", 3, "$", "placeholder"),
            ("\ufeffname: 'a'", 1, "\ufeff", "byte-order"),
        ],
    )
    def test_what_is_refused(self, text: str, line: int, what: str, instead: str) -> None:
        with pytest.raises(ConfigSyntaxError) as raised:
            parse(text)
        assert raised.value.line == line
        assert what in raised.value.what
        assert instead in raised.value.instead


class TestRepository:
    """Which models a repository has, and what their steps call."""

    def test_configs(self, tmp_path: Path) -> None:
        files = {"a/config.pbtxt": "max_batch_size: 2", "b/config.pbtxt": "", "c/x": ""}
        write(tmp_path, files)
        assert model_config(tmp_path, "a").max_batch_size == 2
        assert list(model_configs(tmp_path)) == ["a", "b"]
        write(tmp_path, {"d/config.pbtxt": "\nx"})
        with pytest.raises(ValueError, match=r"d/config.pbtxt:2: .*; "):
            model_configs(tmp_path)

    def test_steps_and_calls(self, tmp_path: Path) -> None:
        def calls(*names: str) -> dict[str, Any]:
            return {name: {"name": name} for name in names}

        alone = {"name": "alone", "calls": calls("x")}
        shared = {"steps": [{"name": "one", "calls": calls("y")}, {"name": "two"}]}
        files = {"a/1/step.json": alone, "a/2/step.json": alone, "b/1/step.json": shared}
        write(tmp_path, {name: json.dumps(manifest) for name, manifest in files.items()})
        assert list_called_models(tmp_path) == {"a": ["x"], "b": ["y"]}
        assert list_fused_steps(tmp_path) == {"b": ["one", "two"]}
