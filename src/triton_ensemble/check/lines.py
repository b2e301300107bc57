"""Where each field of a config.pbtxt stands, and what the parsed form hides: map keys that are written twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]

Part = str | tuple[str, int | str]
CLOSING = {"{": "}", "<": ">"}
ESCAPE = r"\\[abfnrtv?\\'\"0-7xuU]"
QUOTED = re.compile(rf"""#[^\n\0]*|"(?:[^"\\\n\0]|{ESCAPE})*"|'(?:[^'\\\n\0]|{ESCAPE})*'""")
# What Triton's parser refuses outside of comments and texts, and Python's takes.
STRANGE = {
    r"\0": ("Unexpected end of string", "take the character 0 out"),
    r"[\"'#]": ("Invalid escape sequence in string literal", "write \\\\ for a backslash"),
    r"(?<![eE])\+|\b\d+_": ("Expected integer, got: {}", "write digits alone"),
    r"[^\t-\r -~]": ("Expected identifier, got: {}", "write ASCII outside of quotes"),
}


@dataclass
class Lines:
    """A field as it is written: its line, its value or the fields inside it."""

    name: str
    line: int
    value: str = ""
    inside: list[Lines] = field(default_factory=list)

    def named(self, name: str) -> list[Lines]:
        return [each for each in self.inside if each.name == name]

    def key(self) -> str:
        """Of an entry of a map."""
        return next((each.value for each in self.named("key")), "")

    def at(self, *path: Part) -> int:
        """The line of the last part of a path that is written: NAME, (NAME, index) or, in a map, (NAME, key)."""
        found = self
        for part in path:
            name, which = part if isinstance(part, tuple) else (part, 0)
            fields = found.named(name)
            if isinstance(which, str):
                fields, which = [each for each in fields if each.key() == which], -1
            if not -len(fields) <= which < len(fields):
                break
            found = fields[which]
        return found.line

    def walk(self) -> Iterator[Lines]:
        yield self
        for each in self.inside:
            yield from each.walk()


def lines(text: str) -> Lines:
    """Of a text that parses."""
    tokens = text_format.Tokenizer(text.split("\n"))
    return Lines("", 1, inside=list(fields(tokens, "")))


def strange(text: str) -> tuple[int, str, str] | None:
    """The line of what Triton's parser does not take, though Python's does; what it is, and what to do."""
    bare = QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    for pattern, (what, instead) in STRANGE.items():
        if found := re.search(pattern, bare):
            return text.count("\n", 0, found.start()) + 1, what.format(visible(found[0])), instead
    return None


def visible(word: str) -> str:
    return word if word.isascii() and word.isprintable() else f"U+{ord(word):04X}"


def fields(tokens: text_format.Tokenizer, closing: str) -> Iterator[Lines]:
    while not (tokens.TryConsume(closing) if closing else tokens.AtEnd()):
        line = tokens.ParseError("").GetLine()
        name = tokens.ConsumeIdentifierOrNumber()
        tokens.TryConsume(":")
        if tokens.TryConsume("["):
            while not tokens.TryConsume("]"):
                yield value(tokens, name)
                tokens.TryConsume(",")
        else:
            yield value(tokens, name, line)
        if not tokens.TryConsume(","):
            tokens.TryConsume(";")


def value(tokens: text_format.Tokenizer, name: str, line: int = 0) -> Lines:
    line = line or tokens.ParseError("").GetLine()
    token = tokens.token
    if token in CLOSING:
        tokens.NextToken()
        return Lines(name, line, inside=list(fields(tokens, CLOSING[token])))
    if token[:1] in ("'", '"'):
        return Lines(name, line, tokens.ConsumeString())
    tokens.NextToken()
    if token == "-":
        token += tokens.token
        tokens.NextToken()
    return Lines(name, line, token)
