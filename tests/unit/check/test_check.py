"""The check: each rule on a repository of its own, and on a real Triton where that can be asked."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from check_support import (
    CASES,
    DEPLOYMENT,
    FINE,
    IN,
    OUT,
    PYTHON,
    A,
    Case,
    Files,
    code,
    ensemble,
    step,
    write,
)
from gatekeeper import Gatekeeper
from support import ROOT, Generate
from wiring_support import REFUSED, WIRINGS

from triton_ensemble.check.examples import MODEL, model_code
from triton_ensemble.check.rules import OF_EXTRAS, RULES, rules_of
from triton_ensemble.check.rules.engine import check
from triton_ensemble.cli import main
from triton_ensemble.facts import catalog

LOCAL = "24.10"  # the release of the local Triton


def places(repository: Path, release: str = "") -> list[str]:
    return [
        f"{f.file.relative_to(repository).as_posix()}:{f.line}: {f.rule}"
        for f in check(repository, release)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_finds_its_case_and_no_other_does(case: Case, tmp_path: Path) -> None:
    repository = write(tmp_path / "r", case.files)
    assert {*places(repository)} == {f"{case.place}: {case.rule}"}


@pytest.mark.parametrize("files", FINE.values(), ids=FINE)
def test_nothing_is_found_in_what_triton_serves(files: Files, tmp_path: Path) -> None:
    repository = write(tmp_path / "r", files)
    assert places(repository) == []
    of_the_release = {"output-twice", "steps-together"}  # which a newer one serves otherwise
    found = places(repository, LOCAL)
    assert [each for each in found if each.rpartition(": ")[2] not in of_the_release] == []


PROJECT_RULES = {
    "folder-of-no-step",
    "instance-gpu-count",
    "apply-conflict",
    "pipeline-unreadable",
    "pipeline-changed",
    "requirement-unlocked",
    "sample-inputs",
    "step-signature",
}
RELEASE_RULES = {
    "aoti",
    "aoti-batch",
    "backend-gone",
    "correlation-id-text",
    "steps-together",
    "tensor-twice",
    "too-new",
}


# Rules with tests of their own: tests/unit/check/test_call_rules.py, test_check_alone.py, test_known_faults.py, test_low_rules.py, test_model_scripts.py and
# test_optional_inputs.py.
UNIT_RULES = {
    "batch-strategy",
    "batching-delay",
    "batching-rows",
    "batching-timeout",
    "calls-decoupled",
    "calls-initialize",
    "calls-itself",
    "calls-tensor",
    "calls-unknown",
    "calls-version",
    "fil-parameters",
    "gpu-backend",
    "known-fault",
    "model-script",
    "outputs-asked",
    "python-decoupled",
    "python-list",
    "python-name",
    "tensor-optional",
}


@pytest.mark.parametrize(
    "text",
    [
        "x = t'{1}'",
        "def f[T](x: T): ...",
        "class A[T = int]: ...",
        "type X = int",
        "x = f'{'a'}'",
        "x = f'{max(\n    1, 2)}'",
        "x = f'{1:{'.2f'}}'",
        "x = f'{','.join('a')}{'#'.join('b')}'",
        "x = f'{'\\n'.join('a')}'",
        "lazy import json",
        "try:\n    x = 1\nexcept* ValueError:\n    pass",
        "try:\n    x = 1\nexcept KeyError, json.Error:\n    pass",
        "try:\n    x = 1\nexcept json.dumps() , json.error:\n    pass",
        "match 1:\n    case 1 | 2:\n        pass",
    ],
)
def test_syntax_of_a_newer_python_is_at_most_a_warning(text: str, tmp_path: Path) -> None:
    files = {**code("", f"import json\n{text}\n{MODEL}", 0).files, "@m/1/own.py": text}
    found = check(write(tmp_path / "r", files), LOCAL)
    assert {(f.rule, f.severity) for f in found} <= {("python-version", "warning")}
    assert found or sys.version_info >= (3, 12) or "match" in text


@pytest.mark.parametrize(
    "text", ["x = f'{1}", "x = (f'{1}', {", "try:\n    x = 1\nexcept ValueError, e:\n    pass"]
)
def test_syntax_of_no_python_is_an_error(text: str, tmp_path: Path) -> None:
    found = check(write(tmp_path / "r", code("", f"{text}\n{MODEL}", 0).files), LOCAL)
    assert [f.rule for f in found] == ["python-syntax"]


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("from helper.more import x", {"helper/weights": ""}),
        ("from helper.more import x", {"helper/other.py": "", "../helper/more.py": "x = 1\n"}),
        ("from helper import x", {"helper.py": "import sys\nsys.modules[__name__].x = 1\n"}),
        ("from helper import x", {"helper/__init__.py": "__path__.append('more')\n"}),
        ("import helper.more", {"helper.py": "import sys\nsys.modules['helper.more'] = sys\n"}),
        ("from helper import x", {"helper.py": "", "helper.cpython-312-x86_64-linux-gnu.so": ""}),
    ],
)
def test_a_module_may_get_more_than_its_text_and_its_folder_show(
    line: str, files: dict[str, str], tmp_path: Path
) -> None:
    given = {f"@m/1/{name}": text for name, text in files.items()}
    folder = write(tmp_path / "r", {**code("", f"{line}\n{MODEL}", 0).files, **given})
    assert "python-import" not in {each.rule for each in check(folder, LOCAL)}


def test_each_rule_has_a_case() -> None:
    elsewhere = (
        PROJECT_RULES
        | RELEASE_RULES
        | DEPLOYMENT.keys()
        | {"components", "placeholder"}
        | {rule.id for topic in OF_EXTRAS for rule in rules_of(topic)}
        | UNIT_RULES
    )
    assert {case.rule for case in CASES} | elsewhere == RULES.keys()


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


# Refused where they are written: nothing wrong of them reaches a config.
UNWRITTEN = {
    "a field with an answer of its own in config",
    "a field of a step at an ensemble",
    "a field of an ensemble at its step",
    "a field of an ensemble at another step",
    "a field of a model at a step that is served by another's",
}
# What only the code says that is not written here.
OF_CODE = {
    "a call of a step of sequences",
    "a step that calls itself",
    "a step that calls one that its own model serves",
    "calls of a step that is none",
    "steps that call each other, over a third",
    "tensors that a model.py of one's own adds",
    "an output that a step may leave out, and the next one may not",
    "an output that a step may leave out, and another step reads",
    "an output that a step may leave out, of a model that two steps have",
    "an optional output",
    "an optional output of the ensemble",
    "nothing but outputs that a step may leave out",
    "outputs that a step may leave out, all of them",
}
# What is adopted is taken as it is, and the check warns.
AS_IT_IS = {"rows that a step has not, adopted"}


@pytest.mark.parametrize("name", sorted(WIRINGS.keys() - UNWRITTEN - OF_CODE - AS_IT_IS))
def test_the_check_finds_what_the_prompts_refuse_and_no_more(
    keeper: Gatekeeper, tmp_path: Path, name: str
) -> None:
    """The configs are those that the template would write if it refused nothing."""
    answers, refused = WIRINGS[name], REFUSED.get(name)
    saved = {"ensemble_name": "p", "triton_release": LOCAL, **answers}
    (tmp_path / ".copier-answers.yml").write_text(yaml.safe_dump(saved))
    repository = written(tmp_path / "model_repository", keeper.configs(answers))
    found = [each for each in places(repository) if not each.endswith(": steps-together")]
    assert bool(found) == bool(refused), (
        refused,
        found,
    )  # a warning of the release, not of the wiring


ANY_FILE = ("model.py", "model.onnx", "model.pt", "model.plan")


def written(repository: Path, configs: dict[str, str], files: Sequence[str] = ANY_FILE) -> Path:
    """Write configs, with the files that a backend could want. Return the repository."""
    for name, config in configs.items():
        for version in ("1", "2"):
            (repository / name / version).mkdir(parents=True)
            for file in files:
                (repository / name / version / file).write_text(model_code(config))
        (repository / name / "config.pbtxt").write_text(config)
    return repository


def test_the_page_lists_the_rules() -> None:
    page = (ROOT / "docs/check.md").read_text()
    listed = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \| (error|warning) \|", page, re.MULTILINE)
    assert sorted(listed) == sorted((rule.id, rule.severity) for rule in RULES.values())


def test_tensorflow_and_new_fields_are_of_their_releases(tmp_path: Path) -> None:
    old = f'platform: "tensorflow_savedmodel"\n{IN}{OUT}'
    new = ensemble(A, more="").replace("{\nstep", "{\nmax_inflight_requests: 2\nstep")
    repository = write(
        tmp_path / "r", {"t": old, "t/1/model.savedmodel/x": "", "e": new, "a": PYTHON}
    )
    assert places(repository, "25.02") == ["e/config.pbtxt:5: too-new"]
    assert places(repository, "25.11") == ["t/config.pbtxt:1: backend-gone"]


def test_an_output_twice_is_refused_since_26_05(tmp_path: Path) -> None:
    repository = write(tmp_path / "r", {"m": OUT + PYTHON})
    assert places(repository, "26.04") == ["m/config.pbtxt:4: tensor-twice"]
    assert places(repository, "26.05") == ["m/config.pbtxt:4: output-twice"]
    mapped = write(tmp_path / "mapped", {"e": ensemble(A), "a": OUT + PYTHON})
    assert places(mapped, "24.10") == ["a/config.pbtxt:4: output-twice"]


TWO = PYTHON + IN.replace("IN", "IN2")


@pytest.mark.parametrize(
    ("steps", "together"),
    [
        ([step("a", outputs="OUT=M"), step("a", outputs="OUT=N"), step("b", "IN=M IN2=N")], True),
        (
            [
                step("a", outputs="OUT=L"),
                step("a", "IN=L", "OUT=M"),
                step("a", "IN=L", "OUT=N"),
                step("b", "IN=M IN2=N"),
            ],
            True,
        ),
        ([step("a", outputs="OUT=M"), step("b", "IN=M IN2=IN")], False),
        (
            [
                step("a", outputs="OUT=M"),
                step("a", "IN=M", "OUT=N"),
                step("b", "IN=M IN2=N"),
            ],
            False,
        ),
    ],
    ids=["with the request", "as another ends", "an input too", "a skip connection"],
)
def test_steps_that_begin_together_are_a_danger_before_26_05(
    tmp_path: Path, steps: list[str], together: bool
) -> None:
    repository = write(tmp_path / "r", {"e": ensemble(*steps), "a": PYTHON, "b": TWO})
    found = ["e/config.pbtxt:4: steps-together"] if together else []
    assert places(repository, "26.04") == found
    assert places(repository, "26.05") == []


def test_a_nested_ensemble_is_a_model_like_any_other(tmp_path: Path) -> None:
    inner = ensemble(step("a"))
    files: Files = {"e": ensemble(step("inner")), "inner": inner, "a": PYTHON}
    assert places(write(tmp_path / "good", files)) == []
    wrong = files | {"inner": ensemble(step("e"))}
    assert places(write(tmp_path / "circle", wrong)) == [
        "e/config.pbtxt:5: ensemble-cycle",
        "inner/config.pbtxt:5: ensemble-cycle",
    ]
    versions = files | {"e": ensemble(step("inner", version=3))}
    assert places(write(tmp_path / "version", versions)) == ["e/config.pbtxt:5: step-version"]


def test_a_folder_that_begins_with_a_number_is_that_version(tmp_path: Path) -> None:
    repository = write(
        tmp_path / "r",
        {
            "m": PYTHON,
            "m/2.bak/model.py": MODEL,
            "e": ensemble(step("m")),
            "e/1": None,
            "e/1x": None,
        },
    )
    assert places(repository) == [
        "e/config.pbtxt:1: version-folder",
        "m/config.pbtxt:1: model-file",
        "m/config.pbtxt:1: version-folder",
    ]


def test_a_broken_link_beside_the_models(tmp_path: Path) -> None:
    repository = write(tmp_path / "r", {"m": PYTHON, "gone": Path("nowhere")})
    assert places(repository) == ["gone:1: broken-link"]


@pytest.mark.parametrize("form", ["text", "github", "json"])
def test_forms(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "r", {"m": PYTHON.replace("[4]", "[0]", 1)})
    assert main(["check", str(tmp_path / "r"), "--format", form]) == 1
    printed = capsys.readouterr().out
    path = tmp_path / "r/m/config.pbtxt"
    what = "model input 'IN' dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
    instead = "write -1 where it varies"
    finding = {"file": str(path), "line": 2, "rule": "tensor-dims", "severity": "error"}
    if form == "json":
        assert json.loads(printed) == [finding | {"what": what, "instead": instead}]
    elif form == "github":
        assert printed == f"::error file={path},line=2,title=tensor-dims::{what}; {instead}\n"
    else:
        assert printed == f"{path}:2: error: tensor-dims: {what}; {instead}\n"


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"inputs": "IMAGE"}', '{"inputs": 1}', '{"stub": 1, "inputs": {"Z": 1}}'],
)
def test_what_is_no_sample_is_left_to_tests(generate: Generate, content: str) -> None:
    project = generate()
    (project / "samples/old.json").write_text(content)
    findings = check(project / "model_repository")
    assert "sample-inputs" not in {finding.rule for finding in findings}


def test_a_package_that_the_lock_lacks(generate: Generate) -> None:
    wanted = {"requirements": ["NumPy", "regex"]}
    project = generate(
        tensors={"A": "FP32[4]", "B": "FP32[4]"},
        steps=[{"name": "one", "backend": "python", "inputs": ["A"], "outputs": ["B"], **wanted}],
        starting_pipeline="my-own",
    )
    [finding] = [f for f in check(project / "model_repository") if f.rule == "requirement-unlocked"]
    assert finding.file == project / "pipeline.yml"
    assert "regex" in finding.file.read_text().splitlines()[finding.line - 1]
    lock = project / "requirements.lock"
    lock.write_text(f"{lock.read_text()}regex==2025.1.1\n")
    assert not [f for f in check(project / "model_repository") if f.rule == "requirement-unlocked"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("kubernetes: s3 image-volume", ["s3 and image-volume exclude each other"]),
        ("kubernetes: model-volume s3", ["model-volume and s3 exclude each other"]),
        ("kubernetes: gateway-route routes", ["gateway-route needs gateway"]),
        ("kubernetes: keda hpa monitoring", ["hpa and keda exclude each other"]),
        ("kubernetes: keda", ["keda needs monitoring"]),
        ("kubernetes: gateway gateway-route monitoring hpa grpc-route smoke-test s3", []),
        ("kserve: monitoring knative", ["knative and monitoring exclude each other"]),
        ("kserve: hpa knative", ["knative and hpa exclude each other"]),
        ("kserve: concurrency canary", ["canary needs knative", "concurrency needs knative"]),
        ("kserve: grpc knative concurrency canary network-policy", []),
        ("kserve-next: keda", ["keda needs monitoring"]),
        ("kserve-next: keda; kserve: monitoring", []),
    ],
)
def test_components_that_do_not_work_together(
    generate: Generate, chosen: str, said: list[str]
) -> None:
    project = generate(extras=["kubernetes", "kserve", "gateway"], gpu_count=1)
    for each in chosen.split("; "):
        folder, names = each.split(": ")
        (project / "deploy" / folder).mkdir(exist_ok=True)
        at = f"../{folder.removesuffix('-next')}/components/"
        assert all((project / "deploy" / folder / at / name).is_dir() for name in names.split())
        content: dict[str, object] = {"components": [at + name for name in names.split()]}
        content |= {"images": [{"name": "m-models"}, {"name": "m-gateway"}]}
        content |= {"configMapGenerator": [{"name": "m-s3"}]}
        (project / "deploy" / folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    found = [f for f in check(project / "model_repository") if f.rule == "components"]
    assert sorted(f.what for f in found) == said
    for f in found:
        line = f.file.read_text().splitlines()[f.line - 1]
        assert line.endswith(f"/{f.what.split()[0]}")


def test_a_budget_of_disruptions_needs_two_replicas(generate: Generate) -> None:
    project = generate(extras=["ray", "gateway"])
    file = project / "deploy/ray/kustomization.yaml"
    file.write_text("components: [components/availability]\n")
    [finding] = [f for f in check(project / "model_repository") if f.rule == "components"]
    serve = project / "deploy/ray/serve.yaml"
    assert (finding.file, finding.instead) == (serve, "write min_replicas: 2")
    serve.write_text(serve.read_text().replace("min_replicas: 1", "min_replicas: 2"))
    assert not [f for f in check(project / "model_repository") if f.rule == "components"]


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("gateway", "m-gateway"), ("image-volume", "m-models"), ("s3", "m-s3")],
)
def test_a_component_without_its_image_or_configmap(
    generate: Generate, name: str, lacks: str
) -> None:
    project = generate(extras=["kubernetes", "gateway"])
    file = project / "deploy/kubernetes/kustomization.yaml"
    file.write_text(f"components: [components/{name}]\nimages: [{{name: m}}]\n")
    [finding] = [f for f in check(project / "model_repository") if f.rule == "components"]
    assert f"the entry NAME{lacks[1:]} of " in finding.what
    for content in ("components: 1", "components: [[a]]", "images: [a]", "[]", "a: ["):
        file.write_text(content)
        assert not [f for f in check(project / "model_repository") if f.rule == "components"]


def test_a_pipeline_that_cannot_be_read(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own")
    for content, line, what in (
        (b"", 1, "has no answers"),
        (b"\xff\0", 1, "is not UTF-8"),
        (b"ci: none\n2: x\n", 2, "has the key 2, which YAML does not read as text"),
        (b"ci: none\n? [1]\n: x\n", 2, "has a key that is a list or a mapping"),
        (b"ci: none\nci: none\n", 2, "'ci' is written twice"),
        (b'"a; b": 1\n"a; b": 2\n', 2, "'a; b' is written twice"),
    ):
        (project / "pipeline.yml").write_bytes(content)
        [finding] = [
            f for f in check(project / "model_repository") if f.rule == "pipeline-unreadable"
        ]
        assert (finding.line, finding.what) == (line, what)


@pytest.mark.parametrize(
    "answers",
    [
        "steps: 3\n",
        "steps: [build, test]\n",
        "steps: {a: b}\n",
        "steps: [{name: a, steps: 3, requirements: 4}]\n",
        "steps: [{name: a, requirements: 4}]\nensemble: 5\n",
    ],
)
def test_the_answers_of_another_template_are_not_ours(tmp_path: Path, answers: str) -> None:
    (tmp_path / ".copier-answers.yml").write_text(
        f"{answers}triton_release: [x]\ngpu_count: many\n"
    )
    repository = write(tmp_path / "models", {"m": PYTHON})
    assert check(repository) == []


def test_a_project_whose_answers_are_damaged(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own")
    answers = project / ".copier-answers.yml"
    made_from = answers.read_bytes()
    for damage in (b"<<<<<<< before\n", b"x: 2026-13-45\n", b"\xff", b"? [1]\n: 2\n"):
        answers.write_bytes(damage + made_from)
        [finding] = [
            f for f in check(project / "model_repository") if f.rule == "pipeline-unreadable"
        ]
        assert (finding.file, finding.what) == (answers, "is not YAML")


def test_the_tables_of_the_catalogue_fit_each_other() -> None:
    backends = catalog.backends()
    by_file = catalog.read_backends_by_file()
    assert {*by_file.values(), *catalog.read_backends_by_platform().values()} <= backends.keys()
    files = {each.file: name for name, each in backends.items() if each.file in by_file}
    assert files.items() <= by_file.items()
    types = catalog.read_data_types().keys()
    assert {*catalog.read_correlation_id_types()} <= types
    assert {name for each in backends.values() for name in each.without} <= types
    assert [*catalog.releases()] == sorted(catalog.releases())
    assert {each.until for each in backends.values()} <= {"", *catalog.releases()}
