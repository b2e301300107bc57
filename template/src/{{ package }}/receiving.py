# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What a socket receives, within the time of a call: http.client waits anew for each byte."""

from __future__ import annotations

import io
import select
import socket
from http.client import HTTPResponse
from typing import Any

from .deadline import Deadline


class Received(io.RawIOBase):
    """The bytes that come before the deadline; then DeadlineExceeded."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def response_in_time(deadline: Deadline, sock: socket.socket, **options: Any) -> HTTPResponse:
    """An HTTPResponse that is read from a socket before the deadline."""
    response = HTTPResponse(sock, **options)
    response.fp.close()
    response.fp = io.BufferedReader(Received(sock, deadline))
    return response


def has_input(sock: socket.socket) -> bool:
    """Whether something came that nobody asked for: that the server has closed the connection, as a rule."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
