"""Each example of the pages on steps as a project: it passes its linters and its own tests, and answers on a real Triton."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import yaml
from asking import Arrays, asked, connect, streamed
from docs_blocks import read_blocks
from support import ROOT, Generate, Project, slow_but, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_step import InvalidRequest, pad_to_bucket

EXAMPLES = {
    section.partition("\n")[0]: section
    for page in ("steps", "fused", "streams", "calls")
    for section in f"\n#{(ROOT / f'docs/{page}.md').read_text()}".split("\n## ")[1:]
    if "```yaml" in section
}


def written(
    generate: Generate, title: str, *of_steps: dict[str, Any], folders: tuple[str, ...] = ("",)
) -> Project:
    """Return the project of an example's pipeline, with its code."""
    [answers] = read_blocks(EXAMPLES[title], "yaml")
    pipeline = yaml.safe_load(answers)
    for step, more in zip(pipeline["steps"], of_steps, strict=False):
        step.update(more)
    project = generate(**pipeline, project_name="docs")
    for code in read_blocks(EXAMPLES[title], "python"):
        path, _, text = code.removeprefix("# ").partition("\n")
        assert (project / path).exists()
        if path.startswith(folders):
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


@pytest.mark.parametrize(
    "title",
    [
        *slow_but(
            "A step with a memory",
            *(title for title in EXAMPLES if "calls" in title or "asks" in title),
            names=EXAMPLES.keys() - {"Steps that share a process"},
        )
    ],
)
def test_its_generated_test_is_green_at_the_first_run(generate: Generate, title: str) -> None:
    if "torch" in EXAMPLES[title]:
        pytest.importorskip("torch")
    project = written(generate, title, folders=("steps/",))
    if "CITY" in EXAMPLES[title]:
        succeed(project.make("sample", "ARGS=CITY=Oslo", "NAME=one"))
    for tool in ("pytest -q", "ruff check", "ruff format --check", "mypy"):
        succeed(project.run(sys.executable, "-m", *tool.split(), "tests/test_steps.py"))


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_step_with_many_answers(generate: Generate) -> None:
    text = {"TEXT": np.array([["one grüße".encode()], [b"three"]], dtype=object)}
    with served(generate, "A step with many responses") as triton:
        answers = streamed(triton, "docs", text)
    words = [answer["WORD"].item().decode() for answer in answers if isinstance(answer, dict)]
    assert words == ["one", "grüße", "three"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_step_that_calls_other_models(generate: Generate) -> None:
    given = {"GIVEN": np.array([[12], [3]], np.float32)}
    with (
        served(generate, "A step that calls other models") as triton,
        connect(triton) as client,
    ):
        answer = asked(client, "docs", given)
    assert isinstance(answer, dict), answer
    assert answer["SMALL"].tolist() == [[0.75], [0.75]]


@pytest.mark.slow
def test_a_step_that_asks_some_models_at_once_and_some_not_at_all(generate: Generate) -> None:
    project = written(generate, "A step that asks some models at once, and some not at all")
    code = "class Step:\n    def __init__(self, context): ...\n\n    def __call__(self, X):\n        return {{'Y': X{}}}\n"
    (project / "steps/one.py").write_text(code.format(" + 1"))
    (project / "steps/two.py").write_text(code.format(" + 3"))
    succeed(project.make("repository"))
    with LocalTriton(project / "model_repository", "docs") as triton, connect(triton) as client:
        asked_of = []
        for values in ([[2], [3]], [[2], [20]]):
            answer = asked(client, "docs", {"VALUE": np.array(values, np.float32)})
            assert isinstance(answer, dict), answer
            [statistics] = client.get_inference_statistics("one").model_stats
            asked_of.append((answer["ANSWER"].ravel().tolist(), statistics.inference_count))
    assert asked_of == [([2, 3], 0), ([2, 22], 1)]


def test_the_unit_test_of_a_step_that_calls_other_models(generate: Generate) -> None:
    project = written(generate, "A step that calls other models")
    succeed(project.run(sys.executable, "-m", "pytest", "-q", "tests/test_steps.py"))


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_a_step_on_a_gpu(generate: Generate) -> None:
    """It runs on the CPU here, by the same DLPack."""
    pixels = {"PIXELS": np.full((2, 3, 4, 4), 255, np.uint8)}
    with served(generate, "A step on a GPU") as triton, connect(triton) as client:
        answer = asked(client, "docs", pixels)
    assert isinstance(answer, dict), answer
    assert answer["SCALED"].shape == (2, 3, 4, 4)
    assert (answer["SCALED"] == 1).all()


def rows_a_batch(project: Project, sizes: str) -> float:
    """Return the rows of a mean batch of the model that reads open dims, of requests that all have other lengths."""
    code = (project / "steps/spell.py").read_text()
    (project / "steps/spell.py").write_text(re.sub("SIZES = .*", f"SIZES = {sizes}", code))
    succeed(project.make("repository"))
    texts = ["é" * length for length in range(1, 65)]
    random.Random(0).shuffle(texts)
    with LocalTriton(project / "model_repository", "docs") as triton, connect(triton) as client:

        def ask(text: str) -> float:
            answer = asked(client, "docs", {"TEXT": np.array([[text.encode()]], dtype=object)})
            assert isinstance(answer, dict), answer
            return float(answer["MEAN"].item())

        with ThreadPoolExecutor(len(texts)) as pool:
            assert set(pool.map(ask, texts)) == {float(ord("é"))}
        [counts] = client.get_inference_statistics("average").model_stats
    return float(counts.inference_count / counts.execution_count)


@pytest.mark.slow
def test_requests_padded_to_few_sizes_share_batches(generate: Generate) -> None:
    patient = {"batching": {"max_queue_delay_us": 50_000}}
    title = "A step before tensors whose dims vary"
    project = written(generate, title, {"batching": False}, patient)
    sizes = ("tuple(range(257))", "(16, 64)", "(64,)")
    alone, two, one = (rows_a_batch(project, each) for each in sizes)
    print(
        f"rows a batch: {alone:.1f} without padding, {two:.1f} with two sizes, {one:.1f} with one"
    )
    assert alone == 1
    assert two > 1.5
    assert one > 4


def test_padding() -> None:
    padded, mask = pad_to_bucket([[1, 2, 3], [4]], (8, 2, 4), dtype=np.int64, fill=-1)
    assert padded.tolist() == [[1, 2, 3, -1], [4, -1, -1, -1]]
    assert mask.tolist() == [[True] * 3 + [False], [True] + [False] * 3]
    rows = [np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)]
    padded, mask = pad_to_bucket(rows, (2, 4), dtype=np.float32)
    assert padded.dtype == np.float32
    assert (padded.shape, mask.shape) == ((2, 2, 3), (2, 2))
    assert [array.shape for array in pad_to_bucket([], (2, 4), dtype=np.int64)] == [(0, 2), (0, 2)]
    line = "row 1 has a length of 5; send one of at most 4"
    with pytest.raises(InvalidRequest, match=line):
        pad_to_bucket([[1], [1] * 5], (2, 4), dtype=np.int64)
