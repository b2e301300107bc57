"""The server that runs, moved to other versions by the model control API if its mode allows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local.key_file import explain, read_keys
from triton_ensemble.serve.local.ports import grpc_target, is_taken, server_at, usual

LOAD_TIMEOUT_S = 600
TIMEOUT_S = 10
# What Triton says of a server that is in another mode, or whose APIs ask for a key.
CLOSED = ("not allowed", "restricted", "is disabled")


class NotMoved(RuntimeError):
    """Raised if a server still serves the old version, with the reason. A restarted server serves the change."""


class Running:
    """The server at TRITON_URL, or else the one at the usual port, if any."""

    def __init__(self, project: Project) -> None:
        self._project = project
        given = os.environ.get("TRITON_GRPC_URL") or os.environ.get("TRITON_URL")
        port = usual("grpc")
        self.url = given or (f"grpc://127.0.0.1:{port}" if port and is_taken(port) else "")
        self._named = given or (f"{self.url}, {server_at(port)}" if self.url else "")
        if self.url:
            secure = urlsplit(self.url).scheme in ("https", "grpcs")
            self._client = grpc.InferenceServerClient(grpc_target(self.url), ssl=secure)

    def load(self, models: Sequence[str], holds: Callable[[Running], bool]) -> str:
        """Load models anew, in this order, and return a line that the server serves them.

        `holds` says whether it serves what it should. Raise NotMoved if there is no server that can be moved, or
        VersionError if it does not load a model.
        """
        if not self.url:
            raise NotMoved("no server runs here; the next one that starts serves it")
        self._check_served()
        for model in models:
            try:
                self._client.load_model(model, headers=_key(), client_timeout=LOAD_TIMEOUT_S)
            except KeyboardInterrupt:  # the server goes on with it
                what = "interrupted; the files are as they were, and it may serve either"
                raise VersionError(f"{self._named}: {what}: run it again") from None
            except InferenceServerException as error:
                reason = " ".join(str(error.message()).split())
                if any(word in reason for word in CLOSED):
                    raise NotMoved(
                        f"{self._named}: still serves the former version ({reason})"
                    ) from None
                raise VersionError(f"{self._named}: does not load {model}: {reason}") from None
        if not self._says(holds):
            raise NotMoved(f"{self._named}: has its own model repository, which stays as it was")
        return f"{self._named}: serves it"

    def _says(self, holds: Callable[[Running], bool]) -> bool:
        try:
            return holds(self)
        except InferenceServerException as error:
            reason = " ".join(str(error.message()).split())
            if any(word in reason for word in CLOSED):
                what = f"has loaded it, and does not say which versions it serves ({reason})"
                raise NotMoved(f"{self._named}: {what}") from None
            raise VersionError(f"{self._named}: no longer answers: {reason}") from None

    def _check_served(self) -> None:
        try:
            self._client.is_model_ready(self._project.ensemble, client_timeout=TIMEOUT_S)
            self._client.get_model_metadata(self._project.ensemble, client_timeout=TIMEOUT_S)
        except InferenceServerException as error:
            what = f"does not serve {self._project.ensemble} ({error.message()})"
            raise NotMoved(f"{self._named}: {what}, and was not asked") from None

    def versions(self, model: str) -> set[int]:
        """Return the versions of a model that are loaded."""
        found = self._client.get_model_metadata(model, headers=_key(), client_timeout=TIMEOUT_S)
        return set(map(int, found.versions))

    def list_asked(self, ensembles: Iterable[str], model: str) -> set[int]:
        """Return the versions of a model that ensembles ask for, as they are served."""
        return {
            int(step.model_version)
            for name in ensembles
            for step in self._config(name).ensemble_scheduling.step
            if step.model_name == model
        }

    def _config(self, name: str):  # type: ignore[no-untyped-def]
        answer = self._client.get_model_config(name, headers=_key(), client_timeout=TIMEOUT_S)
        return answer.config


def _key() -> dict[str, str]:
    """Return the header by which administrators are known, if ADMIN_KEY_FILE names a file with the key."""
    path = os.environ.get("ADMIN_KEY_FILE", "")
    try:
        keys = [key.decode() for key in read_keys(Path(path))] if path else []
    except (OSError, ValueError) as error:
        raise VersionError(f"ADMIN_KEY_FILE: {path}: {explain(error)}") from None
    return {"triton-grpc-protocol-admin-key": keys[0]} if keys else {}
