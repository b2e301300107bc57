"""vLLM and TensorRT-LLM: their tensors and streams, by stand-ins that make up words. No such model has run here."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from gateway_service import Answer, Service, gateway
from support import Generate, Project, step

from triton_ensemble.serve.local.local_triton import LocalTriton

FLAG = {"type": "BOOL", "dims": [1], "optional": True}
VLLM: dict[str, Any] = {
    "project_name": "writer",
    "starting_pipeline": "my-own",
    "gpu_count": 1,
    "max_batch_size": 0,
    "extras": ["gateway"],
    "tensors": {
        "text_input": "STRING[1]",
        "stream": FLAG,
        "exclude_input_in_output": FLAG,
        "sampling_parameters": {"type": "STRING", "dims": [1], "optional": True},
        "text_output": "STRING[-1]",
    },
    "steps": [
        step(
            "llm",
            ["text_input", "stream", "exclude_input_in_output", "sampling_parameters"],
            ["text_output"],
            "vllm",
            decoupled=True,
        )
    ],
}
TENSORRT_LLM: dict[str, Any] = {
    "project_name": "tokens",
    "triton_release": "26.07",
    "starting_pipeline": "my-own",
    "gpu_count": 1,
    "max_batch_size": 4,
    "tensors": {
        "INPUT_IDS": "INT32[-1]",
        "COUNT": "INT32[1]",
        "STREAMING": FLAG,
        "OUTPUT_IDS": "INT32[-1, -1]",
        "LENGTH": "INT32[-1]",
    },
    "steps": [
        step(
            "llm",
            {
                "input_ids": "INPUT_IDS",
                "input_lengths": {"tensor": "COUNT", "reshape": []},
                "request_output_len": {"tensor": "COUNT", "reshape": []},
                "streaming": {"tensor": "STREAMING", "reshape": []},
            },
            {"output_ids": "OUTPUT_IDS", "sequence_length": "LENGTH"},
            "tensorrtllm",
            decoupled=True,
            parameters={"gpt_model_path": "/models/llm/1"},
        )
    ],
}


class Served(NamedTuple):
    """A project, its Triton, and the gateway before it."""

    project: Project
    triton: LocalTriton
    service: Service

    def stream(self, **inputs: Any) -> list[str]:
        with self.project.client(self.triton.grpc_url) as client:
            answers = client.stream({name: [value] for name, value in inputs.items()})
            return [b"".join(answer["text_output"].flat).decode() for answer in answers]

    def completion(self, **given: Any) -> Answer:
        return self.service.post(given, to="/v1/completions")


@contextmanager
def serving(generate: Generate) -> Iterator[Served]:
    project = generate.complete(**VLLM)
    with (
        LocalTriton(project / "model_repository", "writer") as triton,
        gateway(project, triton.grpc_url) as service,
    ):
        yield Served(project, triton, service)


@pytest.fixture(scope="module")
def writer(generate: Generate) -> Iterator[Served]:
    with serving(generate) as served:
        yield served


def test_the_model_is_named_in_a_file_of_its_owner(writer: Served) -> None:
    engine = json.loads((writer.project / "model_repository/llm/1/model.json").read_text())
    assert engine["model"] == "facebook/opt-125m"
    assert writer.triton.notes == [
        "llm: a stand-in for vllm makes up words by the seed, there is no model"
    ]


def test_the_client_streams(writer: Served) -> None:
    sampling = json.dumps({"max_tokens": 5, "seed": 1})
    words = writer.stream(text_input="Once", stream=True, sampling_parameters=sampling)
    assert len(words) == 5
    assert all(word.startswith(" ") for word in words)
    whole = writer.stream(text_input="Once", sampling_parameters=sampling)
    assert whole == ["Once" + "".join(words)]  # as vLLM, where it does not stream
    bare = writer.stream(
        text_input="Once", sampling_parameters=sampling, exclude_input_in_output=True
    )
    assert bare == ["".join(words)]
    other = json.dumps({"max_tokens": 5, "seed": 2})
    assert writer.stream(text_input="Once", stream=True, sampling_parameters=other) != words
    assert len(writer.stream(text_input="Once", stream=True)) == 16


def test_what_vllm_refuses_is_refused(writer: Served) -> None:
    """By HTTP: Triton before 26.04 may end after a stream over gRPC that fails (server#8708)."""

    def ask(**inputs: Any) -> str:
        connection = HTTPConnection(writer.triton.http_url.rpartition("/")[2], timeout=20)
        with closing(connection):
            body = json.dumps({"text_input": "Once", **inputs})
            connection.request("POST", "/v2/models/writer/generate_stream", body)
            return connection.getresponse().read().decode()

    said = ask(stream=True, exclude_input_in_output=False)
    assert "`exclude_input_in_output` = False is not allowed" in said
    assert "llm failed: Expecting value" in ask(sampling_parameters="warm")
    assert writer.stream(text_input="Once")


def test_the_gateway_streams_events(writer: Served) -> None:
    sampling = json.dumps({"max_tokens": 3})
    given = {"text_input": "Once", "stream": True, "sampling_parameters": sampling}
    answer = writer.service.post({name: [value] for name, value in given.items()})
    events = answer.content.decode().strip().split("\n\n")
    words = [json.loads(event.removeprefix("data: "))["text_output"][0] for event in events]
    assert words == writer.stream(**given)


def test_a_completion_is_what_the_model_streams(writer: Served) -> None:
    given = {"model": "writer", "prompt": "Once", "max_tokens": 4, "seed": 7}
    sampling = json.dumps({"max_tokens": 4, "seed": 7})
    words = writer.stream(text_input="Once", stream=True, sampling_parameters=sampling)
    answer = writer.completion(**given).json()
    assert (answer["object"], answer["model"]) == ("text_completion", "writer")
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("".join(words), "stop")

    streamed = writer.completion(**given, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = streamed.content.decode().splitlines()
    lines = [line.removeprefix("data: ") for line in events if line]
    chunks = [json.loads(line) for line in lines[:-1]]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == [*words, ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"]
    assert lines[-1] == "[DONE]"
    assert writer.service.ask("GET", "/v1/models").json()["data"][0]["id"] == "writer"


def test_a_completion_that_can_not_be_is_refused(writer: Served) -> None:
    def status(**given: Any) -> int:
        return writer.completion(**given).status

    assert status(prompt=["one", "two"]) == 422
    assert status(prompt="one", n=2) == 422
    assert status() == 422
    assert status(prompt="one", max_tokens=-1) >= 400
    assert status(prompt="one", max_tokens=-1, stream=True) >= 400
    assert status(prompt="one") == 200


def test_a_completion_that_is_too_long_is_refused_before_it_comes(writer: Served) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 67108865\r\n\r\n"
    with socket.create_connection(("127.0.0.1", writer.service.port), timeout=10) as connection:
        connection.sendall(head)
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_completions_are_of_pipelines_that_write_text_alone(generate: Generate) -> None:
    other = VLLM | {
        "tensors": {"PROMPT": "STRING[1]", "TEXT": "STRING[-1]"},
        "steps": [step("llm", ["PROMPT"], ["TEXT"], "vllm", decoupled=True)],
    }
    assert "completions" not in Path(generate(**other) / "gateway/app.py").read_text()


@pytest.mark.slow
def test_tensorrt_llm_streams_tokens(generate: Generate) -> None:
    project = generate.complete(**TENSORRT_LLM)
    with (
        LocalTriton(project / "model_repository", "tokens") as triton,
        project.client(triton.grpc_url) as client,
    ):
        [note] = triton.notes
        assert note.startswith("llm: a stand-in for tensorrtllm makes up words by the seed")
        given = {"INPUT_IDS": np.array([[5, 6, 7]], np.int32), "COUNT": [[4]]}
        pieces = [*client.stream(given | {"STREAMING": [[True]]})]
        [whole] = client.stream(given)
        assert [piece["OUTPUT_IDS"].shape for piece in pieces] == [(1, 1, 1)] * 4
        tokens = [piece["OUTPUT_IDS"].item() for piece in pieces]
        assert whole["OUTPUT_IDS"].tolist() == [[tokens]]
        assert (whole["LENGTH"].tolist(), {*tokens} <= {5, 6, 7}) == ([[4]], True)
