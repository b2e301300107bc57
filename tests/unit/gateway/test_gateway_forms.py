"""Multipart forms as the gateway reads them: as Starlette does, or a line says what is wrong."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import UploadFile
from starlette.requests import Request
from urllib3 import encode_multipart_formdata

from triton_ensemble.gateway.forms import Part, parts

NAMES = st.text(
    st.characters(exclude_characters="\\%", exclude_categories=["Cs", "Cc"]), min_size=1
)
PIECES = st.sampled_from([b"\r", b"\n", b"\r\n\r\n", b"--", b"\r\n--", b"boundary", b'name="'])
CONTENTS = st.lists(PIECES | st.binary()).map(b"".join)
FORMS = st.lists(st.tuples(NAMES, st.tuples(NAMES, CONTENTS) | CONTENTS), min_size=1)
HEAD = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
LONG = HEAD.replace(b'"a"', b'"%s"' % (b"a" * 10_000))


def files_by_starlette(content_type: str, body: bytes) -> list[Part]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def read() -> list[Part]:
        headers = [(b"content-type", content_type.encode())]
        form = await Request({"type": "http", "headers": headers}, receive).form()
        return [
            Part(name, value.filename or "", await value.read())
            for name, value in form.multi_items()
            if isinstance(value, UploadFile)
        ]

    return asyncio.run(read())


@given(FORMS)
def test_a_form_is_what_starlette_reads(form: list[tuple[str, Any]]) -> None:
    body, content_type = encode_multipart_formdata(form)
    read = list(parts(content_type, body))
    # Of the bytes of other fields Starlette makes texts.
    assert [part for part in read if part.filename] == files_by_starlette(content_type, body)
    assert [part.content for part in read] == [
        value[1] if isinstance(value, tuple) else value for _, value in form
    ]


@given(FORMS, st.data())
def test_what_is_cut_or_garbled_is_a_form_or_a_value_error(
    form: list[Any], data: st.DataObject
) -> None:
    body, content_type = encode_multipart_formdata(form)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(body))] * 2)))
    garbled = body[:start] + data.draw(st.binary()) + body[end:]
    with suppress(ValueError):
        assert all(part.name for part in parts(content_type, garbled))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x",
        b"a",
        HEAD,
        HEAD + b"a\r\n--x",
        b"a preamble\r\n" + HEAD + b"a\r\n--x--",
        b"--x\r\n\r\n\r\n--x--",
        LONG + b"\r\n--x--",
    ],
)
def test_what_has_no_end_no_beginning_or_no_name_is_no_form(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(it|a part) "):
        list(parts("multipart/form-data; boundary=x", body))


def test_names_with_quotes_and_without() -> None:
    head = b'--x\r\nContent-Type: a/b\r\ncontent-disposition: form-data; name=a; filename="b\\"; c"\r\n\r\n'
    [part] = parts("multipart/form-data; charset=utf-8; boundary=x", head + b"1\r\n--x--")
    assert part == Part("a", 'b"; c', b"1")
