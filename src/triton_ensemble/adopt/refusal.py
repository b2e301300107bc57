"""What adopting a repository ends with where Triton or the template refuses it."""

from __future__ import annotations


class Refused(Exception):
    """A repository that Triton would refuse: where, what is wrong, what to write instead."""

    def __init__(self, where: str, what: str, instead: str) -> None:
        super().__init__(f"{where}: {what}; {instead}".replace("\n", " "))


def config_of(folder: str) -> str:
    """Return the path of a model's config in its repository."""
    return f"{folder}/config.pbtxt"
