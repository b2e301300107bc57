"""`make test` says in one line which input a step lacks."""

from __future__ import annotations

from support import Generate, Project, step

LACKS_X = "lacks the input X that pipeline.yml gives it"


def grown(generate: Generate) -> Project:
    """Return a project whose step `work` is given one more input than its code takes."""
    tensors = dict.fromkeys(["A", "X", "B"], "FP32[4]")
    project = generate(tensors=tensors, steps=[step("work", ["A", "X"], ["B"])])
    code = project / "steps/work.py"
    text = code.read_text()
    code.write_text(text.replace("        X: NDArray[np.float32],\n", ""))
    assert code.read_text() != text
    return project


def test_make_test_ends_with_one_line(generate: Generate) -> None:
    project = grown(generate)
    code = (project / "steps/work.py").read_text().splitlines()
    line = code.index("    def __call__(") + 1
    done = project.make("test")
    assert done.returncode
    said = [each for each in done.stdout.splitlines() if "work" in each]
    what = f"error: step-signature: {LACKS_X}; write def __call__(self, A, X)"
    assert said == [f"steps/work.py:{line}: {what}"]
    assert "passed" not in done.stdout
