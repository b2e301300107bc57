"""Each example of docs/steps.md as a project: it passes its linters and its own tests, and answers on a real Triton."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
import pytest
import yaml
from asking import Arrays, asked, connect, streamed
from support import ROOT, Generate, Project, succeed

from triton_ensemble.server.local_triton import LocalTriton

EXAMPLES = {
    section.partition("\n")[0]: section
    for section in (ROOT / "docs/steps.md").read_text().split("\n## ")[1:]
    if "```yaml" in section
}


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def written(generate: Generate, title: str) -> Project:
    """Return the project of an example's pipeline, with its code."""
    [answers] = blocks("yaml", EXAMPLES[title])
    project = generate(**yaml.safe_load(answers), project_name="docs")
    for code in blocks("python", EXAMPLES[title]):
        path, _, text = code.removeprefix("# ").partition("\n")
        assert (project / path).exists()
        (project / path).write_text(text)
    succeed(project.make("repository"))
    return project


@contextmanager
def served(generate: Generate, title: str) -> Iterator[LocalTriton]:
    with LocalTriton(written(generate, title) / "model_repository", "docs") as triton:
        yield triton


@pytest.mark.slow
@pytest.mark.parametrize("title", EXAMPLES)
def test_it_passes_linters_and_the_contract_test(generate: Generate, title: str) -> None:
    if "torch" in EXAMPLES[title]:
        pytest.importorskip("torch")
    project = written(generate, title)
    succeed(project.run(sys.executable, "-m", "ruff", "check", "steps", "src"))
    succeed(project.run(sys.executable, "-m", "ruff", "format", "--check", "steps", "src"))
    succeed(project.run(sys.executable, "-m", "mypy", "steps", "src"))
    succeed(project.run(sys.executable, "-m", "pytest", "-q", "tests/test_contract.py"))


def test_steps_that_share_a_process(generate: Generate) -> None:
    title = "Steps that share a process"
    given = np.array([[" grüße\n".encode()], [b"a"]], dtype=object)
    with served(generate, title) as triton, connect(triton) as client:
        answer = asked(client, "docs", {"TEXT": given})
        refused = asked(client, "docs", {"TEXT": np.array([[b" "]], dtype=object)})
        models = {model.name for model in client.get_model_repository_index().models}
    assert isinstance(answer, dict), answer
    assert answer["LENGTH"].tolist() == [[5], [1]]
    assert str(refused).endswith("step measure: TEXT: has blanks only; send a word")
    assert models == {"docs", "clean_to_measure"}


def test_a_step_that_waits(generate: Generate) -> None:
    cities = ["Oslo", "Bergen", "Paris", "Oslo"] * 2
    with served(generate, "A step that waits") as triton, connect(triton) as client:

        def ask(city: str) -> Arrays | str:
            return asked(client, "docs", {"CITY": np.array([[city.encode()]], dtype=object)})

        with ThreadPoolExecutor(len(cities)) as pool:
            took = []
            for _ in range(5):
                start = time.monotonic()
                oslo, bergen, paris, *_ = pool.map(ask, cities)
                took.append(time.monotonic() - start)
            assert min(took) < 0.05 * len(cities)
    assert isinstance(oslo, dict)
    assert isinstance(bergen, dict)
    assert (oslo["PEOPLE"].item(), bergen["PEOPLE"].item()) == (717_710, 291_940)
    assert str(paris).endswith("step look_up: CITY: Paris is not known; send one of Oslo, Bergen")


def test_a_step_with_many_answers(generate: Generate) -> None:
    text = {"TEXT": np.array([["one grüße".encode()], [b"three"]], dtype=object)}
    with served(generate, "A step with many answers") as triton:
        answers = streamed(triton, "docs", text)
    words = [answer["WORD"].item().decode() for answer in answers if isinstance(answer, dict)]
    assert words == ["one", "grüße", "three"]


def test_a_step_with_a_memory(generate: Generate) -> None:
    totals: dict[int, list[float]] = {1: [], 2: []}
    with served(generate, "A step with a memory") as triton, connect(triton) as client:
        for i in range(4):
            for sequence, sums in totals.items():
                position = {"sequence_start": i == 0, "sequence_end": i == 3}
                value = {"VALUE": np.full((1, 1), sequence, np.float32)}
                answer = asked(client, "docs", value, sequence_id=sequence, **position)
                assert isinstance(answer, dict), answer
                sums.append(answer["TOTAL"].item())
    assert totals == {1: [1, 2, 3, 4], 2: [2, 4, 6, 8]}


def test_a_step_that_calls_other_models(generate: Generate) -> None:
    given = {"GIVEN": np.array([[12], [3]], np.float32)}
    with (
        served(generate, "A step that calls other models") as triton,
        connect(triton) as client,
    ):
        answer = asked(client, "docs", given)
    assert isinstance(answer, dict), answer
    assert answer["SMALL"].tolist() == [[0.75], [0.1875]]


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_a_step_on_a_gpu(generate: Generate) -> None:
    """It runs on the CPU here, by the same DLPack."""
    pixels = {"PIXELS": np.full((2, 3, 4, 4), 255, np.uint8)}
    with served(generate, "A step on a GPU") as triton, connect(triton) as client:
        answer = asked(client, "docs", pixels)
    assert isinstance(answer, dict), answer
    assert answer["SCALED"].shape == (2, 3, 4, 4)
    assert (answer["SCALED"] == 1).all()
