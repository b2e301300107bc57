"""The run of benchmarks/gpu on this machine, which has no GPU: what stops one item stops no other, and pages are current."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pytest
from support import ROOT

from benchmarks import works
from benchmarks.generation import template
from benchmarks.gpu import package
from benchmarks.gpu.run import LIMITS, describe_machine, measure, run_item
from scripts.gpu_page import CARD, NO_GPU, PAGE, read_results, write_part

MACHINE = {CARD: NO_GPU}
Item = tuple[float, Sequence[str]]


def program(*lines: str, limit_s: float = 20) -> Item:
    return limit_s, [sys.executable, "-c", "\n".join(lines)]


ROW = 'print(\'{"what": "a row", "per s": 7}\', flush=True)'
ITEM = [sys.executable, "-m", "benchmarks.gpu.items"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "CALLERS": "1"}
MEMORY = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2); bytes(2 << 30)"


@pytest.mark.slow
def test_items_that_hang_fail_or_lack_something_stop_no_other(tmp_path: Path) -> None:
    """The processes of an item end with it. A second call repeats what has no figures."""
    child = "import subprocess; subprocess.Popen(['sleep', '98765'], start_new_session=True)"
    config = tmp_path / "projects" / "image-cpu" / "model_repository" / "served" / "config.pbtxt"
    (config.parent / "1").mkdir(parents=True)
    config.write_text('backend: "none"')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "image").write_bytes(b"a red fox")
    items = {
        "hangs": program(ROW, child, "import time; time.sleep(99)", limit_s=2),
        "memory": program(MEMORY),
        "Triton": (60, [*ITEM, "image"]),
        "good": program(ROW),
    }
    file = tmp_path / "results.json"
    measure(items, file, MACHINE, 60, cwd=tmp_path, env=ENVIRONMENT)
    found = json.loads(file.read_text())["items"]
    states = {name: item["state"] for name, item in found.items()}
    assert states.pop("hangs") == "ended at its limit of 2 s"
    assert list(states.values()) == ["failed", "failed", "measured"]
    assert found["hangs"]["rows"] == found["good"]["rows"] == [{"what": "a row", "per s": 7}]
    notes = [found[name]["rows"][0]["note"] for name in ("memory", "Triton")]
    assert notes[0] == "failed: MemoryError"
    assert notes[1].startswith("failed: "), notes[1]
    assert "backend 'none'" in notes[1], notes[1]
    listed = subprocess.run(["pgrep", "-f", "sleep 98765"], capture_output=True, text=True).stdout
    assert not listed
    items["hangs"] = program(ROW)
    again = measure(items, file, MACHINE, 60, cwd=tmp_path, env=ENVIRONMENT)["items"]
    assert (again["hangs"]["state"], again["good"]) == ("measured", found["good"])
    written = file.with_suffix(".md").read_text()
    assert NO_GPU in written
    assert "| a row |  | 7 |" in written


def test_a_second_call_mixes_no_cards(tmp_path: Path) -> None:
    file, later = tmp_path / "r.json", {"ten": program('print(\'{"what": "later"}\')')}
    measure({"ten": program(ROW)}, file, MACHINE, 60)
    for machine, what in ((MACHINE, "a row"), ({CARD: "NVIDIA H100"}, "later")):
        found = measure(later, file, machine, 60)["items"]
        assert found["ten"]["rows"][0]["what"] == what


def test_a_call_without_time_says_what_it_did_not_reach(tmp_path: Path) -> None:
    found = measure({"late": program(ROW)}, tmp_path / "r.json", MACHINE, 0)["items"]
    assert found["late"] == {"state": "not reached", "rows": []}


def test_the_machine_is_described() -> None:
    described = describe_machine("abc1234")
    assert described["commit, date"].startswith("abc1234, 20")
    assert "benchmarks.gpu.run" in described["command"]


@pytest.mark.slow
def test_torch_answers_as_onnx_runtime_does(tmp_path: Path) -> None:
    torch_session = pytest.importorskip("benchmarks.onnx_by_torch", exc_type=ImportError)
    photo = works.HERE / "photo" / "classify.py"
    subprocess.run(
        [sys.executable, "-c", "import classify; classify.build('model.onnx')"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(photo.parent)},
        check=True,
    )
    feeds = {"pixels": np.random.default_rng(0).random((2, 3, 224, 224), np.float32)}
    file = str(tmp_path / "model.onnx")
    [ours] = torch_session.InferenceSession(file).run(None, feeds)
    [theirs] = onnxruntime.InferenceSession(file).run(None, feeds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


def test_the_archive_has_pinned_packages_and_projects_for_a_gpu() -> None:
    assert all(version(name) for name in package.PACKAGES.split())
    projects = package.list_projects()
    assert {answers["gpu_count"] for answers in projects.values()} == {1}
    kinds = {name.partition("-")[0] for name in projects}
    assert kinds == {*LIMITS} - {"bench", "tune"}


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk, which makes the load, is not here")
@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("ten-torch-fused", "9 of 9 handed over in place on cpu; GPU instances run on the CPU"),
        pytest.param("ten-torch-claims", "GPU instances run on the CPU", marks=pytest.mark.slow),
    ],
)
def test_an_item_measures_on_the_cpu_and_says_so(tmp_path: Path, name: str, note: str) -> None:
    (tmp_path / "template").mkdir()
    source, folder = template(tmp_path / "template"), tmp_path / "projects" / name
    package.make_project(source, name, package.list_projects()[name], folder)
    configs = [path.read_text() for path in folder.glob("model_repository/step*/config.pbtxt")]
    assert configs
    assert all("KIND_GPU" in text for text in configs)
    for field in ("rate_limiter", "gpus: [ 0 ]"):
        assert all((field in text) == (name == "ten-torch-claims") for text in configs), field
    found = run_item([*ITEM, "ten"], 100, cwd=tmp_path, env=ENVIRONMENT)
    assert found["state"] == "measured", found
    if not find_spec("torch"):
        assert [row["note"] for row in found["rows"]] == ["left out: torch is not installed"]
        return
    start, figures = found["rows"]
    assert start["note"].startswith(note)
    assert (start["off"], figures["at once"], figures["per s"] > 0) == ("0", 1, True)


# The page.

DESCRIBED = {CARD: "NVIDIA H100, 580.159.04, 81559 MiB", "command": "python3 x"}


def written(**machine: str) -> str:
    rows = [{"what": "texts", "at once": callers, "per s": 10 * callers} for callers in (1, 32)]
    items = {"texts": {"state": "measured", "rows": rows}}
    return write_part(PAGE, {"machine": machine, "items": items})


def test_the_page_is_what_the_script_writes() -> None:
    """`.venv/bin/python -m scripts.gpu_page` writes it."""
    assert write_part(PAGE, read_results()) == PAGE.read_text()


def test_figures_have_the_card_the_driver_and_the_command() -> None:
    text = written(**DESCRIBED)
    assert text.count("| texts |") == 1
    assert all(word in text for word in DESCRIBED.values())
    assert "Nothing yet" not in text
    for lacking in ({"command": ""}, {CARD: "NVIDIA H100"}):
        with pytest.raises(ValueError, match="lack the card, its driver or the command"):
            written(**{**DESCRIBED, **lacking})


def test_figures_of_a_cpu_are_no_figures_of_a_gpu() -> None:
    assert "Nothing yet" in written(**{**DESCRIBED, **MACHINE})
