"""The gateway's routes in the form of OpenAI's API, asked as OpenAI's, Cohere's and vLLM's clients ask."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gateway_service import Answer, Service, gateway
from support import Generate, Project, run, step, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton

CODE = '''
import numpy as np
from triton_step import Context, InvalidRequest


class Step:
    """Letters, words that two texts share, and words."""

    def __init__(self, context: Context) -> None: ...

    def __call__(self, TEXT, QUERY=None, SIZE=None):
        texts = [text.decode() for text in TEXT[:, 0]]
        if "bad" in texts:
            raise InvalidRequest("no bad text")
        queries = [query.decode() for query in QUERY[:, 0]] if QUERY is not None else [""] * len(texts)
        size = 3 if SIZE is None else int(SIZE[0, 0])
        vectors = [[text.count(letter) for letter in "abc"[:size]] for text in texts]
        shared = [len({*a.split()} & {*b.split()}) for a, b in zip(texts, queries, strict=True)]
        return {
            "VECTOR": np.array(vectors, np.float32),
            "SCORE": np.array(shared, np.float32)[:, None],
            "LABEL": np.array(["abc"[int(np.argmax(v))].encode() for v in vectors], object)[:, None],
            "TOKENS": np.array([len(text.split()) for text in texts], np.int64)[:, None],
        }
'''
ANSWERS: dict[str, Any] = {
    "project_name": "letters",
    "extras": ["gateway"],
    "max_batch_size": 4,
    "tensors": {
        "TEXT": "STRING[1]",
        "QUERY": {"type": "STRING", "dims": [1], "optional": True},
        "SIZE": {"type": "INT32", "dims": [1], "optional": True},
        "VECTOR": "FP32[-1]",
        "SCORE": "FP32[1]",
        "LABEL": "STRING[1]",
        "TOKENS": "INT64[1]",
    },
    "steps": [step("count", ["TEXT", "QUERY", "SIZE"], ["VECTOR", "SCORE", "LABEL", "TOKENS"])],
    "openai": {
        "embeddings": {
            "input": "TEXT",
            "output": "VECTOR",
            "dimensions": "SIZE",
            "tokens": "TOKENS",
        },
        "rerank": {"query": "QUERY", "document": "TEXT", "score": "SCORE", "tokens": "TOKENS"},
        "classify": {"input": "TEXT", "probabilities": "VECTOR", "label": "LABEL"},
    },
}


# With the versions that docs/gateway.md names.
PACKAGES = (
    "openai==3.57.0",
    "langchain-openai==1.7.4",
    "llama-index-embeddings-openai==0.7.0",
    "cohere==7.3.1",
)
CLIENTS = """
import json, sys
import cohere
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai import OpenAIEmbedding
from openai import BadRequestError, NotFoundError, OpenAI

url, texts = sys.argv[1], ["a cab", "b"]
own = OpenAI(base_url=f"{url}/v1", api_key="secret")
langchain = OpenAIEmbeddings(base_url=f"{url}/v1", api_key="secret", check_embedding_ctx_length=False)
llama = OpenAIEmbedding(api_base=f"{url}/v1", api_key="secret", model_name="letters")
ranked = cohere.ClientV2(api_key="secret", base_url=url).rerank(
    model="letters", query="x y", documents=["a b", "x y", "x"], top_n=2
)
try:
    own.embeddings.create(model="letters", input=[1, 2])
except BadRequestError as error:
    refused = error.message
try:
    own.models.retrieve("other/model")
except NotFoundError as error:
    unknown = error.message
many = own.embeddings.create(model="letters", input=["a" * (i % 7) for i in range(2048)])
print(json.dumps({
    "vectors": [
        [row.embedding for row in own.embeddings.create(model="letters", input=texts).data],
        langchain.embed_documents(texts),
        llama.get_text_embedding_batch(texts),
    ],
    "models": [model.id for model in own.models.list()],
    "ranked": [(result.index, result.relevance_score) for result in ranked.results],
    "model": own.models.retrieve("letters").id,
    "many": [row.embedding[0] for row in many.data],
    "langchain": [v[0] for v in langchain.embed_documents(["a" * (i % 7) for i in range(1000)])],
    "refused": refused,
    "unknown": unknown,
}))
"""


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    project = generate(**ANSWERS)
    (project / "steps/count.py").write_text(CODE)
    succeed(project.make("repository"))
    return project


@pytest.fixture(scope="module")
def triton(project: Project) -> Iterator[LocalTriton]:
    with LocalTriton(project / "model_repository", "letters") as triton:
        yield triton


@pytest.fixture(scope="module")
def service(project: Project, triton: LocalTriton) -> Iterator[Service]:
    with gateway(project, triton.grpc_url, GATEWAY_MAX_ROWS="6") as service:
        yield service


@pytest.fixture(scope="module")
def with_key(project: Project, triton: LocalTriton) -> Iterator[Service]:
    with gateway(project, triton.grpc_url, GATEWAY_API_KEYS="secret") as service:
        yield service


def embed(service: Service, given: Any, **more: Any) -> Answer:
    return service.post({"input": given, **more}, to="/v1/embeddings")


def message(answer: Answer) -> str:
    """Return what OpenAI's client shows of an error."""
    error = answer.json()["error"]
    assert error["code"] == answer.status
    return str(error["message"])


def test_a_text_has_a_vector_and_a_usage(service: Service) -> None:
    assert embed(service, "a cab").json() == {
        "object": "list",
        "model": "letters",
        "data": [{"object": "embedding", "index": 0, "embedding": [2.0, 1.0, 1.0]}],
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    }


def test_more_texts_than_a_batch_has_rows_keep_their_order(service: Service) -> None:
    texts = ["a", "b", "c", "aa", "bb", "cc"]
    data = embed(service, texts).json()["data"]
    assert [row["embedding"] for row in data] == [[t.count(x) for x in "abc"] for t in texts]


@pytest.mark.parametrize("count", [1000, 2048])
def test_as_many_texts_as_clients_send_are_answered_in_order(with_key: Service, count: int) -> None:
    """LangChain sends 1,000 texts at once, OpenAI's client up to 2,048, and asks for base64."""
    texts = ["a" * (i % 7) + "b" * (i // 7) for i in range(count)]
    given = {"model": "letters", "input": texts, "encoding_format": "base64"}
    key = {"Authorization": "Bearer secret"}
    rows = with_key.post(given, to="/v1/embeddings", **key).json()["data"]
    assert [row["index"] for row in rows] == [*range(count)]
    vectors = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4").tolist() for row in rows]
    assert vectors == [[i % 7, i // 7, 0] for i in range(count)]
    ranked = with_key.post(
        {"query": "x", "documents": ["a", *["x"] * (count - 1)]}, to="/v1/rerank", **key
    )
    assert [row["index"] for row in ranked.json()["results"]] == [*range(1, count), 0]
    texts[count - 2] = "bad"
    refused = with_key.post(given, to="/v1/embeddings", **key)
    assert (refused.status, message(refused)) == (
        400,
        f"row {count - 2}: in ensemble 'letters', step count: no bad text",
    )


def test_a_model_is_described_by_its_name(service: Service) -> None:
    [model] = service.ask("GET", "/v1/models").json()["data"]
    assert service.ask("GET", "/v1/models/letters").json() == model
    unknown = service.ask("GET", "/v1/models/BAAI%2Fother")
    assert (unknown.status, message(unknown)) == (
        404,
        "there is no model BAAI/other; write letters",
    )
    error = unknown.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", 404)


def test_vectors_as_base64_are_little_endian_floats(service: Service) -> None:
    [row] = embed(service, ["abb"], encoding_format="base64").json()["data"]
    vector = np.frombuffer(base64.b64decode(row["embedding"]), "<f4")
    assert vector.tolist() == [1, 2, 0]


def test_dimensions_are_an_input_of_the_pipeline(service: Service) -> None:
    data = embed(service, ["abb", "c"], dimensions=2).json()["data"]
    assert [row["embedding"] for row in data] == [[1, 2], [0, 0]]


def test_documents_are_ordered_by_score(service: Service) -> None:
    documents = ["a b", {"text": "x y"}, "x"]
    given = {"query": "x y", "documents": documents, "top_n": 2, "return_documents": True}
    for path in ("/v1/rerank", "/v2/rerank"):
        answer = service.post(given, to=path).json()
        assert answer["results"] == [
            {"index": 1, "relevance_score": 2.0, "document": {"text": "x y"}},
            {"index": 2, "relevance_score": 1.0, "document": {"text": "x"}},
        ]
        assert (answer["usage"]["total_tokens"], answer["model"]) == (5, "letters")


def test_documents_of_one_score_keep_their_order(service: Service) -> None:
    answer = service.post({"query": "x", "documents": ["a", "b", "c"]}, to="/v1/rerank").json()
    assert [result["index"] for result in answer["results"]] == [0, 1, 2]


def test_a_text_has_a_class_and_its_probabilities(service: Service) -> None:
    answer = service.post({"input": ["ccb", "a"]}, to="/v1/classify").json()
    assert answer["data"] == [
        {"index": 0, "label": "c", "probs": [0.0, 1.0, 2.0], "num_classes": 3},
        {"index": 1, "label": "a", "probs": [1.0, 0.0, 0.0], "num_classes": 3},
    ]


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({"input": [1, 2]}, 400, "input: token ids; send texts"),
        ({"input": [[*range(100)]] * 1000}, 400, "input: token ids; send texts"),  # of LangChain
        ({"input": []}, 422, "input: List should have at least 1 item"),
        ({"input": None}, 422, "input: Input should be a valid array"),
        ({"model": "x"}, 422, "input: Field required"),
        ({"input": "a", "dimensions": 0}, 422, "dimensions: "),
        ({"input": "a", "encoding_format": "int8"}, 422, "encoding_format: "),
        ({"input": ["a", "bad"]}, 400, "no bad text"),
        ({"input": ["bad", "a"]}, 400, "row 0: in ensemble 'letters', step count: no bad text"),
        ({"input": ["a"] * 7}, 413, "7 rows; a request may have 6"),
        (b"{", 422, "body: Invalid JSON: "),
    ],
)
def test_a_refused_request_has_an_error_that_clients_show(
    service: Service, content: Any, status: int, words: str
) -> None:
    answer = service.post(content, to="/v1/embeddings")
    assert answer.status == status
    assert words in message(answer)
    assert "id" in answer.json()


def test_keys_are_asked_as_openai_sends_them(with_key: Service) -> None:
    assert message(embed(with_key, "a")).startswith("no key")
    given = {"input": "a"}
    answer = with_key.post(given, to="/v1/embeddings", Authorization="Bearer secret")
    assert answer.status == 200
    models = with_key.ask("GET", "/v1/models", Authorization="Bearer secret").json()
    assert [model["id"] for model in models["data"]] == ["letters"]


@pytest.mark.slow
def test_the_clients_that_people_use_are_answered(with_key: Service, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path))
    succeed(run(*pip, *PACKAGES, cwd=tmp_path))
    url = f"http://127.0.0.1:{with_key.port}"
    ask = (sys.executable, "-c", CLIENTS, url)
    said = json.loads(succeed(run(*ask, cwd=tmp_path, PYTHONPATH=str(tmp_path))))
    assert said["vectors"] == [[[2, 1, 1], [0, 1, 0]]] * 3
    assert said["models"] == ["letters"]
    assert said["ranked"] == [[1, 2], [2, 1]]
    assert "input: token ids; send texts" in said["refused"]
    assert "there is no model other/model; write letters" in said["unknown"]
    assert said["model"] == "letters"
    assert said["many"] == [i % 7 for i in range(2048)]
    assert said["langchain"] == [i % 7 for i in range(1000)]


def test_a_long_body_without_a_key_is_refused_before_it_is_read(with_key: Service) -> None:
    connection = with_key.connect()
    connection.putrequest("POST", "/v1/embeddings")
    connection.putheader("Content-Length", str(2 << 20))
    connection.endheaders()
    answer = Answer(connection.getresponse())  # though no byte of the body is sent
    connection.close()
    assert message(answer).startswith("no key")
    given = {"input": "a" * (2 << 20)}
    answer = with_key.post(given, to="/v1/embeddings", Authorization="Bearer secret")
    assert answer.status == 200


def test_the_description_has_the_routes(service: Service) -> None:
    description = service.ask("GET", "/openapi.json")
    assert b"X-API-Key" not in description.content  # which nobody asks for
    paths = description.json()["paths"]
    assert not any(
        "security" in operation for path in paths.values() for operation in path.values()
    )
    assert {"/v1/models", "/v1/embeddings", "/v1/rerank", "/v1/classify"} <= paths.keys()
    for path, field in {"embeddings": "data", "rerank": "results", "classify": "data"}.items():
        described = paths[f"/v1/{path}"]["post"]
        for part in (described["requestBody"], described["responses"]["200"]):
            assert part["content"]["application/json"]["schema"]["required"]
        answer = described["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer["properties"][field]["items"]["properties"].keys() > {"index"}


def test_other_routes_keep_their_own_form_of_errors(service: Service) -> None:
    assert isinstance(service.post({}).json()["error"], str)
