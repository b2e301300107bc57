"""Record a request as samples/NAME.json, from values and files or from the JSON body of a request to Triton.

    make sample ARGS="IMAGE=@cat.jpg" NAME=cat
    triton-ensemble sample IMAGE=@cat.jpg IMAGE=@dog.jpg --name both --outputs

INPUT=VALUE is a row of an input. Write the text itself, `@FILE` for the content of a file, which is copied
to samples/, or JSON such as X='[1, 2, 3]', for which you may also name a .json or .npy file. Repeat an input
for more rows. --outputs also records the response: from the server at TRITON_URL, otherwise from that of
`make serve`, otherwise from a Triton that the command starts.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from triton_ensemble.facts.client import Arrays, package
from triton_ensemble.facts.project import Project, is_stub
from triton_ensemble.facts.reading import read_json
from triton_ensemble.facts.terminal import escape_line
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.testing.files import Files, text
from triton_ensemble.testing.infer import server
from triton_ensemble.testing.shell import read_row

NAME = re.compile(r"\w[\w.-]*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the inputs or a request, the sample's name, and whether to record answers."""
    add = parser.add_argument
    add("inputs", nargs="*", metavar="INPUT=VALUE", help="a row of an input: text, @FILE or JSON")
    add("--request", metavar="FILE", help='the JSON body of a request: {"inputs": [{"name": ...}]}')
    add("--name", help="the sample's name; default: its first file's, otherwise request-1, -2 ...")
    add("--outputs", action="store_true", help="also record the response of a server")


def run(arguments: argparse.Namespace) -> int:
    """Write the sample.

    Return 1 after a line if it is not a request of the pipeline, or 2 if none is given.
    """
    project = Project.load(Path.cwd())
    own = package(project)
    try:
        if not arguments.inputs and not arguments.request:
            print(f"sample: of which request? Write: {project.sample_command()}", file=sys.stderr)
            return 2
        _record(project, arguments)
    except OSError as error:
        print(escape_line(f"sample: {error.filename}: {error.strerror}"), file=sys.stderr)
        return 1
    except (own.InferenceError, ServerError, ValueError) as error:
        print(f"sample: {error}", file=sys.stderr)
        return 1
    return 0


def _record(project: Project, arguments: argparse.Namespace) -> None:
    files: Files = {}
    if arguments.request:
        given = _read_request(Path(arguments.request.removeprefix("@")))
    else:
        given = _read_values(project, arguments.inputs, files)
    inputs: Arrays = package(project, "runtime.batches").arrays(given)
    path = _path(project, arguments.name, files)
    copies = _plan_copies(project, files.values())
    outputs = _answer(project, inputs) if arguments.outputs else {}
    project.samples.mkdir(exist_ok=True)
    for source, copy in copies.items():
        shutil.copyfile(source, copy)
    path.write_text(text(project, inputs, files, outputs), encoding="utf-8")
    report(project, path, inputs, outputs, [*copies.values()])


def _read_values(project: Project, words: Iterable[str], files: Files) -> dict[str, Any]:
    """Return the rows of each input, and put rows that are the content of a file into `files`."""
    tensors = package(project, "tensors").INPUTS
    rows: dict[str, list[Any]] = {}
    for word in words:
        name = _input(word, tensors)
        value = word.removeprefix(f"{name}=")
        of_input = rows.setdefault(name, [])
        tensor = tensors[name]
        file = value.removeprefix("@")
        if tensor.datatype == "BYTES" and tensor.dims == (1,) and os.path.isfile(file):
            files[name, len(of_input)] = Path(file)
        try:
            of_input.append(read_row(tensor, value))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if project.batched:
        return rows
    if twice := next((name for name, values in rows.items() if len(values) > 1), ""):
        raise ValueError(f"{twice} is there twice, but {project.ensemble} does not take batches")
    return {name: row for name, [row] in rows.items()}


def _input(word: str, tensors: Mapping[str, Any]) -> str:
    """Return the input that INPUT=VALUE names. Names may have a `=` of their own."""
    found = [name for name in tensors if word.startswith(f"{name}=")]
    if not found:
        raise ValueError(f"{word[:80]}: write INPUT=VALUE; inputs are {', '.join(tensors)}")
    return max(found, key=len)


def _read_request(path: Path) -> dict[str, Any]:
    """Return the inputs of a request's JSON body."""
    try:
        return {
            tensor["name"]: np.array(tensor["data"], dtype=_kind(tensor)).reshape(tensor["shape"])
            for tensor in read_json(path)["inputs"]
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        form = '{"inputs": [{"name": ..., "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}'
        what = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{path}: is not the JSON body of a request like {form}: {what}"
        ) from error


def _kind(tensor: Mapping[str, Any]) -> type | None:
    return object if tensor["datatype"] == "BYTES" else None


def _path(project: Project, name: str | None, files: Files) -> Path:
    """Return the path of the sample, or raise ValueError if the owner has a sample there."""
    if not name:
        names = [Path(source).stem for source in files.values()][:1]
        free = (f"request-{i}" for i in range(1, 10_000))
        name = next(n for n in (*names, *free) if not (project.samples / f"{n}.json").exists())
    if not NAME.fullmatch(name):
        raise ValueError(f"{name}: is not a file name; write letters, digits, _ - and .")
    path = project.samples / f"{name}.json"
    if path.exists() and not is_stub(path):
        raise ValueError(f"samples/{path.name}: exists already; write another NAME, or remove it")
    return path


def _plan_copies(project: Project, sources: Iterable[Path]) -> dict[Path, Path]:
    """Return the targets of files to copy, by file, without files that samples/ has."""
    copies: dict[Path, Path] = {}
    for source in sources:
        copy = project.samples / source.name
        taken = next((s for s, c in copies.items() if c == copy and s != source), None)
        if taken or (copy.exists() and copy.read_bytes() != source.read_bytes()):
            raise ValueError(
                f"samples/{copy.name}: exists already and differs from {source}; rename one"
            )
        if not copy.exists():
            copies[source] = copy
    return copies


def _answer(project: Project, inputs: Arrays) -> Arrays:
    """Return what the ensemble answers, the first of a decoupled one."""
    with server(project) as url, package(project).Client(url) as client:
        first: Arrays = next(iter(client.answers(inputs)), {})
        return first


def report(
    project: Project, path: Path, inputs: Arrays, outputs: Arrays, copies: list[Path]
) -> None:
    """Say what was written, and remove the stub in whose place it is."""
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
    then = ", ".join(outputs) or "no outputs; OUTPUTS=1 records what is answered"
    print(f"samples/{path.name}: {shapes} -> {then}")
    for name, array in inputs.items():
        if array.dtype == object and not all(array.flat):
            what = f"{name}: has an empty text; write {name}=@FILE for the content of a file"
            print(escape_line(what), file=sys.stderr)
    for copy in copies:
        print(f"samples/{copy.name}: copied")
    for stub in project.sample_stubs():
        stub.unlink()
        print(f"samples/{stub.name}: was a stub, and was removed")
