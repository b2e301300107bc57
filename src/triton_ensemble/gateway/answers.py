"""What an answer looks like: JSON by output, or the image itself where a request asks for one."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from triton_ensemble.client import Arrays
from triton_ensemble.gateway.bodies import BASE64, Names
from triton_ensemble.gateway.predict import Answer

# How files of images begin, by media type.
MAGIC = {"image/png": b"\x89PNG\r\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
MAGIC |= {"image/webp": b"RIFF", "image/tiff": b"II*\0"}
ERRORS = "errors"


class Image(NamedTuple):
    """An encoded image, and its media type."""

    kind: str
    content: bytes


def as_json(answer: Answer, names: Names) -> bytes:
    """Return `{OUTPUT: rows}`, null for a row that failed, and with `errors` why: row, file, error.

    Bytes that are no text are {"base64": ...}; what is no number (NaN, infinity) is null.
    """
    if not answer.errors:
        return outputs_as_json(answer.outputs)
    content = {name: _with_gaps(answer, _values(a)) for name, a in answer.outputs.items()}
    content[ERRORS] = [_error(row, error, names) for row, error in answer.errors.items()]
    return _dumped(content)


def outputs_as_json(outputs: Arrays) -> bytes:
    """Return `{OUTPUT: nested lists}`."""
    return _dumped({name: _values(array) for name, array in outputs.items()})


def _dumped(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY, default=_plain)


def _values(array: NDArray[Any]) -> Any:
    return _texts(array) if array.dtype == object else np.ascontiguousarray(array)


def _plain(value: Any) -> Any:
    """Return what orjson does not know: float16 and others of NumPy's types."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON")


def _with_gaps(answer: Answer, rows: Any) -> list[Any]:
    left = iter(rows)
    return [None if row in answer.errors else next(left) for row in range(answer.rows)]


def _error(row: int, error: Exception, names: Names) -> dict[str, Any]:
    name = names[row] if row < len(names) else None
    return {"row": row, **({"file": name} if name else {}), "error": str(error)}


def _texts(array: NDArray[Any]) -> Any:
    cells = np.empty(array.size, dtype=object)
    cells[:] = [_text(bytes(cell)) for cell in array.flat]
    return cells.reshape(array.shape).tolist()


def _text(cell: bytes) -> str | dict[str, str]:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(cell).decode()}


def image(answer: Answer, accept: str) -> Image | None:
    """Return the media type and content of the one image of an answer, if `accept` prefers images to JSON."""
    wanted = [part.partition(";")[0].strip() for part in accept.lower().split(",")]
    if not wanted[0].startswith("image/") or answer.errors:
        return None
    cells = [bytes(a.item()) for a in answer.outputs.values() if a.dtype == object and a.size == 1]
    for cell in cells:
        for kind, magic in MAGIC.items():
            if cell.startswith(magic) and {kind, "image/*"} & set(wanted):
                return Image(kind, cell)
    return None
