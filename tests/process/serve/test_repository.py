"""`make repository`: what stands in its way is a line each, and nothing is written meanwhile."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PIPELINES, ROOT, UNUSUAL, Generate, Project, mounted, run, step, succeed

from triton_ensemble.serve.local.local_repository import LocalRepository

STEPS = (ROOT / "docs/steps.md").read_text()


@pytest.fixture
def made(generate: Generate) -> Project:
    project = generate.complete(**PIPELINES["my own"])
    project.commit()
    return project


def refused(project: Project) -> str:
    """Return what `make` says of its own."""
    done = project.make("repository")
    assert done.returncode
    said = [line for line in done.stderr.splitlines() if not line.startswith("make: ")]
    return "\n".join(said)


def without_config(name: str) -> str:
    path = f"model_repository/{name}"
    return f"{path}: has no config.pbtxt; restore it: `git checkout {path}`"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prepare", "predict", "my_pipeline"])
def test_a_model_without_config_is_not_built(made: Project, name: str) -> None:
    folder = made / "model_repository" / name
    shutil.rmtree(folder)
    assert refused(made) == without_config(name)
    assert not folder.exists()
    succeed(made.run("git", "checkout", f"model_repository/{name}"))
    succeed(made.make("check"))


def test_each_model_without_config_is_named(generate: Generate) -> None:
    """Models of which nothing is built are named too: a nested ensemble, and the copy of an output."""
    project = generate(**UNUSUAL["nested ensemble, interfaces of its own"])
    configs = [*(project / "model_repository").glob("*/config.pbtxt")]
    for config in configs:
        config.unlink()
    names = sorted(config.parent.name for config in configs)
    assert {"inner", "expose_M"} < {*names}
    assert sorted(refused(project).splitlines()) == [without_config(name) for name in names]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("steps/prepare.py", "prepare/1/steps/prepare.py"),
        ("models/predict.py", "predict/1/model.onnx"),
    ],
)
def test_a_source_that_is_gone(made: Project, source: str, target: str) -> None:
    """The files built of it stay as they are until then."""
    (made / source).unlink()
    line = f"{source}: is missing, and model_repository/{target} is made of it; put it there"
    assert refused(made) == line
    assert (made / "model_repository" / target).exists()
    (made / source).symlink_to("nowhere")
    assert refused(made) == line


def test_a_link_out_of_the_project_is_not_copied(made: Project, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    link = made / "steps/notes.txt"
    link.symlink_to(tmp_path / "key")
    what = f"is a link out of the project, to {tmp_path}/key; put a copy in its place"
    assert refused(made) == f"{link}: {what}"
    assert not [*(made / "model_repository").glob("*/1/steps/notes.txt")]


def test_sources_of_a_project_that_was_never_built(generate: Generate) -> None:
    project = generate(**PIPELINES["my own"])
    for name in ("steps/prepare.py", "models/predict.py"):
        (project / name).unlink()
    assert [line.split(":")[0] for line in refused(project).splitlines()] == [
        "models/predict.py",
        "steps/prepare.py",
    ]
    assert not (project / "model_repository/prepare/1/steps").exists()


def test_files_of_a_step_go_to_its_model_alone(made: Project) -> None:
    """Beside its code, where the line that docs/steps.md has opens them. A change of them is a change of it."""
    [reads] = re.findall(r"^VOCABULARY = .*?^\)$", STEPS, re.MULTILINE | re.DOTALL)
    for path, text in (
        ("steps/prepare/vocabulary.txt", "one"),
        ("steps/shared.txt", "all"),
        ("steps/prepare.py", f"from pathlib import Path\n\n{reads}"),
        ("models/predict/scale.txt", "2"),
    ):
        (made / path).parent.mkdir(exist_ok=True)
        (made / path).write_text(text)
    succeed(made.make("repository"))
    repository = made / "model_repository"
    [copied] = repository.rglob("vocabulary.txt")
    assert copied == repository / "prepare/1/steps/prepare/vocabulary.txt"
    assert (repository / "prepare/1/steps/shared.txt").read_text() == "all"
    prints = "from steps.prepare import VOCABULARY; print(VOCABULARY)"
    said = run(sys.executable, "-c", prints, cwd=repository / "prepare/1")
    assert succeed(said) == "['one']\n"
    made_at = (repository / "predict/1/model.onnx").stat().st_mtime_ns
    succeed(made.make("repository"))
    assert (repository / "predict/1/model.onnx").stat().st_mtime_ns == made_at
    (made / "models/predict/scale.txt").write_text("3")
    (made / "steps/prepare/vocabulary.txt").write_text("two")
    assert "model.onnx: made by models/predict.py" in succeed(made.make("repository"))
    assert copied.read_text() == "two"


def test_a_folder_of_no_model(made: Project) -> None:
    """It may hold what its owner put there."""
    model = made / "model_repository/former/1/model.onnx"
    model.parent.mkdir(parents=True)
    model.write_text("mine")
    line = "model_repository/former: is not a model of the pipeline; move it away"
    assert refused(made) == line
    assert model.read_text() == "mine"
    shutil.rmtree(model.parent)
    assert refused(made) == line


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path)
    path.touch()


def folder_for_file(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "spoil", "line"),
    [
        (".built", lambda path: path.write_bytes(b""), ".built: is damaged; remove it"),
        (".built", lambda path: path.write_bytes(b"\xf5\0"), ".built: is damaged; remove it"),
        (".built", folder_for_file, "can't be completed: [Errno 21] Is a directory: "),
        ("prepare/1", file_for_folder, "can't be completed: [Errno 20] Not a directory: "),
    ],
)
def test_what_is_in_the_way_is_a_line(
    made: Project, name: str, spoil: Callable[[Path], object], line: str
) -> None:
    spoil(made / "model_repository" / name)
    [said] = refused(made).splitlines()
    assert said.startswith("model_repository")
    assert line in said


PAGE = 4096  # what a file on the small disk takes at least


def test_a_disk_that_is_full_leaves_no_half_of_a_model(made: Project, tmp_path: Path) -> None:
    """Wherever the room ends: at the code of a step, at the record of what is built, at the model file."""
    repository, model = made / "model_repository", made / "model_repository/predict/1/model.onnx"
    whole, file = made.contents(), model.read_bytes()
    sizes = [path.stat().st_size for path in repository.rglob("*") if path.is_file()]
    pages = sum(-(size // -PAGE) for size in sizes)
    succeed(run("git", "clean", "-fdxq", "model_repository", cwd=made.path))
    empty = shutil.copytree(repository, tmp_path / "repository")
    with mounted(repository, "-t", "tmpfs", "-o", f"size={PAGE * pages}", "tmpfs"):
        shutil.copytree(empty, repository, dirs_exist_ok=True)
        for size in range(pages - 5, pages + 4):
            options = f"remount,size={PAGE * size}"
            succeed(run("mount", "-o", options, str(repository), cwd=tmp_path))
            process = made.run(sys.executable, "-m", "triton_ensemble", "repository")
            assert process.returncode == 0 or "No space left on device" in process.stderr
            assert not model.exists() or model.read_bytes() == file
        assert process.returncode == 0
        assert made.contents() == whole


def test_pytest_alone_tests_the_code_as_it_is_now(generate: Generate) -> None:
    """An editor's test button calls pytest, and no command that copies the steps before."""
    project = generate.complete(**PIPELINES["my own"])
    tests = (sys.executable, "-m", "pytest", "-q", "tests/test_contract.py")
    code = project / "steps/prepare.py"
    code.write_text(code.read_text().replace("return {", "raise RuntimeError\n        return {"))
    assert "1 failed" in project.run(*tests).stdout
    code.unlink()
    done = project.run(*tests)
    assert f"ERROR: {code.relative_to(project.path)}: is missing, and " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "infer"])
def test_a_stage_that_there_is_not_is_refused_at_once(made: Project, command: str) -> None:
    said = made.make(command, "ENV=prod")
    line = "pipeline.yml has no stage prod; declare it in `stages`"
    assert said.returncode
    assert said.stderr.startswith(f"{line}\n")
    assert "Triton" not in said.stdout


def test_a_backend_of_your_own_lies_beside_the_configs_of_its_models(
    generate: Generate, tmp_path: Path
) -> None:
    """The local Triton has a stand-in, and does not load what may need a GPU."""
    steps = [step("one", ["A"], ["B"], "mine"), step("two", ["B"], ["C"], "python")]
    project = generate(tensors=dict.fromkeys("ABC", "FP32[1]"), steps=steps)
    library = project / "backends/mine/libtriton_mine.so"
    library.parent.mkdir(parents=True)
    library.write_text("code")
    succeed(project.make("repository"))
    [copied] = project.path.glob("model_repository/*/libtriton_mine.so")
    assert (copied.parent.name, copied.read_text()) == ("one", "code")
    LocalRepository(project / "model_repository", tmp_path / "local", {"mine", "python"})
    assert {path.name for path in (tmp_path / "local/one").iterdir()} == {"1", "config.pbtxt"}
