"""Golden answers: tests/golden.json has what the ensemble answered to the samples when it was right.

`make golden` records it, `make test` compares. The file is yours: review its changes, and set the
tolerances of the outputs whose values may move, as NumPy's `isclose` has them: null is for any value.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from {{ package }} import Client, InferenceError
from {{ package }}.printing import plain
from triton_ensemble.samples.compare import Tolerances, differences, tolerance
from triton_ensemble.samples.infer import server
from triton_ensemble.project import ROOT
from triton_ensemble.samples.files import Sample, array, samples
from triton_ensemble.server.local_triton import ServerError

GOLDEN = ROOT / "tests" / "golden.json"

Answers = Sequence[dict[str, NDArray[Any]]]


def load() -> dict[str, Any]:
    """Tolerances by output, and answers by sample; ValueError for a file that is none."""
    if not GOLDEN.exists():
        return {"tolerances": {}, "answers": {}}
    try:
        found = json.loads(GOLDEN.read_text())
        return {side: dict(found.get(side, {})) for side in ("tolerances", "answers")}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{GOLDEN}: is no record of answers: {error}") from error


def tolerances() -> Tolerances:
    """Those that the owner has set."""
    found: Tolerances = load()["tolerances"]
    return found


def problem(sample: Sample, answers: Answers) -> str:
    """What is not as the sample says, nor as was recorded, and what to do then; empty if nothing is."""
    given = [sample.outputs] if sample.outputs else []
    lines = [f"samples/{sample.name}.json: {line}" for line in _differences(answers, given)]
    if changes := list(_changes(sample, answers)):
        lines += [f"{GOLDEN.name}: {sample.name}: {line}" for line in changes]
        lines.append("if the new answers are right: make golden")
    return "\n".join(lines)


def _changes(sample: Sample, answers: Answers) -> Iterator[str]:
    wanted = [
        {name: array(value, GOLDEN.parent) for name, value in answer.items()}
        for answer in load()["answers"].get(sample.name, [])
    ]
    if wanted and len(wanted) != len(answers):
        yield f"expected {len(wanted)} answers, got {len(answers)}"
    yield from _differences(answers, wanted)


def _differences(answers: Answers, wanted: Answers) -> list[str]:
    pairs, own = zip(answers, wanted, strict=False), tolerances()
    return [line for have, want in pairs for line in differences(have, want, own).values()]


def main() -> None:
    try:
        before = load()
        with server() as url, Client(url) as client:
            found = {sample.name: list(client.answers(sample.inputs)) for sample in samples()}
    except (InferenceError, OSError, ServerError, ValueError) as error:
        sys.exit(str(error))
    record(found, before["tolerances"])
    after = load()["answers"]
    changed = ", ".join(name for name in after if before["answers"].get(name) != after[name])
    print(f"{GOLDEN.relative_to(ROOT)}: {len(after)} samples, new or changed: {changed or 'none'}")


def record(found: dict[str, list[dict[str, NDArray[Any]]]], tolerances: dict[str, Any]) -> None:
    floats = {
        name: tolerance(values.dtype)
        for answers in found.values()
        for answer in answers
        for name, values in answer.items()
        if values.dtype.kind == "f"
    }
    answers = {name: [plain(answer) for answer in answers] for name, answers in found.items()}
    content = {"tolerances": floats | tolerances, "answers": answers}
    GOLDEN.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
