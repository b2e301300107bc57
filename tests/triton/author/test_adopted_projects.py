"""Repositories made by hand, adopted: a clone of the project answers what the repository answered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import yaml
from asking import streamed
from hand_made import (
    IN,
    LABELLED,
    ONNX,
    OUT,
    PLAIN,
    REPOSITORIES,
    WIRED_BY_CODE,
    Ask,
    Files,
    HandMade,
    answer,
    chain,
    code,
    onnx_model,
    wired_by_code,
)
from support import COPIER, Generate, Project, run, serve, slow_but, succeed
from tritonclient import http  # type: ignore[import-untyped]

from triton_ensemble.cli import main
from triton_ensemble.serve.local.local_triton import LocalTriton


@contextmanager
def client_of(url: str) -> Iterator[Any]:
    client = http.InferenceServerClient(url.partition("://")[2])
    try:
        yield client
    finally:
        client.close()


def answers_of(url: str, made: HandMade) -> list[list[Any]]:
    with client_of(url) as client:
        return [answer(client, ask).tolist() for ask in made.asks]


def cloned(project: Project, folder: Path) -> Project:
    succeed(run("git", "clone", "-q", str(project.path), str(folder), cwd=folder.parent))
    return Project(folder)


@pytest.fixture
def adopted(generate: Generate, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what adopts a repository: the project, committed, and what the command said."""

    def adopt(repository: Path, *flags: str) -> tuple[Project, list[str]]:
        assert main(["adopt", str(repository), *flags]) == 0
        project = generate(**yaml.safe_load(capsys.readouterr().out))
        assert main(["adopt", str(repository), "--into", str(project.path), *flags]) == 0
        said = capsys.readouterr().err.splitlines()
        project.commit()
        return project, said

    return adopt


QUICK = ("several versions", "BLS")


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(*QUICK, names=REPOSITORIES))
def test_the_clone_of_an_adopted_project_answers_as_the_repository_did(
    name: str, adopted: Any, tmp_path: Path
) -> None:
    made = REPOSITORIES[name]
    repository = made.write(tmp_path / "models")
    with LocalTriton(repository, "e") as triton:
        before = answers_of(triton.http_url, made)
    if made.from_git:
        Project(repository).commit()
        repository = cloned(Project(repository), tmp_path / "checkout").path
    project, _ = adopted(repository)
    clone = cloned(project, tmp_path / "clone")
    with serve(clone) as server:
        after = answers_of(server.urls["http"], made)
    assert after == before
    assert clone.changes() == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but("an ensemble", names=WIRED_BY_CODE))
def test_a_model_that_calls_others_is_the_step_of_an_ensemble(
    name: str, adopted: Any, tmp_path: Path
) -> None:
    """The ensemble answers as the model did, which answers as before."""
    made = HandMade(WIRED_BY_CODE[name])
    repository = made.write(tmp_path / "models")
    with LocalTriton(repository, "e") as triton:
        before = answers_of(triton.http_url, made)
    if "sequence" in name:
        assert before == [[2.5, -2, 10, 7], [4, 7, 10, 13]]
    project, said = adopted(repository)
    assert "e_pipeline: is new, an ensemble whose step is e" in said
    clone = cloned(project, tmp_path / "clone")
    both = HandMade({}, (*made.asks, *(replace(ask, model="e_pipeline") for ask in made.asks)))
    with serve(clone) as server:
        assert answers_of(server.urls["http"], both) == before * 2
    assert clone.changes() == ""


STREAMS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender = request.get_response_sender()
            for i in range(3):
                call = pb_utils.InferenceRequest(
                    model_name="deep",
                    requested_output_names=["OUT"],
                    inputs=[pb_utils.Tensor("IN", x + i)],
                )
                out = pb_utils.get_output_tensor_by_name(call.exec(), "OUT").as_numpy()
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.mark.slow
def test_a_model_that_calls_others_may_be_decoupled(adopted: Any, tmp_path: Path) -> None:
    more = "model_transaction_policy { decoupled: true }"
    repository = HandMade(wired_by_code(STREAMS, more=more)).write(tmp_path / "models")
    given = {"IN": np.array([0.5, -1, 3, 2], np.float32)}

    def answers_of_stream(url: str, model: str) -> list[list[float]]:
        answers: list[Any] = streamed(url, model, given)
        return [answer["OUT"].tolist() for answer in answers]

    with LocalTriton(repository, "e") as triton:
        before = answers_of_stream(triton.grpc_url, "e")
    assert [first for first, *_ in before] == [5, 15, 25]
    project, _ = adopted(repository)
    clone = cloned(project, tmp_path / "clone")
    with serve(clone) as server:
        for model in ("e", "e_pipeline"):
            assert answers_of_stream(server.urls["grpc"], model) == before
    assert clone.changes() == ""


DECLARES = """
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]})
        return config
"""


@pytest.mark.slow
def test_a_model_that_its_code_declares_is_served(adopted: Any, tmp_path: Path) -> None:
    made = HandMade(
        chain({"config": 'backend: "python"', "1/model.py": code("x + 1") + DECLARES}, PLAIN),
        (Ask(),),
    )
    project, _ = adopted(made.write(tmp_path / "models"), "--run-code")
    with serve(project) as server:
        assert answers_of(server.urls["http"], made) == [[2.5, 1, 5, 4]]


@pytest.mark.slow
def test_vllm_without_tensors_is_served_by_a_stand_in(adopted: Any, tmp_path: Path) -> None:
    """It is the only model, as in vllm_backend's samples."""
    config = 'backend: "vllm"\ninstance_group [{ count: 1 kind: KIND_MODEL }]\n'
    repository = HandMade({"m/config.pbtxt": config, "m/1/model.json": "{}"}).write(
        tmp_path / "models"
    )
    project, said = adopted(repository)
    assert "m: lacks tensors, and now has those that the backend vllm adds" in said
    given = {"text_input": np.array([b"Once upon"], object), "stream": np.array([True])}
    with serve(project) as server:
        for model in ("m", "m_pipeline"):
            pieces: list[Any] = streamed(server.urls["grpc"], model, given)
            assert len(pieces) == 16, pieces
            assert all(piece["text_output"].size for piece in pieces)


@pytest.mark.slow
def test_a_platform_that_this_machine_lacks_has_a_stand_in(adopted: Any, tmp_path: Path) -> None:
    config = f'platform: "tensorflow_graphdef"\n{IN}{OUT}'
    files: Files = {"m/config.pbtxt": config, "m/1/model.graphdef": "made for a GPU"}
    project, _ = adopted(HandMade(files).write(tmp_path / "models"))
    with serve(project) as server:
        asks = HandMade({}, (Ask(model="m"), Ask(model="m_pipeline")))
        assert answers_of(server.urls["http"], asks) == [[0.0] * 4] * 2


@pytest.fixture
def project(adopted: Any, tmp_path: Path) -> Project:
    """Return an adopted project: a has Python code, and b an ONNX file and labels."""
    onnx: Files = {
        "config": ONNX.replace(OUT, LABELLED),
        "names.txt": "ant\n" * 4,
        "2/model.onnx": onnx_model(2),
    }
    made: Project = adopted(HandMade(chain(PLAIN, onnx)).write(tmp_path / "models"))[0]
    return made


def test_files_are_copied_where_they_can_not_be_linked(project: Project) -> None:
    """Another file system has the repository: an equal copy is known by its time and size."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == project.path.stat().st_dev:
        pytest.skip("needs two file systems")
    with TemporaryDirectory(dir=shared) as folder:
        (project / "model_repository").rename(project / "before")
        shutil.copytree(project / "before", folder, dirs_exist_ok=True)
        (project / "model_repository").symlink_to(folder)
        source, target = (project / top / "b/2/more.bin" for top in ("models", "model_repository"))
        for byte in (b"1", b"2"):
            source.write_bytes(byte * (1 << 21))
            succeed(project.make("repository"))
            assert target.read_bytes() == source.read_bytes()
        before = target.stat()
        succeed(project.make("repository"))
        assert target.stat() == before


def refusal(project: Project) -> str:
    process = project.make("repository")
    assert (process.returncode, process.stdout) == (2, "")
    return process.stderr.rpartition("\nmake: ")[0]


def test_no_placeholder_stands_in_for_a_file(project: Project) -> None:
    """Neither is one written, nor does a folder that is empty now serve an earlier version."""
    assert sorted(path.name for path in (project / "models").iterdir()) == ["a", "b"]
    for name in ("a/1/model.py", "b/2/model.onnx", "b/names.txt"):
        (project / "models" / name).unlink()
    assert refusal(project).splitlines() == [
        "models/a/1/model.py: is missing; put it there, or let build(path) of models/a.py fetch it",
        "models/b/2/model.onnx: is missing; put it there, or let build(path) of models/b.py fetch it",
        "models/b/names.txt: is missing, and the config of b names it; put it there",
    ]


def test_a_model_file_beside_the_config_is_named(project: Project) -> None:
    """It is served here, and in no clone."""
    (project / "model_repository/b/2").mkdir()
    (project / "models/b/2/model.onnx").rename(project / "model_repository/b/2/model.onnx")
    assert refusal(project) == (
        "model_repository/b/2/model.onnx: is ignored by git; move it to models/b/2/model.onnx"
    )
    assert "b" not in project.changes().replace("models/b", "")


def test_a_pointer_of_git_lfs_is_no_model(project: Project) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (project / "models/b/2/model.onnx").write_text(pointer)
    assert refusal(project) == (
        "models/b/2/model.onnx: is only Git LFS's pointer to the file; run: git lfs pull"
    )


def test_a_script_may_fetch_a_model_file(project: Project, tmp_path: Path) -> None:
    file = (project / "models/b/2/model.onnx").rename(tmp_path / "elsewhere.onnx")
    (project / "models/b/2/README.md").write_text("Its model file is fetched.\n")
    (project / "models/b.py").write_text(
        f"""import shutil
from pathlib import Path


def build(path: Path) -> None:
    assert path.parents[1].name == "2"
    shutil.copy("{file}", path)
"""
    )
    project.commit()
    succeed(project.make("repository"))
    assert (project / "model_repository/b/2/model.onnx").read_bytes() == onnx_model(2)
    assert project.changes() == ""


def test_copies_follow_what_becomes_of_the_files(project: Project) -> None:
    """Large ones are linked."""
    weights = "b/2/weights.bin"
    (project / "models" / weights).write_bytes(bytes(1 << 21))
    succeed(project.make("repository"))
    source, target = project / "models/a/1/model.py", project / "model_repository/a/1/model.py"
    assert not target.samefile(source)
    text = source.read_text()
    source.unlink()
    source.write_text(text.replace("x + 1", "x + 2"))  # as git and editors do
    (project / "models/b/names.txt").rename(project / "models/b/old.txt")
    (project / "models/b/names.txt").write_text("bee\n" * 4)
    succeed(project.make("repository"))
    assert "x + 2" in target.read_text()
    assert (project / "model_repository/b/names.txt").read_text() == "bee\n" * 4
    (project / "models/b/old.txt").unlink()
    succeed(project.make("repository"))
    assert not (project / "model_repository/b/old.txt").exists()
    assert (project / "model_repository" / weights).samefile(project / "models" / weights)


@pytest.mark.slow
def test_an_adopted_model_beside_a_step_that_is_new(project: Project, generate: Generate) -> None:
    """`make test` passes, with files that no linter would let through."""
    given = yaml.safe_load((project / "pipeline.yml").read_text())
    given["tensors"] |= {"MORE": "FP32[4]"}
    given["steps"].append(
        {"name": "new", "backend": "python", "inputs": ["OUT"], "outputs": ["MORE"]}
    )
    other = generate(**given)
    shutil.copytree(project / "models", other / "models")
    step = (other / "steps/new.py").read_text()
    (other / "steps/new.py").write_text(step.replace("np.zeros((4,), dtype=np.float32)", "OUT + 1"))
    other.commit()
    succeed(other.make("test"))
    assert other.changes() == ""
    with serve(other) as server, other.client(server.urls["http"]) as client:
        assert client.infer({"IN": np.ones(4, dtype=np.float32)})["MORE"].tolist() == [5.0] * 4


@pytest.mark.slow
def test_in_the_folder_of_the_repository(git_template: Path, tmp_path: Path, capsys: Any) -> None:
    """As docs/adopt.md has it: what was in git as model_repository/ is served from models/."""
    made = REPOSITORIES["labels"]
    root = Project(tmp_path / "team")
    made.write(root / "model_repository")
    (root / "README.md").write_text("# Ours\n")
    root.commit()
    with LocalTriton(root / "model_repository", "e") as triton:
        before = answers_of(triton.http_url, made)
    assert main(["adopt", str(root / "model_repository"), "--into", str(root.path)]) == 0
    (root / "pipeline.yml").write_text(capsys.readouterr().out)
    succeed(root.run("git", "rm", "-rq", "model_repository"))
    succeed(root.run("rm", "-rf", "model_repository"))
    options = ("--defaults", "--overwrite", "--data-file", "pipeline.yml")
    process = root.run(str(COPIER), "copy", *options, str(git_template), ".")
    succeed(process)
    assert "Triton serves adopted models as they are, from models/NAME/." in process.stderr
    root.commit()
    with serve(cloned(root, tmp_path / "clone")) as server:
        assert answers_of(server.urls["http"], made) == before
