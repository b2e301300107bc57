"""The starting pipeline text-to-image: images by steps that call each other on a real Triton, and its exporter."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from gateway_service import Service, gateway
from PIL import Image
from support import NOWHERE, Generate, Project, Server, serve, succeed

FOXES = list(itertools.product(["a red fox", "the sea at night"], [1, 2]))


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    project = generate.complete(starting_pipeline="text-to-image", extras=["gateway"])
    return project


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Server]:
    with serve(project) as server:
        yield server


@pytest.fixture(scope="module")
def service(server: Server) -> Iterator[Service]:
    with gateway(server.project, server.urls["grpc"]) as service:
        yield service


def size(content: bytes) -> tuple[int, int]:
    """Return width and height of a PNG that is complete."""
    with Image.open(BytesIO(content), formats=["PNG"]) as image:
        image.load()
        return image.size


def alone(service: Service, **row: Any) -> bytes:
    """Return the one image of a request, as a file."""
    answer = service.post({name: [[value]] for name, value in row.items()}, Accept="image/*")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")
    return answer.content


def test_images_depend_on_prompt_and_seed_and_not_on_the_batch(service: Service) -> None:
    images = [alone(service, PROMPT=prompt, SEED=seed) for prompt, seed in FOXES]
    assert [size(image) for image in images] == [(64, 64)] * len(FOXES)
    assert len({*images}) == len(FOXES)
    rows = {"PROMPT": [[prompt] for prompt, _ in FOXES], "SEED": [[seed] for _, seed in FOXES]}
    together = service.post(rows).json()["IMAGE"]
    assert [base64.b64decode(cell["base64"]) for [cell] in together] == images


def test_the_description_offers_an_image(service: Service) -> None:
    [predict] = service.ask("GET", "/openapi.json").json()["paths"]["/predict"].values()
    assert {"application/json", "image/*"} == predict["responses"]["200"]["content"].keys()


def test_rows_may_have_other_numbers_of_steps(server: Server) -> None:
    steps = np.array([[1], [30], [5], [100]], np.int32)
    prompts = np.full(steps.shape, b"a red fox", object)
    with server.project.client(server.urls["grpc"]) as client:
        together = client.infer({"PROMPT": prompts, "STEPS": steps})["IMAGE"]
        by_itself = client.infer({"PROMPT": prompts[2:3], "STEPS": steps[2:3]})["IMAGE"]
    assert len({*together[:, 0]}) == len(steps)
    assert together[2] == by_itself[0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"STEPS": 0}, "STEPS, row 0: is 0; send 1 to 100"),
        ({"SEED": -1}, "SEED, row 0: is -1; send 0 to 9223372036854775807"),
        ({"GUIDANCE": 51}, "GUIDANCE, row 0: is 51; send 0 to 50"),
    ],
)
def test_a_number_out_of_range_is_the_clients_mistake(
    service: Service, row: dict[str, Any], said: str
) -> None:
    answer = service.post({name: [[v]] for name, v in ({"PROMPT": "a red fox"} | row).items()})
    assert answer.status == 400
    assert answer.json()["error"].endswith(said)


@pytest.mark.slow
def test_infer_writes_images_as_files(project: Project) -> None:
    printed = succeed(project.make("infer", HTTP_PORT=NOWHERE))
    file = project / "build/answers/fox-IMAGE-0.png"
    assert f"{file.stat().st_size} bytes that are not text: build/answers/{file.name}\n" in printed
    assert size(file.read_bytes()) == (64, 64)


@pytest.mark.slow
def test_text_to_image_passes_its_own_tests(generate: Generate) -> None:
    project = generate(starting_pipeline="text-to-image")
    printed = succeed(project.make("test", "STRICT=1", PYTEST_ADDOPTS="--verbose"))
    assert "stub" not in printed
    for protocol in ("http", "grpc"):
        assert f"test_images_are_those_of_onnx_runtime[{protocol}-fox] PASSED" in printed
