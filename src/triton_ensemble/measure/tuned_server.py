"""A Triton in explicit model control mode, which loads configs with other settings while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.compile.file import steps_of
from triton_ensemble.facts.config.message import ModelConfig, new_config
from triton_ensemble.measure.figures import Level
from triton_ensemble.measure.levels import Bench
from triton_ensemble.measure.trials import RefusedError
from triton_ensemble.measure.tune_settings import (
    Configs,
    Setting,
    Settings,
    configure,
)
from triton_ensemble.testing import smoke

LOAD_TIMEOUT_S = 300
NOT_EXPLICIT = (
    "tuning needs a server that accepts configs from any client: start one for tuning only, with "
    "--model-control-mode=explicit --load-model='*'"
)


class TunedServer:
    """Measures settings on the server of `bench`, which has its own configs again after the `with` block.

    `pipeline` is pipeline.yml, and `written` are the configs that it resulted in.
    """

    def __init__(
        self,
        bench: Bench,
        pipeline: Mapping[str, Any],
        written: Configs,
        settings: Sequence[Setting],
    ) -> None:
        self._bench, self._server, self._written = bench, bench.server, written
        self._served = dict(bench.server.configs)
        self._own_parameters = {s["name"] for _, s in steps_of(pipeline) if "parameters" in s}
        self._models = sorted({model for setting in settings for model in setting.models})
        self._loaded: dict[str, ModelConfig] = dict(written)

    def __enter__(self) -> TunedServer:
        """Raise RuntimeError if the server is not in explicit model control mode."""
        try:
            self._load(self._models[0], self._written[self._models[0]])
        except RefusedError as error:
            raise RuntimeError(f"{self._server.url}: {error}; {NOT_EXPLICIT}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """Raise RuntimeError if a server that goes on can't have its configs back. A local one ends now."""
        if self._server.local:
            return
        for name, config in self._loaded.items():
            if config != self._written[name]:
                self._restore(name)

    def _restore(self, name: str) -> None:
        """Load the served config again. Without a config, Triton would keep the current one."""
        try:
            self._load(name, self._written[name])
        except RuntimeError as error:
            url = self._server.url
            raise RuntimeError(
                f"{url}: may still have settings that were tried for {name}: {error}"
            ) from None

    def measure(self, settings: Settings, concurrency: int, seconds: float) -> Level:
        """Return the level of settings, or raise RefusedError if Triton does not load them."""
        self._apply(settings)
        return self._bench.level(concurrency, seconds)

    def _apply(self, settings: Settings) -> None:
        """Load the models whose config changes."""
        for name in self._models:
            config = configure(name, self._written[name], settings, name in self._own_parameters)
            if config != self._loaded[name]:
                self._load(name, config)

    def _load(self, name: str, config: ModelConfig) -> None:
        served = self._to_serve(name, config)
        text = json_format.MessageToJson(served, preserving_proto_field_name=True)
        before, self._loaded[name] = self._loaded[name], config  # first: Triton outlives a Ctrl-C
        try:
            self._server.client.load_model(name, config=text, client_timeout=LOAD_TIMEOUT_S)
        except InferenceServerException as error:
            if not self._is_live():
                raise RuntimeError(f"{self._server.url}: {error.message()}") from None
            self._loaded[name] = before
            raise RefusedError(" ".join(str(error.message()).split())) from None
        self._server.configs[name] = config

    def _is_live(self) -> bool:
        try:
            return bool(self._server.client.is_server_live(client_timeout=10))
        except InferenceServerException:
            return False

    def _to_serve(self, name: str, config: ModelConfig) -> ModelConfig:
        """Return `config` with what is served otherwise than it is written: GPU instances run on the CPU locally."""
        served = new_config()
        served.CopyFrom(self._served[name])
        served.max_batch_size = config.max_batch_size
        served.ClearField("dynamic_batching")
        if config.HasField("dynamic_batching"):
            served.dynamic_batching.CopyFrom(config.dynamic_batching)
        for group, wanted in zip(served.instance_group, config.instance_group, strict=True):
            group.count = wanted.count
        for key in self._written[name].parameters:
            served.parameters.pop(key, None)
        for key in config.parameters:
            served.parameters[key].CopyFrom(config.parameters[key])
        return served

    def smoke_test(self, settings: Settings) -> None:
        """Raise RefusedError if the project's live tests fail with the settings."""
        self._apply(settings)
        address, root = self._server.address, self._server.project.root
        url = f"grpc{'s' * address.secure}://{address.target}"
        if failures := smoke.failures(root, {"TRITON_URL": url}):
            raise RefusedError(f"smoke test: {failures[0]}")
