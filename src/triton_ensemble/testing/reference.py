"""Compares what is served with the original: the pipeline on the samples, and each model file at several sizes.

A file of tests that imports this may have `pipeline(inputs)`, the outputs that the ensemble must have for a
request, and TOLERANCES by output, as NumPy's `isclose` takes them. A models/NAME.py may have
`reference(inputs)`, the outputs that its model file must have. Inputs of such a model are random: reals from 0
to 1 and integers 0 and 1, or what RANGES of models/NAME.py says by input, as (0, 30522), of which the second is
left out. LENGTHS are the sizes of dims that vary.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.client import (
    Array,
    Arrays,
    Client,
    package,
)
from triton_ensemble.facts.config.message import ModelConfig, type_name
from triton_ensemble.facts.config.repository import model_config
from triton_ensemble.testing.ask import ask
from triton_ensemble.testing.compare import Tolerances, differences
from triton_ensemble.testing.files import Sample, samples, way_out
from triton_ensemble.testing.python_model import NUMPY_TYPES
from triton_ensemble.testing.under_test import PROJECT

__all__ = [
    "test_a_model_file_answers_as_its_original",
    "test_the_pipeline_answers_as_the_original",
]

LENGTHS = (2, 5, 16)
Ranges = Mapping[str, tuple[float, float]]
InferenceError: type[Exception] = package(PROJECT).InferenceError
InvalidInput: type[Exception] = package(PROJECT).InvalidInput


def iter_references() -> Iterator[object]:
    """Yield model, script and rows for each model file that is served alone and has a reference."""
    for path, script in PROJECT.model_files.items():
        source = PROJECT.root / "models" / f"{script}.py"
        model, _, *rest = PurePath(path).parts
        if len(rest) == 1 and source.is_file() and "\ndef reference(" in source.read_text():
            most = model_config(PROJECT.repository, model).max_batch_size
            for rows in sorted({1, min(2, most), most}) if most else [0]:
                yield pytest.param(model, script, rows, id=f"{model}-{rows or 'no'} rows")


@pytest.mark.parametrize("sample", samples(PROJECT), ids=lambda sample: sample.name)
def test_the_pipeline_answers_as_the_original(
    request: pytest.FixtureRequest, client: Client, sample: Sample
) -> None:
    original = getattr(request.module, "pipeline", None)
    if original is None:
        pytest.skip("has no pipeline(inputs) to compare with")
    try:
        [answer] = client.answers(sample.inputs)
    except InvalidInput as error:
        if sample.made_up:
            pytest.skip(f"sample {sample.name} is refused: {error}{way_out(PROJECT, sample)}")
        raise pytest.fail.Exception(f"sample {sample.name}: {error}", pytrace=False) from None
    except InferenceError as error:
        raise pytest.fail.Exception(f"sample {sample.name}: {error}", pytrace=False) from None
    wanted = original(sample.inputs)
    heading = f"sample {sample.name} is answered unlike pipeline() of the original:"
    same(heading, answer, wanted, tolerances(request.module))


@pytest.mark.parametrize(("model", "script", "rows"), list(iter_references()))
def test_a_model_file_answers_as_its_original(
    request: pytest.FixtureRequest, urls: dict[str, str], model: str, script: str, rows: int
) -> None:
    config = model_config(PROJECT.repository, model)
    if problem := explain_unasked(config, urls):
        pytest.skip(f"{model}: {problem}")
    module = importlib.import_module(f"models.{script}")
    ranges, random = getattr(module, "RANGES", {}), np.random.default_rng(0)
    is_open = any(dim < 0 for tensor in config.input for dim in tensor.dims)
    for length in getattr(module, "LENGTHS", LENGTHS) if is_open else (1,):
        inputs = {t.name: values(t, rows, length, ranges, random) for t in config.input}
        wanted = module.reference({name: array.copy() for name, array in inputs.items()})
        size = f"{rows or 'no'} rows{f', length {length}' if is_open else ''}"
        heading = f"models/{script}.py, {size}: its file answers unlike its reference():"
        same(heading, ask_model(urls["grpc"], model, inputs), wanted, tolerances(request.module))


def explain_unasked(config: ModelConfig, urls: Mapping[str, str]) -> str:
    """Return why a model can't be compared on this server, or an empty text if it can."""
    types = {type_name(tensor) for tensor in config.input}
    if "grpc" not in urls:
        return "no grpc address; set TRITON_GRPC_URL"
    if config.backend in PROJECT.stand_ins and "TRITON_URL" not in os.environ:
        return f"has no form of {config.backend} here; set TRITON_URL to a server that has it"
    if "BF16" in types or not types or any(tensor.HasField("reshape") for tensor in config.input):
        return "has inputs that are undeclared, reshaped or of BF16; compare it in a test of yours"
    if config.HasField("sequence_batching") or config.model_transaction_policy.decoupled:
        return "is decoupled or has sequences; compare it in a test of yours"
    return ""


def values(
    tensor: Any, rows: int, length: int, ranges: Ranges, random: np.random.Generator
) -> Array:
    """Return random values for an input."""
    shape = [rows] * bool(rows) + [length if dim < 0 else dim for dim in tensor.dims]
    kind = type_name(tensor)
    if kind == "STRING":
        return random.integers(0, 10, shape).astype(bytes).astype(np.object_)
    real = kind.startswith("FP")
    low, high = ranges.get(tensor.name, (0, 1 if real else 2))
    drawn = (
        random.uniform(low, high, shape) if real else random.integers(int(low), int(high), shape)
    )
    return drawn.astype(NUMPY_TYPES.get(kind, kind.lower()))


def ask_model(url: str, model: str, inputs: Arrays) -> Arrays:
    """Return the answer of a model, or fail the test if there is none."""
    address = urlsplit(url)
    with grpc.InferenceServerClient(address.netloc, ssl=address.scheme == "grpcs") as client:
        try:
            return ask(client, model, inputs)
        except InferenceServerException as error:
            return pytest.fail(f"{model}: {error.message()}", pytrace=False)


def tolerances(module: object) -> Tolerances:
    """Return the tolerances that a file of tests has, by output."""
    own: Tolerances = getattr(module, "TOLERANCES", {})
    return own


def same(heading: str, answer: Arrays, wanted: Arrays, own: Tolerances) -> None:
    """Fail with a line for each output that is another, by more than rounding of its largest value."""
    if unknown := wanted.keys() - answer.keys():
        pytest.fail(f"{heading} it has no {', '.join(sorted(unknown))}", pytrace=False)
    if lines := differences(answer, wanted, own, of_largest=True):
        pytest.fail("\n".join([heading, *lines.values()]), pytrace=False)
