"""The inputs of a request: of a JSON object, or of a form with files, by their names in the pipeline."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from triton_ensemble.gateway.refusal import Refusal

BASE64 = "base64"
Names = list[str | None]  # of the files that are rows, for errors


async def inputs(request: Request, client: Any, max_rows: int) -> tuple[dict[str, Any], Names]:
    """Return the values of a request by input, and what its rows are called; Refusal 400, 413 or 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            return await _of_form(request, client, max_rows)
        if kind in ("application/json", ""):
            return _of_json(await request.body(), client), []
    except ClientDisconnect:
        raise Refusal(400, "the request ended before its end") from None
    raise Refusal(415, f"{kind} can't be read; send application/json or multipart/form-data")


def _of_json(body: bytes, client: Any) -> dict[str, Any]:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"the request is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise Refusal(400, "the request is no object; write {NAME: [...]}, by input")
    texts = {name for name, tensor in client.tensors.INPUTS.items() if tensor.datatype == "BYTES"}
    return {n: _texts(n, value) if n in texts else value for n, value in given.items()}


def _texts(name: str, value: Any) -> Any:
    """Return nested lists of texts with bytes in place of what {"base64": ...} stands for."""
    if isinstance(value, list):
        return [_texts(name, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    try:
        [(key, text)] = value.items()
        if key != BASE64:
            raise ValueError(f"{key} is unknown")
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Refusal(400, f'{name}: {error}; write a text, or {{"{BASE64}": TEXT}}') from None


async def _of_form(request: Request, client: Any, max_rows: int) -> tuple[dict[str, Any], Names]:
    """Return the parts of a form: each is a row of the input of its name, or that input where there is no batch."""
    most = max_rows * len(client.tensors.INPUTS)
    given: dict[str, list[Any]] = {}
    names: Names = []
    try:
        # The request as a whole has a limit, so its parts need none.
        async with request.form(max_files=most, max_fields=most, max_part_size=1 << 31) as form:
            for name, part in form.multi_items():
                rows = given.setdefault(name, [])
                rows.append(await _row(name, part, client))
                if isinstance(part, UploadFile) and part.filename:
                    names += [None] * (len(rows) - len(names))
                    names[len(rows) - 1] = part.filename
    except HTTPException as error:
        status = 413 if error.detail.startswith("Too many") else 400
        raise Refusal(status, f"the form can't be read: {error.detail}") from None
    if client.tensors.MAX_BATCH_SIZE:
        return given, names
    for name, rows in given.items():
        if len(rows) > 1:
            raise Refusal(400, f"{name} is there {len(rows)} times; send it once")
    return {name: rows[0] for name, rows in given.items()}, names


async def _row(name: str, part: UploadFile | str, client: Any) -> Any:
    """Return what a part stands for: its bytes where a row is one text, else JSON."""
    content: str | bytes = await part.read() if isinstance(part, UploadFile) else part
    tensor = client.tensors.INPUTS.get(name)
    if tensor is None or (tensor.datatype == "BYTES" and tensor.dims == (1,)):
        return content
    try:
        row = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"{name}: is no JSON: {error}") from None
    return _texts(name, row) if tensor.datatype == "BYTES" else row
