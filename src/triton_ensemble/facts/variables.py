"""Readings of variables of make's command line or the shell, each with what to write in place of a wrong one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from triton_ensemble.facts.project import ProjectError


def split_words(variable: str, text: str) -> list[str]:
    """Return the words of a variable as a shell reads them, or raise ProjectError if a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ProjectError(f"{variable}: {error}; write {text} with its quotes closed") from None


def read_docker(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return the words of DOCKER, the program that builds images and starts containers."""
    return split_words("DOCKER", variables.get("DOCKER", "")) or ["docker"]


def read_port(variable: str, usual: int, variables: Mapping[str, str] = os.environ) -> int:
    """Return the port that a variable names, or the usual one. Raise ProjectError if it is not a port."""
    text = variables.get(variable) or str(usual)
    if not (text.isascii() and text.isdigit() and int(text) < 2**16):
        raise ProjectError(f"{variable} is {text}; write a port, 1 to 65535, or 0 for a free one")
    return int(text)
