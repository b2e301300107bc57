# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Call the ensemble from a shell: `python -m PACKAGE infer --help` lists its inputs."""

import argparse
import json
import os
import re
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from .client import Client
from .runtime.errors import InferenceError
from .runtime.printing import table, to_json
from .runtime.transport import Tls
from .tensors import INPUTS, MAX_BATCH_SIZE, MODEL, URL, Tensor

CERTIFICATES = [field.name for field in fields(Tls)]
OWN = {"format", "header", "help", "input", "timeout", "url"}
OWN |= {name.replace("_", "-") for name in CERTIFICATES}
VALUES = """\
A value is a row: for several rows, repeat the option. For a text, give the text or the name of a file
that contains it; `@NAME` is always a file. Write numbers, or several texts in a row, as JSON, such as
'[1, 2, 3]', or name a .json or .npy file. For UINT8[-1], any other file stands for its bytes.
"""


def options() -> dict[str, str]:
    """Return inputs by their option: MERCHANT_NAME by --merchant-name, if no other option has that name."""
    words = {name: re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in INPUTS}
    count = Counter(words.values())
    return {
        f"--{word}": name
        for name, word in words.items()
        if word and count[word] == 1 and word not in OWN
    }


def parser() -> argparse.ArgumentParser:
    program = f"python -m {__package__}"
    parser = argparse.ArgumentParser(prog=program, description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="infer")
    infer = commands.add_parser("infer", description=f"Calls {MODEL}. {VALUES}", allow_abbrev=False)
    add = infer.add_argument
    url = os.environ.get("TRITON_URL", URL)
    add("--url", default=url, help=f"the server's URL, by default TRITON_URL or {URL}")
    add("--timeout", type=float, default=60.0, metavar="SECONDS", help="%(default)s by default")
    add("--header", action="append", default=[], metavar="NAME=VALUE", help="sent with the request")
    for name in CERTIFICATES:
        add(f"--{name.replace('_', '-')}", metavar="FILE", help="PEM, for https:// and grpcs://")
    add("--format", choices=["table", "json"], default="table", help="%(default)s by default")
    add("--input", action="append", default=[], metavar="NAME=VALUE", help="any input, by name")
    for option, name in options().items():
        tensor = INPUTS[name]
        text = f"{name}, {tensor.datatype}{list(tensor.dims)}{', optional' * tensor.optional}"
        text = text.replace("%", "%%").replace("BYTES", "STRING")
        add(option, action="append", default=[], dest=f"input {name}", metavar="VALUE", help=text)
    return parser


def pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{option} {text}: write NAME=VALUE")
    return name, value


def inputs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the command line by input: a list of rows, or one row without a batch dimension."""
    given = {name: list(vars(arguments).get(f"input {name}", [])) for name in INPUTS}
    for text in arguments.input:
        name, value = pair(text, "--input")
        given.setdefault(name, []).append(value)
    rows = {}
    for name, values in given.items():
        read = [row(INPUTS[name], value) if name in INPUTS else value for value in values]
        if not MAX_BATCH_SIZE and len(read) > 1:
            raise ValueError(f"{name}: give it once; {MODEL} does not take batches")
        if read:
            rows[name] = read if MAX_BATCH_SIZE else read[0]
    return rows


def row(tensor: Tensor, value: str) -> Any:
    """Return the row that a value of the command line stands for; raise OSError or ValueError."""
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


def main() -> None:
    arguments = parser().parse_args()
    try:
        headers = dict(pair(text, "--header") for text in arguments.header)
        files = {name: getattr(arguments, name) for name in CERTIFICATES}
        tls = Tls(**files) if any(files.values()) else None
        with Client(arguments.url, timeout=arguments.timeout, headers=headers, tls=tls) as client:
            for answer in client.answers(inputs(arguments)):
                in_json = arguments.format == "json"
                print(json.dumps(to_json(answer), ensure_ascii=False) if in_json else table(answer))
    except (InferenceError, OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
