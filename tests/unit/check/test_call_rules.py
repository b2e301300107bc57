"""Calls of other models by BLS that fail, or that none of the requests outlives."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.rules.engine import check

CODE = """\
import triton_python_backend_utils as pb_utils
rows, Tensor = [], pb_utils.Tensor

class TritonPythonModel:
    def initialize(self, args):
        pass

    def execute(self, requests):
        responses = []
        for request in requests:
{body}
            responses.append(pb_utils.InferenceResponse([]))
        return responses
"""
MAKE = "call = pb_utils.InferenceRequest(model_name='{name}', inputs=rows)"
ENSEMBLE = examples.ensemble_text(examples.step_text("m", "X=X", "Y=Y"))
DECOUPLED = f"{examples.A}model_transaction_policy {{ decoupled: true }}"
OTHERS: dict[str, str] = {"e": ENSEMBLE, "other": examples.A, "stream": DECOUPLED}


def found(tmp_path: Path, *lines: str) -> dict[str, int]:
    """Return the rules that find something in a model whose code has these lines for each request, and its line."""
    code = CODE.format(body="\n".join(f"{12 * ' '}{line}" for line in lines))
    files = {**OTHERS, "m": examples.A, "m/1/model.py": code}
    return {each.rule: each.line for each in check(examples.write(files, tmp_path))}


@pytest.mark.parametrize(
    ("name", "run", "rule"),
    [
        ("other", "call.exec()", None),
        ("othr", "call.exec()", "calls-unknown"),
        ("othr", "call.async_exec()", "calls-unknown"),
        ("", "call.exec()", "calls-unknown"),
        ("stream", "call.exec()", "calls-decoupled"),
        ("stream", "call.exec(decoupled=True)", None),
        ("m", "call.exec()", "calls-itself"),
        ("e", "call.exec()", "calls-itself"),
    ],
)
def test_a_call_that_each_request_makes(
    tmp_path: Path, name: str, run: str, rule: str | None
) -> None:
    assert found(tmp_path, MAKE.format(name=name), run) == ({rule: 12} if rule else {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("model_version=1", None),
        ("model_version=-1", None),
        ("model_version=self.version", None),
        ("model_version=None", None),
        ("model_version=2", "calls version 2 of other, which is not loaded"),
        ("requested_output_names=['Y']", None),
        ("requested_output_names=[self.name]", None),
        ("requested_output_names=('Y', 'Z')", "asks other for the output Z, which it lacks"),
        ("inputs=[pb_utils.Tensor('X', rows)]", None),
        ("inputs=[]", "gives other no X, which it needs"),
        ("inputs=[*rows]", None),
        ("inputs=[pb_utils.Tensor('X2', rows)]", "gives other the input X2, which it lacks"),
        ("inputs=[Tensor.from_dlpack('X2', rows)]", "gives other the input X2, which it lacks"),
        ("inputs=[image]", "gives other the input IMAGE, which it lacks"),
        ("inputs=[either]", None),
        ("inputs=[pb_utils.Tensor(name, rows) for name in ('X2',)]", None),
    ],
)
def test_what_a_call_says_of_the_called_model(tmp_path: Path, given: str, said: str | None) -> None:
    code = f"""\
image = pb_utils.get_input_tensor_by_name(request, "IMAGE")
either = image
either = pb_utils.get_input_tensor_by_name(request, "X")
pb_utils.InferenceRequest(model_name="other", {given}).exec()
"""
    files = {**OTHERS, "m": examples.A, "m/1/model.py": CODE.format(body=indent(code, 12 * " "))}
    problems = check(examples.write(files, tmp_path))
    assert [each.what.removesuffix(": each request fails") for each in problems] == [said][
        : bool(said)
    ]


def test_a_call_that_names_no_model(tmp_path: Path) -> None:
    nameless = MAKE.replace("model_name='{name}', ", "")
    assert found(tmp_path, nameless, "call.exec()") == {"calls-unknown": 12}
    assert found(tmp_path, nameless.replace("rows", "rows, **rows"), "call.exec()") == {}


def test_the_last_request_above_a_call_is_meant(tmp_path: Path) -> None:
    two = MAKE.format(name="othr"), MAKE.format(name="other"), "call.exec()"
    assert found(tmp_path, *two) == {}


@pytest.mark.parametrize(
    "lines",
    [
        ["if request.correlation_id():", "    " + MAKE.format(name="othr"), "    call.exec()"],
        ["try:", "    " + MAKE.format(name="othr"), "    call.exec()", "except ValueError: pass"],
        [MAKE.format(name="othr"), "if request.flags(): call = self.other", "call.exec()"],
        ["call = pb_utils.InferenceRequest(model_name=self.name)", "call.exec()"],
        ["if not request.inputs(): continue", MAKE.format(name="m"), "call.exec()"],
        ["call = pb_utils.InferenceRequest(model_name='m', model_version=1)", "call.exec()"],
        ["self.cursor.exec('othr')"],
    ],
)
def test_a_call_that_need_not_be_made_is_not_judged(tmp_path: Path, lines: list[str]) -> None:
    assert found(tmp_path, *lines) == {}


def test_a_model_that_an_ensemble_lacks_is_in_no_cycle(tmp_path: Path) -> None:
    files = {"e": ENSEMBLE}
    found = {each.rule for each in check(examples.write(files, tmp_path))}
    assert found == {"step-model"}


def test_a_call_in_initialize(tmp_path: Path) -> None:
    code = CODE.format(body="").replace("pass", f"{MAKE.format(name='other')}.exec()")
    files = {**OTHERS, "m": examples.A, "m/1/model.py": code}
    assert [each.rule for each in check(examples.write(files, tmp_path))] == ["calls-initialize"]
