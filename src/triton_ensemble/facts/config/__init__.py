"""The config.pbtxt files of a model repository: parsed, with the line of each field."""

from triton_ensemble.facts.config.fields import Field, Part
from triton_ensemble.facts.config.message import ModelConfig, enum_name, type_name
from triton_ensemble.facts.config.model import (
    Model,
    UnreadModel,
    read_model,
    read_models,
)
from triton_ensemble.facts.config.problem import Problem, did_you_mean
from triton_ensemble.facts.config.syntax import ConfigSyntaxError, parse

__all__ = [
    "ConfigSyntaxError",
    "Field",
    "Model",
    "ModelConfig",
    "Part",
    "Problem",
    "UnreadModel",
    "did_you_mean",
    "enum_name",
    "parse",
    "read_model",
    "read_models",
    "type_name",
]
