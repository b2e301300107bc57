"""The text of a config.pbtxt: parsed, or refused as Triton's parser refuses it."""

from __future__ import annotations

import re

from google.protobuf import text_encoding, text_format  # type: ignore[import-untyped, unused-ignore]

from triton_ensemble.facts import catalog
from triton_ensemble.facts.config.message import ModelConfig, new_config
from triton_ensemble.facts.config.problem import did_you_mean

ESCAPE = r"\\[abfnrtv?\\'\"0-7xuU]"
QUOTED = re.compile(rf"""#[^\n\0]*|"(?:[^"\\\n\0]|{ESCAPE})*"|'(?:[^'\\\n\0]|{ESCAPE})*'""")
# What Triton's parser reads outside of comments and strings, and Python's only as the second has it.
READ_BY_TRITON = {
    r"-(\s+)(?=[\d.])": r"\1-",  # `- 1`
    r"(?<![\w.])0[xX]?0*(?=[01](?![\w.]))": "",  # `01` and `0x1`, of a flag too
}
# Escapes in strings that may be no UTF-8: of bytes, halves of UTF-16's pairs, numbers of no character. Triton takes bytes.
BYTE_ESCAPE = re.compile(
    r"(?<!\\)((?:\\\\)*)\\"
    r"([2-7][0-7]{2}|[xX][89a-fA-F][0-9a-fA-F]|u[dD][89a-fA-F][0-9a-fA-F]{2}|U001[1-9a-fA-F][0-9a-fA-F]{4})"
)
PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
# What Triton's parser refuses outside of comments and strings, and Python's accepts.
REFUSED_BY_TRITON = {
    r"\b0[bBoO]\w+": ("Expected integer, got: {}", "write the number with ten digits, or as 0x..."),
    r"\0": ("Unexpected end of string", "remove the character 0"),
    r"[\"'#]": ("Invalid escape sequence in string literal", "write \\\\ for a backslash"),
    r"(?<![eE])\+|\b\d+_": ("Expected integer, got: {}", "write digits alone"),
    r"[^\t-\r -~]": ("Expected identifier, got: {}", "write ASCII outside of quotes"),
}


class ConfigSyntaxError(ValueError):
    """Raised for a text that is not a config: the line (from 1 on), what is wrong, what to write instead."""

    def __init__(self, line: int, what: str, instead: str) -> None:
        super().__init__(f"{line}: {what}; {instead}")
        self.line = line
        self.what = what
        self.instead = instead


def readable(text: str) -> str:
    """Return a text in the form in which Python's parser reads what Triton's does.

    Each field stays on its line.
    """
    parts, end = list[str](), 0
    for quoted in QUOTED.finditer(text):
        parts += [_rewritten(text[end : quoted.start()]), _to_utf8(quoted[0])]
        end = quoted.end()
    return "".join([*parts, _rewritten(text[end:])])


def has_comments(text: str) -> bool:
    """Return whether a config has comments, which its parsed message does not keep."""
    return any(quoted[0].startswith("#") for quoted in QUOTED.finditer(text))


def _rewritten(bare: str) -> str:
    for pattern, instead in READ_BY_TRITON.items():
        bare = re.sub(pattern, instead, bare)
    return bare


def _to_utf8(quoted: str) -> str:
    """Return a string without escapes of bytes that are not UTF-8, which Triton accepts."""
    try:
        text_encoding.CUnescape(quoted).decode()
    except UnicodeError:
        return BYTE_ESCAPE.sub(r"\1?", PAIR.sub(_join_pair, quoted))
    return quoted


def _join_pair(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16) - 0xD800, int(pair[3], 16) - 0xDC00
    return f"{pair[1]}\\U{0x10000 + (high << 10) + low:08x}"


def parse(text: str) -> ModelConfig:
    """Parse a readable text, or raise ConfigSyntaxError if Triton's parser refuses it."""
    try:
        config = text_format.Parse(text, new_config())
    except text_format.ParseError as error:
        raise _make_syntax_error(error) from None
    bare = QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    for pattern, (what, instead) in REFUSED_BY_TRITON.items():
        if refused := re.search(pattern, bare):
            line = text.count("\n", 0, refused.start()) + 1
            raise ConfigSyntaxError(line, what.format(_make_visible(refused[0])), instead)
    return config


def _make_visible(word: str) -> str:
    return word if word.isascii() and word.isprintable() else f"U+{ord(word):04X}"


def _make_syntax_error(error: text_format.ParseError) -> ConfigSyntaxError:
    what = re.sub(r"^'.*?': (?=[A-Z])", "", re.sub(r"^\d+:\d+ : ", "", str(error))).rstrip(".")
    what = " ".join(what.split())
    unknown = re.search(r'(Message|Enum) type "([\w.]+)" has no .* named "?(\w+)', what)
    instead = "write it as Triton's model_config.proto has it"
    if unknown:
        instead = _suggest_spelling(*unknown.groups())
    elif re.search(r"(Couldn't parse|got|Expected) .*[${]$", what):
        instead = "fill in the placeholder first"
    elif what.endswith("\ufeff"):
        instead = "save it as UTF-8 without a byte-order mark"
    return ConfigSyntaxError(error.GetLine() or 1, what, instead)


def _suggest_spelling(kind: str, of: str, word: str) -> str:
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
