"""A Triton in explicit model control mode, which loads configs with other settings while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.bench.figures import Level
from triton_ensemble.bench.levels import Bench
from triton_ensemble.project import ENSEMBLE, ROOT
from triton_ensemble.tune.knobs import Configs, Knob, Settings, configured
from triton_ensemble.tune.trials import RefusedError

EXPLICIT = ("--model-control-mode=explicit", f"--load-model={ENSEMBLE}")
LOAD_TIMEOUT_S = 300
NOT_EXPLICIT = (
    "a server that is tuned takes configs from whoever asks: start one for this, and for nobody "
    "else, with --model-control-mode=explicit --load-model='*'"
)


class TunedServer:
    """Measures settings on the server of `bench`, which has its own configs again after the `with` block.

    `pipeline` is pipeline.yml, `written` are the configs that it made.
    """

    def __init__(
        self,
        bench: Bench,
        pipeline: Mapping[str, Any],
        written: Configs,
        knobs: Sequence[Knob],
    ) -> None:
        self._bench, self._client, self._written = bench, bench.server.client, written
        self._served = dict(bench.server.configs)
        self._own_parameters = {
            step["name"] for step in _all_steps(pipeline) if "parameters" in step
        }
        self._models = sorted({model for knob in knobs for model in knob.models})
        self._loaded: dict[str, Any] = dict(written)

    def __enter__(self) -> TunedServer:
        try:
            self._load(self._models[0], self._written[self._models[0]])
        except RefusedError as error:
            raise RuntimeError(f"{self._bench.server.url}: {error}; {NOT_EXPLICIT}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """RuntimeError if a server that goes on can't have its configs back. A local one ends now."""
        if self._bench.server.local:
            return
        for name, config in self._loaded.items():
            if config != self._written[name]:
                self._restore(name)

    def _restore(self, name: str) -> None:
        """As it was served: without a config, Triton would keep the one that it has."""
        try:
            self._load(name, self._written[name])
        except RuntimeError as error:
            url = self._bench.server.url
            raise RuntimeError(f"{url}: may still have settings tried of {name}: {error}") from None

    def measure(self, settings: Settings, concurrency: int, seconds: float) -> Level:
        """RefusedError if Triton does not load the settings."""
        self.apply(settings)
        self._bench.seconds = seconds
        return self._bench.by_callers(concurrency)

    def apply(self, settings: Settings) -> None:
        """Loads anew the models whose config changes."""
        for name in self._models:
            config = configured(name, self._written[name], settings, name in self._own_parameters)
            if config != self._loaded[name]:
                self._load(name, config)

    def _load(self, name: str, config: Any) -> None:
        text = json_format.MessageToJson(
            self._to_serve(name, config), preserving_proto_field_name=True
        )
        before, self._loaded[name] = self._loaded[name], config  # first: Triton outlives a Ctrl-C
        try:
            self._client.load_model(name, config=text, client_timeout=LOAD_TIMEOUT_S)
        except InferenceServerException as error:
            if self._is_gone():
                raise RuntimeError(f"{self._bench.server.url}: {error.message()}") from None
            self._loaded[name] = before
            raise RefusedError(" ".join(str(error.message()).split())) from None
        self._bench.server.configs[name] = config

    def _is_gone(self) -> bool:
        try:
            return not self._client.is_server_live(client_timeout=10)
        except InferenceServerException:
            return True

    def _to_serve(self, name: str, config: Any) -> Any:
        """What is served may differ from what is written, as GPU instances run on the CPU locally."""
        served = model_config_pb2.ModelConfig()
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
        """RefusedError if the project's live tests fail with the settings."""
        self.apply(settings)
        url = f"grpc{'s' * self._bench.server.address.secure}://{self._bench.server.address.target}"
        tests = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_live*.py"))
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--no-header", *tests]
        environment = {**os.environ, "TRITON_URL": url}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if run.returncode:
            failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
            last = run.stdout.strip().splitlines()[-1:]
            raise RefusedError(f"smoke test: {(failed or last or ['it did not run'])[0]}")


def _all_steps(level: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for step in level.get("steps", []):
        found += [step, *_all_steps(step)]
    return found
