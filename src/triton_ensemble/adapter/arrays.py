"""Tensors of Triton as the arrays that a step takes and returns: NumPy, or PyTorch and CuPy on the tensor's own device."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from numpy.typing import NDArray

from .seams import Array, Tensor, TensorConfig

DTYPES = {
    "TYPE_FP16": "float16",
    "TYPE_BF16": "bfloat16",
    "TYPE_FP32": "float32",
    "TYPE_FP64": "float64",
    "TYPE_STRING": "object",
}
Foreign: TypeAlias = Any  # an array of PyTorch or CuPy, whose types are not known here
TEXTS = frozenset({bytes, str})


def dtype_name(data_type: str) -> str:
    """Return the name of NumPy's type for a type of Triton: TYPE_INT8 -> int8."""
    return DTYPES.get(data_type) or data_type.removeprefix("TYPE_").lower()


def encode_texts(array: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return an array with texts as bytes, as Triton passes them."""
    texts = array.ravel().tolist()
    if str not in set(map(type, texts)):
        return array
    encoded = np.empty(len(texts), object)
    encoded[:] = [text.encode() if type(text) is str else text for text in texts]
    return encoded.reshape(array.shape)


class StepError(RuntimeError):
    """A step broke its contract. The text names what is wrong and goes to clients."""


class NumpyArrays:
    """Arrays in the host's memory. Arrays that are read from Triton are views."""

    array_type: type = np.ndarray
    asked = "a NumPy array"

    def __init__(self) -> None:
        # Not methods of ours, to save the calls.
        self.tensor: Callable[[str, Array], Tensor] = pb_utils.Tensor
        self.read: Callable[[Tensor], Array] = methodcaller("as_numpy")
        # Makes of a kept array one for each step that reads it, where nothing makes it read-only.
        self.lend: Callable[[Array | None], Array | None] | None = None

    def dtype(self, name: str) -> object:
        return np.dtype(name)

    def join(self, arrays: Sequence[Array]) -> Array:
        return np.concatenate(arrays)

    def keep(self, array: Array) -> Array:
        """Return the step's output as Triton would pass it to the next step: contiguous, texts as bytes, its own array otherwise."""
        if array.dtype.hasobject:
            array = encode_texts(np.asarray(array))
        return np.ascontiguousarray(array).view()

    def copy(self, array: Array) -> Array:
        return np.array(array)


class TorchArrays(NumpyArrays):
    """Arrays of PyTorch, shared with Triton by DLPack.

    Data on the GPU stays there. Tensors of STRING stay NumPy arrays.
    """

    asked = "a PyTorch tensor"
    library = "torch"

    def __init__(self, device: str) -> None:
        super().__init__()
        self.tensor, self.read, self.lend = self._tensor, self._read, self._lend
        self._library = importlib.import_module(self.library)
        self._device = device
        self.array_type = self._library.Tensor

    def dtype(self, name: str) -> object:
        return np.dtype(name) if name == "object" else getattr(self._library, name)

    def _read(self, tensor: Tensor) -> Foreign:
        try:
            return self._share(tensor)
        except pb_utils.TritonModelException:  # DLPack has no texts
            return tensor.as_numpy()

    def join(self, arrays: Sequence[Array]) -> Array:
        if isinstance(arrays[0], np.ndarray):
            return super().join(arrays)
        joined: Array = self._library.concatenate(arrays)
        return joined

    def _tensor(self, name: str, array: Array) -> Tensor:
        if isinstance(array, np.ndarray):
            made: Tensor = pb_utils.Tensor(name, array)
        else:
            made = pb_utils.Tensor.from_dlpack(name, self._make_contiguous(array))
        return made

    def keep(self, array: Array) -> Foreign:
        if isinstance(array, np.ndarray):
            return super().keep(array)
        return self._place(self._make_contiguous(array))

    def _lend(self, array: Array | None) -> Array | None:
        return array if array is None or isinstance(array, np.ndarray) else self.copy(array)

    def _place(self, array: Foreign) -> Foreign:
        return array.to(self._device)

    def copy(self, array: Foreign) -> Foreign:
        return super().copy(array) if isinstance(array, np.ndarray) else array.clone()

    def _share(self, tensor: Tensor) -> Foreign:
        # A request from outside begins in the host's memory; `to` copies only what lies elsewhere.
        return self._library.from_dlpack(tensor.to_dlpack()).to(self._device)

    def _make_contiguous(self, array: Foreign) -> Foreign:
        return array.detach().contiguous()


class CupyArrays(TorchArrays):
    """Arrays of CuPy, shared with Triton in the same way."""

    asked = "a CuPy array"
    library = "cupy"

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.array_type = self._library.ndarray
        self._library.cuda.Device(int(device.partition(":")[2] or 0)).use()

    def dtype(self, name: str) -> object:
        return np.dtype(name)

    def _place(self, array: Foreign) -> Foreign:
        return array

    def copy(self, array: Foreign) -> Foreign:
        return array.copy()

    def _share(self, tensor: Tensor) -> Foreign:
        if tensor.is_cpu():
            return self._library.asarray(tensor.as_numpy())
        return self._library.from_dlpack(tensor.to_dlpack())

    def _make_contiguous(self, array: Foreign) -> Foreign:
        return self._library.ascontiguousarray(array)


LIBRARIES: dict[str, Callable[[str], NumpyArrays]] = {
    "numpy": lambda device: NumpyArrays(),
    "torch": TorchArrays,
    "cupy": CupyArrays,
}


def model_dims(config: TensorConfig) -> tuple[int, ...]:
    """Return the dims of a tensor as the model itself sees it, without the batch dimension."""
    return tuple(map(int, config["reshape"]["shape"] if "reshape" in config else config["dims"]))


class Output:
    """The array that a step must return for an output, as the model's config declares it.

    A value of the type `plain` and this `dtype`, with these `dims` after its rows, needs no `check`.
    """

    def __init__(self, config: TensorConfig, batched: bool, arrays: NumpyArrays) -> None:
        self.name: str = config["name"]
        self._text = config["data_type"] == "TYPE_STRING"
        self.dtype = arrays.dtype(dtype_name(config["data_type"]))
        self._type: type = np.ndarray if self._text else arrays.array_type
        self.plain = None if self._text else self._type
        self._asked = NumpyArrays.asked if self._text else arrays.asked
        self._batched = batched
        self.dims = model_dims(config)

    def check(self, value: Array, rows: int | None) -> None:
        """Raise StepError unless a value fits the config: Triton checks neither type nor shape. `rows` of None is any number."""
        if not isinstance(value, self._type):
            raise StepError(
                f"returned {type(value).__name__} for {self.name}; return {self._asked}"
            )
        if value.dtype != self.dtype:
            wanted = f"is {self.dtype}; convert it with astype"
            if self._text:
                wanted = "holds bytes or str; write .astype(object)"
            raise StepError(f"returned {value.dtype} for {self.name}, which {wanted}")
        want = (-1 if rows is None else rows, *self.dims) if self._batched else self.dims
        if value.shape != want:
            self._check_shape(value.shape, want)
        if self._text:
            self._check_elements(np.asarray(value))

    def _check_shape(self, shape: tuple[int, ...], want: tuple[int, ...]) -> None:
        """Raise StepError for a shape that does not fit. A dim of -1 may have any size."""
        if len(shape) != len(want) or any(
            dim not in (-1, have) for dim, have in zip(want, shape, strict=True)
        ):
            raise StepError(f"returned the shape {list(shape)} for {self.name}, not {list(want)}")

    def _check_elements(self, value: NDArray[np.object_]) -> None:
        """Raise StepError for elements that are not texts: Triton would send any object's text, such as `None` or `b'...'`."""
        kinds = list(map(type, value.ravel().tolist()))
        if not TEXTS.issuperset(kinds):
            kind = next(kind for kind in kinds if kind not in TEXTS)
            raise StepError(f"returned {kind.__name__} in {self.name}, which holds bytes or str")
