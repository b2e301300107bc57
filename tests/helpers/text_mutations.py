"""Random changes of a config.pbtxt, as a slip of the hand makes them; most of the texts still parse."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from google.protobuf import text_format  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

TOKEN = re.compile(r"""#[^\n]*\n|"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|-?\d[\w.]*|\s+|[^\s\w]""")
NUMBERS = ["-2", "-1", "0", "1", "2", "3", "4", "8", "16", "99999999999"]
TYPES = ["TYPE_FP32", "TYPE_INT64", "TYPE_STRING", "TYPE_BOOL", "TYPE_INVALID", "FP32"]
MORE = [
    "instance_group { kind: KIND_CPU }",
    "instance_group { count: 2 }",
    "optimization { }",
    "dynamic_batching { }",
    "dynamic_batching { preferred_batch_size: [ 4 ] }",
    "dynamic_batching { priority_levels: 2 default_priority_level: 3 }",
    "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
    "sequence_batching { }",
    "sequence_batching { oldest { preferred_batch_size: 64 } }",
    "response_cache { enable: true }",
    "model_transaction_policy { decoupled: true }",
    "version_policy { all { } }",
    "version_policy { latest { num_versions: 2 } }",
    "version_policy { specific { versions: [ 2 ] } }",
    "max_batch_size: 4",
    'platform: "ensemble"',
    'backend: "python"',
    'name: "other"',
    'parameters { key: "a" value { string_value: "b" } }',
    'parameters { key: "a" value: "b" }',
    'input { name: "more" data_type: TYPE_FP32 dims: [ 1 ] }',
    'output { name: "more" data_type: TYPE_FP32 dims: [ 1 ] }',
    'model_warmup { name: "w" batch_size: 1 }',
    "ensemble_scheduling { }",
    "dims: [ 1 ]",
]
CHARACTERS = "\u00a0\u0664é\x1c\0\\\"'#+-_.,;:<>[]{}01xe"


class Text:
    """A config's text, cut in tokens."""

    def __init__(self, chance: random.Random, text: str) -> None:
        self.chance = chance
        self.tokens = TOKEN.findall(text)

    def where(self, pattern: str) -> list[int]:
        return [i for i, token in enumerate(self.tokens) if re.fullmatch(pattern, token)]

    def replace(self, pattern: str, choices: list[str]) -> None:
        if (places := self.where(pattern)) and choices:
            self.tokens[self.chance.choice(places)] = self.chance.choice(choices)

    def number(self) -> None:
        self.replace(r"-?\d.*", NUMBERS)

    def type(self) -> None:
        self.replace(r"TYPE_.*", TYPES)

    def another_text(self) -> None:
        self.replace('".*"', [self.tokens[i] for i in self.where('".*"')])

    def a_letter_of_a_text(self) -> None:
        if places := self.where('".+"'):
            i = self.chance.choice(places)
            at = self.chance.randrange(1, len(self.tokens[i]))
            text = self.tokens[i]
            self.tokens[i] = (
                text[:at] + self.chance.choice(["x", text[at - 1 : at].strip('"\\')]) + text[at:]
            )

    def a_character(self) -> None:
        i = self.chance.randrange(len(self.tokens))
        at = self.chance.randrange(len(self.tokens[i]) + 1)
        text = self.tokens[i]
        self.tokens[i] = text[:at] + self.chance.choice(CHARACTERS) + text[at:]

    def another_word(self) -> None:
        self.replace("[a-z_]+", [self.tokens[i] for i in self.where("[a-z_]+")])

    def no_token(self) -> None:
        del self.tokens[self.chance.choice(self.where(r"\S+"))]

    def no_line(self) -> None:
        lines = "".join(self.tokens).splitlines(keepends=True)
        del lines[self.chance.randrange(len(lines))]
        self.tokens = lines

    def a_line_twice(self) -> None:
        lines = "".join(self.tokens).splitlines(keepends=True)
        i = self.chance.randrange(len(lines))
        self.tokens = [*lines[:i], lines[i], *lines[i:]]

    def block(self) -> tuple[int, int] | None:
        """Return where a block is, from a field's name to its closing brace."""
        blocks = []
        for start in self.where(r"\{"):
            depth = 0
            for end in range(start, len(self.tokens)):
                depth += {"{": 1, "}": -1}.get(self.tokens[end], 0)
                if not depth:
                    break
            name = max((i for i in self.where(r"[a-z_]+") if i < start), default=start)
            blocks.append((start if "," in self.tokens[name:start] else name, end + 1))
        return self.chance.choice(blocks) if blocks else None

    def no_block(self) -> None:
        if block := self.block():
            del self.tokens[slice(*block)]

    def a_block_twice(self) -> None:
        if block := self.block():
            start, end = block
            self.tokens[end:end] = ["\n", *self.tokens[start:end], "\n"]

    def one_more_field(self) -> None:
        self.tokens += [self.chance.choice(MORE), "\n"]


KINDS: list[Callable[[Text], None]] = [
    value
    for name, value in vars(Text).items()
    if name not in ("where", "replace", "block") and name[0] != "_"
]


def parses(text: str) -> bool:
    try:
        text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError:
        return False
    return True


def mutated(chance: random.Random, text: str) -> tuple[str, str]:
    """Return what was done, and the text that it gives, which differs; of those that do not parse, one in four."""
    while True:
        mutant, kind = Text(chance, text), chance.choice(KINDS)
        kind(mutant)
        after = "".join(mutant.tokens)
        if after != text and (parses(after) or chance.random() < 0.25):
            return kind.__name__, after
