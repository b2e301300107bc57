"""Read the tensors of a TorchScript archive without torch: from its code, and the inputs with which it was traced."""

from __future__ import annotations

import ast
import io
import pickle
import pickletools
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from triton_ensemble.author.tensor import DraftTensor
from triton_ensemble.facts.project import ProjectError
from triton_ensemble.facts.reading import DATA_BYTES

TYPES = {
    "FloatStorage": "FP32",
    "DoubleStorage": "FP64",
    "HalfStorage": "FP16",
    "BFloat16Storage": "BF16",
    "LongStorage": "INT64",
    "IntStorage": "INT32",
    "ShortStorage": "INT16",
    "CharStorage": "INT8",
    "ByteStorage": "UINT8",
    "BoolStorage": "BOOL",
}


def read(path: Path) -> tuple[list[DraftTensor], list[DraftTensor], list[Path]]:
    """Return inputs and outputs of `forward`, and no files beside it.

    Outputs have the names by which Triton knows them, OUTPUT__0 and so on, and no types.
    """
    try:
        with ZipFile(path) as archive:
            forward, traced = _forward(archive), _read_traced(archive)
    except Exception as error:  # a damaged archive or pickle raises anything
        raise ProjectError(
            f"{path}: is not a TorchScript model; save it by torch.jit.save"
        ) from error
    names = [each.arg for each in forward.args.args[1:]]
    inputs = [traced.get(i, DraftTensor("")) for i in range(len(names))]
    return (
        [DraftTensor(name, each.type, each.dims) for name, each in zip(names, inputs, strict=True)],
        [DraftTensor(f"OUTPUT__{i}") for i in range(_count(forward.returns))],
        [],
    )


def _forward(archive: ZipFile) -> ast.FunctionDef:
    """Return the method `forward` of the archive's outermost module, as Python."""
    root = archive.namelist()[0].partition("/")[0]
    opcodes = pickletools.genops(_read(archive, f"{root}/data.pkl"))
    named = next(str(argument) for opcode, argument, _ in opcodes if opcode.name == "GLOBAL")
    module, _, name = named.rpartition(" ")
    code = ast.parse(_read(archive, f"{root}/code/{module.replace('.', '/')}.py"))
    classes = (each for each in code.body if isinstance(each, ast.ClassDef) and each.name == name)
    methods = (each for each in next(classes).body if isinstance(each, ast.FunctionDef))
    return next(each for each in methods if each.name == "forward")


def _read(archive: ZipFile, name: str) -> bytes:
    """Return a file of an archive, or raise ValueError if it would unpack to more than DATA_BYTES."""
    if archive.getinfo(name).file_size > DATA_BYTES:
        raise ValueError(f"{name} is too large")
    return archive.read(name)


def _count(returns: ast.expr | None) -> int:
    """Return how many tensors an annotation says. The number of a list's or a mapping's is not known."""
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "Tuple":
        return len(getattr(returns.slice, "elts", [0]))
    return 1


def _read_traced(archive: ZipFile) -> dict[int, DraftTensor]:
    """Return the type and dims of the tensors that a model was traced with, by position.

    The first dim varies.
    """
    names = [name for name in archive.namelist() if name.endswith("/traced_inputs.pkl")]
    if not names:
        return {}
    given = _Tensors(io.BytesIO(_read(archive, names[0]))).load()
    inputs = given.get("forward", ()) if isinstance(given, dict) else ()
    return {i: each for i, each in enumerate(inputs) if isinstance(each, DraftTensor)}


class _Tensors(pickle.Unpickler):
    """Reads tensors as their types and dims, without an import or a call of what the file names."""

    def find_class(self, module: str, name: str) -> Any:
        if name.startswith("_rebuild_tensor"):
            return _make_tensor
        if name == "restore_type_tag":
            return lambda value, _: value
        return TYPES.get(name) or _Nothing

    def persistent_load(self, pid: Any) -> Any:
        return pid[1]


class _Nothing:
    """A stand-in for everything else that a pickle has."""

    def __init__(self, *_: Any) -> None: ...


def _make_tensor(kind: Any, _: int, size: tuple[int, ...], *__: Any) -> DraftTensor:
    return DraftTensor("", kind if isinstance(kind, str) else None, [-1, *size[1:]])
