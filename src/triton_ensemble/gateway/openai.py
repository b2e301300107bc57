"""Routes in the form of OpenAI's API: `/v1/models`, `/v1/embeddings`, `/v1/rerank` (Cohere, Jina) and `/v1/classify` (vLLM).

`openai` in pipeline.yml names the tensors that each of them sends and returns; a text is one row.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, MinLen
from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema
from starlette.responses import Response

from triton_ensemble.client import Arrays
from triton_ensemble.gateway import describe
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.answers import JSON, dump_json
from triton_ensemble.gateway.depends import Pipeline
from triton_ensemble.gateway.describe import INTEGER, NUMBER, TEXT, Json, make_list, make_object
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.refusal import Refusal, make_invalid

TEXTS = {"anyOf": [TEXT, make_list(TEXT) | {"minItems": 1}]}
DOCUMENT = make_object({"text": TEXT})
VECTOR = {"object": TEXT, "index": INTEGER, "embedding": {"anyOf": [make_list(NUMBER), TEXT]}}
RESULT = {"index": INTEGER, "relevance_score": NUMBER, "document": DOCUMENT}
CLASS = {"index": INTEGER, "label": TEXT, "probs": make_list(NUMBER), "num_classes": INTEGER}
USAGE = make_object({"prompt_tokens": INTEGER, "total_tokens": INTEGER})
Call: TypeAlias = Callable[[dict[str, object]], Awaitable[Arrays]]  # by inputs
Reply: TypeAlias = tuple[Arrays, dict[str, object]]  # all outputs, and an answer's own fields
models = APIRouter(responses=describe.OPENAI)


def _list_texts(given: object) -> object:
    """Return one text as a list of it, and refuse token ids, which LangChain sends unless it is told otherwise."""
    if isinstance(given, list) and {*map(type, given)} & {int, bool, list}:
        use = "send texts (LangChain: check_embedding_ctx_length=False)"
        raise Refusal(400, f"input: token ids; {use}")
    return [given] if isinstance(given, str) else given


def _get_text(given: object) -> object:
    """Return the text of a document, which counts alone."""
    return given.get("text") if isinstance(given, dict) else given


Texts = Annotated[
    list[str], Field(fail_fast=True), MinLen(1), BeforeValidator(_list_texts), WithJsonSchema(TEXTS)
]
Document = Annotated[str, BeforeValidator(_get_text), WithJsonSchema({"anyOf": [TEXT, DOCUMENT]})]


class Embedding(BaseModel):
    """Return a vector for each text, as a list of numbers or as base64 of little-endian FP32."""

    input: Texts
    model: str = ""  # there is one
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Ge(1)] | None = None


class Reranking(BaseModel):
    """Return the documents' places in the request and their scores, the most relevant first."""

    query: str
    documents: Annotated[list[Document], Field(fail_fast=True), MinLen(1)]
    model: str = ""
    top_n: Annotated[int, Ge(1)] | None = None
    return_documents: bool = False


class Classification(BaseModel):
    """Return a label for each text, and the probabilities of all classes."""

    input: Texts
    model: str = ""


@dataclass(frozen=True)
class Route:
    """A route, which answers a `request` by the outputs that it `asks` for; its answer has `fields`, a model and usage."""

    paths: tuple[str, ...]
    summary: str
    request: type[BaseModel]
    ask: Callable[[Any, Call, str], Awaitable[Reply]]
    fields: Json
    tokens: str

    async def answer(self, gateway: Gateway, asked: Asked, body: Body) -> Response:
        """Answer a request whose body is complete; Refusal where it gets no outputs."""
        try:
            given = self.request.model_validate_json(body.content())
        except ValidationError as error:
            raise make_invalid(error.errors(include_input=False)) from None
        outputs, answer = await self.ask(given, partial(gateway.outputs, asked), asked.id)
        count = int(outputs[self.tokens].sum()) if self.tokens else 0
        usage = {"prompt_tokens": count, "total_tokens": count}
        answer |= {"model": gateway.tensors.MODEL, "usage": usage}
        return Response(dump_json(answer), media_type=JSON)

    def describe(self) -> Json:
        """Return what FastAPI takes to describe the route."""
        content = {JSON: {"schema": self.request.model_json_schema()}}
        schema = make_object({**self.fields, "model": TEXT, "usage": USAGE})
        return {
            "summary": self.summary,
            "description": self.request.__doc__,
            "responses": {200: describe.content("The answer", schema), **describe.OPENAI},
            "openapi_extra": {"requestBody": {"required": True, "content": content}},
        }


@models.get("/v1/models", summary="The one model")
async def list_models(pipeline: Pipeline) -> dict[str, object]:
    """List the pipeline as a model."""
    return {"object": "list", "data": [await get_model(pipeline.model, pipeline)]}


@models.get("/v1/models/{name:path}", summary="The model of a name")
async def get_model(name: str, pipeline: Pipeline) -> dict[str, object]:
    """Return the pipeline as a model."""
    if name != pipeline.model:
        raise Refusal(404, f"there is no model {name}; write {pipeline.model}")
    return {"id": name, "object": "model", "created": 0, "owned_by": "triton"}


def embeddings(*, input: str, output: str, dimensions: str = "", tokens: str = "") -> Route:
    """Return `POST /v1/embeddings` for a pipeline that takes a text and returns a vector of floats.

    input: the tensor of the text, STRING[batch, 1]
    output: the tensor of the vector, FP32[batch, size]
    dimensions: the optional input that says how long the vectors are to be; without it, they have one length
    tokens: the output that counts a text's tokens; without it, the usage is 0
    """

    async def embed(given: Embedding, call: Call, _: str) -> Reply:
        inputs: dict[str, object] = {input: [[text] for text in given.input]}
        if dimensions and given.dimensions:
            inputs[dimensions] = [[given.dimensions]] * len(given.input)
        outputs = await call(inputs)
        vectors = np.ascontiguousarray(outputs[output], dtype="<f4")
        if given.dimensions not in (None, size := vectors.shape[1]):
            raise Refusal(400, f"dimensions: the vectors have {size}; write that, or leave it out")
        is_text = given.encoding_format == "base64"
        cells = [base64.b64encode(row).decode() for row in vectors] if is_text else vectors
        rows = [{"object": "embedding", "index": i, "embedding": c} for i, c in enumerate(cells)]
        return outputs, {"object": "list", "data": rows}

    fields = {"object": TEXT, "data": make_list(make_object(VECTOR))}
    return Route(("/v1/embeddings",), "The vectors of texts", Embedding, embed, fields, tokens)


def rerank(*, query: str, document: str, score: str, tokens: str = "") -> Route:
    """Return `POST /v1/rerank` and `/v2/rerank` for a pipeline that takes two texts and returns a score.

    query, document: the tensors of the texts, STRING[batch, 1]
    score: the tensor of the relevance, FP32[batch, 1]; more is more relevant
    tokens: the output that counts the tokens of both texts; without it, the usage is 0
    """

    async def rank(given: Reranking, call: Call, id_: str) -> Reply:
        texts = given.documents
        outputs = await call({query: [[given.query]] * len(texts), document: [[t] for t in texts]})
        scores = outputs[score].reshape(-1)
        results = [
            {"index": i, "relevance_score": scores[i]}
            | ({"document": {"text": texts[i]}} if given.return_documents else {})
            for i in np.argsort(-scores, kind="stable")[: given.top_n].tolist()
        ]
        return outputs, {"id": f"rerank-{id_}", "results": results}

    fields = {"id": TEXT, "results": make_list(make_object(RESULT, "document"))}
    paths = ("/v1/rerank", "/v2/rerank")
    return Route(paths, "Order documents by relevance", Reranking, rank, fields, tokens)


def classify(*, input: str, probabilities: str, label: str = "", tokens: str = "") -> Route:
    """Return `POST /v1/classify` for a pipeline that takes a text and returns the probabilities of classes.

    input: the tensor of the text, STRING[batch, 1]
    probabilities: the tensor of the classes' probabilities, FP32[batch, classes]
    label: the output that names the class, STRING[batch, 1]; without it, the label is the class's number
    tokens: the output that counts a text's tokens; without it, the usage is 0
    """

    async def name(given: Classification, call: Call, id_: str) -> Reply:
        outputs = await call({input: [[text] for text in given.input]})
        found = np.ascontiguousarray(outputs[probabilities], dtype=np.float32)
        names = found.argmax(axis=1).astype(str).tolist()
        if label:
            names = [name.decode(errors="replace") for name in outputs[label].flat]
        rows = [
            {"index": i, "label": names[i], "probs": row, "num_classes": len(row)}
            for i, row in enumerate(found)
        ]
        head = {"id": f"classify-{id_}", "object": "list", "created": int(time.time())}
        return outputs, head | {"data": rows}

    head = {"id": TEXT, "object": TEXT, "created": INTEGER}
    fields = {**head, "data": make_list(make_object(CLASS))}
    return Route(("/v1/classify",), "The classes of texts", Classification, name, fields, tokens)
