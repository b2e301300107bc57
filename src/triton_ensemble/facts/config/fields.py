"""Fields of a config.pbtxt and their lines in the file, which the parsed message does not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]

Part = str | tuple[str, int | str]  # NAME, (NAME, index) or, in a map, (NAME, key)
CLOSING = {"{": "}", "<": ">"}


@dataclass
class Field:
    """A field as it is written: its line (from 1 on), and its value or the fields inside it."""

    name: str
    line: int
    value: str = ""
    inside: list[Field] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The key of an entry of a map, or an empty text if it has none."""
        return next((each.value for each in self.inside if each.name == "key"), "")

    @cached_property
    def _found(self) -> dict[object, list[Field]]:
        """The fields inside by their name and, in a map, by name and key: a check asks for each of many."""
        found = defaultdict[object, list[Field]](list)
        for each in self.inside:
            found[each.name].append(each)
            found[each.name, each.key].append(each)
        return dict(found)

    def find_fields(self, name: str) -> list[Field]:
        """Return the fields of this name inside it."""
        return self._found.get(name, [])

    def line_of(self, *path: Part) -> int:
        """Return the line of the last part of a path that is written."""
        current = self
        for part in path:
            name, which = part if isinstance(part, tuple) else (part, 0)
            fields = current.find_fields(name)
            if isinstance(which, str):
                fields, which = current._found.get(part, []), -1
            if not -len(fields) <= which < len(fields):
                break
            current = fields[which]
        return current.line

    def walk(self) -> Iterator[Field]:
        """Iterate over this field and all inside it, each before its own."""
        yield self
        for each in self.inside:
            yield from each.walk()


def fields_of(text: str) -> Field:
    """Return the fields of a text that parses, in a field without a name."""
    tokens = text_format.Tokenizer(text.split("\n"))
    return Field("", 1, inside=list(_fields(tokens, "")))


def _fields(tokens: text_format.Tokenizer, closing: str) -> Iterator[Field]:
    while not (tokens.TryConsume(closing) if closing else tokens.AtEnd()):
        line = _line(tokens)
        name = tokens.ConsumeIdentifierOrNumber()
        tokens.TryConsume(":")
        if tokens.TryConsume("["):
            while not tokens.TryConsume("]"):
                yield _field(tokens, name, _line(tokens))
                tokens.TryConsume(",")
        else:
            yield _field(tokens, name, line)
        if not tokens.TryConsume(","):
            tokens.TryConsume(";")


def _field(tokens: text_format.Tokenizer, name: str, line: int) -> Field:
    token = tokens.token
    if token in CLOSING:
        tokens.NextToken()
        return Field(name, line, inside=list(_fields(tokens, CLOSING[token])))
    if token[:1] in ("'", '"'):
        return Field(name, line, tokens.ConsumeString())
    tokens.NextToken()
    if token == "-":
        token += tokens.token
        tokens.NextToken()
    return Field(name, line, token)


def _line(tokens: text_format.Tokenizer) -> int:
    """Return the line of the next token, which only the tokenizer's errors say."""
    line: int = tokens.ParseError("").GetLine()
    return line
