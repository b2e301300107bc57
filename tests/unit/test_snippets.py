"""Each block of code in the documentation: a test runs it, takes it or compares it with what is printed; else a row here says why not."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import yaml
from readme_support import PAGES
from support import ROOT, Generate, Project, serve, succeed

from triton_ensemble import catalog
from triton_ensemble.adopt.command import adopt
from triton_ensemble.adopt.refusal import Refused
from triton_ensemble.adopt.written import pipeline_yml
from triton_ensemble.pipeline.rules import rules
from triton_ensemble.samples import files, golden


class Snippet(NamedTuple):
    """A block of code, and where it stands."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(page: str, text: str) -> Iterator[Snippet]:
    for block in re.finditer(r"^( *)```(\S*)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start()) + 1
        yield Snippet(page, line, block[2], dedent(block[3]) if block[1] else block[3])


SNIPPETS = [
    snippet for path in PAGES for snippet in snippets(str(path.relative_to(ROOT)), path.read_text())
]

# A pattern of `PAGE LANGUAGE TEXT`, and the test that has such blocks. The first row that fits one holds.
HERE = "test_snippets.py::"
RUN_BY = {
    r"docs/tutorial-cluster.md ": "cluster/test_tutorial.py::test_it_goes_as_it_says",
    r"docs/tutorial-": "test_tutorials.py::test_it_goes_as_it_says",
    r"\S+ sh ": "test_readme.py::test_commands_of_the_documentation",
    r"docs/architecture.md mermaid ": "test_architecture.py::test_imports_go_along_the_arrows",
    r"examples/\S+ mermaid ": "test_reference_pages.py::test_it_is_what_the_script_writes",
    r"docs/index.md {toctree} ": "test_site.py::test_it_is_built_and_loads_nothing_from_elsewhere",
    r"docs/(alerts|cli|fields).md ": "test_reference_pages.py::test_it_is_what_the_script_writes",
    r"docs/check.md ": "test_check_rules.py::test_the_page_is_made_of_the_rules",
    r"docs/troubleshooting.md text Internal: ": "test_troubleshooting.py::test_what_keeps_a_server_from_starting",
    r"docs/troubleshooting.md text is in use": "test_troubleshooting.py::test_a_port_that_is_taken",
    r"docs/troubleshooting.md text ": "test_troubleshooting.py::test_what_requests_are_answered",
    r"docs/steps.md (yaml|python # )": "test_docs_steps.py::test_it_passes_linters_and_the_contract_test",
    r"docs/steps.md python VOCABULARY": "test_repository.py::test_files_of_a_step_go_to_its_model_alone",
    r"docs/questions.md console ": "test_readme.py::test_the_error_of_the_questions",
    r"docs/questions.md ": "test_readme.py::test_the_pipeline_and_the_step_of_the_questions",
    r"\S+ text (decode|prepare) python: ": f"{HERE}test_a_pipeline_as_text_is_taken",
    r"README.md text |CONTRIBUTING.md text ": f"{HERE}test_what_a_tree_names_is_there",
    r"docs/adopt.md (protobuf|yaml) ": f"{HERE}test_what_adopt_makes_of_the_configs",
    r"docs/adopt.md text m/config.pbtxt:6": f"{HERE}test_what_adopt_refuses",
    r"docs/adopt.md python ": f"{HERE}test_the_script_that_fetches_a_model",
    r"docs/client.md console ": "test_client.py::test_command_line",
    r"docs/client.md json ": f"{HERE}test_the_tolerances_are_read",
    r"docs/daily.md json ": f"{HERE}test_the_sample_is_read",
    r"docs/daily.md text step label": "test_step.py::test_a_step_runs_on_what_the_steps_before_it_return",
    r"docs/daily.md text steps/label.py changed": "test_reload.py::test_an_error_has_the_path_of_the_owners_file",
    r"docs/daily.md makefile ": "test_lock.py::test_torch_for_a_cpu",
    r"docs/containers.md text prometheus": "docker/test_up.py::test_up_names_the_service_that_ends_and_its_reason",
    r"docs/containers.md ": "docker/test_tls.py::test_who_has_the_key_is_answered_over_tls",
    r"docs/gateway.md python ": "test_gateway_routes.py::test_a_route_asks_the_pipeline_as_predict_does",
    r"docs/gpu.md text engines/": "test_engines.py::test_the_files_are_those_of_the_page",
    r"docs/pipeline.md text \? Step 4": "test_guide.py::test_git_draws_the_pipeline",
    r"docs/tir.md python ": "cluster/test_tir.py::test_the_client_takes_the_endpoints_path_and_token",
    r"docs/tir.md text mpirun": "cluster/test_tir.py::test_the_smoke_tests_pass_with_tirs_own_arguments",
    r"docs/llm.md yaml   - name": f"{HERE}test_a_step_of_tensorrt_llm_is_taken",
    r"examples/text-to-image/README.md yaml ": f"{HERE}test_the_engines_of_text_to_image_are_taken",
    r"\S+ yaml ": f"{HERE}test_a_pipeline_is_taken",
    r"\S+ python (import \w+\n+)?from \w+ import Client": f"{HERE}test_a_client_is_answered",
    r"docs/batching.md text request -->": "",
    r"docs/adopt.md text models/preprocess/1/": "",
    r"docs/steps.md python class Step": "",
    r"docs/daily.md python def reference": "",
    r"docs/llm.md python from openai": "",
    r"\S+ (text|console) ": f"{HERE}test_what_is_said_is_in_the_code",
}
# Why no test runs a block, by the pattern of its row above.
NOT_RUN = {
    r"docs/batching.md text request -->": "a drawing of queues",
    r"docs/adopt.md text models/preprocess/1/": "a drawing of folders: test_adopted_projects.py serves such",
    r"docs/steps.md python class Step": "an outline, and the steps below it are whole",
    r"docs/daily.md python def reference": "it needs transformers; test_reference.py asks other originals",
    r"docs/llm.md python from openai": "the package openai is installed nowhere; test_language_models.py sends what it sends",
}


def row(snippet: Snippet) -> str:
    """Return the pattern that fits; "" where none does."""
    about = f"{snippet.page} {snippet.language} {snippet.text}"
    return next((pattern for pattern in RUN_BY if re.match(pattern, about)), "")


def of(test: str) -> list[Any]:
    """Return the blocks that a test of this file has, as its parameters."""
    blocks = [each for each in SNIPPETS if RUN_BY.get(row(each)) == f"{HERE}{test}"]
    return [pytest.param(each, id=str(each)) for each in blocks]


def test_each_block_has_a_test_or_a_reason() -> None:
    assert [str(snippet) for snippet in SNIPPETS if not row(snippet)] == []
    assert RUN_BY.keys() - {row(snippet) for snippet in SNIPPETS} == set()
    assert {pattern for pattern, test in RUN_BY.items() if not test} == NOT_RUN.keys()


@pytest.mark.parametrize("test", sorted({*RUN_BY.values()} - {""}))
def test_the_test_of_a_block_exists(test: str) -> None:
    name, _, function = test.partition("::")
    assert f"def {function}(" in (ROOT / "tests" / name).read_text()


@pytest.mark.parametrize("snippet", [s for s in SNIPPETS if s.language == "python"], ids=str)
def test_python_is_python(snippet: Snippet) -> None:
    ast.parse(snippet.text)


@pytest.mark.parametrize("snippet", of("test_a_pipeline_is_taken"))
def test_a_pipeline_is_taken(snippet: Snippet) -> None:
    assert rules().problem(yaml.safe_load(snippet.text)) == ""


@pytest.mark.parametrize("snippet", of("test_a_step_of_tensorrt_llm_is_taken"))
def test_a_step_of_tensorrt_llm_is_taken(snippet: Snippet) -> None:
    """With tensors of the types that its comments have."""
    optional = {"type": "BOOL", "dims": [1], "optional": True}
    tensors = {name: "INT32[1]" for name in ("LENGTH", "COUNT")}
    tensors |= {"IDS": "INT32[-1]", "TOKENS": "INT32[-1, -1]", "LENGTHS": "INT32[-1]"}
    assert {kind for kind in tensors.values() if kind not in snippet.text} == set()
    given = {"gpu_count": 1, "tensors": {**tensors, "STREAM": optional}}
    assert rules().problem({**given, "steps": yaml.safe_load(snippet.text)}) == ""


@pytest.mark.parametrize("snippet", of("test_the_engines_of_text_to_image_are_taken"))
def test_the_engines_of_text_to_image_are_taken(snippet: Snippet) -> None:
    answers = yaml.safe_load((ROOT / "examples/text-to-image/pipeline.yml").read_text())
    for step in answers["steps"]:
        if step["name"] in ("denoiser", "vae"):
            step.update(yaml.safe_load(snippet.text))
    assert rules().problem({**answers, "gpu_count": 1}) == ""


@pytest.mark.parametrize("snippet", of("test_a_pipeline_as_text_is_taken"))
def test_a_pipeline_as_text_is_taken(snippet: Snippet, generate: Generate) -> None:
    generate(flow=snippet.text, starting_pipeline="my-own", project_name="digits")


def test_the_texts_to_start_from_are_those_of_the_question() -> None:
    started = catalog.table("prompts")["start"]
    page = "examples/my-own/README.md"
    shown = [each.text for each in SNIPPETS if each.page == page and each.language == "text"]
    assert shown == [started[topology] for topology in ("chain", "shared", "fan")]


def named(tree: str) -> Iterator[str]:
    """Iterate over the paths that a drawing of folders has, as patterns: `name  what it is`, a folder's below it."""
    folder = ""
    for line in tree.removeprefix("myproj/\n").splitlines():
        names = re.split(r"  +", line.strip())[0].split(", ")
        folder = folder if line.startswith(" ") else names[0]
        inside = folder if line.startswith(" ") and folder.endswith("/") else ""
        yield from (inside + re.sub("NAME|PACKAGE", "*", name) for name in names)


@pytest.mark.parametrize("snippet", of("test_what_a_tree_names_is_there"))
def test_what_a_tree_names_is_there(snippet: Snippet, default_project: Project) -> None:
    root = ROOT if snippet.text.startswith("copier.yml") else default_project.path
    patterns = [*named(snippet.text)]
    assert len(patterns) > 10
    assert [pattern for pattern in patterns if not [*root.glob(pattern.rstrip("/"))]] == []


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


def test_what_adopt_makes_of_the_configs(tmp_path: Path) -> None:
    configs, made = (param.values[0].text for param in of("test_what_adopt_makes_of_the_configs"))
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


@pytest.mark.parametrize("snippet", of("test_what_adopt_refuses"))
def test_what_adopt_refuses(snippet: Snippet, tmp_path: Path) -> None:
    for name, config in (("m", SOUND.replace("input", "inputs")), ("e", ASKS)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    (tmp_path / "m/1/model.py").touch()
    with pytest.raises(Refused) as field:
        adopt(tmp_path)
    (tmp_path / "m/config.pbtxt").write_text(SOUND)
    with pytest.raises(Refused) as version:
        adopt(tmp_path)
    assert snippet.text == f"{field.value}\n{version.value}\n"


@pytest.mark.parametrize("snippet", of("test_the_script_that_fetches_a_model"))
def test_the_script_that_fetches_a_model(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"another file")
    names: dict[str, Any] = {}
    exec(snippet.text, names)
    names["URL"] = (tmp_path / "there").as_uri()
    with pytest.raises(SystemExit, match="is not the file that"):
        names["build"](tmp_path / "model.onnx")
    names["SHA256"] = names["hashlib"].sha256(b"another file").hexdigest()
    names["build"](tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"another file"


@pytest.mark.parametrize("snippet", of("test_the_sample_is_read"))
def test_the_sample_is_read(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"a cat")
    (tmp_path / "cat.json").write_text(snippet.text)
    sample = files.read(tmp_path / "cat.json", dict)
    assert sample.inputs["IMAGE"].tolist() == [[b"a cat"]]
    assert sample.outputs["LABEL"].tolist() == [[b"cat"]]


@pytest.mark.parametrize("snippet", of("test_the_tolerances_are_read"))
def test_the_tolerances_are_read(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/golden.json").write_text(snippet.text)
    project: Any = SimpleNamespace(root=tmp_path)
    assert golden.tolerances(project) == {"SCORE": {"rtol": 0.01}, "DRAWN": None}


# Of which project a page's client is, what stands before it, and what it prints or writes.
CLIENTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "docs/client.md": ({}, "images = [[open('samples/digit-7.jpg', 'rb').read()]]\n", r"\[\['7'"),
    "docs/llm.md": ({}, "", r" \w+ \w+"),
    "examples/text-embedding/README.md": ({"starting_pipeline": "text-embedding"}, "", r"\[\[1\."),
    "examples/text-to-image/README.md": ({"starting_pipeline": "text-to-image"}, "", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("snippet", of("test_a_client_is_answered"))
def test_a_client_is_answered(snippet: Snippet, generate: Generate) -> None:
    answers, before, printed = CLIENTS[snippet.page]
    if whole := [
        s for s in SNIPPETS if s.page == snippet.page and "project_name: writer" in s.text
    ]:
        answers = yaml.safe_load(whole[0].text)
    project = generate.complete(**answers)
    with serve(project) as server:
        code = before + snippet.text.replace("http://127.0.0.1:8000", server.urls["http"])
        code = code.replace("grpc://127.0.0.1:8001", server.urls["grpc"])
        said = succeed(project.run(sys.executable, "-c", code))
    assert re.search(printed, said), said
    assert len([*project.path.glob("fox-*.png")]) == 4 * ("fox" in code)


# What stands for a value in what the pages show: names of models, packages and ensembles.
VALUES = {"classify", "digits", "embed", "label", "preprocess", "rank", "ranking", "select"}
VALUES |= {"pillow", "sklearn", "torch", "tritonserver"}
WORD = re.compile(r"(?<![\w./:-])[a-z']{4,}(?![\w/:-]|\.\w)")


@cache
def said() -> frozenset[str]:
    """Return what the code may say, in parts between which values stand."""
    texts = [
        line
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for line in node.value.splitlines()
    ]
    for problem in catalog.table("problems").values():
        texts += re.split(r"%\(\w+\)s", problem)
    return frozenset(text.strip(" :;,.") for text in texts)


def unsaid(text: str) -> tuple[list[str], float]:
    """Return the words of a text that no part has, and the share of its letters that are in parts of several words."""
    phrases = [part for part in said() if " " in part and part in text]
    left = text
    for phrase in sorted(phrases, key=len, reverse=True):
        left = left.replace(phrase, " " * len(phrase))
    words = [word for word in WORD.findall(left) if word not in VALUES and word not in said()]
    return words, 1 - sum(map(str.isalpha, left)) / sum(map(str.isalpha, text))


def sentences(text: str) -> str:
    """Return the lines that are no table, command, path or figure."""
    lines = [
        line
        for line in text.splitlines()
        if len(re.findall(r"[a-z'_]{2,}", line)) > 3 and "  " not in line.strip() and line[0] != "$"
    ]
    return " ".join(lines)


@pytest.mark.parametrize("snippet", of("test_what_is_said_is_in_the_code"))
def test_what_is_said_is_in_the_code(snippet: Snippet) -> None:
    """A table of figures, which differ in each run, has no sentences; a short one may be of single words."""
    text = sentences(snippet.text)
    assert text or re.search(r"^ *[\d.]+ ", snippet.text, re.MULTILINE)
    if text:
        words, share = unsaid(text)
        assert words == []
        assert share > 0.2 or len(WORD.findall(text)) < 6


def test_what_the_code_does_not_say_is_found() -> None:
    assert unsaid("models/a.py: is missing; put it elsewhere")[0] == ["elsewhere"]
    assert unsaid("the this make step")[1] == 0
