"""Draw the dashboard of generated projects as a run of a quarter of an hour fills it: docs/dashboard.png.

    make dashboard

The default project is generated and served, a Prometheus scrapes it by the project's own files, and callers send it
images, at times as fast as they can, at times what is not an image. A Python process is killed, and Triton starts anew, as
the container's health check has it. There is no Grafana server: page.jsx reads the dashboard's JSON and draws it by
Grafana's own components, from its packages for npm. Needs `apt-get install chromium npm prometheus`.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
import yaml
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import sync_playwright

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.ports import free_ports

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PICTURE = ROOT / "docs/dashboard.png"
BUILD = ROOT / "build/dashboard"
PROJECT, PAGE = BUILD / "project", BUILD / "page"
MONITORING = PROJECT / "deploy/monitoring"
ENSEMBLE = "image_classification"
PICTURED = {"width": 1000, "height": 800}
CALLERS = 24


class Phase(NamedTuple):
    """Seconds, requests in each of them (0: as many as there can be), and the share of them without an image."""

    seconds: float
    per_second: float
    no_image: float = 0


WELL = [Phase(150, 100), Phase(150, 250, 0.02)]
TROUBLE = [Phase(90, 0), Phase(90, 180), Phase(80, 180, 0.3), Phase(65, 150)]
OUTAGE = [Phase(40, 150)]
AFTER = [Phase(120, 220, 0.02), Phase(125, 120)]


class Load:
    """Callers of a Triton, which may end and start anew; each waits as people do who know nothing of each other."""

    def __init__(self, url: str) -> None:
        self.url, self.phase, self.ended = url, WELL[0], threading.Event()
        self.image = (PROJECT / "samples/digit-7.jpg").read_bytes()

    def __enter__(self) -> Load:
        self.callers = [threading.Thread(target=self.calls) for _ in range(CALLERS)]
        for caller in self.callers:
            caller.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.ended.set()
        for caller in self.callers:
            caller.join()

    def lasts(self, phases: list[Phase]) -> None:
        for self.phase in phases:
            time.sleep(self.phase.seconds)

    def calls(self) -> None:
        soon = [("grpc.max_reconnect_backoff_ms", 1000)]
        with triton_grpc.InferenceServerClient(self.url, channel_args=soon) as client:
            while not self.ended.is_set():
                content = b"none" if random.random() < self.phase.no_image else self.image
                tensor = triton_grpc.InferInput("IMAGE", [1, 1], "BYTES")
                tensor.set_data_from_numpy(np.array([[content]], np.object_))
                with suppress(triton_grpc.InferenceServerException):
                    client.infer(ENSEMBLE, [tensor], client_timeout=10)
                rate = self.phase.per_second / CALLERS
                self.ended.wait(random.expovariate(rate) if rate else 0)


def generated() -> None:
    shutil.rmtree(BUILD, ignore_errors=True)
    copy = [f"{sys.prefix}/bin/copier", "copy", "--quiet", "--defaults", "--vcs-ref", "HEAD"]
    subprocess.run([*copy, "--data", "extras=[monitoring]", ROOT, PROJECT], check=True)
    ready = ["SETUP=", f"VENV={sys.prefix}"]
    subprocess.run(["make", *ready, "repository"], cwd=PROJECT, check=True)


def bundled() -> None:
    """Make one script of page.jsx and Grafana's components, at the versions of package.json."""
    PAGE.mkdir()
    for name in (".npmrc", "package.json", "page.jsx"):
        shutil.copy(HERE / name, PAGE)
    for command in ("install --ignore-scripts", "run build"):
        subprocess.run(["npm", "--silent", *command.split()], cwd=PAGE, check=True)


@contextmanager
def prometheus(port: int, metrics_port: int) -> Iterator[str]:
    """Run a Prometheus by the project's files, which know Triton by its name in compose; yield its URL."""
    config, address = MONITORING / "prometheus.yml", f"127.0.0.1:{port}"
    config.write_text(config.read_text().replace("triton:8002", f"127.0.0.1:{metrics_port}"))
    files = [f"--config.file={config}", f"--storage.tsdb.path={BUILD / 'prometheus'}"]
    options = [f"--web.listen-address={address}", "--log.level=warn"]
    with subprocess.Popen(["prometheus", *files, *options]) as process:
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


def triton(ports: dict[str, int]) -> LocalTriton:
    flags = re.findall(r"--metrics-config=\S+", (PROJECT / "deploy/serve.sh").read_text())
    by_api: dict[str, Any] = {f"{api}_port": port for api, port in ports.items()}
    return LocalTriton(PROJECT / "model_repository", ENSEMBLE, server_args=flags, **by_api)


def kill(server: LocalTriton, model: str) -> None:
    """Kill the Python process of a model."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # one that has ended meanwhile
            command = path.read_text(errors="replace")
            if all(part in command for part in ("backend_stub", server._id, f"/{model}/1/")):
                os.kill(int(path.parent.name), signal.SIGKILL)


def lived(ports: dict[str, int]) -> None:
    """Let Triton be called, lose a Python process, and start anew."""
    with Load(f"127.0.0.1:{ports['grpc']}") as load:
        with triton(ports) as server:
            load.lasts(WELL + TROUBLE)
            kill(server, "label")
            load.lasts(OUTAGE)
        with triton(ports):
            load.lasts(AFTER)


def draw(url: str) -> None:
    """Write the picture of what a Prometheus has seen; it carries the dashboard, for tests."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    source = yaml.safe_load((MONITORING / "grafana-datasource.yml").read_text())["datasources"][0]
    scrape = int(source["jsonData"]["timeInterval"].removesuffix("s"))
    shown = {"dashboard": dashboard, "prometheus": url, "end": time.time(), "scrape": scrape}
    parts = '<link rel="stylesheet" href="page.css"><script src="page.js" defer></script>'
    script = f"<script>window.shown = {json.dumps(shown)}</script>"
    (PAGE / "index.html").write_text(f"<!doctype html><meta charset=utf-8>{parts}{script}")
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=PICTURED)
        page.on("pageerror", lambda error: print(error, file=sys.stderr))
        page.goto((PAGE / "index.html").as_uri())
        last = page.locator(".u-over").nth(len(dashboard["panels"]) - 1)
        last.wait_for(state="attached", timeout=120_000)
        page.wait_for_timeout(1000)  # a line is drawn after its panel
        content = Image.open(io.BytesIO(page.screenshot(full_page=True)))
        browser.close()
    info = PngInfo()
    info.add_text("dashboard", json.dumps(dashboard), zip=True)
    content.quantize(128).save(PICTURE, optimize=True, pnginfo=info)


def main() -> None:
    generated()
    bundled()
    ports = free_ports(dict.fromkeys(("http", "grpc", "metrics", "prometheus"), 0))
    with prometheus(ports.pop("prometheus"), ports["metrics"]) as url:
        lived(ports)
        draw(url)
    print(PICTURE)


if __name__ == "__main__":
    main()
