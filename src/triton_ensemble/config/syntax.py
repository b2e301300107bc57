"""The text of a config.pbtxt: parsed, or refused as Triton's parser refuses it."""

from __future__ import annotations

import re

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]

from triton_ensemble import catalog
from triton_ensemble.config.message import ModelConfig, new_config
from triton_ensemble.config.problem import did_you_mean

ESCAPE = r"\\[abfnrtv?\\'\"0-7xuU]"
QUOTED = re.compile(rf"""#[^\n\0]*|"(?:[^"\\\n\0]|{ESCAPE})*"|'(?:[^'\\\n\0]|{ESCAPE})*'""")
# What Triton's parser refuses outside of comments and strings, and Python's accepts.
REFUSED_BY_TRITON = {
    r"\0": ("Unexpected end of string", "take the character 0 out"),
    r"[\"'#]": ("Invalid escape sequence in string literal", "write \\\\ for a backslash"),
    r"(?<![eE])\+|\b\d+_": ("Expected integer, got: {}", "write digits alone"),
    r"[^\t-\r -~]": ("Expected identifier, got: {}", "write ASCII outside of quotes"),
}


class ConfigSyntaxError(ValueError):
    """Raised where a text is no config: the line (from 1 on), what is wrong, what to write instead."""

    def __init__(self, line: int, what: str, instead: str) -> None:
        super().__init__(f"{line}: {what}; {instead}")
        self.line = line
        self.what = what
        self.instead = instead


def parse(text: str) -> ModelConfig:
    """Parse a text; ConfigSyntaxError where Triton's parser refuses it."""
    try:
        config = text_format.Parse(text, new_config())
    except text_format.ParseError as error:
        raise _syntax_error(error) from None
    bare = QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    for pattern, (what, instead) in REFUSED_BY_TRITON.items():
        if refused := re.search(pattern, bare):
            line = text.count("\n", 0, refused.start()) + 1
            raise ConfigSyntaxError(line, what.format(_visible(refused[0])), instead)
    return config


def _visible(word: str) -> str:
    return word if word.isascii() and word.isprintable() else f"U+{ord(word):04X}"


def _syntax_error(error: text_format.ParseError) -> ConfigSyntaxError:
    what = re.sub(r"^'.*?': (?=[A-Z])", "", re.sub(r"^\d+:\d+ : ", "", str(error))).rstrip(".")
    what = " ".join(what.split())
    unknown = re.search(r'(Message|Enum) type "([\w.]+)" has no .* named "?(\w+)', what)
    instead = "write it as Triton's model_config.proto has it"
    if unknown:
        instead = _spelling(*unknown.groups())
    elif re.search(r"(Couldn't parse|got|Expected) .*[${]$", what):
        instead = "fill in the placeholder first"
    elif what.endswith("\ufeff"):
        instead = "save it as UTF-8 without a byte-order mark"
    return ConfigSyntaxError(error.GetLine() or 1, what, instead)


def _spelling(kind: str, of: str, word: str) -> str:
    """Return the name in Triton's schema that a word was meant to be."""
    pool = new_config().DESCRIPTOR.file.pool
    if kind == "Message":
        return did_you_mean(word, pool.FindMessageTypeByName(of).fields_by_name, "take it out")
    names = pool.FindEnumTypeByName(of).values_by_name
    bare = word.upper().removeprefix("TYPE_")
    prefixed = f"TYPE_{catalog.table('aliases')['types'].get(bare, bare)}"
    if prefixed in names:
        return f"write {prefixed}"
    return did_you_mean(word, names, f"it has {', '.join(names)}")
