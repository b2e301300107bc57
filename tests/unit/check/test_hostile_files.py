"""A repository whose files are what a stranger puts there: FIFOs, devices, links, sparse and deep files, and samples that name files."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from answers_support import GOOD, one
from drawing import SEED
from hostile_answers_support import RICH, changed, places
from hostile_files import DEEP, FILES, PART_FILES, replace, write_files, write_hostile
from support import step

from triton_ensemble.check.examples import (
    MODEL,
    A,
    ensemble_text,
    step_text,
    write,
)
from triton_ensemble.check.rules.engine import check
from triton_ensemble.cli import main
from triton_ensemble.deploy import pushed_files as push_files
from triton_ensemble.facts import catalog
from triton_ensemble.facts.project import Project
from triton_ensemble.facts.reading import iter_files
from triton_ensemble.serve import published
from triton_ensemble.serve.container import request
from triton_ensemble.testing import files

# More, and others: STRANGE=1000 SEED=7 python -m pytest tests/unit/check/test_hostile_files.py
STRANGE = int(os.environ.get("STRANGE", 30))
LONGEST_S = 60  # a machine may be busy: an idle one takes 2 s for the longest
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no FIFOs")


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Fail if a block takes longer, even one that catches errors."""

    def stop(*_: object) -> None:
        pytest.fail(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("number", range(STRANGE))
def test_hostile_files_are_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    repository, done = write_hostile(tmp_path / "p", f"{SEED} {number}")
    for command in (["check"], ["adopt", "--into", str(tmp_path / "into")]):
        with limit(LONGEST_S):
            status = main([*command, str(repository)])
        out, err = capsys.readouterr()
        assert status in (0, 1), (done, err)
        assert (out + err).strip(), done
        assert "Traceback" not in out + err, done


PATTERNS = {each["pattern"] for each in catalog.table("kinds").values() if "pattern" in each}
PATTERNS |= {each["pattern"] for each in catalog.table("team")["kinds"].values() if "pattern" in each}  # fmt: skip


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_no_pattern_takes_long(pattern: str) -> None:
    """For up to 40,000 characters before one that does not fit."""
    parts = ["a", " ", ".", "/a", ", ", "a ,", ">=1,", "[a", "0, ", "9", " (", "os_name=='a' and ", "/a@", "-"]  # fmt: skip
    with limit(LONGEST_S):
        for start, part, count in product(["", "a", "a>=1,", "a @ ", "A[", "a;", "--a="], parts, (40, 10000)):  # fmt: skip
            re.search(pattern, start + part * count + "\0")


@pytest.mark.parametrize("kind", ["fifo", "sparse", "/dev/zero"])
@pytest.mark.parametrize("name", [name for name in FILES if re.search("pbtxt|^[^/]*yml", name)])
def test_a_file_that_is_none_is_named(tmp_path: Path, name: str, kind: str) -> None:
    repository = write_files(tmp_path)
    replace(tmp_path / name, kind)
    with limit(LONGEST_S):
        found = {each.file for each in check(repository) if "can't be read" in each.what}
    assert found == {tmp_path / name}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_goes_too_deep_is_no_traceback(tmp_path: Path, name: str) -> None:
    repository = write_files(tmp_path)
    replace(tmp_path / name, "deep")
    check(repository)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((".copier-answers.yml", each) for each in ("sizes", "apply", "unload p 1", "push s3://bucket/prefix")),
        (".make-update-x/journal.json", "apply"),
        ("versions.json", "store s3://bucket/prefix"),
        ("model_repository/p/1/model.json", "sizes"),
        *PART_FILES.items(),
    ],
)  # fmt: skip
def test_no_command_waits_for_a_fifo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:  # fmt: skip
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    if name[0] in "md":
        Path("pipeline.yml").unlink()  # else it is applied first
        project = SimpleNamespace(root=tmp_path, repository=Path("model_repository"), models=())
        monkeypatch.setattr(Project, "load", lambda _: project)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).touch()
    replace(Path(name), "fifo")
    with limit(9):
        status = main(command.split())
    assert status
    assert Path(name).name in capsys.readouterr().err


def test_an_environment_that_is_a_fifo_is_none(tmp_path: Path) -> None:
    path = '{ string_value: "$$TRITON_MODEL_DIRECTORY/env" }'
    config = f'{A}parameters {{ key: "EXECUTION_ENV_PATH" value {path} }}'
    repository = write(config, tmp_path)
    os.mkfifo(next(repository.glob("*/config.pbtxt")).with_name("env"))
    with limit(LONGEST_S):
        assert [each.rule for each in check(repository)] == ["execution-environment"]


def test_folders_in_each_other_are_an_error(tmp_path: Path) -> None:
    """Python 3.11 ends in a RecursionError at 1,000."""
    tmp_path.joinpath(*["d"] * 101).mkdir(parents=True)
    with pytest.raises(OSError, match="folders more than 100 deep"):
        [*iter_files(tmp_path)]


CHAIN = [step(f"s{i}", {"x": f"T{i}"}, {"y": f"T{i + 1}"}, "onnxruntime") for i in range(1000)]
LARGE: dict[str, tuple[dict[str, Any], str]] = {
    "unknown keys": ({f"key{i}": i for i in range(40_000)}, "key0: is not a question; drop it"),
    "steps": ({"tensors": {f"T{i}": "FP32[4]" for i in range(1001)}, "steps": CHAIN}, "nothing found"),
    "parameters": (one(parameters={f"k{i}": "v" for i in range(16_000)}), "has 16000 entries; write 1000 or less"),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_a_large_file_takes_no_minute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    answers, line = LARGE[name]
    (tmp_path / "pipeline.yml").write_text(yaml.safe_dump(GOOD | answers))
    began = time.process_time()
    with limit(10 * LONGEST_S):
        main(["check", str(tmp_path / "pipeline.yml")])
    assert time.process_time() - began < LONGEST_S
    assert line in "".join(capsys.readouterr())


ODD_KINDS: list[Any] = [3, "text", [3], {"a": 3}, None, True, [{}], {"a": None}]
TOP = [(place, odd) for place in places(RICH) for odd in ODD_KINDS if len(place) == 1]
OTHERS = [(place, odd) for place in places(RICH) for odd in ODD_KINDS if 1 < len(place) < 5]


def test_saved_answers_of_any_kind_are_lines(tmp_path: Path) -> None:
    repository = write_files(tmp_path)
    (tmp_path / "pipeline.yml").unlink()
    for place, odd in [*TOP, *random.Random(SEED).sample(OTHERS, STRANGE)]:
        saved = tmp_path / ".copier-answers.yml"
        saved.write_text(f"_commit: v1.0.0\n{yaml.safe_dump(changed(place, odd))}")
        found = [each for each in check(repository) if each.file == saved]
        if place == ("stages",) and odd != {"a": None} and odd:
            assert [each.what for each in found] == [
                "stages is not of the form that the template writes"
            ]


def test_no_link_out_of_a_project_is_copied(tmp_path: Path) -> None:
    folder = tmp_path / "p/model_repository/m/1"
    folder.mkdir(parents=True)
    (tmp_path / "p/vendor").mkdir()
    (tmp_path / "p/vendor/project.json").touch()
    (tmp_path / "key").write_text("secret")
    (folder / "model").write_text("weights")
    (folder / "in").symlink_to("model")
    os.mkfifo(folder / "fifo")
    project: Any = SimpleNamespace(
        root=tmp_path / "p", repository=folder.parents[1], step_modules={}, model_files={}, model_data={}, adopted={}
    )  # fmt: skip
    assert push_files.files(project).keys() == {"m/1/model", "m/1/in"}
    assert published.freeze(project.root, folder).keys() == {"model", "in"}
    (folder / "out").symlink_to(tmp_path / "key")
    for copy in (
        lambda: push_files.files(project),
        lambda: published.freeze(project.root, folder),
    ):
        with pytest.raises(RuntimeError, match=r"m/1/out: is a link out of the project, to .*/key"):
            copy()


LABEL = A.removesuffix(" }\n") + ' label_filename: "labels" }\n'
INITIAL = 'name: "first" data_type: TYPE_FP32 dims: [4] data_file: "s"'
STATE = (
    f'input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [4] initial_state {{ {INITIAL} }}'
)
DATA = 'key: "X" value { data_type: TYPE_FP32 dims: 4 input_data_file: "w" }'
OUT_OF_IT = {
    "config.pbtxt": A,
    "labels": LABEL,
    "warmup/w": f"{A}model_warmup {{ batch_size: 1 inputs {{ {DATA} }} }}\n",
    "initial_state/s": f"max_batch_size: 4\n{A}sequence_batching {{ state {{ {STATE} }} }}\n",
    "1": LABEL.replace("labels", "../../key"),
}


@pytest.mark.parametrize("name", OUT_OF_IT)
def test_no_file_of_a_model_is_read_out_of_the_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    files = {"m": OUT_OF_IT[name], "e": ensemble_text(step_text("m", "X=X", "Y=Y"))}
    repository = write(files, tmp_path)
    (tmp_path / "key").write_text("secretword\n")
    link = repository / "m" / name
    if name != "1":
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / "key")
    for command in (["check"], ["adopt", "--into", str(tmp_path / "into")]):
        assert main([*command, str(repository)]) == 1
        printed = "".join(capsys.readouterr())
        assert printed.count(" out of the repository") == 1, printed
        assert not re.search(r"secretword|has [0-9]+ (labels|bytes)", printed)


@pytest.mark.parametrize("name", ["model.py", "helper.py"])
def test_no_code_is_read_out_of_the_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code = f"from helper import x\n{MODEL}"
    repository = write({"m": 'backend: "python"\n', "m/1/model.py": code}, tmp_path)
    (tmp_path / "key").write_text("raise ValueError('secretword')\n")
    (repository / "m/1" / name).unlink(missing_ok=True)
    (repository / "m/1" / name).symlink_to(tmp_path / "key")
    main(["check", str(repository)])
    assert "secretword" not in "".join(capsys.readouterr())


def test_a_folder_of_a_model_may_be_a_link(tmp_path: Path) -> None:
    repository = write({"n": A}, tmp_path / "r")
    elsewhere = write({"m": LABEL, "m/labels": "a\nb\nc\nd\n"}, tmp_path)
    (repository / "m").symlink_to(elsewhere / "m")
    assert check(repository) == []


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Return the file of a sample in a project, beside a file that is not the project's."""
    (tmp_path / "p/vendor").mkdir(parents=True)
    (tmp_path / "p/vendor/project.json").touch()
    (tmp_path / "p/samples").mkdir()
    (tmp_path / "key").write_text("secret")
    (tmp_path / "p/models").mkdir()
    for place in ("p/samples/cat", "p/models/cat", "p/samples/dir/cat"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("cat")
    (tmp_path / "p/samples/out").symlink_to(tmp_path / "key")
    (tmp_path / "p/samples/folder").symlink_to(tmp_path)
    (tmp_path / "p/samples/in").symlink_to("../models/cat")
    os.mkfifo(tmp_path / "p/samples/fifo")
    return tmp_path / "p/samples/one.json"


def contents(sample: Path, name: str) -> list[Any]:
    """Return what a cell that names a file is for each reader of samples."""
    sample.write_text(f'{{"inputs": {{"X": [{{"file": "{name}"}}]}}}}')
    project: Any = SimpleNamespace(samples=sample.parent)
    read = files.read(sample, lambda arrays: arrays).inputs["X"].tolist()
    return [*read, request._bytes(project, {"file": name})]


@pytest.mark.parametrize("name", ["cat", "dir/cat", "in", "../models/cat"])
def test_a_sample_names_files_of_the_project(sample: Path, name: str) -> None:
    assert contents(sample, name) == [b"cat", b"cat"]
    copy = sample.parents[2] / "copy"  # as a candidate of `make shift`
    (copy / "vendor").mkdir(parents=True)
    (copy / "samples").symlink_to(sample.parent)
    (copy / "vendor/project.json").touch()
    assert contents(copy / "samples/one.json", name) == [b"cat", b"cat"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../../key", "out", "folder/key", "fifo"])
def test_a_sample_names_no_file_outside(sample: Path, name: str) -> None:
    project: Any = SimpleNamespace(samples=sample.parent)
    for read in (
        lambda: contents(sample, name),
        lambda: request._bytes(project, {"file": name}),
    ):
        with limit(LONGEST_S), pytest.raises((OSError, ValueError)) as refused:
            read()
        said = "is not a regular file" if name == "fifo" else f"{name} is not a file of the project"
        assert said in str(refused.value)


def test_a_sample_that_goes_too_deep(sample: Path) -> None:
    for text in ("[" * DEEP, '{"inputs": ' * DEEP, f'{{"inputs": {{"X": {"[" * 900}{"]" * 900}}}}}'):  # fmt: skip
        sample.write_text(text)
        with pytest.raises(ValueError, match="is not a sample request"):
            files.read(sample, lambda arrays: arrays)
