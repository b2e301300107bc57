"""The inputs of a request: of a JSON object, or of a form with files, by their names in the pipeline."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import orjson

from triton_ensemble.gateway.forms import Part, parts
from triton_ensemble.gateway.refusal import Refusal

BASE64 = "base64"
FORM = "multipart/form-data"
Names = list[str | None]  # of the files that are rows, for errors
Given = tuple[dict[str, Any], Names]


def check(headers: Mapping[str, str]) -> None:
    """Raise Refusal 415 where the headers of a request say that it can't be read."""
    kind = _kind(headers)
    if kind not in (FORM, "application/json", ""):
        raise Refusal(415, f"{kind} can't be read; send Content-Type: application/json, or a form")
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refusal(415, f"{encoding} can't be read; send the request uncompressed")


def cut() -> Refusal:
    """Return the refusal of a request that ends before its end."""
    return Refusal(400, "the request ended before its end")


def inputs(headers: Mapping[str, str], body: bytes, client: Any, max_rows: int) -> Given:
    """Return the values of a request by input, and what its rows are called; Refusal 400 or 413."""
    if _kind(headers) == FORM:
        return _of_form(headers["content-type"], body, client, max_rows)
    return _of_json(body, client), []


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _of_json(body: bytes, client: Any) -> dict[str, Any]:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"the request is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise Refusal(400, "the request is no object; write {NAME: [...]}, by input")
    texts = {name for name, tensor in client.tensors.INPUTS.items() if tensor.datatype == "BYTES"}
    try:
        return {n: _texts(value) if n in texts else value for n, value in given.items()}
    except RecursionError:
        raise Refusal(400, "the request is nested too deep; write [batch, *dims]") from None


def _texts(value: Any) -> Any:
    """Return nested lists of texts with bytes in place of what {"base64": ...} stands for."""
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if not isinstance(value, dict) or value.keys() != {BASE64}:
        return value
    try:
        return base64.b64decode(value[BASE64], validate=True)
    except (binascii.Error, TypeError, ValueError):
        return value  # is no text, and refused as such


def _of_form(content_type: str, body: bytes, client: Any, max_rows: int) -> Given:
    """Return the parts of a form: each is a row of the input of its name, or that input where there is no batch."""
    most = max_rows * len(client.tensors.INPUTS)
    given: dict[str, list[Any]] = {}
    names: Names = []
    try:
        for count, part in enumerate(parts(content_type, body), 1):
            if count > most:
                raise Refusal(413, f"the form has more than {most} parts; send fewer")
            rows = given.setdefault(part.name, [])
            rows.append(_row(part, client))
            if part.filename:
                names += [None] * (len(rows) - len(names))
                names[len(rows) - 1] = part.filename
    except ValueError as error:
        raise Refusal(400, f"the form can't be read: {error}") from None
    if client.tensors.MAX_BATCH_SIZE:
        return given, names
    for name, rows in given.items():
        if len(rows) > 1:
            raise Refusal(400, f"{name} is there {len(rows)} times; send it once")
    return {name: rows[0] for name, rows in given.items()}, names


def _row(part: Part, client: Any) -> Any:
    """Return what a part stands for: its bytes where a row is one text, else JSON."""
    tensor = client.tensors.INPUTS.get(part.name)
    if tensor is None or (tensor.datatype == "BYTES" and tensor.dims == (1,)):
        return part.content
    try:
        row = orjson.loads(part.content)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"{part.name}: is no JSON: {error}") from None
    return _texts(row) if tensor.datatype == "BYTES" else row
