"""Work that the processes of a test run share: what Jinja compiles, which is most of a copy by Copier, and model files.

`shared_work.pth`, beside the packages of the environment, imports this module in each process of a test
run, if the variable SHARED_WORK names a folder for it. It changes no output of a process.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

VARIABLE = "SHARED_WORK"
FROM_TEMPLATE = b"# Yours: "  # how a model script of the template begins
BUILD_WITH = ("numpy", "onnx", "scikit-learn", "skl2onnx", "torch")
# All of a Jinja environment that its compiler reads, beside the extensions.
SETTINGS = (
    "block_start_string",
    "block_end_string",
    "variable_start_string",
    "variable_end_string",
    "comment_start_string",
    "comment_end_string",
    "line_statement_prefix",
    "line_comment_prefix",
    "trim_blocks",
    "lstrip_blocks",
    "newline_sequence",
    "keep_trailing_newline",
    "autoescape",
    "finalize",
    "sandboxed",
    "optimized",
    "is_async",
)


def compile_once(jinja: Any) -> None:
    """Let Jinja compile each template once, in any process."""
    compiled = jinja.Environment.compile
    known: dict[str, CodeType] = {}

    def compile(
        self: Any, source: Any, name: str | None = None, filename: str | None = None, **more: Any
    ) -> Any:
        folder = os.environ.get(VARIABLE)
        if not folder or more or not isinstance(source, str) or "{% yield" in source:
            return compiled(self, source, name, filename, **more)
        if name is None:  # a path or a question
            forget_yields(self)
        key = name_file(self, source, name)
        if key not in known:
            make = partial(compiled, self, source, name, filename)
            known[key] = read_or_write(os.path.join(folder, key), make)
        return rename(known[key], filename or "<template>")

    jinja.Environment.compile = compile


def forget_yields(environment: Any) -> None:
    """Do what it does to compile a path: forget what the path before it yields."""
    if copier := sys.modules.get("copier._jinja_ext"):
        yields = copier.get_yield_context(environment)
        yields.yield_name = yields.yield_iterable = None


def name_file(environment: Any, source: str, name: str | None) -> str:
    """Return the name of the file for the code of a template."""
    from hashlib import sha256

    settings = [getattr(environment, field) for field in SETTINGS]
    parts = (sys.version, settings, sorted(environment.extensions), name, source)
    return sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


def rename(code: CodeType, filename: str) -> CodeType:
    """Return the code as compiled from this file, which may be a copy of another."""
    if code.co_filename == filename:
        return code
    inner = (rename(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=filename, co_consts=tuple(inner))


def read_or_write(path: str, make: Callable[[], CodeType]) -> CodeType:
    """Return the code in a file. Where there is none, make it and write it."""
    with suppress(OSError), open(path, "rb") as file:
        code: CodeType = marshal.load(file)
        return code
    code, part = make(), f"{path}.{os.getpid()}"
    with suppress(OSError):  # a test may fill the disk
        with open(part, "wb") as file:
            marshal.dump(code, file)
        os.replace(part, path)
    return code


def load_once(yaml: Any) -> None:
    """Let each process read a YAML text once."""
    load, read = yaml.safe_load, remember(yaml.safe_load)
    yaml.safe_load = lambda stream: (read if isinstance(stream, str) else load)(stream)


def remember(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives a new copy of what `read` returned for this text, or for other arguments with it."""
    import pickle

    known: dict[Any, bytes] = {}

    def remembered(text: Any, *arguments: Any) -> Any:
        if text not in known:
            known[text] = pickle.dumps(read(*(arguments or [text])))
        return pickle.loads(known[text])

    return remembered


def clone_once(template: Any) -> None:
    """Let each process check out a version of a local template once: an update asks for five clones."""
    import subprocess
    from tempfile import TemporaryDirectory

    clone, known = template.clone, dict[tuple[str, str, bytes], TemporaryDirectory[str]]()

    def clone_once(url: str, ref: str, location: str) -> str:
        if ref == "HEAD" or not os.path.isdir(
            url
        ):  # with changes that are not committed, or elsewhere
            return str(clone(url, ref, location))
        refs = subprocess.run(["git", "-C", url, "show-ref"], capture_output=True).stdout
        kept = known.pop((url, ref, refs), None)
        if kept is None or not os.path.isdir(kept.name):  # a fork may have removed it
            kept = TemporaryDirectory(dir=os.path.dirname(location), ignore_cleanup_errors=True)
            clone(url, ref, kept.name)
        known[url, ref, refs] = kept
        if len(known) > 4:
            known.pop(next(iter(known))).cleanup()
        return kept.name

    load = template.load_template_config
    read = remember(load)
    template.clone = clone_once
    template.load_template_config = lambda path, *more: read(path.read_bytes(), path, *more)


def render_once(copier: Any) -> None:
    """Compute once what all paths and files of a copy are rendered with, which Copier does for each part of a path.

    Start no git process for each file either: Copier does for file systems that know no executable files.
    """
    worker = copier.Worker
    render, find_answers = worker._render_template, worker.answers_relpath.fget

    def render_template(self: Any) -> None:
        path, context = self.answers_relpath, self._render_context()
        self.__dict__ |= {"answers_path": path, "_render_context": lambda: {**context}}
        try:
            render(self)
        finally:
            del self.__dict__["answers_path"], self.__dict__["_render_context"]

    def read_answers_path(self: Any) -> Any:
        if "answers_path" not in self.__dict__:
            return find_answers(self)
        forget_yields(self.jinja_env)
        return self.__dict__["answers_path"]

    worker._render_template = render_template
    worker.answers_relpath = property(read_answers_path)
    if hasattr(worker, "_sync_git_index_executable_bit"):
        worker._sync_git_index_executable_bit = lambda *_: None


def build_once(model_files: Any) -> None:
    """Let the model scripts that a project has from its template build each file once, in any process."""
    import shutil

    build = model_files._build

    def build_once(script: Any, path: Any, root: Any) -> None:
        folder = os.environ.get(VARIABLE)
        if not folder or not script.exists() or not script.read_bytes().startswith(FROM_TEMPLATE):
            build(script, path, root)
            return
        kept = os.path.join(folder, name_model(script, path.name))
        if os.path.isdir(kept):
            shutil.copytree(kept, path.parent, dirs_exist_ok=True)
            return
        build(script, path, root)
        with suppress(OSError):  # another process may have built it meanwhile
            shutil.copytree(path.parent, f"{kept}.{os.getpid()}")
            os.rename(f"{kept}.{os.getpid()}", kept)

    model_files._build = build_once


def name_model(script: Any, file: str) -> str:
    """Return the name of the folder for what a script builds: by all that it may import, and the packages that build."""
    from hashlib import sha256
    from importlib.metadata import PackageNotFoundError, version

    versions = []
    for package in BUILD_WITH:
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    root = script.parent.parent
    files = (path for name in ("models", "steps") for path in root.joinpath(name).rglob("*"))
    texts = sorted(
        (str(path.relative_to(root)), path.read_bytes())
        for path in files
        if path.is_file() and path.suffix != ".pyc"
    )
    parts = (sys.version, versions, texts, script.name, file)
    return f"model-{sha256(repr(parts).encode()).hexdigest()}"


CHANGES = {
    "copier._main": render_once,
    "copier._template": clone_once,
    "jinja2.environment": compile_once,
    "triton_ensemble.serve.model_files": build_once,
    "yaml": load_once,
}


class Finder:
    """Find the modules of CHANGES, and change each as soon as it is imported."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where a module is, with a loader that changes it."""
        spec = PathFinder.find_spec(name, path, target) if name in CHANGES else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == name:  # an archive has one loader for all modules of a package
                CHANGES[name](module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Change the modules that this process will import."""
    sys.meta_path.insert(0, Finder)
