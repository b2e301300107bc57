"""Triton's schema of a config (model_config.proto), as the package tritonclient has it."""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from google.protobuf import json_format  # type: ignore[import-untyped, unused-ignore]


def _load_schema() -> Any:
    """Import the module of the schema alone.

    Its package imports gRPC and NumPy too, which takes half of the time of a command.
    """
    package = find_spec("tritonclient")
    folders = (package and package.submodule_search_locations) or ()
    spec = PathFinder.find_spec("model_config_pb2", [f"{folder}/grpc" for folder in folders])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'tritonclient.grpc'", name="tritonclient")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


model_config_pb2 = _load_schema()
ModelConfig = Any  # a model_config_pb2.ModelConfig, which has no type stubs


def new_config(**fields: Any) -> ModelConfig:
    """Return a config with these fields."""
    return model_config_pb2.ModelConfig(**fields)


def format_json(config: ModelConfig) -> str:
    """Return a config as the JSON that Triton hands to a model, but with dims as texts."""
    text: str = json_format.MessageToJson(
        config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return text


def enum_name(message: Any, field: str) -> str:
    """Return the name of an enum field's value, or the number itself if it lacks a name."""
    number = getattr(message, field)
    known = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return known.name if known else str(number)


def type_name(tensor: Any) -> str:
    """Return a tensor's data type without `TYPE_`."""
    return enum_name(tensor, "data_type").removeprefix("TYPE_")
