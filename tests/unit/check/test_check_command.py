"""`triton-ensemble check`: what it prints, its exit status, and what it can't read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from check_command_support import GARBAGE
from check_support import PYTHON, write

from triton_ensemble.cli import main


def reported(capsys: pytest.CaptureFixture[str], repository: Path) -> str:
    """Return the lines of a check that finds errors."""
    assert main(["check", str(repository)]) == 1
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line of a program that ends with 2."""
    status = main(["check", *arguments])
    printed = capsys.readouterr()
    assert (status, printed.out, printed.err.count("\n")) == (2, "", 1)
    return printed.err


def test_a_warning_says_that_it_is_one_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "r", {"m": f"{PYTHON}dynamic_batching {{ }}"})
    assert main(["check", str(tmp_path / "r")]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{tmp_path}/r/m/config.pbtxt:5: warning: batching-ignored: ")
    assert printed.err == ""


@pytest.mark.parametrize(("form", "out"), [("text", ""), ("github", ""), ("json", "[]\n")])
def test_nothing_found_is_said_beside_the_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, out: str
) -> None:
    write(tmp_path / "r", {"m": PYTHON})
    assert main(["check", str(tmp_path / "r"), "--format", form]) == 0
    assert capsys.readouterr() == (out, "1 model: nothing found\n")
    write(tmp_path / "r", {"n": PYTHON})
    assert main(["check", str(tmp_path / "r"), "--format", form]) == 0
    assert capsys.readouterr() == (out, "2 models: nothing found\n")


def test_sarif_has_each_finding_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path / "r", {"a b": f"{PYTHON}dynamic_batching {{ }}", "n": PYTHON.replace("FP32", "X")}
    )
    monkeypatch.chdir(tmp_path)
    assert main(["check", "r", "--format", "sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert {result["ruleId"] for result in run["results"]} == {*ids}
    places = [each["locations"][0]["physicalLocation"] for each in run["results"]]
    found = [
        (each["level"], place["artifactLocation"]["uri"], place["region"]["startLine"])
        for each, place in zip(run["results"], places, strict=True)
    ]
    assert ("warning", "r/a%20b/config.pbtxt", 5) in found
    assert ("error", "r/n/config.pbtxt", 2) in found
    assert all(each["message"]["text"] for each in run["results"])


def test_junit_counts_errors_as_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path / "r", {"m": f"{PYTHON}dynamic_batching {{ }}", "n": PYTHON.replace("FP32", "<X")}
    )
    assert main(["check", str(tmp_path / "r"), "--format", "junit"]) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out)
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    [failure] = suite.iter("failure")
    assert failure.get("type") == "parse"
    [warning] = suite.iter("system-out")
    assert "dynamic_batching" in (warning.text or "")


@pytest.mark.parametrize(("form", "begins"), [("sarif", "{"), ("junit", "<?xml")])
def test_services_get_a_report_without_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, begins: str
) -> None:
    write(tmp_path / "r", {"m": PYTHON})
    assert main(["check", str(tmp_path / "r"), "--format", form]) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_a_rule_is_explained_with_its_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "step-version"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("step-version\n\n**Error**: ")
    assert "\n+ " in said
    assert main(["explain", "step-versoin"]) == 2
    wrong = "step-versoin: is not a rule of the check; did you mean step-version?\n"
    assert capsys.readouterr().err == wrong


@pytest.mark.parametrize(
    "release", ["abc", "23.01", "24.09", "26.13", "26.00", "26.7", "99.99", ""]
)
def test_what_is_no_release(capsys: pytest.CaptureFixture[str], release: str) -> None:
    assert (
        f"{release} is not a release of Triton's container; write YY.MM, 24.10 or later"
        in refused(capsys, "--release", release)
    )


@pytest.mark.parametrize("release", ["24.10", "26.11", "27.01"])
def test_a_release_may_be_newer_than_those_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], release: str
) -> None:
    write(tmp_path / "r", {"m": PYTHON})
    assert main(["check", str(tmp_path / "r"), "--release", release]) == 0
    says = "27.01: is not a release that this toolkit knows, so it was checked as 26.11\n"
    assert (says in capsys.readouterr().err) is (release == "27.01")


def test_what_is_no_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("nowhere", "link"):
        assert "no such directory; name a model" in refused(capsys, str(tmp_path / name))


def test_what_the_system_does_not_let_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch refuses it, as the administrator may read all."""
    write(tmp_path / "r", {"m": PYTHON})

    def read_bytes(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("triton_ensemble.check.python_code.Path.read_bytes", read_bytes)
    line = "m/config.pbtxt:1: error: parse: can't be read: Permission denied; "
    assert line in reported(capsys, tmp_path / "r")
    monkeypatch.setattr(
        "triton_ensemble.check.repository.read_models", lambda folder, _: read_bytes(folder / "m")
    )
    assert f"{tmp_path}/r/m: can't be read: Permission denied" in refused(capsys, f"{tmp_path}/r")


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("name", ["config.pbtxt", "1/model.py"])
def test_garbage_is_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    write(tmp_path / "r", {"m": PYTHON})
    (tmp_path / "r/m" / name).write_bytes(content)
    main(["check", str(tmp_path / "r")])
    for line in capsys.readouterr().out.splitlines():
        assert line.startswith(f"{tmp_path}/r/m/")
        assert ": error: " in line
        assert line.isprintable()


def test_a_byte_order_mark_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Triton refuses it."""
    write(tmp_path / "r", {"m": f"\ufeff{PYTHON}"})
    assert "save it as UTF-8 without a byte-order mark" in reported(capsys, tmp_path / "r")


def test_code_that_is_too_deep_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = "(" * 50_000
    write(tmp_path / "r", {"m": PYTHON, "m/1/model.py": f"x = {'-' * 50_000}1\ny = {deep}"})
    assert "1/model.py:1: error: python-syntax: " in reported(capsys, tmp_path / "r")


@pytest.mark.parametrize("place", ["odd", "m/odd"])
@pytest.mark.parametrize("target", ["nowhere", "odd"])
def test_a_link_to_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, target: str
) -> None:
    write(tmp_path / "r", {"m": PYTHON})
    (tmp_path / "r" / place).symlink_to(target)
    line = f"{place}:1: error: broken-link: failed to stat file odd, a link to {target}; "
    assert line in reported(capsys, tmp_path / "r")
