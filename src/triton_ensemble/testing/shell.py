"""Call the ensemble from a shell, as a project's client is run: `python -m PACKAGE infer --help` lists its inputs."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from triton_ensemble.facts.client import Tensor, Tensors
from triton_ensemble.testing.printing import table, to_json

CERTIFICATES = ("root_certificates", "private_key", "certificate_chain")
OWN = {"format", "header", "help", "input", "timeout", "url"}
OWN |= {name.replace("_", "-") for name in CERTIFICATES}
VALUES = """\
A value is a row: for several rows, repeat the option. For a text, give the text or the name of a file
that contains it; `@NAME` is always a file. Write numbers, or several texts in a row, as JSON, such as
'[1, 2, 3]', or name a .json or .npy file. For UINT8[-1], any other file stands for its bytes.
"""


def options(inputs: Iterable[str]) -> dict[str, str]:
    """Return inputs by their option: MERCHANT_NAME by --merchant-name, if no other option has that name."""
    words = {name: re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in inputs}
    count = Counter(words.values())
    return {
        f"--{word}": name
        for name, word in words.items()
        if word and count[word] == 1 and word not in OWN
    }


def make_parser(name: str, tensors: Tensors) -> argparse.ArgumentParser:
    about = f"Call {tensors.MODEL} from a shell: `infer --help` lists its inputs."
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=about, allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="infer")
    about = f"Calls {tensors.MODEL}. {VALUES}"
    infer = commands.add_parser("infer", description=about, allow_abbrev=False)
    add = infer.add_argument
    url = os.environ.get("TRITON_URL", tensors.URL)
    add("--url", default=url, help=f"the server's URL, by default TRITON_URL or {tensors.URL}")
    add("--timeout", type=float, default=60.0, metavar="SECONDS", help="%(default)s by default")
    add("--header", action="append", default=[], metavar="NAME=VALUE", help="sent with the request")
    for file in CERTIFICATES:
        add(f"--{file.replace('_', '-')}", metavar="FILE", help="PEM, for https:// and grpcs://")
    add("--format", choices=["table", "json"], default="table", help="%(default)s by default")
    add("--input", action="append", default=[], metavar="NAME=VALUE", help="any input, by name")
    for option, of_input in options(tensors.INPUTS).items():
        tensor = tensors.INPUTS[of_input]
        text = f"{of_input}, {tensor.datatype}{list(tensor.dims)}{', optional' * tensor.optional}"
        text = text.replace("%", "%%").replace("BYTES", "STRING")
        add(
            option,
            action="append",
            default=[],
            dest=f"input {of_input}",
            metavar="VALUE",
            help=text,
        )
    return parser


def pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{option} {text}: write NAME=VALUE")
    return name, value


def read_inputs(arguments: argparse.Namespace, tensors: Tensors) -> dict[str, Any]:
    """Return the values of the command line by input: a list of rows, or one row without a batch dimension."""
    known = tensors.INPUTS
    given = {name: list(vars(arguments).get(f"input {name}", [])) for name in known}
    for text in arguments.input:
        name, value = pair(text, "--input")
        given.setdefault(name, []).append(value)
    rows = {}
    for name, values in given.items():
        read = [read_row(known[name], value) if name in known else value for value in values]
        if not tensors.MAX_BATCH_SIZE and len(read) > 1:
            raise ValueError(f"{name}: give it once; {tensors.MODEL} does not take batches")
        if read:
            rows[name] = read if tensors.MAX_BATCH_SIZE else read[0]
    return rows


def read_row(tensor: Tensor, value: str) -> Any:
    """Return the row that a value of the command line stands for, or raise OSError or ValueError."""
    path = Path(value.removeprefix("@")) if value.startswith("@") or os.path.isfile(value) else None
    shown = value if path else value[:80]
    if tensor.datatype == "BYTES" and tensor.dims == (1,):
        return path.read_bytes() if path else value
    try:
        is_bytes = (tensor.datatype, tensor.dims) == ("UINT8", (-1,))
        if path and is_bytes and path.suffix not in (".json", ".npy"):
            return np.frombuffer(path.read_bytes(), np.uint8)
        if path and path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        return json.loads(path.read_text() if path else value)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{shown}: is neither JSON nor a file: {error}") from None
    except (EOFError, ValueError) as error:
        raise ValueError(f"{shown}: {error}") from None


def main(name: str) -> None:
    """Run the command line of a client by its package's name, and exit with one line if the call fails."""
    own: Any = import_module(name)
    tensors: Tensors = import_module(f"{name}.tensors")
    arguments = make_parser(name, tensors).parse_args()
    try:
        for line in _call(own, tensors, arguments):
            print(line)
    except (own.InferenceError, OSError, ValueError) as error:
        sys.exit(str(error))


def _call(own: Any, tensors: Tensors, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the text of each answer."""
    headers = dict(pair(text, "--header") for text in arguments.header)
    files = {name: getattr(arguments, name) for name in CERTIFICATES}
    tls = own.Tls(**files) if any(files.values()) else None
    with own.Client(arguments.url, timeout=arguments.timeout, headers=headers, tls=tls) as client:
        for answer in client.answers(read_inputs(arguments, tensors)):
            if arguments.format == "json":
                yield json.dumps(to_json(answer), ensure_ascii=False)
            else:
                yield table(answer, tensors.MAX_BATCH_SIZE > 0)
