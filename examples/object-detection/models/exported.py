# Yours: written once, never touched by `make update`.
"""A detector as its package exports it -> the model file of step detect.

Ultralytics writes into its files what they are. Others are told by their tensors, and by how many
places an image has that a detector predicts a box for.
"""

import ast
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import yaml
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from steps.detector import HEIGHT, LABELS, WIDTH

ROOT = Path(__file__).parents[1]
STRIDES = (8, 16, 32)  # of YOLO models, in pixels
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


class Detector(NamedTuple):
    """What a file says: its head, height and width of images, dims of predictions, -1 for any, and its classes."""

    head: str
    size: list[int]
    dims: list[int]
    names: tuple[str, ...]


def take_in(files: list[Path], path: Path) -> None:
    """Write an exported file with the tensors images and predictions, or end with a line for each thing to change."""
    file, *others = files
    where = file.relative_to(ROOT)
    if others:
        raise SystemExit(f"{where.parent}/: has {len(files)} .onnx files; leave one there")
    try:
        model = onnx.load(file)
        found = recognise(model)
    except (DecodeError, IndexError):  # without an input or an output
        raise SystemExit(f"{where}: is not a whole ONNX file; export or copy it again") from None
    except ValueError as error:
        raise SystemExit(f"{where}: {error}") from None
    if changes := list_changes(found):
        raise SystemExit("\n".join(f"{change}, as {where} has it" for change in changes))
    _rename(model.graph, found)
    onnx.save(model, path)


def recognise(model: onnx.ModelProto) -> Detector:
    """Return the detector of a file, or raise ValueError with what to export instead."""
    said = {each.key: each.value for each in model.metadata_props}
    if (task := said.get("task", "detect")) != "detect":
        raise ValueError(f"is a model of task {task}; export one of task detect")
    image, outputs = model.graph.input[0], {each.name: each for each in model.graph.output}
    batch, _, *size = _dims(image)
    if batch != -1 or image.type.tensor_type.elem_type != TensorProto.FLOAT:
        raise ValueError(
            "does not take any number of FP32 images; export it with dynamic=True, "
            "an RF-DETR with dynamic_batch=True, and none with half=True"
        )
    if outputs.keys() >= {"dets", "labels"}:
        queries, logits = _dims(outputs["labels"])[1:]
        return Detector("rf-detr", size, [queries, 4 + logits], ())
    size = ast.literal_eval(said["imgsz"]) if -1 in size and "imgsz" in said else size
    names = tuple(dict(ast.literal_eval(said.get("names", "{}"))).values())
    _, *dims = _dims(model.graph.output[0])
    head = _tell_yolo(dims, size, said, len(names or LABELS))
    return Detector(head, size, [dims[0], 6] if head == "yolo26" else dims, names)


def _tell_yolo(dims: list[int], size: list[int], said: dict[str, str], classes: int) -> str:
    """Return the only head that fits, or raise ValueError with the dims that each would have."""
    if said.get("end2end") == "True" or ast.literal_eval(said.get("args", "{}")).get("nms"):
        return "yolo26"
    rows, columns = dims if len(dims) == 2 else (0, 0)
    places = sum(size[0] // stride * (size[1] // stride) for stride in STRIDES)
    is_own = "end2end" in said  # Ultralytics' without suppression: no other head has this key
    fits = {
        "yolov5": columns == 5 + classes and (rows == -1 or rows >= places) and not is_own,
        "yolov8": rows == 4 + classes,
        "yolo26": columns == 6 and 0 < rows < places and not is_own,
    }
    heads = [head for head, does_fit in fits.items() if does_fit]
    if len(heads) != 1:
        raise ValueError(
            f"predicts {dims} for {classes} classes, which is of no head; yolov5 has "
            f"[places, {5 + classes}], yolov8 [{4 + classes}, places], yolo26 [objects, 6]; "
            "export it anew, or correct LABELS in steps/detector.py"
        )
    return heads[0]


def list_changes(found: Detector) -> list[str]:
    """Return where the project differs from a detector, and what to write there."""
    answers = yaml.safe_load((ROOT / "pipeline.yml").read_text())
    parameters = {
        name: value
        for step in answers["steps"]
        for name, value in (step.get("parameters") or {}).items()
    }
    tensors = {
        name: "{type}{dims}".format_map(spec) if isinstance(spec, dict) else spec
        for name, spec in answers["tensors"].items()
    }
    has = {"fit": "letterbox"} | tensors | parameters
    wanted = {
        "PIXELS": f"FP32{[3, *found.size]}",
        "PREDICTIONS": f"FP32{found.dims}",
        "head": found.head,
        "fit": "stretch" if found.head == "rf-detr" else "letterbox",
    }
    changes = [
        f"pipeline.yml: write `{name}: {value}` in place of {has.get(name)}"
        for name, value in wanted.items()
        if str(has.get(name)).replace(" ", "") != value.replace(" ", "")
    ]
    if found.size != [HEIGHT, WIDTH]:
        size = f"WIDTH, HEIGHT = {found.size[1]}, {found.size[0]}"
        changes.append(f"steps/detector.py: write `{size}`")
    if found.names and found.names != LABELS:
        changes.append(f"steps/detector.py: write `LABELS = {found.names}`")
    logits = found.dims[1] - 4
    if found.head == "rf-detr" and logits - len(LABELS) not in (0, 1):
        what = f"{logits - 1} classes, or {logits} if the last is not the background's"
        changes.append(f"steps/detector.py: write in LABELS {what}")
    return changes


def _rename(graph: onnx.GraphProto, found: Detector) -> None:
    """Let a graph take images and answer predictions."""
    image, own = graph.input[0].name, [*graph.node]
    if found.head == "rf-detr":
        before, after = _join(graph, image, found.size)
    else:
        before = [helper.make_node("Identity", ["images"], [image])] if image != "images" else []
        after = [helper.make_node("Identity", [graph.output[0].name], ["predictions"])]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend([*before, *own, *after])
    graph.input.append(describe_tensor("images", [3, *found.size]))
    graph.output.append(describe_tensor("predictions", found.dims))


def _join(
    graph: onnx.GraphProto, image: str, size: list[int]
) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Return nodes that normalise pixels, and those that put boxes in pixels before their logits."""
    constants = {
        "own_mean": np.reshape(MEAN, (3, 1, 1)),
        "own_deviation": np.reshape(DEVIATION, (3, 1, 1)),
        "own_sides": np.array(size[::-1] * 2),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    return [
        helper.make_node("Sub", ["images", "own_mean"], ["own_centred"]),
        helper.make_node("Div", ["own_centred", "own_deviation"], [image]),
    ], [
        helper.make_node("Mul", ["dets", "own_sides"], ["own_boxes"]),
        helper.make_node("Concat", ["own_boxes", "labels"], ["predictions"], axis=2),
    ]


def _dims(value: onnx.ValueInfoProto) -> list[int]:
    """Return a tensor's dims with that of the batch, -1 for each that varies."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims]


def describe_tensor(name: str, dims: list[int]) -> onnx.ValueInfoProto:
    """Return what a graph says of a tensor FP32[batch, *dims], in which -1 varies."""
    sizes = ["batch", *(None if dim == -1 else dim for dim in dims)]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
