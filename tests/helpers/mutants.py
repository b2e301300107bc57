"""Mutants of model repositories: each has one thing changed, in a field, in the wiring, in text or in folders."""

from __future__ import annotations

import json
import random

from documented_mutations import MEANINGS, Mutations
from served_shapes import MODEL, Draft, Files
from text_mutations import mutated as mistyped


def rewritten(chance: random.Random, text: str) -> str:
    """Return the text of a config with another way to write the same, or what looks like one."""
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    line = lines[place]
    number = chance.choice(
        [
            "0x4",
            "04",
            "4.0",
            "4.5",
            "- 1",
            "+4",
            "1e1",
            "4u",
            "99999999999",
            "-1",
            '"4"',
            "four",
            "true",
        ]
    )
    changed = chance.choice([
        "", line * 2, line.replace(":", "", 1), line.replace(":", "=", 1), line.replace('"', "", 1),
        line.replace('"', "'"), line.rstrip() + " # \u00e4\n", line.rstrip() + " // no\n", line.rstrip() + ",\n",
        line.rstrip() + ";\n", line.rstrip() + ",,\n", line.replace("{", "", 1), line.replace("}", "", 1),
        line.replace("{", "<"), line.replace("_", "", 1), line.upper(), line.replace("TYPE_", ""),
        line.replace("FP32", "FLOAT32"), line.replace("INT32", "INT"), line.replace("{", ": {", 1),
        line[: line.find(":") + 1] + f" {number}\n" if ":" in line else line.replace("{", "[", 1),
        line[: line.find(":") + 1] + f" {number}\n" if ":" in line else line.replace("{", "[", 1),
        line.rstrip("\n") + " ", line + "unknown_field: 1\n", line + "}\n", line.replace('"', '"\\x', 1),
        line.replace(": ", ":\n"), line.replace("\n", "\r\n"), line + "\u00a0", '"a" ' + line, line.replace("true", "True"),
        line.replace("true", "yes").replace("false", "no"), line.replace("true", "t").replace("false", "f"),
        line.replace('"', '""', 1), line.replace('"\n', '" "x"\n'), line.replace('"\n', '\\n"\n'),
    ])  # fmt: skip
    return "".join([*lines[:place], changed, *lines[place + 1 :]])


def in_bytes(chance: random.Random, content: bytes) -> bytes:
    place = chance.randrange(len(content))
    return chance.choice([
        b"", b"\xef\xbb\xbf" + content, content.replace(b"\n", b"\r\n"), content[:place], content + b"\0",
        content[:place] + b"\xff" + content[place:], content + b"# \xe4\n", b"\n\n" + content, content.replace(b"\n", b" "),
    ])  # fmt: skip


MODELS = (
    b"class TritonPythonModel:\n    pass\n",
    b"def execute(requests):\n    return []\n",
    b"",
    MODEL.replace(b"class TritonPythonModel", b"class Model"),
    MODEL.replace(b"def execute", b"def run"),
    MODEL.replace(b"def execute(self, requests)", b"def execute(self, requests"),
    MODEL.replace(b"\n", b"\r\n"),
    MODEL + b"\n\nclass Other:\n    pass\n",
    b"# \xe4\n" + MODEL,
    MODEL.replace(b"    def initialize(self, args):\n", b"    async def initialize(self, args):\n"),
    MODEL.replace(b"class TritonPythonModel:", b"class Base:")
    + b"\n\nclass TritonPythonModel(Base):\n    pass\n",
    b"if True:\n" + b"".join(b"    " + line + b"\n" for line in MODEL.splitlines()),
)


def moved(files: Files, old: str, new: str) -> Files:
    """Return the files with another beginning of some paths."""
    return {
        new + path.removeprefix(old) if path.startswith(old) else path: c
        for path, c in files.items()
    }


def in_folders(chance: random.Random, draft: Draft, files: Files) -> Files:
    """Return the files of a repository with something else in its folders."""
    name = chance.choice(sorted(draft.configs))
    config, version = f"{name}/config.pbtxt", f"{name}/1/"
    model = f"{version}model.py"
    code = {model: chance.choice(MODELS)} if model in files else {}
    without = [
        {path: c for path, c in files.items() if not path.startswith(gone)}
        for gone in (config, version, name)
    ]
    return chance.choice([
        *without,
        *(moved(files, version, f"{name}/{new}/") for new in ("2", "0", "01", "one", "-1", "1a", "1.5", "99999999999")),
        *(files | {f"{name}/{new}/model.py": MODEL} for new in ("2", "3", "0", "v2", "__pycache__")),
        *[files | code] * 6,
        moved(files, model, f"{version}main.py"), moved(files, config, f"{name}/config.pb"), moved(files, config, f"{name}/1/config.pbtxt"),
        *(moved(files, f"{name}/", f"{name}{more}/") for more in ("x", "-2", ".v2", "\u00e4")),
        files | {f"{name}/README.md": b"words"}, files | {f"{name}/configs/a.pbtxt": files[config]},
        files | {f"{version}helper.py": b"import"}, files | {f"{version}labels.txt": b"a"},
    ])  # fmt: skip


KINDS = {
    "a_field": 40,
    "meaning": 35,
    "text": 8,
    "slip": 8,
    "bytes": 1,
    "folders": 8,
}  # and how often


def mutated(chance: random.Random, draft: Draft) -> tuple[str, Files]:
    """Return what was changed, and all files of the mutant."""
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    if kind in ("a_field", "meaning"):
        mutations = Mutations(chance, draft)
        kind = "a_field" if kind == "a_field" else chance.choice(MEANINGS)
        getattr(mutations, kind)()
        return kind, draft.texts()
    files = draft.texts()
    if kind == "folders":
        return kind, in_folders(chance, draft, files)
    path = chance.choice([path for path in sorted(files) if path.endswith(".pbtxt")])
    if kind == "bytes":
        return kind, files | {path: in_bytes(chance, files[path])}
    text = files[path].decode()
    if kind == "slip":
        kind, after = mistyped(chance, text)
    else:
        after = rewritten(chance, text)
    return kind, files | {path: after.encode("utf-8", "surrogatepass")}


def shown(before: Files, after: Files) -> str:
    """Return what differs, for people."""
    parts = []
    for path in sorted(before.keys() | after.keys()):
        one, two = before.get(path), after.get(path)
        if one is None or two is None:
            parts.append(f"{'+' if one is None else '-'}{path}")
        elif one != two:
            lines = (
                one.decode(errors="replace").splitlines(),
                two.decode(errors="replace").splitlines(),
            )
            changed = [f"-{line.strip()}" for line in lines[0] if line not in lines[1]] + [
                f"+{line.strip()}" for line in lines[1] if line not in lines[0]
            ]
            parts.append(f"{path}: {json.dumps(changed[:12], ensure_ascii=False)}")
    return "; ".join(parts)[:600]
