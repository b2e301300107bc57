"""OpenAI's `POST /v1/completions`, for a decoupled pipeline that takes `text_input` and answers `text_output`.

It also sends the other inputs of vLLM's backend that the pipeline has: `stream` and `sampling_parameters`.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from triton_ensemble.gateway import describe
from triton_ensemble.gateway.depends import Pipeline
from triton_ensemble.gateway.refusal import Refusal

NOT_SAMPLING = {"prompt", "model", "stream", "n"}
DONE = b"data: [DONE]\n\n"

router = APIRouter(prefix="/v1", responses=describe.OPENAI)


class Completion(BaseModel):
    """A request; of what is not given, the model decides."""

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


@router.post("/completions", summary="Complete a text, as OpenAI's API does", response_model=None)
async def completions(
    given: Completion, pipeline: Pipeline, request: Request
) -> Response | dict[str, object]:
    """Answer at once, or with `stream` piece by piece."""
    pieces = _pieces(given, pipeline)
    head = {
        "id": f"cmpl-{request.state.id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": pipeline.model,
    }
    if given.stream:
        return await pipeline.send_events(_events(pieces, head, request.state.id))
    async with aclosing(pieces) as texts:
        text = "".join([text async for text in texts])
    return head | _choice(text, "stop")


async def _pieces(given: Completion, pipeline: Pipeline) -> AsyncGenerator[str, None]:
    """Yield the texts of the answers; a stream is without the prompt, as vLLM's other answers are not."""
    sampling = json.dumps(given.model_dump(exclude=NOT_SAMPLING, exclude_none=True))
    inputs: dict[str, str | bool] = {"text_input": given.prompt, "stream": True}
    inputs["sampling_parameters"] = sampling
    known = {name: [value] for name, value in inputs.items() if name in pipeline.takes}
    async with aclosing(pipeline.stream(known)) as answers:
        async for outputs in answers:
            if "text_output" in outputs:
                yield b"".join(map(bytes, outputs["text_output"].flat)).decode(errors="replace")


async def _events(
    pieces: AsyncGenerator[str, None], head: dict[str, object], request_id: str
) -> AsyncGenerator[bytes, None]:
    begun = False
    async with aclosing(pieces) as texts:
        try:
            async for text in texts:
                begun = True
                yield _event(head | _choice(text, None))
        except Refusal as refusal:
            if not begun:
                raise
            yield b"data: " + refusal.body(request_id, as_openai=True) + b"\n\n"
            return
    yield _event(head | _choice("", "stop"))
    yield DONE


def _choice(text: str, reason: str | None) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": reason}]}


def _event(content: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"
