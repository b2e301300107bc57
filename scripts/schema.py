"""Write the JSON Schema of pipeline.yml, by which editors complete and check it, from the tables of the catalogue.

    PYTHONPATH=src python scripts/schema.py

It is the form of the answers, as hooks/validate/schema.jinja checks it. What JSON Schema has no words for is left to
that: names that are written twice, slips in the names of backends, and how the pipeline hangs together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from triton_ensemble.facts import catalog

SCHEMA = Path(__file__).resolve().parents[1] / "template" / "vendor" / "pipeline.schema.json"
TABLES = {
    name: catalog.table(name)
    for name in ("backends", "examples", "extras", "kinds", "releases", "types")
}
FIELDS, KINDS, TYPES = catalog.fields(), TABLES["kinds"], list(TABLES["types"])
TYPE_NAMES = {
    "flag": "boolean", "integer": "integer", "list": "array", "mapping": "object", "number": "number", "text": "string"
}  # fmt: skip
LEAST = {"string": "minLength", "array": "minItems", "object": "minProperties"}
EACH = {"array": "items", "object": "additionalProperties"}
KEYWORDS = {"pattern": "pattern", "from": "minimum", "to": "maximum", "longest": "maxLength"}
BOUND = [{"required": ["tensor"]}, {"required": ["type", "dims"]}]
STEPS = {"step", "shared step", "ensemble step"}

Schema = dict[str, Any]


def kind_schema(kind: str) -> Schema:
    """Return the schema of a kind of values; other kinds in it are references."""
    of = {"type": "list", "filled": True, "each": kind[8:]} if kind.startswith("list of ") else {}
    rule = of | KINDS.get(kind, {})
    schema = SPECIAL.get(kind) or by_rule(kind, rule)
    schema = {"anyOf": [{"enum": rule["also"]}, schema]} if "also" in rule else schema
    return schema | ({"description": rule["write"]} if "write" in rule else {})


def by_rule(kind: str, rule: Mapping[str, Any]) -> Schema:
    """Return the schema that a row of kinds.yml stands for."""
    if "choice" in rule:
        return {"enum": rule["choice"]}
    given = rule.get("type", "" if "forms" in rule else "mapping")
    types = [TYPE_NAMES[type] for type in given.split(" or ") if type]
    schema: Schema = {"type": types} if types else {}
    schema |= {word: rule[key] for key, word in KEYWORDS.items() if key in rule}
    if given in ("list", "mapping") and "longest" in rule:
        schema["maxItems" if given == "list" else "maxProperties"] = schema.pop("maxLength")
    if "pattern" in schema:
        schema["pattern"] = ecma(schema["pattern"])
    if "filled" in rule:
        schema |= {LEAST[type]: 1 for type in types if type in LEAST}
    if "forms" in rule:
        schema["allOf"] = list(by_type(rule["forms"]))
    elif "each" in rule:
        schema |= {EACH[type]: reference(rule["each"]) for type in types}
    elif given == "mapping":
        schema |= mapping(rule.get("fields", kind), rule.get("needs", []))
    if "key" in rule:
        schema["propertyNames"] = reference(rule["key"])
    return schema


def by_type(forms: Mapping[str, str]) -> Iterator[Schema]:
    """Yield what a value must be for each type that it may have."""
    named = {TYPE_NAMES[type]: kind for type, kind in forms.items() if type != "other"}
    for type, kind in named.items():
        yield {"if": {"type": type}, "then": reference(kind)}
    if "other" in forms:
        yield (
            if_has({"type": list(named)}, {}, reference(forms["other"]))
            if named
            else reference(forms["other"])
        )


def mapping(fields: str, needs: list[str]) -> Schema:
    properties = {field: reference(kind) for field, kind in FIELDS[fields].items()}
    return {"properties": properties, "additionalProperties": False, "required": needs}


def reference(kind: str) -> Schema:
    return {"$ref": f"#/definitions/{quote(kind)}"}


def ecma(pattern: str) -> str:
    """Return a pattern of Python's as JavaScript reads it."""
    if pattern.startswith("(?x)"):
        pattern = re.sub(r"(\[[^]]*\])|\s+", r"\1", pattern.removeprefix("(?x)"))
    return pattern.replace("\\Z", "$").replace("(?i:", "(?:")  # an editor knows small letters alone


def if_has(condition: Schema, then: Schema, otherwise: Schema) -> Schema:
    return {"if": condition, "then": then, "else": otherwise}


# The kinds that have a macro in hooks/validate/schema.jinja.
SPECIAL: dict[str, Schema] = {
    "any step": {
        "type": "object",
        **if_has(
            {"required": ["model"]},
            reference("shared step"),
            if_has(
                {"properties": {"backend": {"const": "ensemble"}}, "required": ["backend"]},
                reference("ensemble step"),
                reference("step"),
            ),
        ),
    },
    "backend": {"anyOf": [{"enum": list(TABLES["backends"])}, {"type": "string", "pattern": r"^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}|\$\{\w+\})$"}]},
    "binding": {"type": "object", **mapping("binding", []), "anyOf": BOUND},
    "config type": {"enum": [f"TYPE_{type}" for type in TYPES]},
    "extra": {"enum": list(TABLES["extras"])},
    "release": {"enum": list(TABLES["releases"])},
    "starting pipeline": {"enum": [*TABLES["examples"]]},
    "tensor text": {"type": "string", "pattern": rf"^\s*({'|'.join(TYPES)})\s*\[\s*{(size := '(-1|[1-9][0-9]*)')}(\s*,\s*{size})*\s*\]\s*$"},
    "type": {"enum": TYPES},
}  # fmt: skip


def text() -> str:
    """Return the schema as JSON, with a line for each kind: those of fields, of items and keys, and other forms."""
    kinds = {kind for of in FIELDS if of != "prompt" for kind in FIELDS[of].values()} | STEPS
    for rule in KINDS.values():
        kinds |= {rule[key] for key in ("each", "key") if key in rule} | {
            *rule.get("forms", {}).values()
        }
    kinds |= {kind.removeprefix("list of ") for kind in kinds}
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "pipeline.yml",
        "type": "object",
    }
    whole = json.dumps(head | mapping("answer", []))
    lines = [f"{json.dumps(kind)}: {json.dumps(kind_schema(kind))}" for kind in sorted(kinds)]
    return f'{whole[:-1]}, "definitions": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    SCHEMA.write_text(text())
