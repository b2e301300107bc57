"""Routes in the form of OpenAI's API: `/v1/models`, `/v1/embeddings`, `/v1/rerank` (Cohere, Jina) and `/v1/classify` (vLLM).

`openai` in pipeline.yml names the tensors that each of them sends and returns; a text is one row.
"""

from __future__ import annotations

import base64
import time
from typing import Annotated, Literal

import numpy as np
import orjson
from annotated_types import Ge, MinLen
from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from triton_ensemble.client import Arrays
from triton_ensemble.gateway.depends import Pipeline
from triton_ensemble.gateway.refusal import OPENAI, Refusal

TEXT = {"type": "string"}
TEXTS = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
models = APIRouter(tags=[OPENAI])


def _list_texts(given: object) -> object:
    """Return one text as a list of it; ValueError for token ids, which LangChain sends unless it is told otherwise."""
    if isinstance(given, list) and any(isinstance(each, int | list) for each in given):
        raise ValueError("token ids; send texts (LangChain: check_embedding_ctx_length=False)")
    return [given] if isinstance(given, str) else given


Texts = Annotated[list[str], MinLen(1), BeforeValidator(_list_texts), WithJsonSchema(TEXTS)]


class Embedding(BaseModel):
    """A request for the vectors of texts."""

    input: Texts
    model: str = ""  # there is one
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Ge(1)] | None = None


class Document(BaseModel):
    """A document, of which the text counts."""

    text: str


class Reranking(BaseModel):
    """A request for the order of documents by their relevance to a query."""

    query: str
    documents: Annotated[list[str | Document], MinLen(1)]
    model: str = ""
    top_n: Annotated[int, Ge(1)] | None = None
    return_documents: bool = False


class Classification(BaseModel):
    """A request for the classes of texts."""

    input: Texts
    model: str = ""


@models.get("/v1/models", summary="The one model")
async def list_models(pipeline: Pipeline) -> dict[str, object]:
    """List the pipeline as a model."""
    model = {"id": pipeline.model, "object": "model", "created": 0, "owned_by": "triton"}
    return {"object": "list", "data": [model]}


def embeddings(*, input: str, output: str, dimensions: str = "", tokens: str = "") -> APIRouter:
    """Return `POST /v1/embeddings` for a pipeline that takes a text and returns a vector of floats.

    input: the tensor of the text, STRING[batch, 1]
    output: the tensor of the vector, FP32[batch, size]
    dimensions: the optional input that says how long the vectors are to be; without it, they have one length
    tokens: the output that counts a text's tokens; without it, the usage is 0
    """
    router = APIRouter(tags=[OPENAI])

    @router.post("/v1/embeddings", summary="The vectors of texts", response_model=None)
    async def create_embeddings(given: Embedding, pipeline: Pipeline) -> Response:
        """Return a vector for each text, as lists of numbers or as base64 of little-endian FP32."""
        inputs = {input: _rows(given.input)}
        if dimensions and given.dimensions:
            inputs[dimensions] = [[given.dimensions]] * len(inputs[input])
        outputs = await pipeline(inputs)
        vectors = np.ascontiguousarray(outputs[output], dtype="<f4")
        if given.dimensions not in (None, size := vectors.shape[1]):
            raise Refusal(400, f"dimensions: the vectors have {size}; write that, or leave it out")
        is_text = given.encoding_format == "base64"
        cells = [base64.b64encode(vector.tobytes()).decode() for vector in vectors]
        data = [
            {"object": "embedding", "index": i, "embedding": cells[i] if is_text else vector}
            for i, vector in enumerate(vectors)
        ]
        content = {"object": "list", "data": data, "model": pipeline.model}
        return _to_json({**content, "usage": _usage(outputs, tokens)})

    return router


def rerank(*, query: str, document: str, score: str, tokens: str = "") -> APIRouter:
    """Return `POST /v1/rerank` and `/v2/rerank` for a pipeline that takes two texts and returns a score.

    query, document: the tensors of the texts, STRING[batch, 1]
    score: the tensor of the relevance, FP32[batch, 1]; more is more relevant
    tokens: the output that counts the tokens of both texts; without it, the usage is 0
    """
    router = APIRouter(tags=[OPENAI])

    @router.post("/v2/rerank", include_in_schema=False, response_model=None)
    @router.post("/v1/rerank", summary="Order documents by relevance", response_model=None)
    async def create_reranking(given: Reranking, pipeline: Pipeline, request: Request) -> Response:
        """Return the documents' places in the request and their scores, the most relevant first."""
        texts = [each if isinstance(each, str) else each.text for each in given.documents]
        outputs = await pipeline({query: _rows([given.query] * len(texts)), document: _rows(texts)})
        scores = outputs[score].reshape(-1)
        results = [
            {"index": i, "relevance_score": scores[i]}
            | ({"document": {"text": texts[i]}} if given.return_documents else {})
            for i in np.argsort(-scores, kind="stable")[: given.top_n].tolist()
        ]
        content = {"id": f"rerank-{request.state.id}", "model": pipeline.model}
        return _to_json({**content, "results": results, "usage": _usage(outputs, tokens)})

    return router


def classify(*, input: str, probabilities: str, label: str = "", tokens: str = "") -> APIRouter:
    """Return `POST /v1/classify` for a pipeline that takes a text and returns the probabilities of classes.

    input: the tensor of the text, STRING[batch, 1]
    probabilities: the tensor of the classes' probabilities, FP32[batch, classes]
    label: the output that names the class, STRING[batch, 1]; without it, the label is the class's number
    tokens: the output that counts a text's tokens; without it, the usage is 0
    """
    router = APIRouter(tags=[OPENAI])

    @router.post("/v1/classify", summary="The classes of texts", response_model=None)
    async def create_classification(
        given: Classification, pipeline: Pipeline, request: Request
    ) -> Response:
        """Return a label for each text, and the probabilities of all classes."""
        outputs = await pipeline({input: _rows(given.input)})
        found = outputs[probabilities]
        labels = found.argmax(axis=1).astype(str) if not label else outputs[label].reshape(-1)
        names = [
            each.decode(errors="replace") if isinstance(each, bytes) else each for each in labels
        ]
        data = [
            {"index": i, "label": names[i], "probs": row, "num_classes": len(row)}
            for i, row in enumerate(np.ascontiguousarray(found, dtype=np.float32))
        ]
        content = {
            "id": f"classify-{request.state.id}",
            "object": "list",
            "created": int(time.time()),
            "model": pipeline.model,
        }
        return _to_json({**content, "data": data, "usage": _usage(outputs, tokens)})

    return router


def _rows(texts: list[str]) -> list[list[str | int]]:
    return [[text] for text in texts]


def _usage(outputs: Arrays, tokens: str) -> dict[str, int]:
    count = int(outputs[tokens].sum()) if tokens else 0
    return {"prompt_tokens": count, "total_tokens": count}


def _to_json(content: dict[str, object]) -> Response:
    text = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY, default=_to_number)
    return Response(text, media_type="application/json")


def _to_number(value: np.generic) -> object:
    """Return what orjson does not know, like float16, as a number of Python's."""
    return value.item()
