"""The rule step-signature finds what the adapter would refuse when Triton loads a step, and nothing else."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from textwrap import indent

import pytest
from support import PIPELINES, UNUSUAL, Generate, Project

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.rules.engine import check

CONFIG = 'backend: "python"\ninput { name: "A" data_type: TYPE_FP32 dims: [4] }\noutput { name: "B" data_type: TYPE_FP32 dims: [4] }\n'
SEQUENCE = f"max_batch_size: 8\n{CONFIG}sequence_batching {{ }}\n"
CLASS = "class Step:\n    def __init__(self, context): ...\n\n"

BAD = f"{CLASS}    def __call__(self): ...\n\n"  # but for what follows
LACKS_X = "lacks the input X that pipeline.yml gives it"
OTHERS = "takes other arguments than it is given"
# By the definition, of a step with the inputs A and X: what is wrong with it.
DEFINITIONS = {
    "def __call__(self, A, X)": "",
    "def __call__(self, X, A)": "",
    "def __call__(self, A: int, *, X: 'int')": "",
    "def __call__(self, *, X, A)": "",
    "def __call__(self, A, X=None)": "",
    "def __call__(self, A, X, more=1)": "",
    "def __call__(self, A, X, *, more=1)": "",
    "def __call__(this, A, X, *rest)": "",
    "def __call__(self, A, **others)": "",
    "def __call__(self, **inputs)": "",
    "def __call__(*arguments, **inputs)": "",
    "def __call__(self, /, **inputs)": "",
    "async def __call__(self, A, X)": "",
    "def __call__(self, A)": LACKS_X,
    "async def __call__(self, A)": LACKS_X,
    "def __call__(self, *, A)": LACKS_X,
    "def __call__(self, A, *X)": OTHERS,
    "def __call__(self)": "lacks the inputs A, X that pipeline.yml gives it",
    "def __call__(self, A, X, Y)": "takes Y, which pipeline.yml does not give it",
    "def __call__(self, A, X, *, Y)": "takes Y, which pipeline.yml does not give it",
    "def __call__(self, Y, **others)": "takes Y, which pipeline.yml does not give it",
    "def __call__(self, A, Y)": f"{LACKS_X} and takes Y, which pipeline.yml does not give it",
    "def __call__(self, A, Y=0)": LACKS_X,
    "def __call__(A, X)": OTHERS,
    "def __call__(self, A, X, /)": OTHERS,
    "def __call__(self, A, /, X)": OTHERS,
}
# The same of a step with a memory, which is given its position before the inputs.
OF_SEQUENCES = {
    "def __call__(self, position, /, A, X)": "",
    "def __call__(self, where, A, X)": "",
    "def __call__(self, *first, A, X)": "",
    "def __call__(self, A, X)": OTHERS,
    "def __call__(self, position, /, A)": LACKS_X,
}
# Where `__call__` may be another than the text shows.
HIDDEN = [
    f"from elsewhere import Base\n\n{CLASS.replace('Step', 'Step(Base)')}    def __call__(self): ...\n",
    f"{CLASS.replace('Step', 'Step(metaclass=Meta)')}    def __call__(self): ...\n",
    f"import dataclasses\n\n@dataclasses.dataclass\n{CLASS}    def __call__(self): ...\n",
    f"import functools\n\n{CLASS}    @functools.cache\n    def __call__(self): ...\n",
    f"{CLASS}    @staticmethod\n    def __call__(A, X): ...\n",
    f"{CLASS}    def __new__(cls, context): return print\n    def __call__(self): ...\n",
    f"{CLASS}    def __call__(self): ...\n    __call__ = made()\n",
    f"{CLASS}    if True:\n        def __call__(self): ...\n",
    f"{CLASS}    def __call__(self): ...\n\nStep.__call__ = made()\n",
    f"{CLASS}    def __call__(self): ...\n\nsetattr(Step, '__call__', made())\n",
    f"{CLASS}    def __call__(self): ...\n\nStep = made(Step)\n",
    f"{CLASS}    def __call__(self): ...\n\nfrom elsewhere import Step\n",
    f"{CLASS}    def __call__(self): ...\n\nfrom elsewhere import *\n",
    f"{CLASS}    def __call__(self): ...\n\nif True:\n    class Step: ...\n",
    f"{BAD}class Other:\n    global Step\n    Step = made()\n",
    f"{BAD}class Other:\n    def method(self):\n        global Step\n        Step = made()\n",
    f"{BAD}del Step\n\ndef __getattr__(name): return made()\n",
    f"{BAD}match made():\n    case Step: ...\n",
    f"{BAD}match made():\n    case [*Step]: ...\n",
    f"{BAD}match made():\n    case {{**Step}}: ...\n",
    f"{BAD}try: ...\nexcept Exception as Step: ...\n",
    f"{BAD}import Step.part\n",
    f"{BAD}globals()['Step'] = made()\n",
    f"{BAD}globals().update(Step=made())\n",
    f"{BAD}exec(made())\n",
    f"{BAD}import sys\nsys.modules[__name__] = made()\n",
    f"{BAD}from sys import modules\nmodules[__name__].Step = made()\n",
    f"{BAD}import builtins\nbuiltins.setattr(Step, '__call__', made())\n",
    f"{BAD}type.__setattr__(Step, '__call__', made())\n",
    f"{BAD}Step.__new__ = made()\n",
    f"{BAD}Step.__call__.__code__ = made().__code__\n",
    f"{BAD}Step.__call__.__defaults__ = (None, None)\n",
    f"{CLASS}    __new__ = made()\n    def __call__(self): ...\n",
    f"{CLASS}    if True:\n        def __new__(cls, context): return print\n    def __call__(self): ...\n",
    f"{CLASS}    def __call__(self): ...\n    match made():\n        case __call__: ...\n",
    f"{CLASS}    def __call__(self): ...\n    vars()['__call__'] = made()\n",
    "class Step:\n    def __init__(self, context): self.__class__ = made()\n    def __call__(self): ...\n",
    f"if TYPE_CHECKING:\n{indent(BAD, '    ')}\ndef __getattr__(name): return made()\n",
    "from elsewhere import Step\n",
    "Step = made()\n",
    "class Step:\n    def __init__(self, context):\n        self.__call__ = None\n",
    CLASS,
    "class Step:\n    def __call__(self) ...\n",
    "",
]


def found(folder: Path, code: str, config: str = CONFIG, name: str = "A") -> list[Finding]:
    """Return what is found in the code of a step with two inputs."""
    version = folder / "r/m/1"
    (version / "steps").mkdir(parents=True)
    (version / "steps/m.py").write_text(code)
    (version / "model.py").write_text(
        "class TritonPythonModel:\n    def execute(self, r): return [*r]\n"
    )
    (version.parent / "config.pbtxt").write_text(config)
    manifest = {"name": "m", "module": "m", "arguments": {"A": name, "X": "X"}}
    (version / "step.json").write_text(json.dumps(manifest))
    return [each for each in check(folder / "r") if each.rule == "step-signature"]


def is_loaded(definition: str, *first: None) -> bool:
    """Return whether the adapter loads a step of this definition: it asks the same of the object."""
    names: dict[str, type] = {}
    exec(f"class Step:\n    {definition}: ...\n", names)
    try:
        inspect.signature(names["Step"]()).bind(*first, A=1, X=1)
    except (TypeError, ValueError):  # ValueError: it has no self
        return False
    return True


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_a_definition(definition: str, tmp_path: Path) -> None:
    findings = found(tmp_path, f"{CLASS}    {definition}: ...\n")
    assert [each.what for each in findings] == [DEFINITIONS[definition]] * (
        not is_loaded(definition)
    )
    for each in findings:
        assert each.line == 4
        assert each.instead == f"write {definition.partition('(')[0]}(self, A, X)"


@pytest.mark.parametrize("definition", OF_SEQUENCES)
def test_a_definition_of_a_step_with_a_memory(definition: str, tmp_path: Path) -> None:
    findings = found(tmp_path, f"{CLASS}    {definition}: ...\n", SEQUENCE)
    wrong = [OF_SEQUENCES[definition]] * (not is_loaded(definition, None))
    assert [each.what for each in findings] == wrong
    for each in findings:
        assert each.instead == "write def __call__(self, position, /, A, X)"


@pytest.mark.parametrize("code", HIDDEN)
def test_nothing_is_said_of_what_the_text_does_not_show(code: str, tmp_path: Path) -> None:
    assert found(tmp_path, code) == []


def test_the_last_definition_counts(tmp_path: Path) -> None:
    overload = "from typing import overload\n\n"
    code = f"{overload}{CLASS}    @overload\n    def __call__(self): ...\n    def __call__(self, {{}}): ...\n"
    assert found(tmp_path / "1", code.format("A, X")) == []
    assert [each.line for each in found(tmp_path / "2", code.format("A"))] == [8]


def test_an_input_is_named_as_pipeline_yml_has_it(tmp_path: Path) -> None:
    [finding] = found(tmp_path, f"{CLASS}    def __call__(self, X): ...\n", name="input.1")
    assert finding.what == "lacks the input input.1 that pipeline.yml gives it"


def test_the_file_is_named_that_the_code_is_a_copy_of(tmp_path: Path) -> None:
    """Code of a published version is frozen: it may be none of steps/."""
    own, code = tmp_path / "steps/m.py", f"{CLASS}    def __call__(self, X): ...\n"
    own.parent.mkdir()
    own.write_text(code)
    [finding] = found(tmp_path, code)
    assert finding.file == own
    own.write_text(f"{code}\n")
    [finding] = check(tmp_path / "r")
    assert finding.file == tmp_path / "r/m/1/steps/m.py"


@pytest.mark.parametrize(
    "manifest", ["{", "[]", "1", '{"module": 1, "arguments": 1}', '{"module": "m"}', '{"steps": 1}']
)
def test_another_step_json_is_none_of_ours(manifest: str, tmp_path: Path) -> None:
    found(tmp_path, CLASS)
    (tmp_path / "r/m/1/step.json").write_text(manifest)
    check(tmp_path / "r")


@pytest.mark.parametrize("name", PIPELINES | UNUSUAL)
def test_nothing_is_found_in_what_the_template_writes(generate: Generate, name: str) -> None:
    project = generate(**(PIPELINES | UNUSUAL)[name])
    for version, modules in facts(project).items():
        for module in modules:
            code = project / "model_repository" / version / "steps" / f"{module}.py"
            code.parent.mkdir(exist_ok=True)
            code.write_bytes((project / f"steps/{module}.py").read_bytes())
    findings = check(project / "model_repository")
    assert [each for each in findings if each.rule == "step-signature"] == []


def facts(project: Project) -> dict[str, list[str]]:
    modules: dict[str, list[str]] = json.loads((project / "vendor/project.json").read_text())[
        "step_modules"
    ]
    return modules
