"""Tables of facts about Triton and of the words of refusals, which the template's hooks have: a YAML file each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

PACKAGE = Path(__file__).parents[1]
# Platforms that no backend of pipeline.yml stands for: they are in `config`, and this machine has a stand-in for each.
VERBATIM_PLATFORMS = ("tensorflow_graphdef", "torch_aoti")
LIBRARY = "libtriton_{}.so"  # of a backend
# Ten times as fast where there is libyaml.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Backend:
    """A row of backends.yml, whose head says what each column means."""

    file: str = ""
    needs_file: bool = False
    file_varies: bool = False
    device: str = ""
    local: str = ""
    declares: str = ""
    build: str = ""
    image: str = ""
    platform: str = ""
    until: str = ""
    must_declare: bool = False
    gpu: bool = False
    llm: bool = False
    is_offered: bool = True
    optional: str = "always"
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataType:
    """A row of types.yml. `bytes` is None for strings, whose size varies."""

    wire: str
    numpy: str
    bytes: int | None = None


@dataclass(frozen=True)
class Release:
    """A row of releases.yml."""

    triton: str
    python: str
    adds: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def template_root() -> Path:
    """Return the folder of `copier.yml` and `hooks/`: the package's own in a wheel, else the clone's."""
    clone = PACKAGE.parents[1]
    return clone if (clone / "copier.yml").is_file() else PACKAGE


@cache
def table(name: str) -> dict[str, Any]:
    """Return the table of a file as it is written, by the file's name without `.yml`."""
    text = (template_root() / f"hooks/catalog/{name}.yml").read_text(encoding="utf-8")
    rows: dict[str, Any] = yaml.load(text, LOADER)
    return rows


@cache
def fields() -> dict[str, dict[str, str]]:
    """Return the kind of each field of pipeline.yml, by the part of it that has the field."""
    return {
        part: {name: row["kind"] if isinstance(row, dict) else row for name, row in of.items()}
        for part, of in table("fields").items()
    }


@cache
def field_rows() -> dict[str, dict[str, Any]]:
    """Return the rows of fields that a field of config.pbtxt says."""
    rows = (item for of in table("fields").values() for item in of.items())
    return {name: row for name, row in rows if isinstance(row, dict)}


@cache
def backends() -> dict[str, Backend]:
    """Return Triton's backends by name."""
    return {name: Backend(**_hashable(row)) for name, row in table("backends").items()}


@cache
def read_data_types() -> dict[str, DataType]:
    """Return the data types by Triton's name without `TYPE_`."""
    return {name: DataType(**row) for name, row in table("types").items()}


@cache
def releases() -> dict[str, Release]:
    """Return the container releases by YY.MM, oldest first."""
    return {name: Release(**_hashable(row)) for name, row in table("releases").items()}


def read_backends_by_file() -> dict[str, str]:
    """Return the backend that Triton takes for each model file if a config names none, in Triton's order."""
    return table("files")


def read_backends_by_platform() -> dict[str, str]:
    """Return the backend of each platform."""
    return table("platforms")


def read_correlation_id_types() -> tuple[str, ...]:
    """Return the data types of a sequence's correlation id, without `TYPE_`."""
    return tuple(table("sequences")["correlation_id"])


def _hashable(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
