"""The files of a project: which are written, in which form, and that it passes its own linters."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from google.protobuf import text_format  # type: ignore[import-untyped]
from rendering_support import (
    TEN,
    project,  # noqa: F401
    without_answers,
)
from support import (
    OPEN_DIMS,
    PIPELINES,
    ROOT,
    UNUSUAL,
    Generate,
    Project,
    run,
    slow_but,
    step,
    succeed,
)
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

from triton_ensemble.adapter.seams import read_manifest
from triton_ensemble.adapter.typed import read_json
from triton_ensemble.facts import catalog
from triton_ensemble.facts import project as project_facts
from triton_ensemble.gateway.page import Pipeline

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The modules of the toolkit that an owner's file may import (docs/stability.md).
IMPORT = re.compile(r"(?:from|import) triton_ensemble\.([\w.]+)")
STABLE = {"testing.owned", "gateway", "testing.reference"}

# Files of each project.
ALWAYS = """
.copier-answers.yml .devcontainer/devcontainer.json .dockerignore .gitignore .pre-commit-config.yaml AGENTS.md CLAUDE.md Makefile README.md
pipeline.yml pyproject.toml requirements.lock requirements-dev.lock
src/PACKAGE/__init__.py src/PACKAGE/__main__.py src/PACKAGE/client.py
src/PACKAGE/py.typed src/PACKAGE/tensors.py
src/PACKAGE/runtime/__init__.py src/PACKAGE/runtime/batches.py src/PACKAGE/runtime/bodies.py
src/PACKAGE/runtime/clients.py src/PACKAGE/runtime/errors.py
src/PACKAGE/runtime/grpc_transport.py src/PACKAGE/runtime/http_transport.py
src/PACKAGE/runtime/recorder.py src/PACKAGE/runtime/transport.py
tests/test_live.py tests/test_reference.py tests/test_steps.py
tests/docker/test_container.py
vendor/push.txt vendor/pipeline.schema.json vendor/project.json vendor/requirements.txt WHEEL
.github/workflows/ci.yml .github/workflows/update.yml
model_repository/ENSEMBLE/config.pbtxt model_repository/ENSEMBLE/1/README.md
deploy/Dockerfile deploy/compose.yaml deploy/compose.mounted.yaml deploy/serve.sh
deploy/monitoring/alerts.yml deploy/monitoring/dashboard.json deploy/monitoring/prometheus.yml
deploy/monitoring/grafana-dashboards.yml deploy/monitoring/grafana-datasource.yml
"""
[WHEEL] = (path.name for path in (ROOT / "template/vendor").glob("*.whl"))


# Files that each project with Python steps has once.
PYTHON = ["src/step_types.py", "tests/test_contract.py"]


def python_step(name: str, module: str | None = None) -> list[str]:
    version = f"model_repository/{name}/1"
    return [
        *PYTHON,
        f"steps/{module or name}.py",
        f"model_repository/{name}/config.pbtxt",
        f"{version}/model.py",
        f"{version}/step.json",
    ]


def shared(name: str, *steps: str) -> list[str]:
    """Return the files of Python steps that share a model."""
    code = [f"steps/{step}.py" for step in steps]
    files = [path for path in python_step(name) if not path.startswith("steps/")]
    return [*files, *code]


def model(name: str, module: str | None = None) -> list[str]:
    return [f"models/{module or name}.py", f"model_repository/{name}/config.pbtxt"]


def always(package: str, ensemble: str) -> list[str]:
    names = ALWAYS.replace("PACKAGE", package).replace("ENSEMBLE", ensemble)
    names = names.replace("WHEEL", f"vendor/{WHEEL}")
    return [*names.split(), "samples/stub.json"]


def example(package: str) -> list[str]:
    """Return the files of each project whose starting pipeline has samples."""
    return [path for path in always(package, package) if path != "samples/stub.json"]


EXAMPLE = """
models/digits.py steps/images.py steps/labels.py tests/test_accuracy.py tests/test_label.py
samples/digit-2.jpg samples/digit-6.jpg samples/digit-7.jpg samples/digit-7.png
samples/digit-7.json samples/digit-7-png.json samples/digits-2-6.json
"""
CLASSIFICATION = [
    *EXAMPLE.split(),
    *python_step("preprocess"),
    *model("classify"),
    *python_step("label"),
]
INVENTORIES = {
    "default": [
        *example("image_classification"),
        *CLASSIFICATION,
    ],
    "image in one process": [
        *example("image_classification"),
        *EXAMPLE.split(),
        *shared("preprocess_to_label", "preprocess", "label"),
        "models/classify.py",
    ],
    "torchscript": [*example("torchscript"), *CLASSIFICATION],
    "my own": [
        *always("my_pipeline", "my_pipeline"),
        *python_step("prepare"),
        *model("predict"),
    ],
    "one step": [*always("lone", "lone"), *python_step("only")],
    "one model": [
        *always("lone_model", "lone_model"),
        *model("only"),
    ],
    "no batch dimension": [
        *always("unbatched", "unbatched"),
        *python_step("pre"),
        *model("net"),
    ],
    "fan": [
        *always("fan", "fan"),
        *python_step("tokenize"),
        *python_step("decode"),
        *model("match"),
        *model("detect"),
    ],
    "kinds of steps": [
        *always("kinds", "kinds"),
        "deploy/compose.gpu.yaml",
        *python_step("tokenize"),
        *python_step("embed"),
        *python_step("score"),
    ],
    "awkward names": [
        *always("awkward_names_2", "Awkward_names_2"),
        *python_step("pre.process-1", "pre_x2e_process_x2d_1"),
        *model("1st", "_1st"),
    ],
}


@pytest.mark.parametrize("name", INVENTORIES)
def test_inventory(generate: Generate, name: str) -> None:
    assert generate(**PIPELINES[name]).files() == sorted(set(INVENTORIES[name]))


def test_inventory_of_ten_steps(generate: Generate) -> None:
    unfused = {**TEN, "steps": [s | {"fuse": False} for s in TEN["steps"]]}
    steps = [file for i in range(10) for file in python_step(f"s{i}")]
    assert generate(**unfused).files() == sorted({*always("ten", "ten"), *steps})


def test_inventory_of_ten_steps_that_share_a_model(generate: Generate) -> None:
    model = shared("s0_to_s9", *(f"s{i}" for i in range(10)))
    assert generate(**TEN).files() == sorted({*always("ten", "ten"), *model})


def test_inventory_without_an_ensemble(generate: Generate) -> None:
    model = shared("alone", "one", "alone")
    files = generate(**UNUSUAL["steps without an ensemble"]).files()
    readme = "model_repository/alone/1/README.md"
    assert files == sorted({*always("alone", "alone"), *model} - {readme})
    files = generate(**UNUSUAL["ONNX without an ensemble"]).files()
    assert {"models/net.py", "model_repository/network/1/model.py"} < {*files}
    assert "src/step_types.py" not in files


def test_real_names_of_a_models_tensors_keep_the_example(generate: Generate) -> None:
    """But for the model file, whose names are others."""
    given = (ROOT / "examples/image-classification/pipeline.yml").read_text()
    given = given.replace("{pixels:", "{float_input:").replace("{logits:", "{probabilities:")
    project = generate(starting_pipeline="image-classification", **yaml.safe_load(given))
    assert {*EXAMPLE.split(), "models/classify.py"} < {*project.files()}
    assert "samples/stub.json" not in project.files()
    assert "# A stub: " in (project / "models/classify.py").read_text()
    assert "# A stub: " not in (project / "steps/label.py").read_text()


@pytest.mark.parametrize("name", catalog.table("examples"))
def test_a_project_has_the_files_of_its_example(generate: Generate, name: str) -> None:
    """Copier says nothing of a path that it does not write."""
    project = generate(starting_pipeline=name)
    folder = ROOT / "examples" / name
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.glob("*/**/*")
        if path.is_file() and not re.search(r"\.pyc$|\.\w+\.py$", path.name)  # for another backend
    }
    owned = yaml.safe_load((project / ".copier-answers.yml").read_text())["owned"]
    written = {
        path: data for path, data in project.contents().items() if path.startswith(tuple(owned))
    }
    machine = ".devcontainer/devcontainer.json"
    of_all = {machine, "pipeline.yml", "requirements.lock", "requirements-dev.lock"}
    if "code" in catalog.table("examples")[name]:
        assert {path: data for path, data in written.items() if path not in of_all} == files
    assert [path for path in owned if not (project / path).exists()] == []
    code = "".join(data.decode() for path, data in written.items() if path.endswith(".py"))
    assert {*IMPORT.findall(code)} - STABLE == set()


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_a_notebook_imports_what_stays(generate: Generate, protocol: str) -> None:
    text = (generate(extras=["kserve"]) / f"deploy/kserve/{protocol}.ipynb").read_text()
    assert IMPORT.findall(text) == ["testing.owned"]


def test_git_has_the_wheel_whatever_its_owner_ignores(generate: Generate, tmp_path: Path) -> None:
    (tmp_path / "ignored").write_text("*.whl\n")
    git = ("git", "-c", f"core.excludesFile={tmp_path}/ignored")
    folder = generate().path
    for words in ("init -q", "add --all"):
        succeed(run(*git, *words.split(), cwd=folder))
    assert ".whl\n" in succeed(run(*git, "ls-files", "vendor", cwd=folder))


def test_no_empty_folders(project: Project) -> None:
    assert list_empty_folders(project) == []


def test_no_empty_folders_without_stages_and_workflows(generate: Generate) -> None:
    project = generate(ci="gitlab", extras=["kserve", "kubernetes", "ray", "tir"])
    assert list_empty_folders(project) == []


def list_empty_folders(project: Project) -> list[str]:
    folders = (path for path in project.path.rglob("*") if path.is_dir())
    return [str(path) for path in folders if not any(path.iterdir())]


def test_configs_are_what_triton_reads(project: Project) -> None:
    configs = list(project.path.glob("model_repository/*/config.pbtxt"))
    for path in configs:
        config = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
        assert config.name == path.parent.name
        assert bool(config.backend) != bool(config.platform)
        assert all(tensor.dims for side in (config.input, config.output) for tensor in side)
    folders = (project / "model_repository").iterdir()
    assert len(configs) == len([folder for folder in folders if folder.is_dir()])


def test_the_ensemble_maps_every_tensor_of_its_models(project: Project) -> None:
    """This is checked as Triton checks it. Outputs may stay unused."""
    configs = [
        text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
        for path in project.path.glob("model_repository/*/config.pbtxt")
    ]
    models = {config.name: config for config in configs}
    [ensemble] = [config for config in configs if config.platform == "ensemble"]
    steps = ensemble.ensemble_scheduling.step  # in whatever order
    fed = {tensor.name for tensor in ensemble.input}
    fed |= {tensor for used in steps for tensor in used.output_map.values()}
    for used in steps:
        assert used.model_version == -1
        assert set(used.input_map) == {tensor.name for tensor in models[used.model_name].input}
        assert set(used.output_map) <= {tensor.name for tensor in models[used.model_name].output}
        assert set(used.input_map.values()) <= fed
    assert {tensor.name for tensor in ensemble.output} <= fed


def texts(project: Project) -> dict[str, str]:
    binary = (".jpg", ".mp4", ".png", ".wav", ".whl")
    contents = project.contents().items()
    return {name: data.decode() for name, data in contents if not name.endswith(binary)}


def test_nothing_is_left_of_the_template_engine(project: Project) -> None:
    """Prometheus and Grafana have braces of their own."""
    for name, text in texts(project).items():
        if name.startswith("deploy/monitoring/"):
            text = re.sub(r"\{\{(\w+| \$labels\.\w+ | \$value( \| \w+)? )\}\}", "", text)
        # A digit before % is Python's format, a $ before {{ is GitHub's.
        assert not re.search(r"\{%|(?<!\d)%\}|(?<!\$)\{\{[^}]*\}\}|\{#", text), name


def test_git_takes_no_secret(generate: Generate) -> None:
    project = generate()
    project.commit()
    for name in ("secrets/admin-key", ".env"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("a secret")
    assert project.changes() == ""


def test_no_litter_of_blanks(project: Project) -> None:
    for name, text in texts(project).items():
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), name
        assert re.search(r"\S\n\Z", text), name
        assert not text.startswith("\n"), name
        if not name.endswith(".py"):  # which the formatter checks
            assert "\n\n\n" not in text, name


def test_first_line_says_whose_a_file_is(project: Project) -> None:
    silent = (".json", "1/README.md")  # a manifest, what keeps a version folder in git
    for name, text in texts(project).items():
        if not name.endswith(silent) and not name.startswith("samples/"):
            assert re.match(r"(# yaml-language-server.*\n)?(# |<!-- )(Managed by|Yours: )", text), (
                name
            )


def test_each_file_can_be_read_as_what_it_is(project: Project) -> None:
    readers: dict[str, Any] = {
        ".json": json.loads,
        ".yml": yaml.safe_load,
        ".yaml": yaml.safe_load,
        ".toml": tomllib.loads if sys.version_info >= (3, 11) else str,
        ".py": ast.parse,
    }
    for name, text in texts(project).items():
        readers.get(Path(name).suffix, str)(text)


def test_facts_and_manifests_have_the_types_of_their_readers(project: Project) -> None:
    assert project_facts.Project.load(project.path).models
    for path in project.path.glob("model_repository/*/*/step.json"):
        assert read_manifest(path.parent)[0]["steps"]
    for path in project.path.glob("gateway/pipeline.json"):
        assert read_json(path, Pipeline)["name"]


def test_the_page_for_assistants_is_short_and_names_files_that_are_there(project: Project) -> None:
    text = (project / "AGENTS.md").read_text()
    assert len(text.splitlines()) <= 100
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|json))`", text)
    assert "tests/test_reference.py" in named
    later = {"tests/golden.json", "gateway/routes.py"}  # by `make golden`, with the extra
    there = {name for name in named if "NAME" in name or (project / name).exists()}
    assert {*named} - there <= later


def test_the_readme_names_the_arrays_that_steps_get(project: Project) -> None:
    if (project / "src/step_types.py").exists():
        types, readme = (
            (project / "src/step_types.py").read_text(),
            (project / "README.md").read_text(),
        )
        for of_step, arrays in (("torch.Tensor", "torch tensors"), ("NDArray[", "NumPy arrays")):
            assert of_step in types or arrays not in readme
        assert ("torch tensors" in readme) == ("torch.Tensor" in types)


def test_torch_is_a_dependency_only_where_torchscript_is_served(generate: Generate) -> None:
    for name, torch in (
        ("default", False),
        ("my own", False),
        ("torchscript", True),
        ("fan", True),
        ("kinds of steps", True),
    ):
        assert ("torch==" in (generate(**PIPELINES[name]) / "pyproject.toml").read_text()) is torch


def test_a_request_of_zeros_has_dims_that_all_steps_take(generate: Generate) -> None:
    project = generate(starting_pipeline="my-own", ensemble={"all_outputs": True}, **OPEN_DIMS)
    inputs = json.loads((project / "vendor/project.json").read_text())["inputs"]
    dims = {given["name"]: given["dims"] for given in inputs}
    assert dims == {"A": [3, 4, 1], "B": [5], "C": [1]}


def test_what_needs_no_gpu_says_so(generate: Generate) -> None:
    on_cpu, on_gpu = generate(), generate(gpu_count=1)
    config = "model_repository/classify/config.pbtxt"
    assert "KIND_CPU" in (on_cpu / config).read_text()
    assert "KIND_CPU" not in (on_gpu / config).read_text()


def test_a_config_says_of_a_count_of_instances_what_it_does(generate: Generate) -> None:
    """`count` of a warmup is another."""
    warm = step("s", ["A"], ["B"], warmup=[{"count": 2, "inputs": {"A": "zero"}}])
    answers = {"tensors": {"A": "FP32[1]", "B": "FP32[1]"}, "steps": [warm]}
    config = (generate(**answers) / "model_repository/s/config.pbtxt").read_text()
    instances, warmup = re.findall(r"count: .*", config)
    assert (instances.startswith("count: 1 # raise"), warmup) == (True, "count: 2")


def test_a_config_says_what_a_bad_string_does(generate: Generate) -> None:
    """It does so where requests bring texts, and share a batch of the Python backend."""
    texts = step("read", ["A"], ["B"], fuse=False), step("write", ["B"], ["C"], fuse=False)
    aside = step("count", ["A"], ["D"], batching=False), step("net", ["A"], ["E"], "onnxruntime")
    project = generate(tensors=dict.fromkeys("ABCDE", "STRING[1]"), steps=[*texts, *aside])
    said = {
        path.parent.name
        for path in project.path.glob("model_repository/*/config.pbtxt")
        if "fails all requests of its batch. `batching: false` separates requests.\ndynamic_batching {"
        in path.read_text()
    }
    assert said == {"read"}


@pytest.mark.parametrize("name", slow_but("default", "one model", names=PIPELINES))
def test_pipeline_yml_gives_the_same_project_again(generate: Generate, name: str) -> None:
    project = generate(**PIPELINES[name])
    again = generate(**yaml.safe_load((project / "pipeline.yml").read_text()))
    assert again.contents() == project.contents()


def test_answers_survive_yaml(generate: Generate) -> None:
    """YAML would read these texts as something else."""
    names = [
        "yes",
        "null",
        "1e3",
        "~",
        "- a",
        "a: b",
        "#",
        "'",
        '"',
        "ä",
        "[x]",
        "0x10",
        "2026-01-01",
        "x" * 129,
        "y" * 1000,
    ]
    answers = {
        "tensors": {**dict.fromkeys(names, "FP32[1]"), "B": {"type": "STRING", "dims": [1]}},
        "steps": [step("one", names, {"on": "B"}, parameters={"no": "off", "release": "1.10"})],
    }
    project = generate(**answers)
    read = yaml.safe_load((project / "pipeline.yml").read_text())
    assert {field: read[field] for field in answers} == answers
    saved = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert {field: saved[field] for field in answers} == answers


@pytest.mark.parametrize("name", ["007", "1.0", "on", "null", "2026-01-02", "0x10", "1_000"])
def test_names_survive_yaml(generate: Generate, name: str) -> None:
    project = generate(project_name=name, ensemble_name=name, starting_pipeline="my-own")
    read = yaml.safe_load((project / "pipeline.yml").read_text())
    assert (read["project_name"], read["ensemble_name"]) == (name, name)


def test_a_tensor_in_a_block_of_text(generate: Generate) -> None:
    tensors = {"A": "FP32[4]\n", "B": " FP32[ 2, 2 ] \n"}
    project = generate(tensors=tensors, steps=[step("one", ["A"], ["B"])])
    assert "dims: [ 2, 2 ]" in (project / "model_repository/one/config.pbtxt").read_text()


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("json", "json_client"),
        ("Urllib", "urllib_client"),
        ("numpy", "numpy_client"),
        ("a.b", "a_b"),
    ],
)
def test_the_package_hides_no_other(generate: Generate, name: str, package: str) -> None:
    assert generate(project_name=name).package == package


def test_no_module_of_python_is_hidden() -> None:
    modules = yaml.safe_load((ROOT / "hooks/catalog/modules.yml").read_text())["python"].split()
    assert {name for name in sys.stdlib_module_names if name[0] != "_"} <= {*modules}


@pytest.mark.parametrize("reference", [None, "v1.0.0", "HEAD"])
def test_from_git(
    git_template: Path, generate: Generate, tmp_path: Path, reference: str | None
) -> None:
    copier.run_copy(str(git_template), tmp_path / "p", vcs_ref=reference, defaults=True, quiet=True)
    want = without_answers(generate().path)
    assert without_answers(tmp_path / "p") == want


def test_the_same_answers_give_the_same_bytes(generate: Generate) -> None:
    assert generate(**PIPELINES["fan"]).contents() == generate(**PIPELINES["fan"]).contents()


def test_the_dev_container_has_a_python_for_triton_and_its_ports(default_project: Project) -> None:
    settings = json.loads((default_project / ".devcontainer/devcontainer.json").read_text())
    assert re.fullmatch(r"\S+/python:3\.1[0-2]-bookworm", settings["image"])
    # Those of serve, gateway and ray.
    ports = re.findall(r"port [A-Z_]+\s+default: (\d+)", (ROOT / "docs/cli.md").read_text())
    assert [str(port) for port in settings["forwardPorts"]] == ports


@pytest.mark.parametrize("gpus", [0, 1])
def test_cores_limit_the_instances_on_a_cpu_alone(generate: Generate, gpus: int) -> None:
    net = step("net", ["A"], ["B"], "onnxruntime", instances=2)
    project = generate(gpu_count=gpus, tensors=dict.fromkeys("AB", "FP32[1]"), steps=[net])
    config = (project / "model_repository/net/config.pbtxt").read_text()
    assert ("up to" in config, "KIND_CPU" in config) == (not gpus, not gpus)
