"""The client of a generated project: source in its src/, imported while a command runs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict
from urllib.parse import SplitResult

from numpy.typing import NDArray

from triton_ensemble.facts.project import Project

if TYPE_CHECKING:
    from typing_extensions import Unpack

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]


class Client(Protocol):
    """The part of a project's client that the toolkit calls. The project's own client has the pipeline's types."""

    def ready(self) -> bool:
        """Return whether the server is there and has loaded the ensemble."""

    def answers(self, inputs: Mapping[str, Any]) -> Iterator[Arrays]:
        """Return all answers to a call, of whatever pipeline."""

    def infer(self, inputs: Mapping[str, Any], *, outputs: Sequence[str] | None = None) -> Arrays:
        """Return the answer to a call, which may be several requests."""

    def send(self, inputs: Arrays) -> Arrays:
        """Return the answer to one request as it is: not checked, not cut, not tried again."""

    def send_stream(self, inputs: Arrays) -> Iterator[Arrays]:
        """Return the answers of a decoupled pipeline to one request as it is."""


class Options(TypedDict, total=False):
    """Options of one request to Triton."""

    request_id: str
    headers: Mapping[str, str]
    sequence: int  # with start and end, the request's position in its sequence
    start: bool
    end: bool


class AsyncClient(Protocol):
    """The part of the asynchronous client that the gateway calls."""

    async def __aenter__(self) -> AsyncClient: ...
    async def __aexit__(self, *_: object) -> None: ...

    async def send(self, inputs: Arrays, *, timeout: float, **options: Unpack[Options]) -> Arrays:
        """Return the answer to one request as it is: not checked, not cut, not tried again."""

    def send_stream(
        self, inputs: Arrays, *, timeout: float, **options: Unpack[Options]
    ) -> AsyncGenerator[Arrays, None]:
        """Return the answers of a decoupled pipeline to one request as it is."""


class Tensor(Protocol):
    """The declaration of a tensor by the ensemble."""

    datatype: str
    dims: tuple[int, ...]
    optional: bool


class Tensors(Protocol):
    """The module of a project's client that says what the pipeline takes and returns."""

    URL: str
    MODEL: str
    MAX_BATCH_SIZE: int
    DECOUPLED: bool
    SEQUENTIAL: bool
    INPUTS: Mapping[str, Tensor]
    OUTPUTS: Mapping[str, Tensor]


class InvalidInput(Exception):
    """The error that a client raises for a wrong request. `row` is the first refused row."""

    row: int | None


class Deadline(Protocol):
    """The time that a call has."""

    def left(self) -> float: ...
    def left_us(self) -> int: ...
    def make_timeout(self) -> Exception: ...


class Batches(Protocol):
    """The module `runtime.batches`: the arrays of a call, cut into requests and joined again."""

    def arrays(self, inputs: Mapping[str, Any]) -> Arrays: ...
    def split(self, given: Arrays) -> list[range]: ...
    def part(self, given: Arrays, rows: range) -> Arrays: ...
    def join_rows(self, answers: Sequence[Arrays]) -> Arrays: ...


class Bodies(Protocol):
    """The module `runtime.bodies`: requests and responses over HTTP as bytes."""

    LENGTH: str

    def encode(self, request: Any) -> list[Any]: ...
    def decode(
        self, content: bytes, length: str | int | None, outputs: Sequence[str], server: str
    ) -> Arrays: ...
    def read_error(self, content: bytes) -> str: ...


class Errors(Protocol):
    """The module `runtime.errors`."""

    @property
    def Unavailable(self) -> Callable[[str], Exception]: ...
    @property
    def ServerFailure(self) -> type[Exception]: ...
    def make_error(self, status: str | None, text: str | None) -> Exception: ...
    def shift_rows(self, error: Any, rows: range) -> Exception: ...


class Positions(Protocol):
    """The module `runtime.positions`: the position of a request in its sequence."""

    def position(self, sequence: int, start: bool, end: bool) -> dict[str, Any]: ...
    def split_sequence(self, given: Arrays) -> list[tuple[Arrays, bool, bool]]: ...


class Transport(Protocol):
    """The module `runtime.transport`: what all ways to a server share."""

    @property
    def Deadline(self) -> Callable[[float], Deadline]: ...
    @property
    def Request(self) -> Callable[..., Any]: ...
    @property
    def Tls(self) -> Callable[[], Any]: ...
    def server(self, url: str, tls: Any) -> SplitResult: ...


class GrpcTransport(Protocol):
    """The module `runtime.grpc_transport`."""

    in_process: dict[str, Any]

    @property
    def GrpcTransport(self) -> Callable[..., Any]: ...


class Runtime(Protocol):
    """The part of a client that is the same in all projects. Only some pipelines need `positions`."""

    batches: Batches
    bodies: Bodies
    errors: Errors
    positions: Positions
    transport: Transport
    grpc_transport: GrpcTransport
    recorder: Any


class Package(Protocol):
    """A project's client as a module, with what it is made of, and its errors."""

    tensors: Tensors
    runtime: Runtime
    AsyncClient: Callable[..., AsyncClient]
    InferenceError: type[Exception]
    InvalidInput: type[InvalidInput]
    DeadlineExceeded: type[Exception]
    Unavailable: type[Exception]


def package(project: Project, module: str = "") -> Any:
    """Import the project's client, or a module of it, from src/ if it is not installed."""
    if importlib.util.find_spec(project.package) is None:
        sys.path.insert(0, str(project.root / "src"))
    return importlib.import_module(".".join(filter(None, (project.package, module))))


def split_sequence(project: Project, inputs: Arrays) -> list[tuple[Arrays, bool, bool]]:
    """Return the requests of a call, each with whether it starts and ends its sequence: one request without sequences."""
    if not project.sequential:
        return [(inputs, True, True)]
    split: list[tuple[Arrays, bool, bool]] = package(project, "runtime.positions").split_sequence(
        inputs
    )
    return split


def protocols(project: Project) -> tuple[str, ...]:
    """Return the protocols that the project's client speaks, its default first: http and grpc."""
    return ("grpc",) if project.decoupled else ("http", "grpc")
