# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Record a share of the requests and their responses in a folder of bounded size, if TRITON_RECORD names one.

A file has a request and its responses: a line of JSON that describes the tensors, then their bytes as Triton sends
them. It has no headers, no keys, and no tensors that pipeline.yml marks as `private`. A thread writes the files, so no
request waits for the disk.
"""

import json
import logging
import math
import os
import random
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, TypeAlias

from ..tensors import INPUTS, MODEL, OUTPUTS, Tensor
from .batches import Arrays
from .bodies import encode_tensor, find_datatype

LOG = logging.getLogger("triton.recorder")
FOLDER = "TRITON_RECORD"
SUFFIX, PART = ".exchange", ".part"
# Each is a variable, TRITON_RECORD_ and its name, with its default.
LIMITS = {
    "RATE": 1.0,  # share of the requests
    "FILES": 1000.0,  # of the folder: the oldest go
    "BYTES": 256.0 * 2**20,  # of these files together
    "LARGEST": 4.0 * 2**20,  # bytes of a request and its responses: a larger one is left out
}
KEPT, TRIMMED = 0.8, 0.1  # shares of the limits: kept by a trim, and written until the next
WAITING = 4  # times LARGEST: bytes that may wait for the thread
TOGETHER_S = 0.05  # to wake the thread for each request would take as long as to write a file
SEQUENCES = 10_000  # that may be open
OWN_BYTES = 1000  # of a request, beside its tensors


def read_limits(environment: Mapping[str, str] = os.environ) -> dict[str, float]:
    """Return the limits that an environment sets, or raise ValueError for a value that can't be used."""
    limits = {}
    for name, default in LIMITS.items():
        text = environment.get(f"{FOLDER}_{name}") or str(default)
        most, form = (1, "a share from 0 to 1") if name == "RATE" else (math.inf, "a number")
        try:
            limits[name] = float(text)
        except ValueError:
            limits[name] = math.nan
        if not 0 < limits[name] <= most:
            raise ValueError(f"{FOLDER}_{name} is {text}; write {form}, above 0")
    return limits


def find_recorder(folder: str | None = None) -> "Recorder | None":
    """Return the recorder of a folder, which the clients of a process share. None means TRITON_RECORD."""
    folder = os.environ.get(FOLDER, "") if folder is None else folder
    return _share(os.path.abspath(folder), os.getpid()) if folder else None


@cache
def _share(folder: str, _: int) -> "Recorder":
    """Return the recorder of a process: a forked one lacks the thread of its parent."""
    return Recorder(folder, read_limits())


Place: TypeAlias = tuple[int, int, bool]  # the sequence, the number in it, whether it is the last


class Recorder:
    """Writes exchanges to a folder, and fails no request: a full disk is a line in the log."""

    def __init__(self, folder: str, limits: Mapping[str, float]) -> None:
        self.folder, self._limits, self.largest = folder, limits, limits["LARGEST"]
        self._thread = ThreadPoolExecutor(1, "recorder")  # Python waits for it at its end
        self._lock = Lock()
        self._pending: list[tuple[str, Mapping[str, Any], list[bytes]]] = []
        self._waiting = self._number = 0  # bytes; files
        self._until_trim = (0.0, 0.0)  # files and bytes
        self._is_failing = False
        self._numbers: dict[int, int] = {}  # of the last request of each sequence
        self.left_out: dict[str, int] = {}

    def begin(self, inputs: Arrays, options: Mapping[str, Any]) -> "Exchange | None":
        """Return a request's exchange, which ends with the last response, or None if it is not recorded.

        Of a sequence, all requests are recorded or none.
        """
        place = self._find_place(options) if "sequence_id" in options else (0, 0, True)
        draw = random.Random(place[0]).random() if place[0] else random.random()
        return Exchange(self, inputs, place) if draw < self._limits["RATE"] else None

    def _find_place(self, options: Mapping[str, Any]) -> Place:
        """Return a request's place in its sequence, by which a reader sees whether others are missing."""
        sequence, end = options["sequence_id"], options["sequence_end"]
        with self._lock:
            before = self._numbers.pop(sequence, -1)
            number = 0 if options["sequence_start"] else before + 1 or -1
            if not end and number >= 0:
                self._numbers[sequence] = number
            if len(self._numbers) > SEQUENCES:
                del self._numbers[next(iter(self._numbers))]
        return sequence, number, end

    def leave_out(self, why: str) -> None:
        """Count a request that is not recorded, and log the first one and each that doubles the count."""
        with self._lock:
            count = self.left_out[why] = self.left_out.get(why, 0) + 1
        if not count & (count - 1):
            LOG.warning("%s: %d left out, %s", self.folder, count, why)

    def write(self, about: Mapping[str, Any], contents: list[bytes], size: int) -> None:
        """Let the thread write an exchange, soon and together with others."""
        with self._lock:
            if is_full := self._waiting + size > WAITING * (self.largest + OWN_BYTES):
                is_first = False
            else:
                self._number, self._waiting = self._number + 1, self._waiting + size
                name = f"{time.time_ns():020}-{os.getpid()}-{self._number}"
                self._pending.append((name, about, contents))
                is_first = len(self._pending) == 1
        if is_full:
            self.leave_out("as the disk is too slow")
        if is_first:
            with suppress(RuntimeError):  # Python ends
                self._thread.submit(self._write_pending)

    def _write_pending(self) -> None:
        time.sleep(TOGETHER_S)
        with self._lock:
            pending, size = self._pending, self._waiting
            self._pending = []
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            for name, about, contents in pending:
                self._store(name, b"".join([json.dumps(about).encode(), b"\n", *contents]))
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                LOG.warning("%s: %s; what follows is not recorded", self.folder, error.strerror)
            self._is_failing = True
        with self._lock:
            self._waiting -= size

    def _store(self, name: str, content: bytes) -> None:
        """Write a file that readers see only when it is whole, and that only its owner can read."""
        path = f"{self.folder}/{name}"
        file = os.open(path + PART, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(file, "wb") as opened:
                opened.write(content)
            os.rename(path + PART, path + SUFFIX)
        except OSError:
            os.unlink(path + PART)
            raise
        files, size = self._until_trim
        self._until_trim = files - 1, size - len(content)
        if min(self._until_trim) <= 0:
            self._trim()

    def _trim(self) -> None:
        """Remove the oldest files, also parts of killed processes, until there is room for others."""
        ours = (each for each in os.scandir(self.folder) if each.name.endswith((SUFFIX, PART)))
        files, size = self._limits["FILES"], self._limits["BYTES"]
        total, kept = 0, 0
        for each in sorted(ours, key=lambda each: each.name, reverse=True):
            with suppress(FileNotFoundError):  # another process removes files too
                total, kept = total + each.stat().st_size, kept + 1
                if kept > math.ceil(files * KEPT) or total > size * KEPT:
                    os.unlink(each)
        self._until_trim = files * TRIMMED, size * TRIMMED


class Exchange:
    """A request and its responses so far, as bytes: the caller may change its arrays."""

    def __init__(self, recorder: Recorder, inputs: Arrays, place: Place) -> None:
        self._recorder, self._size = recorder, OWN_BYTES
        self._sides: list[list[Any]] = []
        self._contents: list[bytes] = []
        self._add(inputs, INPUTS)
        private = [name for name in inputs if name in INPUTS and INPUTS[name].private]
        self._about = {"model": MODEL, "private": private, "sequence": place}

    def add(self, answer: Arrays) -> None:
        """Take one response."""
        self._add(answer, OUTPUTS)

    def _add(self, arrays: Arrays, tensors: Mapping[str, Tensor]) -> None:
        self._sides.append([])
        for name, array in arrays.items():
            if name not in tensors or tensors[name].private:
                continue
            is_text = array.dtype == object
            self._size += sum(map(len, array.flat)) if is_text else array.nbytes
            if self._size <= self._recorder.largest + OWN_BYTES:
                self._contents.append(content := bytes(encode_tensor(array)))
                datatype = find_datatype(array.dtype)
                self._sides[-1].append([name, datatype, array.shape, len(content)])

    def end(self, *answers: Arrays) -> None:
        """Take the last responses, and record the exchange."""
        for answer in answers:
            self.add(answer)
        if self._size > self._recorder.largest + OWN_BYTES:
            self._recorder.leave_out("too large to record")
        else:
            self._recorder.write({**self._about, "sides": self._sides}, self._contents, self._size)
