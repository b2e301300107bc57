"""The inputs of a request: of a JSON object, or of a form with files, by their names in the pipeline."""

from __future__ import annotations

import base64
import binascii
import gc
import re
from collections.abc import Mapping, Sequence

import orjson

from triton_ensemble.client import Package, Tensor, Tensors
from triton_ensemble.gateway import recordings
from triton_ensemble.gateway.forms import Part, parts
from triton_ensemble.gateway.refusal import Refusal, check_rows

BASE64 = "base64"
FORM = "multipart/form-data"
RAW = re.compile(r"(audio|image|video)/.+|application/octet-stream|text/plain")
SMALL_BYTES = 64 << 10  # of JSON that is soon converted, whatever it is
Names = list[str | None]  # of the files that are rows, for errors
Given = tuple[Mapping[str, object], Names]


def raw_input(tensors: Tensors) -> str:
    """Return the input that may be a request by itself: the only required one, if a file can be its rows; else ""."""
    needed = [name for name, tensor in tensors.INPUTS.items() if not tensor.optional]
    if len(needed) != 1:
        return ""
    [name] = needed
    tensor = tensors.INPUTS[name]
    return name if _is_text(tensor) or recordings.can_be(tensors, tensor) else ""


def _is_text(tensor: Tensor) -> bool:
    return tensor.datatype == "BYTES" and tensor.dims == (1,)


def check(headers: Mapping[str, str], raw: str | None) -> None:
    """Raise Refusal 415 for headers of a body that can't be read; `raw` as of raw_input, or None where JSON is all."""
    kind = _kind(headers)
    forms = {"application/json", "", *([] if raw is None else [FORM])}
    if kind not in forms and not (raw and RAW.fullmatch(kind)):
        more = "" if raw is None else ", or a form"
        known = f"{'application/octet-stream, ' if raw else ''}application/json{more}"
        raise Refusal(415, f"{kind} can't be read; send Content-Type: {known}")
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refusal(415, f"{encoding} can't be read; send the request uncompressed")


def cut() -> Refusal:
    """Return the refusal of a request that ends before its end."""
    return Refusal(400, "the request ended before its end")


def inputs(headers: Mapping[str, str], body: bytes, client: Package, max_rows: int) -> Given:
    """Return the values of a request by input, and what its rows are called; Refusal 400 or 413."""
    kind = _kind(headers)
    if kind == FORM:
        return _read_form(headers["content-type"], body, client, max_rows)
    if RAW.fullmatch(kind):
        name = raw_input(client.tensors)
        tensor = client.tensors.INPUTS[name]
        if not _is_text(tensor):
            return {name: recordings.read_rows(name, tensor, body)}, []
        return {name: [[body]] if client.tensors.MAX_BATCH_SIZE else body}, []
    return _read_json(body, client, max_rows), []


def is_json(headers: Mapping[str, str]) -> bool:
    """Return whether a body is read as JSON."""
    return _kind(headers) in ("application/json", "")


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _read_json(body: bytes, client: Package, max_rows: int) -> dict[str, object]:
    gc.disable()  # it would walk through the lists while they are made, which takes twice as long as to make them
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"the request is no JSON: {error}") from None
    finally:
        gc.enable()
    if not isinstance(given, dict):
        raise Refusal(400, "the request is no object; write {NAME: [...]}, by input")
    tensors = client.tensors.INPUTS
    for name in given.keys() & tensors.keys() if len(body) > SMALL_BYTES else ():
        _check_size(name, given[name], tensors[name].dims, client.tensors.MAX_BATCH_SIZE, max_rows)
    texts = {name for name, tensor in tensors.items() if tensor.datatype == "BYTES"}
    try:
        return {n: _texts(value) if n in texts else value for n, value in given.items()}
    except RecursionError:
        raise Refusal(400, "the request is nested too deep; write [batch, *dims]") from None


def _check_size(name: str, value: object, dims: Sequence[int], batch: int, max_rows: int) -> None:
    """Raise Refusal 413 or 400 where lists have too many rows or do not fit the dims: to convert them would take long."""
    if batch and isinstance(value, list):
        check_rows(len(value), max_rows)
    if _exceeds(value, [-1] * bool(batch) + list(dims)):
        raise Refusal(400, f"{name}: its lists are too long or too deep; write [batch, *dims]")


def _exceeds(value: object, dims: Sequence[int]) -> bool:
    """Return whether lists are longer than dims, where -1 is any number, or deeper."""
    if not isinstance(value, list):
        return False
    if not dims or (dims[0] >= 0 and len(value) > dims[0]):
        return True
    if len(dims) == 1:
        return list in set(map(type, value))
    return any(_exceeds(item, dims[1:]) for item in value)


def _texts(value: object) -> object:
    """Return nested lists of texts with bytes in place of what {"base64": ...} stands for."""
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if not isinstance(value, dict) or value.keys() != {BASE64}:
        return value
    try:
        return base64.b64decode(value[BASE64], validate=True)
    except (binascii.Error, TypeError, ValueError):
        return value  # is no text, and refused as such


def _read_form(content_type: str, body: bytes, client: Package, max_rows: int) -> Given:
    """Return the parts of a form: each is a row of the input of its name, or without a batch dimension the whole input."""
    most = max_rows * len(client.tensors.INPUTS)
    given: dict[str, list[object]] = {}
    names: Names = []
    try:
        for count, part in enumerate(parts(content_type, body), 1):
            if count > most:
                raise Refusal(413, f"the form has more than {most} parts; send fewer")
            rows = given.setdefault(part.name, [])
            first = len(rows)
            rows += _rows(part, client)
            check_rows(len(rows), max_rows)
            if part.filename:
                names += [None] * (len(rows) - len(names))
                names[first : len(rows)] = [part.filename] * (len(rows) - first)
    except ValueError as error:
        raise Refusal(400, f"the form can't be read: {error}") from None
    if client.tensors.MAX_BATCH_SIZE:
        return given, names
    for name, rows in given.items():
        if len(rows) > 1:
            raise Refusal(400, f"{name} is there {len(rows)} times; send it once")
    return {name: rows[0] for name, rows in given.items()}, names


def _rows(part: Part, client: Package) -> Sequence[object]:
    """Return the rows that a part stands for: its bytes where a row is one text, those of a recording, else JSON."""
    tensor = client.tensors.INPUTS.get(part.name)
    if tensor is None or _is_text(tensor):
        return [part.content]
    may_be_sound = recordings.can_be(client.tensors, tensor)
    if may_be_sound and part.content.startswith(recordings.BEGIN):
        return recordings.read_rows(part.name, tensor, part.content)
    try:
        row = orjson.loads(part.content)
    except orjson.JSONDecodeError as error:
        sound = " and no WAV file" if may_be_sound else ""
        raise Refusal(400, f"{part.name}: is no JSON{sound}: {error}") from None
    return [_texts(row) if tensor.datatype == "BYTES" else row]
