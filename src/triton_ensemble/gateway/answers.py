"""The form of an answer: JSON by output, or the image itself if a request asks for one."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import repeat
from typing import NamedTuple

import numpy as np
import orjson

from triton_ensemble.facts.client import Array, Arrays
from triton_ensemble.gateway.forms import BASE64, Names
from triton_ensemble.gateway.predict import Answer
from triton_ensemble.testing.images import kind

QUALITY = re.compile(r"\s*q\s*=\s*([01](\.\d*)?)\s*")
JSON = "application/json"
ERRORS = "errors"
PIECE = 1 << 20  # values or characters that are written at once, in some milliseconds


class Image(NamedTuple):
    """An encoded image, and its media type."""

    kind: str
    content: bytes


def format_json(answer: Answer, names: Names) -> bytes:
    """Return `{OUTPUT: rows}`, null for a row that failed or lacks it, and with `errors` why: row, file, error.

    Bytes that are not text are {"base64": ...}. NaN and infinity are null.
    """
    if not answer.errors and len(answer.parts) == 1:
        return outputs_as_json(answer.parts[0])
    rows = {
        name: [_in_pieces(row) for part in answer.parts for row in _rows(part, name)]
        for name in dict.fromkeys(name for part in answer.parts for name in part)
    }
    content = {name: _fill_gaps(answer, values) for name, values in rows.items()}
    if answer.errors:
        content[ERRORS] = [_error(row, error, names) for row, error in answer.errors.items()]
    return dump_json(content)


def outputs_as_json(outputs: Arrays) -> bytes:
    """Return `{OUTPUT: nested lists}`."""
    if all(array.dtype == object or array.size <= PIECE for array in outputs.values()):
        return dump_json({name: _values(array) for name, array in outputs.items()})
    content = BytesIO()  # whose value is not another copy
    for name, array in outputs.items():
        content.write((b"," if content.tell() else b"{") + dump_json(name) + b":")
        content.writelines(_iter_json(array))
    content.write(b"}")
    return content.getvalue()


async def unless_large(parts: Iterable[Arrays], write: Callable[[], bytes]) -> bytes:
    """Return what `write` makes of outputs. Large ones are written in a thread, so that others have their turn."""
    if sum(_size(array) for outputs in parts for array in outputs.values()) > PIECE:
        return await asyncio.to_thread(write)
    return write()


def _size(array: Array) -> int:
    return sum(map(len, array.flat)) if array.dtype == object else array.size


def dump_json(content: object) -> bytes:
    """Return JSON, also of bytes and of NumPy's arrays and numbers."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY, default=_plain)


def _rows(part: Arrays, name: str) -> Iterable[object]:
    """Return the rows of an output, or a null for each row if a step left it out.

    A step never leaves out all outputs.
    """
    return _values(part[name]) if name in part else repeat(None, len(next(iter(part.values()))))


def _values(array: Array) -> Iterable[object]:
    return array.tolist() if array.dtype == object else np.ascontiguousarray(array)


def _in_pieces(value: object) -> object:
    """Return a value, a large array as its JSON: orjson lets nobody else run while it writes."""
    if isinstance(value, np.ndarray) and value.size > PIECE:
        return orjson.Fragment(b"".join(_iter_json(value)))
    return value


def _iter_json(array: Array) -> Iterator[bytes]:
    """Iterate over the pieces of an array's JSON."""
    if array.dtype == object or array.size <= PIECE:
        yield dump_json(_values(array))
        return
    rows = PIECE * len(array) // array.size
    for start in range(0, len(array), rows or 1):
        yield b"," if start else b"["
        if rows:
            yield dump_json(_values(array[start : start + rows]))[1:-1]
        else:
            yield from _iter_json(array[start])
    yield b"]"


def _long_text(text: str) -> bytes:
    starts = range(0, len(text), PIECE)
    return b'"%s"' % b"".join(orjson.dumps(text[start : start + PIECE])[1:-1] for start in starts)


def _plain(value: object) -> object:
    """Return what orjson does not know: bytes, float16 and others of NumPy's types."""
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON")


def _fill_gaps(answer: Answer, rows: Iterable[object]) -> list[object]:
    left = iter(rows)
    return [None if row in answer.errors else next(left) for row in range(answer.rows)]


def _error(row: int, error: Exception, names: Names) -> dict[str, object]:
    name = names[row] if row < len(names) else None
    return {"row": row, **({"file": name} if name else {}), "error": str(error)}


def _text(cell: bytes) -> object:
    try:
        text = cell.decode()
        return orjson.Fragment(_long_text(text)) if len(text) > PIECE else text
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(cell).decode()}


def image(answer: Answer, accept: str) -> Image | None:
    """Return the media type and content of the one image of an answer, if `accept` prefers it to JSON."""
    if answer.errors or len(answer.parts) > 1 or "image/" not in accept.lower():
        return None
    ranges = _ranges(accept)
    cells = [bytes(a.item()) for a in answer.parts[0].values() if a.dtype == object and a.size == 1]
    for cell in cells:
        media_type = f"image/{kind(cell)}"
        quality, order = _preference(media_type, ranges)
        if kind(cell) and quality and (quality, order) > _preference(JSON, ranges):
            return Image(media_type, cell)
    return None


def _ranges(accept: str) -> dict[str, tuple[float, int]]:
    """Return the media ranges that a request accepts, each with its quality.

    Of ranges with the same quality the first counts most.
    """
    ranges = {}
    for order, part in enumerate(accept.lower().split(",")):
        media_range, *parameters = part.split(";")
        [quality, *_] = [*filter(None, map(QUALITY.fullmatch, parameters)), None]
        ranges[media_range.strip()] = (float(quality[1]) if quality else 1.0, -order)
    return ranges


def _preference(media_type: str, ranges: dict[str, tuple[float, int]]) -> tuple[float, int]:
    """Return the quality and the order of the most specific range that matches a media type (RFC 9110, 12.5.1)."""
    known = (media_type, media_type.partition("/")[0] + "/*", "*/*")
    return next((ranges[name] for name in known if name in ranges), (0.0, 0))
