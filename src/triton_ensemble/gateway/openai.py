"""Routes in the form of OpenAI's API: models, embeddings, completions, rerank (Cohere, Jina) and classify (vLLM).

`openai` in pipeline.yml names the tensors that each of them sends and returns. A text is one row.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, MinLen
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema
from starlette.responses import Response

from triton_ensemble.facts.client import Arrays
from triton_ensemble.gateway import describe
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.answers import JSON, dump_json
from triton_ensemble.gateway.call import Call
from triton_ensemble.gateway.describe import (
    INTEGER,
    NUMBER,
    TEXT,
    Json,
    make_list,
    make_object,
)
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.refusal import Refusal, make_invalid

TEXTS = {"anyOf": [TEXT, make_list(TEXT) | {"minItems": 1}]}
DOCUMENT = make_object({"text": TEXT})
VECTOR = {"object": TEXT, "index": INTEGER, "embedding": {"anyOf": [make_list(NUMBER), TEXT]}}
RESULT = {"index": INTEGER, "relevance_score": NUMBER, "document": DOCUMENT}
CLASS = {"index": INTEGER, "label": TEXT, "probs": make_list(NUMBER), "num_classes": INTEGER}
HEAD = {"id": TEXT, "object": TEXT, "created": INTEGER}
USAGE = make_object({"prompt_tokens": INTEGER, "total_tokens": INTEGER})
NOT_SAMPLING = {"prompt", "model", "stream", "n"}
DONE = b"data: [DONE]\n\n"
CHOICE = {"index": INTEGER, "text": TEXT, "logprobs": {}, "finish_reason": {}}
Reply: TypeAlias = Response | dict[str, object]


def _list_texts(given: object) -> object:
    """Return one text as a list of it, and refuse token ids, which LangChain sends unless it is told otherwise."""
    if isinstance(given, list) and {*map(type, given)} & {int, bool, list}:
        use = "send texts (LangChain: check_embedding_ctx_length=False)"
        raise Refusal(400, f"input: token ids; {use}")
    return [given] if isinstance(given, str) else given


def _get_text(given: object) -> object:
    """Return the text of a document, whose other fields do not count."""
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


class Completion(BaseModel):
    """Answer at once, or with `stream` piece by piece. The model decides what is not given."""

    prompt: str
    model: str = ""  # there is one
    stream: bool = False
    n: Literal[1] = 1
    frequency_penalty: float | None = None
    max_tokens: int | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Field(fail_fast=True)] | None = None
    temperature: float | None = None
    top_p: float | None = None


@dataclass(frozen=True)
class Route:
    """A route, which answers a `request` as `ask` does, by these fields and the model."""

    paths: tuple[str, ...]
    summary: str
    request: type[BaseModel]
    ask: Callable[[Any, Gateway, Call], Awaitable[Reply]]
    fields: Json

    async def answer(self, gateway: Gateway, call: Call, body: Body) -> Response:
        """Answer a request whose body is complete, or raise Refusal if it gets no outputs."""
        try:
            given = self.request.model_validate_json(body.content())
        except ValidationError as error:
            raise make_invalid(error.errors(include_input=False)) from None
        reply = await self.ask(given, gateway, call)
        if isinstance(reply, Response):
            return reply
        return Response(dump_json({**reply, "model": gateway.tensors.MODEL}), media_type=JSON)

    def describe(self) -> Json:
        """Return what FastAPI takes to describe the route."""
        content = {JSON: {"schema": self.request.model_json_schema()}}
        schema = make_object({**self.fields, "model": TEXT})
        return {
            "summary": self.summary,
            "description": self.request.__doc__,
            "responses": {200: describe.content("The answer", schema), **describe.OPENAI},
            "openapi_extra": {"requestBody": {"required": True, "content": content}},
        }


def _count_tokens(outputs: Arrays, tokens: str) -> dict[str, int]:
    count = int(outputs[tokens].sum()) if tokens else 0
    return {"prompt_tokens": count, "total_tokens": count}


def embeddings(*, input: str, output: str, dimensions: str = "", tokens: str = "") -> Route:
    """Return `POST /v1/embeddings` for a pipeline that takes a text and returns a vector of floats.

    input: the tensor of the text, STRING[batch, 1]
    output: the tensor of the vector, FP32[batch, size]
    dimensions: the optional input for the length of the vectors. Without it, they have one length.
    tokens: the output that counts a text's tokens. Without it, the usage is 0.
    """

    async def embed(given: Embedding, gateway: Gateway, call: Call) -> Reply:
        inputs: dict[str, object] = {input: [[text] for text in given.input]}
        if dimensions and given.dimensions:
            inputs[dimensions] = [[given.dimensions]] * len(given.input)
        outputs = await gateway.outputs(call, inputs)
        vectors = np.ascontiguousarray(outputs[output], dtype="<f4")
        if given.dimensions not in (None, size := vectors.shape[1]):
            raise Refusal(400, f"dimensions: the vectors have {size}; write that, or leave it out")
        is_text = given.encoding_format == "base64"
        cells = [base64.b64encode(row).decode() for row in vectors] if is_text else vectors
        rows = [{"object": "embedding", "index": i, "embedding": c} for i, c in enumerate(cells)]
        return {"object": "list", "data": rows, "usage": _count_tokens(outputs, tokens)}

    fields = {"object": TEXT, "data": make_list(make_object(VECTOR)), "usage": USAGE}
    return Route(("/v1/embeddings",), "The vectors of texts", Embedding, embed, fields)


def rerank(*, query: str, document: str, score: str, tokens: str = "") -> Route:
    """Return `POST /v1/rerank` and `/v2/rerank` for a pipeline that takes two texts and returns a score.

    query, document: the tensors of the texts, STRING[batch, 1]
    score: the tensor of the relevance, FP32[batch, 1]. A higher score is more relevant.
    tokens: the output that counts the tokens of both texts. Without it, the usage is 0.
    """

    async def rank(given: Reranking, gateway: Gateway, call: Call) -> Reply:
        texts = given.documents
        inputs = {query: [[given.query]] * len(texts), document: [[text] for text in texts]}
        outputs = await gateway.outputs(call, inputs)
        scores = outputs[score].reshape(-1)
        results = [
            {"index": i, "relevance_score": scores[i]}
            | ({"document": {"text": texts[i]}} if given.return_documents else {})
            for i in np.argsort(-scores, kind="stable")[: given.top_n].tolist()
        ]
        usage = _count_tokens(outputs, tokens)
        return {"id": f"rerank-{call.id}", "results": results, "usage": usage}

    results = make_list(make_object(RESULT, "document"))
    fields = {"id": TEXT, "results": results, "usage": USAGE}
    paths = ("/v1/rerank", "/v2/rerank")
    return Route(paths, "Order documents by relevance", Reranking, rank, fields)


def classify(*, input: str, probabilities: str, label: str = "", tokens: str = "") -> Route:
    """Return `POST /v1/classify` for a pipeline that takes a text and returns the probabilities of classes.

    input: the tensor of the text, STRING[batch, 1]
    probabilities: the tensor of the classes' probabilities, FP32[batch, classes]
    label: the output that names the class, STRING[batch, 1]. Without it, the label is the class's number.
    tokens: the output that counts a text's tokens. Without it, the usage is 0.
    """

    async def name(given: Classification, gateway: Gateway, call: Call) -> Reply:
        outputs = await gateway.outputs(call, {input: [[text] for text in given.input]})
        found = np.ascontiguousarray(outputs[probabilities], dtype=np.float32)
        names = found.argmax(axis=1).astype(str).tolist()
        if label:
            names = [name.decode(errors="replace") for name in outputs[label].flat]
        rows = [
            {"index": i, "label": names[i], "probs": row, "num_classes": len(row)}
            for i, row in enumerate(found)
        ]
        usage = _count_tokens(outputs, tokens)
        return {**_make_head(call, "classify", "list"), "data": rows, "usage": usage}

    fields = {**HEAD, "data": make_list(make_object(CLASS)), "usage": USAGE}
    return Route(("/v1/classify",), "The classes of texts", Classification, name, fields)


def completions() -> Route:
    """Return `POST /v1/completions` for a decoupled pipeline that takes `text_input` and answers `text_output`.

    It also sends the other inputs of vLLM's backend that the pipeline has: `stream` and `sampling_parameters`.
    """

    async def complete(given: Completion, gateway: Gateway, call: Call) -> Reply:
        pieces = _iter_pieces(given, gateway, call)
        head = {**_make_head(call, "cmpl", "text_completion"), "model": gateway.tensors.MODEL}
        if given.stream:
            return await gateway.send_events(call, _iter_events(pieces, head, call))
        async with aclosing(pieces) as texts:
            text = "".join([text async for text in texts])
        return head | _choose(text, "stop")

    fields = {**HEAD, "choices": make_list(make_object(CHOICE))}
    summary = "Complete a text, as OpenAI's API does"
    return Route(("/v1/completions",), summary, Completion, complete, fields)


async def _iter_pieces(
    given: Completion, gateway: Gateway, call: Call
) -> AsyncGenerator[str, None]:
    """Yield the texts of the answers, without the prompt.

    vLLM leaves the prompt out of a stream, but not out of its other answers.
    """
    sampling = json.dumps(given.model_dump(exclude=NOT_SAMPLING, exclude_none=True))
    inputs: dict[str, str | bool] = {"text_input": given.prompt, "stream": True}
    inputs["sampling_parameters"] = sampling
    known = {name: [value] for name, value in inputs.items() if name in gateway.tensors.INPUTS}
    async with aclosing(gateway.iter_answers(call, known)) as answers:
        async for outputs in answers:
            if "text_output" in outputs:
                yield b"".join(map(bytes, outputs["text_output"].flat)).decode(errors="replace")


async def _iter_events(
    pieces: AsyncGenerator[str, None], head: dict[str, object], call: Call
) -> AsyncGenerator[bytes, None]:
    begun = False
    async with aclosing(pieces) as texts:
        try:
            async for text in texts:
                begun = True
                yield _format_event(head | _choose(text, None))
        except Refusal as refusal:
            if not begun:
                raise
            yield b"data: " + refusal.body(call.id, as_openai=True) + b"\n\n"
            return
    yield _format_event(head | _choose("", "stop"))
    yield DONE


def _make_head(call: Call, prefix: str, kind: str) -> dict[str, object]:
    return {"id": f"{prefix}-{call.id}", "object": kind, "created": int(time.time())}


def _choose(text: str, reason: str | None) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": reason}]}


def _format_event(content: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"
