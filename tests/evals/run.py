"""Tasks for coding assistants: prepare a project for a task, and check what became of it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import copier
import numpy as np
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))
from asking import Arrays, asked
from gateway_service import gateway
from support import ROOT, Project, run, serve, succeed

from triton_ensemble.change.project import ChangedProject
from triton_ensemble.change.state import read_state
from triton_ensemble.facts.answers import FILE

HERE = ROOT / "tests" / "evals"
START = "start"  # a tag of the commit that an assistant gets
IMAGES = ROOT / "examples/image-classification/samples"
TOKENIZE = "steps/tokenize.py"
REFERENCE = """
import models.digits, numpy
print(models.digits.classifier().predict_proba(numpy.eye(64, dtype=numpy.float32)[:1]).tolist())
"""
Ask = Callable[..., Arrays]


def as_rows(*values: bytes) -> Any:
    """Return STRING[batch, 1]."""
    return np.array(values, dtype=np.object_).reshape(-1, 1)


def read_images(*digits: int) -> list[bytes]:
    return [(IMAGES / f"digit-{digit}.jpg").read_bytes() for digit in digits]


def find_backend(project: Project, step: str) -> str:
    steps = yaml.safe_load((project / "pipeline.yml").read_text())["steps"]
    return "".join(each["backend"] for each in steps if each["name"] == step)


@contextmanager
def served(project: Project) -> Iterator[Ask]:
    """Serve a project whose check passes; yield a function that asks a model for its outputs."""
    succeed(project.make("check"))
    with serve(project) as server:
        client = triton_grpc.InferenceServerClient(server.urls["grpc"].removeprefix("grpc://"))

        def ask(model: str, **inputs: Any) -> Arrays:
            answer = asked(client, model, inputs)
            assert isinstance(answer, dict), f"{model}: {answer}"
            return answer

        with client:
            yield ask


def check_add_step(project: Project) -> None:
    assert find_backend(project, "margin") == "python", "pipeline.yml has no Python step margin"
    with served(project) as ask:
        outputs = ask("image_classification", IMAGE=as_rows(*read_images(2, 6, 7)))
        assert outputs.keys() == {"LABEL", "SCORE", "MARGIN"}, f"outputs are {[*outputs]}"
        assert outputs["LABEL"][:, 0].tolist() == [b"2", b"6", b"7"], "labels changed"
        pixels = ask("preprocess", IMAGE=as_rows(*read_images(2, 6, 7)))["PIXELS"]
        logits = np.sort(ask("classify", pixels=pixels)["logits"], axis=1)
    margin = outputs["MARGIN"]
    assert f"{margin.dtype}{margin.shape}" == "float32(3, 1)", f"{margin.dtype}{margin.shape}"
    assert np.allclose(margin, logits[:, -1:] - logits[:, -2:-1], atol=1e-4), f"MARGIN: {margin}"
    run_step_tests(project, "margin")


def check_contract_test(project: Project) -> None:
    run_step_tests(project, "tokenize")
    short, long = b"Bessel function", b"Find the minimum of a function of several variables"
    with served(project) as ask:
        before, between, after = (
            ask("text_classification", TEXT=as_rows(text)) for text in (short, long, short)
        )
    assert before["SCORE"] == after["SCORE"], "a request changes the answer to the next one"
    kinds = [f"{name} {array.dtype}{array.shape}" for name, array in sorted(between.items())]
    assert kinds == ["LABEL object(1, 1)", "SCORE float32(1, 1)"], f"outputs are {kinds}"
    assert [*before["LABEL"][0], *between["LABEL"][0]] == [b"special", b"optimize"], "labels"


def run_step_tests(project: Project, step: str) -> None:
    """Run the project's unit tests, and the contract tests of a step."""
    files = ("tests/test_steps.py", "tests/test_contract.py", "-k", f"test_steps or {step}")
    succeed(project.run(sys.executable, "-m", "pytest", "-q", *files))


def check_backend(project: Project) -> None:
    backend = find_backend(project, "classify")
    assert backend == "openvino", f"the backend is {backend}"
    with served(project) as ask:
        outputs = ask("image_classification", IMAGE=as_rows(*read_images(2, 6, 7)))
        logits = ask("classify", pixels=np.eye(64, dtype=np.float32)[:1])["logits"]
    assert outputs["LABEL"][:, 0].tolist() == [b"2", b"6", b"7"], f"labels: {outputs['LABEL']}"
    wanted = json.loads(succeed(run(sys.executable, "-c", REFERENCE, cwd=IMAGES.parent)))
    assert np.allclose(logits, wanted, atol=0.05), f"logits are {logits}, not {wanted}"


def check_route(project: Project) -> None:
    parts = [("files", "digit.jpg", image) for image in read_images(2, 6)]
    with (
        serve(project) as server,
        gateway(project, server.urls["grpc"], GATEWAY_API_KEYS="secret") as service,
    ):
        answer = service.upload(*parts, to="/sum", X_API_Key="secret")
        assert answer.status == 200, f"POST /sum: {answer.status} {answer.content!r}"
        assert answer.json() == {"digits": [2, 6], "sum": 8}, f"POST /sum: {answer.content!r}"
        assert service.upload(*parts, to="/sum").status == 401, "POST /sum takes no key"
        bad = service.upload(("files", "digit.jpg", b"text"), to="/sum", X_API_Key="secret")
        assert bad.status == 400, f"POST /sum with a text: {bad.status} {bad.content!r}"
        image = ("IMAGE", "digit.jpg", read_images(7)[0])
        assert service.upload(image, X_API_Key="secret").status == 200, "POST /predict fails"


def check_slow(project: Project) -> None:
    planted = succeed(run("git", "show", f"{START}:{TOKENIZE}", cwd=project.path)).splitlines()
    causes = [f"{TOKENIZE}:{n}" for n, line in enumerate(planted, 1) if "PATH" in line]
    first = (project / "ANSWER.txt").read_text().partition("\n")[0]
    assert any(re.search(rf"{cause}\b", first) for cause in causes), f"{first!r} is not {causes}"
    assert list_changed(project) == {"ANSWER.txt"}, f"changed: {sorted(list_changed(project))}"


IMAGE = {"starting_pipeline": "image-classification", "extras": ["gateway"]}
TEXT = {"starting_pipeline": "text-classification"}
TASKS: dict[str, tuple[dict[str, Any], Callable[[Project], None]]] = {
    "add-step": (IMAGE, check_add_step),
    "contract-test": (TEXT, check_contract_test),
    "backend": (IMAGE, check_backend),
    "route": (IMAGE, check_route),
    "slow": (TEXT, check_slow),
}


def prepare(task: str, project: Project, *, agents: bool = True) -> None:
    """Plant the fault of a task, if it has one, in a fresh project, and commit it."""
    if (patch := HERE / f"{task}.patch").exists():
        succeed(run("patch", "--strip=1", f"--input={patch}", cwd=project.path))
    if not agents:
        (project / "AGENTS.md").unlink()
        (project / "CLAUDE.md").unlink()
    project.commit()
    succeed(run("git", "tag", START, cwd=project.path))


def check(task: str, project: Project) -> dict[str, Any]:
    """Judge what became of a project. Apply its pipeline.yml first, as each of its commands does."""
    problems = []
    try:
        succeed(project.make("repository"))
        TASKS[task][1](project)
    except Exception as error:  # of a project that an assistant has changed
        problems = [f"{error}"[-2000:] or repr(error)]
    solved, wrong = not problems, list_wrong_edits(project)
    problems += [f"{path}: is managed" for path in wrong]
    return {"task": task, "solved": solved, "wrong_edits": len(wrong), "why": "; ".join(problems)}


def list_changed(project: Project) -> set[str]:
    """Return the files that differ from the start, without files that git ignores."""
    names = ""
    for command in (f"diff --name-only -z {START}", "ls-files --others --exclude-standard -z"):
        names += succeed(run("git", *command.split(), cwd=project.path))
    return {*names.split("\0")} - {""}


def list_wrong_edits(project: Project) -> list[str]:
    """Return changed managed files that are not as pipeline.yml makes them."""
    changed = ChangedProject(read_state(project.path))
    rendered, owned = changed.render_made(), {*changed.state.made["owned"], FILE}
    return [
        path
        for path in sorted(list_changed(project) & (rendered.keys() - owned))
        if not (project / path).is_file() or (project / path).read_bytes() != rendered[path].content
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("prepare", "check"))
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-agents", action="store_true")
    given = parser.parse_args()
    project = Project(given.folder.resolve())
    if given.command == "check":
        print(json.dumps(check(given.task, project)))
    elif project.path.exists():
        parser.error(f"{given.folder} exists; name a new folder")
    else:
        answers = TASKS[given.task][0]
        copier.run_copy(
            str(ROOT), project.path, data=answers, defaults=True, quiet=True, vcs_ref="HEAD"
        )
        prepare(given.task, project, agents=not given.without_agents)


if __name__ == "__main__":
    main()
