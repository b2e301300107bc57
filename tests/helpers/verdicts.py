"""The verdict of a real Triton on whole model repositories, of which one server loads one after the other."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
from served_shapes import Files
from tritonclient.utils import (  # type: ignore[import-untyped]
    InferenceServerException,
    triton_to_np_dtype,
)

from triton_ensemble.check.rules.engine import check
from triton_ensemble.serve.local import environment
from triton_ensemble.serve.local.environment import copy_backends
from triton_ensemble.serve.local.ports import HOST, free_ports

SIZES = (4, 1, 2, 3, 5, 8)  # what is open in dims is one of them: a request is good if one answers
LOAD_S, UNLOAD_S, ANSWER_S = 60, 5, 10
ENDS = 100  # repositories until the server is a new one

PROJECT = 'triton_release: "24.10"\nsteps: []\ngpu_count: 0\nensemble_name: {}\n'


class Dead(Exception):
    """Triton has ended, or does not come back."""


class Judge:
    """A Triton without models, which loads what it is asked about."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="judge-"))
        self.repository = self.folder / "repository"
        self.process: subprocess.Popen[bytes] | None = None
        self.asked = 0
        self.sizes: dict[str, dict[str, list[int]]] = {}  # of inputs with open dims, by model
        self.loaded = False  # whether all models of the last repository were
        self.known: dict[
            str, Files
        ] = {}  # what is loaded, by folder; empty where it is to be loaded anew

    def __enter__(self) -> Judge:
        wheel = environment.site_packages() / "pytriton" / "tritonserver"
        self.names = copy_backends(wheel, self.folder / "backends", ())
        self.caches = wheel / "caches"
        self.binary = wheel / "bin" / "tritonserver"
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        shutil.rmtree(self.folder)

    def start(self, *flags: str) -> str:
        """Start a server. Return the end of its log if it ends at once."""
        ports = free_ports({"http": 0, "grpc": 0, "metrics": 0})
        self.repository.mkdir(exist_ok=True)
        command = [
            str(self.binary), f"--model-repository={self.repository}", f"--backend-directory={self.folder / 'backends'}",
            f"--cache-directory={self.caches}", "--cache-config=local,size=1048576",
            f"--backend-config=python,shm-region-prefix-name={self.folder.name}-", "--disable-auto-complete-config",
            *(f"--{api}-address={HOST}" for api in ports), *(f"--{api}-port={port}" for api, port in ports.items()),
            "--exit-timeout-secs=5", *flags,
        ]  # fmt: skip
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=environment.variables(), cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self.client = triton_grpc.InferenceServerClient(f"{HOST}:{ports['grpc']}")
        self.asked, end = 0, time.monotonic() + LOAD_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return "ended: " + (self.folder / "log").read_text(errors="replace")[-300:]
            with contextlib.suppress(InferenceServerException):
                if self.client.is_server_live(client_timeout=2):
                    return ""
            time.sleep(0.05)
        return "does not start"

    def end(self) -> None:
        if self.process:
            self.client.close()
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(8)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
        for region in Path("/dev/shm").glob(f"{self.folder.name}-*"):
            region.unlink(missing_ok=True)
        shutil.rmtree(self.repository, True)
        self.known = {}

    def why_not(self, files: Files, top: str) -> str:
        """Return why Triton does not serve a repository. The text is empty if it loads all models and answers.

        Models stay loaded for the next one, as long as their files stay as they are.
        """
        if not self.process or self.process.poll() is not None or self.asked >= ENDS:
            self.end()
            assert not self.start("--model-control-mode=explicit")
        self.asked += 1
        self.loaded = False
        try:
            mine = [folder for folder in self.known if folder.startswith(top[:-1])]
            kept = {
                each for each in folders(files) if self.known.get(each) and is_model(files, each)
            }
            if not self.unloaded(set(mine) - kept):  # of a request that is never answered, say
                self.end()
                return self.why_not(files, top)
            if why := self.loading(files):
                return why
            self.loaded = True
            if why := self.answering(top):  # maybe of a process that has died
                self.known |= {folder: {} for folder in folders(files)}
            return why
        except Dead as dead:
            self.end()
            return str(dead)

    def why_not_alone(self, files: Files, top: str) -> str:
        """Return the same of a server that starts with the repository and nothing else."""
        self.end()
        write(self.repository, files)
        self.loaded = False
        try:
            if why := self.start("--strict-readiness=true"):
                return why
            self.loaded = True
            return self.answering(top)
        except Dead as dead:
            return str(dead)
        finally:
            self.end()

    def loading(self, files: Files) -> str:
        """Load what is not loaded as it is, ensembles last: Triton unloads with one what it has loaded for it alone."""
        for name in sorted(
            folders(files), key=lambda each: (not is_model(files, each), -len(each))
        ):
            before, after = self.known.get(name, {}), in_folder(files, name)
            if before != after:
                self.put(name, after)
                why = self.call(self.client.load_model, name, client_timeout=LOAD_S)
                if not why and not self.is_ready(name):
                    why = f"{name} is not ready"
                if why:
                    if before and self.is_ready(name):  # still with the files that it had
                        self.put(name, before)
                    return why
        return ""

    def put(self, folder: str, files: Files) -> None:
        shutil.rmtree(self.repository / folder, True)
        write(self.repository, files)
        self.known[folder] = files

    def is_ready(self, name: str) -> bool:
        with contextlib.suppress(InferenceServerException):
            return bool(self.client.is_model_ready(name, client_timeout=5))
        return False

    def call(self, function: Any, *given: Any, **more: Any) -> str:
        """Return the error of a call, or raise Dead if Triton does not live or does not answer."""
        try:
            function(*given, **more)
        except InferenceServerException as error:
            words = str(error.message())
            assert self.process
            if (
                "Deadline" in words
                or "UNAVAILABLE" in str(error.status())
                or self.process.poll() is not None
            ):
                time.sleep(0.5)
                code = self.process.poll()
                self.end()
                raise Dead(f"died: {code}: {words}") from error
            return words
        return ""

    def answering(self, top: str) -> str:
        """Return why no good request is answered, of a model or of a version beside the one that is asked for."""
        loaded = [each for each in self.index() if each.name.startswith(top[:-1])]
        for each in loaded:
            newer = [
                other
                for other in loaded
                if other.name == each.name and int(other.version or 0) > int(each.version or 0)
            ]
            why = (
                self.answering_version(each.name, each.version)
                if newer and each.state == "READY"
                else ""
            )
            if why:
                return f"version {each.version} of {each.name}: {why}"
        return self.answering_version(top)

    def answering_version(self, top: str, version: str = "") -> str:
        try:
            config = self.client.get_model_config(top, version, client_timeout=5).config
        except InferenceServerException as error:
            return str(error.message())
        is_open = b"dims: -1" in b"".join(
            path.read_bytes() for path in self.repository.glob("*/config.pbtxt")
        )
        why = ""
        for size in SIZES if is_open else SIZES[:1]:
            if not (why := self.answer(config, size, version)):
                return ""
        return why

    def answer(self, config: Any, size: int, version: str = "") -> str:
        """Return why a good request is not answered.

        Over a stream only where that must be: Triton fails what it has not in its response cache there.
        """
        sizes = self.sizes.get(config.name, {})
        inputs = [
            asked(tensor, config.max_batch_size, sizes.get(tensor.name, tensor.dims), size)
            for tensor in config.input
        ]
        if config.model_transaction_policy.decoupled:
            return self.streamed(config, inputs)
        try:
            result = self.client.infer(
                config.name, inputs, version, client_timeout=ANSWER_S, **self.sequence()
            )
        except InferenceServerException as error:  # a config may say that a request waits so long
            return "" if "timeout expired" in error.message() else str(error.message())
        given = {output.name for output in result.get_response().outputs}
        missing = {output.name for output in config.output} - given
        return f"lacks {missing}" if missing else ""

    def streamed(self, config: Any, inputs: list[Any]) -> str:
        responses: Queue[Any] = Queue()
        self.client.start_stream(lambda result, error: responses.put((result, error)))
        try:
            self.client.async_stream_infer(
                config.name, inputs, enable_empty_final_response=True, **self.sequence(),
            )  # fmt: skip
            names = {output.name for output in config.output}
            return next(filter(None, read(responses, names)), "")
        except Empty:
            return "no answer"
        except InferenceServerException as error:  # of a stream that the server has ended
            return str(error.message())
        finally:
            self.client.stop_stream(cancel_requests=True)

    def sequence(self) -> dict[str, Any]:
        """Return what a request of a sequence says, where there is one."""
        text = "".join(
            path.read_text(errors="replace") for path in self.repository.glob("*/config.pbtxt")
        )
        if "sequence_batching" not in text:
            return {}
        by_text = "CORRID" in text and "data_type: TYPE_STRING" in text.partition("CORRID")[2][:60]
        return {"sequence_id": "a" if by_text else 7, "sequence_start": True, "sequence_end": True}

    def unloaded(self, gone: set[str]) -> bool:
        """Unload models, ensembles before those that they name, and remove their folders. Return whether that is done."""
        gone_first = sorted(
            gone, key=lambda folder: (is_model(self.known[folder], folder), len(folder))
        )
        end = time.monotonic() + UNLOAD_S
        try:
            for folder in gone_first:
                self.call(self.client.unload_model, folder, client_timeout=UNLOAD_S)
            while any(m.name in gone and m.state in ("READY", "UNLOADING") for m in self.index()):
                if time.monotonic() > end:
                    return False
                time.sleep(0.02)
        except (Dead, InferenceServerException):
            return False
        for folder in gone:
            shutil.rmtree(self.repository / folder, True)
            del self.known[folder]
        return True

    def index(self) -> Any:
        return self.client.get_model_repository_index(client_timeout=10).models


def errors(files: Files, top: str) -> list[str]:
    """Return the errors that the check finds in the repository of the project of an ensemble."""
    with TemporaryDirectory() as folder:
        Path(folder, ".copier-answers.yml").write_text(PROJECT.format(top))
        repository = Path(folder, "model_repository")
        write(repository, files)
        return [f"{f.rule}: {f.what}" for f in check(repository) if f.severity == "error"]


def folders(files: Files) -> set[str]:
    return {path.partition("/")[0] for path in files}


def is_model(files: Files, folder: str) -> bool:
    return any(path.endswith(".py") for path in in_folder(files, folder))


def in_folder(files: Files, folder: str) -> Files:
    return {path: content for path, content in files.items() if path.startswith(f"{folder}/")}


def read(responses: Queue[Any], names: set[str]) -> Iterator[str]:
    """Iterate over what is wrong with the responses of one request."""
    answered = False
    while True:
        result, error = responses.get(timeout=ANSWER_S)
        if error:  # a config may say that a request waits so long and no longer
            yield "" if "timeout expired" in error.message() else error.message()
            return
        response = result.get_response()
        if response.outputs:
            answered = True
            missing = names - {output.name for output in response.outputs}
            yield f"lacks {missing}" if missing else ""
        if response.parameters["triton_final_response"].bool_param:
            yield "" if answered else "no output"
            return


def asked(
    tensor: Any, max_batch_size: int, dims: Iterable[int], size: int
) -> triton_grpc.InferInput:
    shape = [1] * bool(max_batch_size) + [size if dim < 0 else dim for dim in dims]
    kind = {14: "BF16", 13: "BYTES"}.get(tensor.data_type)
    names = triton_grpc.model_config_pb2.DataType
    kind = kind or names.Name(tensor.data_type)[5:]
    given = triton_grpc.InferInput(tensor.name, shape, kind)
    array = (
        np.full(shape, b"x", object)
        if kind == "BYTES"
        else np.zeros(shape, triton_to_np_dtype(kind))
    )
    given.set_data_from_numpy(array)
    return given


def write(repository: Path, files: Files) -> None:
    for path, content in files.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_bytes(content)
