"""The OpenAPI description of `/predict`: the types of its inputs and outputs, and files in forms."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

REFUSALS = {
    400: "An input is wrong, or all rows are refused",
    401: "No key, or none that is known",
    408: "The request came too slowly",
    413: "Too many bytes, rows or files",
    415: "Neither JSON nor a form",
    429: "Too many requests at once",
    500: "The models failed",
    503: "The models can't be reached, or are too busy",
    504: "No answer in time",
}


def predict(client: Any, inputs: Any, answer: Any) -> dict[str, Any]:
    """Return what FastAPI takes to describe a route."""
    body = _schema(inputs)
    form = {"type": "object", "properties": {}, "required": body.get("required", [])}
    for name, tensor in client.tensors.INPUTS.items():
        form["properties"][name] = _parts(tensor, bool(client.tensors.MAX_BATCH_SIZE))
    content = {"application/json": {"schema": body}, "multipart/form-data": {"schema": form}}
    responses: dict[int | str, Any] = {
        status: {"description": text} for status, text in REFUSALS.items()
    }
    ok = {
        "description": "The outputs",
        "content": {"application/json": {"schema": _schema(answer)}},
    }
    return {
        "responses": {200: ok, **responses},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def _schema(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a type, whole."""
    return TypeAdapter(kind).json_schema(ref_template="#/{model}")


def _parts(tensor: Any, batch: bool) -> dict[str, Any]:
    is_text = tensor.datatype == "BYTES" and tensor.dims == (1,)
    row = (
        {"type": "string", "format": "binary"}
        if is_text
        else {"type": "string", "description": "JSON"}
    )
    return {"type": "array", "items": row, "minItems": 1} if batch else row
