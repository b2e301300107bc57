"""Stand-in for Triton's PyTorch backend (TorchScript and AOTInductor) on this machine, by the Python package.

Only the local Triton uses it. The container has the real backend for the same config.pbtxt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import torch  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays, LocalBackend
else:
    from local_backend import Arrays, LocalBackend


class TritonPythonModel(LocalBackend):
    """Serves any model of backend "pytorch" (or platform "pytorch_libtorch")."""

    default_filename = "model.pt"

    def load(self, file: Path) -> None:
        """Load the module, or raise ValueError if config.pbtxt does not fit its forward."""
        if "TYPE_STRING" in {spec["data_type"] for spec in self.tensors.values()}:
            raise ValueError("PyTorch has no tensors of TYPE_STRING; use a Python step for them")
        if self.instances > 1:
            torch.set_num_threads(1)
        cuda = self.on_gpu and torch.cuda.is_available()
        if self.on_gpu and not cuda:
            self.warn_without_cuda("torch")
        self.device = torch.device("cuda", self.device_id) if cuda else torch.device("cpu")
        self.package = _load_package(file, self.device)
        if self.package:
            self.inputs, self.positions = self._place(*self.package.get_call_spec())
            return
        module = torch.jit.load(file, self.device)  # type: ignore[no-untyped-call, unused-ignore]
        self.module = module.eval()
        arguments = self.module.forward.schema.arguments[1:]
        names = [argument.name for argument in arguments]
        self.takes_dict = len(names) == 1 and str(arguments[0].type).startswith("Dict[")
        self.arguments = {} if self.takes_dict else self._match(names)
        outputs = [spec["name"] for spec in self.config["output"]]
        self.positions = _positions([*outputs, *self.states.names])
        given = {*self.arguments.values(), *(a.name for a in arguments if a.has_default_value())}
        if not self.takes_dict and (missing := [name for name in names if name not in given]):
            raise ValueError(f"forward takes {', '.join(missing)}, for which there is no input")

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Call the module's forward once."""
        tensors = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
        with torch.inference_mode():
            result = self._forward(tensors)
        return {name: self._pick(result, name).cpu().numpy() for name in outputs}

    def _place(self, taken: str, returned: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return the position of each input and output in a package's call, as the real backend names them."""
        arguments, keywords = json.loads(taken)[1]["children_spec"]
        known = {
            "input": [*_list_names(arguments, "ARGS"), *_list_names(keywords, "KWARGS")],
            "output": [*_list_names(json.loads(returned)[1], "RESULT")],
        }
        places: dict[str, dict[str, int]] = {"input": {}, "output": {}}
        for side, names in known.items():
            ordinals = [f"{side.upper()}__{i}" for i in range(len(names))]
            for name in (spec["name"] for spec in self.config[side]):
                if name not in names and name not in ordinals:
                    raise ValueError(f"the package has no {side} {name}; it has {', '.join(names)}")
                places[side][name] = (names if name in names else ordinals).index(name)
        if len(places["input"]) < len(known["input"]):
            raise ValueError(f"config.pbtxt lacks inputs of {', '.join(known['input'])}")
        return places["input"], places["output"]

    def _forward(self, tensors: dict[str, torch.Tensor]) -> Any:
        if self.package:
            return self.package.run(
                [tensors[name] for name in sorted(tensors, key=self.inputs.__getitem__)]
            )
        if self.takes_dict:
            return self.module(tensors)
        return self.module(**{self.arguments[name]: tensor for name, tensor in tensors.items()})

    def _match(self, names: Sequence[str]) -> dict[str, str]:
        """Match each input with an argument of forward: by name, otherwise by NAME__INDEX, otherwise in order."""
        inputs = [spec["name"] for spec in self.config["input"]] + self.controls
        if set(inputs) <= set(names):
            return {name: name for name in inputs}
        positions = _positions(inputs)
        if excess := [name for name in inputs if positions[name] >= len(names)]:
            raise ValueError(f"forward has no argument for {excess[0]}; it has {', '.join(names)}")
        return {name: names[position] for name, position in positions.items()}

    def _pick(self, result: Any, name: str) -> torch.Tensor:
        if isinstance(result, dict):
            key: Any = name
        else:
            result = [result] if isinstance(result, torch.Tensor) else result
            key = self.positions[name]
        try:
            tensor: torch.Tensor = result[key]
        except (KeyError, IndexError):
            raise RuntimeError(f"forward returned no output {name}") from None
        return tensor


def _load_package(file: Path, device: torch.device) -> Any:
    """Return the loader of a package that AOTInductor compiled, or None for another file."""
    with ZipFile(file) as archive:
        is_package = any("/data/aotinductor/" in name for name in archive.namelist())
    if not is_package and file.suffix == ".pt2":
        raise ValueError(
            f"{file.name} is not a package of AOTInductor; compile it, or name it model.pt"
        )
    if not is_package:
        return None
    index = -1 if device.type == "cpu" else device.index
    return torch._inductor.aoti_load_package(str(file), device_index=index).loader


def _list_names(spec: dict[str, Any], name: str) -> Iterator[str]:
    """Yield the names of the tensors in a tree, as `ARGS[0]` or `RESULT[logits]`, in the order of a call."""
    if spec["type"] is None:
        yield name
    context = json.loads(spec["context"] or "null")
    keys = context if isinstance(context, list) else range(len(spec["children_spec"]))
    for key, child in zip(keys, spec["children_spec"], strict=True):
        yield from _list_names(child, f"{name}[{key}]")


def _positions(names: Sequence[str]) -> dict[str, int]:
    """Return the positions of inputs: from NAME__INDEX if all names have one, otherwise in the order of config.pbtxt."""
    indexes = [re.fullmatch(r".+__(\d+)", name) for name in names]
    if all(indexes):
        return {name: int(index[1]) for name, index in zip(names, indexes, strict=True) if index}
    return {name: position for position, name in enumerate(names)}
