"""The inputs of a request: of a JSON object, or of a form with files, by their names in the pipeline."""

from __future__ import annotations

import base64
import binascii
import gc
import re
from collections.abc import Mapping, Sequence
from itertools import chain

import orjson

from triton_ensemble.facts.client import Package, Tensor, Tensors
from triton_ensemble.gateway import forms
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.forms import (
    BASE64,
    Names,
    Part,
    parts,
)
from triton_ensemble.gateway.refusal import Refusal, check_rows

FORM = "multipart/form-data"
RAW = re.compile(r"(audio|image|video)/.+|application/octet-stream|text/plain")
SMALL_BYTES = 64 << 10  # of JSON that is soon converted, whatever it is
ANY_DIMS = [-1] * 32  # as many as NumPy takes
LIST_UNITS, TEXT_UNITS, NUMBER_UNITS = 6, 17, 2  # to convert one, as Body counts to read it
SHOWN = 99  # characters of a name
Given = tuple[Mapping[str, object], Names]


def raw_input(tensors: Tensors) -> str:
    """Return the input that may be a request by itself, or an empty string if there is none.

    It is the only required input, if a file can be its rows.
    """
    needed = [name for name, tensor in tensors.INPUTS.items() if not tensor.optional]
    if len(needed) != 1:
        return ""
    [name] = needed
    tensor = tensors.INPUTS[name]
    return name if _is_text(tensor) or forms.can_be(tensors, tensor) else ""


def _is_text(tensor: Tensor) -> bool:
    return tensor.datatype == "BYTES" and tensor.dims == (1,)


def check(headers: Mapping[str, str], raw: str | None) -> None:
    """Raise Refusal 415 for headers of a body that can't be read.

    `raw` is what raw_input returns, or None if only JSON can be read.
    """
    kind = _kind(headers)
    forms = {"application/json", "", *([] if raw is None else [FORM])}
    if kind not in forms and not (raw and RAW.fullmatch(kind)):
        more = "" if raw is None else ", or a form"
        known = f"{'application/octet-stream, ' if raw else ''}application/json{more}"
        raise Refusal(415, f"{kind} can't be read; send Content-Type: {known}")
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refusal(415, f"{encoding} can't be read; send the request uncompressed")


def inputs(headers: Mapping[str, str], body: Body, client: Package, max_rows: int) -> Given:
    """Return the values of a request by input, and what its rows are called.

    Raise Refusal 400, 413 or 429 if the body is wrong, too large, or too large for now.
    """
    gc.disable()  # it would walk through the lists while they are made, which takes twice as long as to make them
    try:
        return _inputs(headers, body, client, max_rows)
    except Refusal as refusal:
        raise refusal.with_traceback(
            None
        ) from None  # frees the lists before it would walk through them
    finally:
        gc.enable()


def _inputs(headers: Mapping[str, str], body: Body, client: Package, max_rows: int) -> Given:
    kind = _kind(headers)
    if kind == FORM:
        return _read_form(headers["content-type"], body, client, max_rows)
    if RAW.fullmatch(kind):
        name, content = raw_input(client.tensors), body.content()
        tensor = client.tensors.INPUTS[name]
        if not _is_text(tensor):
            return {name: forms.read_rows(name, tensor, content)}, []
        return {name: [[content]] if client.tensors.MAX_BATCH_SIZE else content}, []
    return _read_json(body, client, max_rows), []


def is_json(headers: Mapping[str, str]) -> bool:
    """Return whether a body is read as JSON."""
    return _kind(headers) in ("application/json", "")


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _parse(content: bytes, wrong: str) -> object:
    """Return the value of a JSON text, or raise Refusal 400 if it is not valid JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"{wrong}: {error}") from None


def _read_json(body: Body, client: Package, max_rows: int) -> dict[str, object]:
    content, inputs = body.content(), client.tensors.INPUTS
    given = _parse(content, "the request is not JSON")
    if not isinstance(given, dict):
        raise Refusal(400, "the request is not an object; write {NAME: [...]}, by input")
    if len(given) > len(inputs):
        name, model = next(name for name in given if name not in inputs), client.tensors.MODEL
        known = ", ".join(inputs)
        raise Refusal(400, f"{name[:SHOWN]} is not an input of {model}; its inputs are {known}")
    batch, is_small = [-1] * bool(client.tensors.MAX_BATCH_SIZE), len(content) <= SMALL_BYTES
    for name in given.keys() & inputs.keys():
        value = given[name]
        if batch and isinstance(value, list) and not is_small:
            check_rows(len(value), max_rows)
        given[name] = _read(name, value, inputs[name], batch, body, is_small=is_small)
    return given


def _read(
    name: str, value: object, tensor: Tensor, batch: list[int], body: Body, *, is_small: bool
) -> object:
    """Return nested lists with bytes in place of base64.

    Raise Refusal 400 or 413 if they fit no tensor or would take long.
    """
    dims = ANY_DIMS if is_small else [*batch, *tensor.dims]
    is_text, level = tensor.datatype == "BYTES", [value]
    cell_units = TEXT_UNITS if is_text else NUMBER_UNITS
    for size in [*dims, None]:
        has_lists = list in set(map(type, level))
        inner = [item for item in level if isinstance(item, list)] if has_lists else []
        body.spend(LIST_UNITS * len(inner) + cell_units * (len(level) - len(inner)))
        if not inner:
            break
        if size is None:
            raise Refusal(400, "the request is nested too deep; write [batch, *dims]")
        if 0 <= size < max(map(len, inner)):
            raise Refusal(400, f"{name}: its lists are too long; write [batch, *dims]")
        level = list(chain.from_iterable(inner))
    return _texts(value) if is_text else value


def _texts(value: object) -> object:
    """Return nested lists of texts with bytes in place of what {"base64": ...} stands for."""
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if not isinstance(value, dict) or value.keys() != {BASE64}:
        return value
    try:
        return base64.b64decode(value[BASE64], validate=True)
    except (binascii.Error, TypeError, ValueError):
        return value  # is not text, and refused as such


def _read_form(content_type: str, body: Body, client: Package, max_rows: int) -> Given:
    """Return the parts of a form: each is a row of the input of its name, or without a batch dimension the whole input."""
    most = max_rows * len(client.tensors.INPUTS)
    given: dict[str, list[object]] = {}
    names: Names = []
    try:
        for count, part in enumerate(parts(content_type, body.content()), 1):
            if count > most:
                raise Refusal(413, f"the form has more than {most} parts; send fewer")
            rows = given.setdefault(part.name, [])
            first = len(rows)
            rows += _rows(part, client, body)
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


def _rows(part: Part, client: Package, body: Body) -> Sequence[object]:
    """Return the rows that a part of a form stands for.

    They are its bytes if a row is one text, the rows of a recording if it is one, and its JSON otherwise.
    """
    tensor = client.tensors.INPUTS.get(part.name)
    if tensor is None or _is_text(tensor):
        return [part.content]
    may_be_sound = forms.can_be(client.tensors, tensor)
    if may_be_sound and part.content.startswith(forms.BEGIN):
        return forms.read_rows(part.name, tensor, part.content)
    body.count(part.content)
    fault = "is neither JSON nor a WAV file" if may_be_sound else "is not JSON"
    row = _parse(part.content, f"{part.name}: {fault}")
    is_small = len(part.content) <= SMALL_BYTES
    return [_read(part.name, row, tensor, [], body, is_small=is_small)]
