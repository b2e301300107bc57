"""The answer to a request that gets no outputs: a status, one line of JSON, and why nested lists are not a tensor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import orjson
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Package, Tensor

MOST_ERRORS = 10  # that an answer tells


class Refusal(Exception):
    """The answer to a request that is refused: `status` and `{"error": text}`, with other fields if they help."""

    def __init__(
        self, status: int, text: str, *, retry_after_s: int | None = None, **fields: object
    ) -> None:
        super().__init__(text)
        self.status = status
        self.content: dict[str, object] = {"error": text, **fields}
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}

    def body(self, request_id: str, *, as_openai: bool = False) -> bytes:
        """Return the JSON that answers the request of an id.

        OpenAI's clients show only errors that have the form of their API.
        """
        content = self.content
        if as_openai:
            kind = "invalid_request_error" if self.status < 500 else "server_error"
            text = str(self)
            if "row" in content and not text.startswith("row "):
                text = f"row {content['row']}: {text}"
            content = {"error": {"message": text, "type": kind, "code": self.status}}
        return json.dumps({**content, "id": request_id}).encode()


def check_rows(count: int, most: int) -> None:
    """Raise Refusal 413 for a request of too many rows."""
    if count > most:
        raise Refusal(413, f"{count} rows; a request may have {most}")


def make_invalid(errors: Iterable[Mapping[str, Any]]) -> Refusal:
    """Return what the first errors of pydantic mean to the sender of the request."""
    lines = [
        f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg'].removeprefix('Value error, ')}"
        for one in islice(errors, MOST_ERRORS)
    ]
    return Refusal(422, "; ".join(lines))


def make_refusal(error: Exception, client: Package) -> Refusal:
    """Return what an InferenceError of the project's `client` means to the sender of the request.

    The text of a refused input is for people and passes. The text of a failure may tell what is inside, and does not.
    """
    if isinstance(error, client.InvalidInput):
        row = {} if error.row is None else {"row": error.row}
        return Refusal(400, str(error), **row)
    if isinstance(error, TimeoutError):
        return Refusal(504, "no answer in time; send fewer rows, or try again", retry_after_s=1)
    if isinstance(error, client.Unavailable):
        return Refusal(
            503, "the models can't be reached or are too busy; try again", retry_after_s=1
        )
    return Refusal(500, "the models failed at this request; the log says why, by its id")


SHOWN = 40  # characters of a value
TEXT = 'text; write a text, or {"base64": TEXT}'
TYPES = {
    str,
    bytes,
    bool,
    int,
    float,
    dict,
    type(None),
}  # of JSON; NumPy says what is wrong with its own
Shape = tuple[int, ...]


class Fault(NamedTuple):
    """A fault of an input, and the row that has it."""

    text: str
    row: int | None


def find_fault(name: str, tensor: Tensor, value: object, *, batch: bool) -> Fault | None:
    """Return what is wrong with the lists that are given for a tensor, or None if the fault is elsewhere."""
    rows = list(enumerate(value)) if batch and isinstance(value, list) else [(None, value)]
    first: Shape | None = None
    for row, content in rows:
        where = name if row is None else f"{name}, row {row}"
        shape, wrong = _look(content, tensor.datatype)
        if wrong:
            text = f"{where}: {_show(wrong[0])} is not {_describe_wanted(tensor.datatype)}"
            return Fault(text, row)
        if shape is None:
            text = f"its lists are not of one length; write lists of shape {list(tensor.dims)}"
            return Fault(f"{where}: {text}", row)
        first = shape if first is None else first
        if shape != first:
            text = f"has shape {list(shape)}, and row 0 {list(first)}; send rows of other shapes by themselves"
            return Fault(f"{where}: {text}", row)
    return None


def _look(value: object, datatype: str) -> tuple[Shape | None, list[object]]:
    """Return the shape of nested lists, and a list with a cell that does not fit, if there is one.

    The shape is None if lists of one depth differ. It goes by depth instead of by list: millions of cells take
    a tenth of a second, and no depth is too deep.
    """
    shape: Shape | None = ()
    level = [value]
    while True:
        lists = [item for item in level if isinstance(item, list)]
        cells = [item for item in level if not isinstance(item, list)] if lists else level
        if wrong := _find_wrong(cells, datatype):
            return shape, wrong
        if not lists:
            return shape, []
        is_even = not cells and len(set(map(len, lists))) == 1
        shape = (*shape, len(lists[0])) if is_even and shape is not None else None
        level = list(chain.from_iterable(lists))


def _find_wrong(cells: list[Any], datatype: str) -> list[object]:
    """Return a list of the first cell that is of another type or out of range, or an empty list if all fit."""
    fitting = _find_types(datatype)
    kinds = list(map(type, cells))
    if other := (found := set(kinds)) & TYPES - fitting:
        return [cells[min(map(kinds.index, other))]]
    if found == {int} == fitting:
        least, most = _limits(datatype)
        return [cell for cell in (min(cells), max(cells)) if not least <= cell <= most][:1]
    return []


def _find_types(datatype: str) -> set[type]:
    if datatype == "BYTES":
        return {str, bytes}
    if datatype == "BOOL":
        return {bool}
    return {int} if "INT" in datatype else {int, float}


def _describe_wanted(datatype: str) -> str:
    """Return what a cell must be, and what to write."""
    if datatype == "BYTES":
        return TEXT
    if datatype == "BOOL":
        return "BOOL; write true or false"
    if "INT" in datatype:
        least, most = _limits(datatype)
        return f"{datatype}; write a whole number from {least} to {most}"
    return f"{datatype}; write a number"


def _limits(datatype: str) -> tuple[int, int]:
    info = np.iinfo(triton_to_np_dtype(datatype))
    return info.min, info.max


def _show(cell: object) -> str:
    try:
        text = orjson.dumps(cell, default=str).decode()
    except orjson.JSONEncodeError:  # of what is nested
        text = "what is nested so deep"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
