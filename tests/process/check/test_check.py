"""The check: each rule on a repository of its own, and on a real Triton where that can be asked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from check_support import CASES, DEPLOYMENT, FINE, PYTHON, write
from drawing import drawn
from model_bytes import ONNX_FILE
from pipelines import pipelines
from properties_support import build, reasons, serving
from support import ROOT, UNUSUAL, Generate, Project, succeed

from triton_ensemble.check.rules import RULES
from triton_ensemble.check.rules.engine import check
from triton_ensemble.cli import main
from triton_ensemble.serve.local.process import ServerError

# More: CHECKED=200 SEED=7 python -m pytest tests/unit/check/test_check.py
CHECKED = int(os.environ.get("CHECKED", 4))


@pytest.mark.slow
def test_triton_refuses_what_is_an_error_and_loads_what_is_a_warning(tmp_path: Path) -> None:
    asked = [(f"c{i}_", case) for i, case in enumerate(CASES) if case.ask]
    for prefix, case in asked:
        write(tmp_path / "r", case.files, prefix)
    for i, files in enumerate(FINE.values()):
        write(tmp_path / "r", files, f"fine{i}_")
    try:
        with serving(tmp_path / "r") as client:
            why = reasons(client)
    except ServerError:  # Triton itself has died of so many that fail at once: seen once
        with serving(tmp_path / "r") as client:
            why = reasons(client)
    wrong = []
    for prefix, case in asked:
        names = [path.name for path in (tmp_path / "r").iterdir() if path.name.startswith(prefix)]
        refused = any(why.get(name, "not listed") for name in names)
        expected = RULES[case.rule].severity == "error" and not case.loads
        if refused != expected and case.rule != "config-made-up":
            wrong.append((case.rule, case.place, [why.get(name) for name in names]))
    assert wrong == []
    fine = {name: said for name, said in why.items() if name.startswith("fine")}
    assert {name.partition("_")[0] for name in fine} == {f"fine{i}" for i in range(len(FINE))}
    assert not any(fine.values()), fine


@pytest.mark.slow
def test_nothing_is_found_in_what_the_template_generates(template: Path, tmp_path: Path) -> None:
    findings: list[str] = []
    for i, pipeline in enumerate(drawn(pipelines(), CHECKED)):
        repository = build(template, pipeline, tmp_path / "p")
        findings += [f"{i}: {finding}" for finding in check(repository)]
        shutil.rmtree(tmp_path / "p")
    assert findings == []


def test_make_check(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own")
    done = project.make("check")
    assert succeed(done).count("\n") <= 1
    assert done.stderr.splitlines()[0] == "3 models: nothing found"
    label = project / "model_repository/prepare/config.pbtxt"
    label.write_text(label.read_text().replace("TYPE_", "TYP_", 1))
    done = project.make("check", "FORMAT=github")
    assert done.returncode
    assert "::error file=model_repository/prepare/config.pbtxt,line=" in done.stdout


@pytest.mark.slow
def test_a_project_whose_pipeline_was_changed_but_not_applied(generate: Generate) -> None:
    project = generate.complete()
    path = project / "pipeline.yml"
    text = path.read_text()
    path.write_text(text.replace("max_batch_size: 8", "max_batch_size: 16"))
    line = text[: text.index("max_batch_size")].count("\n") + 1
    [finding] = check(project / "model_repository")
    assert (finding.file, finding.line, finding.rule) == (path, line, "pipeline-changed")
    path.write_text(text.replace("max_batch_size: 8", "max_batch_size: -8"))
    refused = project.make("check").stdout.splitlines()
    what = "max_batch_size is -8; write a whole number, 0 or more"
    assert refused == [f"pipeline.yml:{line}: error: answers: {what}"]  # no command applies it


@pytest.mark.slow
def test_a_sample_of_other_inputs_is_named(generate: Generate) -> None:
    """As after an update to a pipeline of other inputs. No test is collected before."""
    project = generate.complete()
    path = project / "samples/old.json"
    path.write_text('{\n  "outputs": {},\n  "inputs": {"PICTURE": [["a"]]}\n}\n')
    said = project.make("test").stdout
    what = "lacks the input IMAGE and has PICTURE, which the ensemble does not take"
    assert (
        f"samples/old.json:3: error: sample-inputs: {what}; add IMAGE and take PICTURE out" in said
    )
    assert "passed" not in said


@pytest.mark.slow
def test_a_step_that_does_not_compile(generate: Generate) -> None:
    project = generate.complete()
    path = project / "steps/label.py"
    path.write_text(path.read_text() + "\n\ndef open(:\n")
    line = path.read_text().count("\n")
    said = project.make("check").stdout
    assert f"steps/label.py:{line}: error: python-syntax: SyntaxError: " in said


@pytest.mark.slow
def test_a_folder_of_no_step(generate: Generate) -> None:
    project = generate()
    repository = project / "model_repository"
    succeed(project.make("repository"))
    write(repository, {"former": PYTHON})
    (repository / "gone" / "1").mkdir(parents=True)
    (repository / "gone" / "1" / "model.onnx").write_text(ONNX_FILE)
    assert [
        (f.file.parent.name, f.rule) for f in check(repository) if f.rule != "config-made-up"
    ] == [
        ("former", "folder-of-no-step"),
        ("gone", "config-missing"),
    ]


@pytest.mark.parametrize(
    "change", [('model_name: "', 'model_name: "no'), ("platform:", "foo: 3 platform:")]
)
@pytest.mark.parametrize("name", ["steps in one process", "nested ensemble, interfaces of its own"])
def test_an_error_of_the_ensemble_makes_no_model_an_orphan(
    generate: Generate, name: str, change: tuple[str, str]
) -> None:
    """One that pipeline.yml does not name is none either: of steps that share a process, or of an output that is read."""
    project = generate.complete(**UNUSUAL[name])
    config = project / "model_repository" / UNUSUAL[name]["project_name"] / "config.pbtxt"
    config.write_text(config.read_text().replace(*change))
    findings = check(project / "model_repository")
    assert {finding.file for finding in findings if finding.severity == "error"} == {config}
    assert "folder-of-no-step" not in {finding.rule for finding in findings}


def test_without_the_ensemble_no_model_is_an_orphan(generate: Generate) -> None:
    project = generate.complete(**UNUSUAL["steps in one process"])
    shutil.rmtree(project / "model_repository/joined")
    assert check(project / "model_repository") == []


def test_a_step_that_the_ensemble_passes_by_is_no_orphan(generate: Generate) -> None:
    """pipeline.yml has it."""
    fields = {"backend": "python", "fuse": False}
    steps = [
        {"name": "one", "inputs": {"x": "A"}, "outputs": {"y": "B"}, **fields},
        {"name": "two", "inputs": {"x": "B"}, "outputs": {"y": "C"}, **fields},
    ]
    project = generate.complete(
        starting_pipeline="my-own",
        ensemble_name="e",
        tensors=dict.fromkeys("ABC", "FP32[4]"),
        steps=steps,
    )
    config = project / "model_repository/e/config.pbtxt"
    config.write_text(config.read_text().replace('model_name: "two"', 'model_name: "one"'))
    assert check(project / "model_repository") == []


@pytest.fixture(scope="module")
def deployed(generate: Generate) -> Project:
    """Return a project that caches, has Python steps, and an image without models."""
    project = generate.complete(starting_pipeline="my-own", ensemble={"cache": True})
    mounted = project / "deploy/compose.mounted.yaml"
    mounted.write_text(mounted.read_text().replace(":ro", ""))
    return project


@pytest.mark.parametrize("rule", DEPLOYMENT)
def test_what_deploy_does_with_the_repository(deployed: Project, rule: str) -> None:
    assert check(deployed / "model_repository") == []
    name, before, after, place = DEPLOYMENT[rule]
    path = deployed / "deploy" / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    [finding] = check(deployed / "model_repository")
    line = next(i for i, line in enumerate(text.splitlines(), 1) if (place or "") in line)
    assert (finding.file, finding.line, finding.rule) == (path, line, rule)
    path.write_text(text)


@pytest.mark.slow
def test_the_example_of_the_page(
    generate: Generate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = generate.complete()
    config = project / "model_repository/image_classification/config.pbtxt"
    before, last, after = config.read_text().rpartition("model_version: -1\n")
    assert last
    config.write_text(before + "\n" + after)
    monkeypatch.chdir(project.path)
    assert main(["check"]) == 1
    page = (ROOT / "docs/check.md").read_text()
    assert f"```console\n{capsys.readouterr().out}```" in page
