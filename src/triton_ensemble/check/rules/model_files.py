"""Model files"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.data_files import has_file
from triton_ensemble.check.repository import Served, iter_served_models
from triton_ensemble.check.rule import error
from triton_ensemble.check.rules.backends import find_wanted_file
from triton_ensemble.check.rules.tensors import A_PLAN
from triton_ensemble.facts import catalog
from triton_ensemble.facts import model_formats as formats
from triton_ensemble.facts.config import Problem
from triton_ensemble.facts.config.versions import folder_of_version

AGAIN = "make it, or copy it, again"
COMPILE = "write it by torch._inductor.aoti_compile_and_package(torch.export.export(model, inputs))"
INSTEAD = {formats.EMPTY: AGAIN, formats.POINTER: "run: git lfs pull"}
# By backend or platform: what it reads, first what is usual.
READS = {
    "onnxruntime": (formats.ONNX,),
    "openvino": (formats.IR, formats.ONNX),
    "pytorch": (formats.TORCH, formats.ZIP),
    "tensorrt": (formats.ENGINE,),
    "torch_aoti": (formats.AOTI, formats.ZIP),
}


@error(
    "model-format",
    of=iter_served_models,
    triton="`Protobuf parsing failed`, `PytorchStreamReader failed locating file constants.pkl`, `unable to load "
    "plan file`; a format that the check does not know is let through",
    fails={"m": A_PLAN, "m/1/model.plan": "version https://git-lfs.github.com/spec/v1\n"},
    passes={"m": A_PLAN, "m/1/model.plan": "ftrt\n"},
)
def model_format(served: Served) -> Iterator[Problem]:
    """A model file is whole, and has a format that its backend reads."""
    model, wanted = served.model, find_wanted_file(served.model)
    config = model.config
    reads = READS.get(config.platform, READS.get(model.backend, ()))
    # Another runtime or an agent may read what it wants.
    other = config.cc_model_filenames or config.runtime or config.model_repository_agents.agents
    for version in model.loaded if reads and not other else ():
        file = model.file(folder_of_version(version), wanted)
        found = formats.recognise(file) if has_file(model, file) else formats.Content()
        what, instead = found.format, INSTEAD.get(found.format, "")
        if found.format in reads and not found.is_whole:
            what, instead = "cut off", AGAIN
        elif found.format and found.format not in reads and not instead:
            what += f", which backend {model.backend} does not read"
            instead = _suggest_format(served, found.format, reads[0])
        if instead:
            what = f"'{file.relative_to(model.folder.parent)}' is {what}"
            yield model.problem(what, instead, "default_model_filename", missing=True)


def _suggest_format(served: Served, found: str, wanted: str) -> str:
    """Return what to do with a model of a format that its backend does not read."""
    if (found, wanted) == (formats.ONNX, formats.ENGINE):
        if served.repository.answers:
            return "write `trtexec: true` at its step in pipeline.yml"
        return "build its engine: trtexec --onnx=model.onnx --saveEngine=model.plan"
    if found in (formats.SAVED, formats.PICKLE) and wanted == formats.TORCH:
        return "write it by torch.jit.save(torch.jit.script(model), path)"
    if wanted == formats.AOTI:
        return COMPILE
    if found == formats.AOTI:
        return "name it model.pt2, and serve it by the platform torch_aoti"
    other = next((name for name, reads in READS.items() if reads[0] == found), "")
    name = f", or name it {catalog.backends()[other].file} and serve it by {other}" if other else ""
    return f"export the model as {wanted}{name}"
