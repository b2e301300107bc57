"""API keys: who may ask. They are read anew when their file changes, so that keys rotate without a restart."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from triton_ensemble.gateway.call import Call
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.server.key_file import explain, read_keys

LOG = logging.getLogger("gateway")
CHANGING_NS = 1_000_000_000  # after a change of their file


class Keys:
    """The keys of a file, or of the environment; without either, everybody may ask."""

    def __init__(self, settings: Settings) -> None:
        self._file = Path(settings.api_keys_file) if settings.api_keys_file else None
        self._given = [key.strip().encode() for key in settings.api_keys.split(",") if key.strip()]
        self._read_at = 0
        self._problem = ""  # of the file, once it is in the log
        self._keys()

    @property
    def are_asked(self) -> bool:
        """Whether a request needs a key."""
        return bool(self._file or self._given)

    def check(self, call: Call) -> None:
        """Raise Refusal 401 if a request has none of the keys."""
        if not self.are_in(call):
            raise Refusal(401, "no key, or none that is known; send it as X-API-Key")

    def are_in(self, call: Call) -> bool:
        """Return whether a request has a key, in X-API-Key or as a Bearer token, or none is asked."""
        if call.has_key is None:
            call.has_key = not self.are_asked or self._is_known(call.headers)
        return call.has_key

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        key = headers.get("x-api-key") or (token if kind.lower() == "bearer" else "")
        # Each is compared, in constant time: how long it takes tells nothing.
        sent = key.strip().encode("latin-1")  # as a header's bytes were read
        return any([hmac.compare_digest(sent, one) for one in self._keys()])

    def _keys(self) -> list[bytes]:
        if self._file:
            try:
                self._read(self._file)
            except (OSError, ValueError) as error:
                self._warn(f"{explain(error)}; the keys that were read before hold")
        return self._given

    def _read(self, file: Path) -> None:
        """Read it if it has changed, or may be changing: its time is coarse, and `cat new > keys` empties it first."""
        changed = file.stat().st_mtime_ns
        changing = abs(time.time_ns() - changed) < CHANGING_NS
        if changed == self._read_at and not changing:
            return
        keys = read_keys(file)
        self._warn("" if keys or changing else "has no key; nobody may ask")
        if keys or not changing:
            self._given = keys
        self._read_at = 0 if changing else changed

    def _warn(self, problem: str) -> None:
        """Log what is wrong with the file, once."""
        if problem and problem != self._problem:
            LOG.warning("GATEWAY_API_KEYS_FILE: %s: %s", self._file, problem)
        self._problem = problem
