"""Load levels as a picture: throughput, latency, and the time of each model. Needs matplotlib, the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triton_ensemble.measure.figures import Level


def draw(path: Path, title: str, levels: Sequence[Level], old: Sequence[Level] = ()) -> None:
    """Draw `levels` with solid lines, and an `old` run with dashed ones."""
    from matplotlib.figure import Figure  # type: ignore[import-not-found, unused-ignore]

    figure = Figure(figsize=(13, 3.6), layout="constrained")
    throughput, latency, times = figure.subplots(1, 3)
    _lines(throughput, "requests/s", levels, old, {"requests/s": lambda load: load.throughput})
    throughput.set_ylim(bottom=0)
    percentiles = {
        f"p{p}": lambda load, p=p: getattr(load, f"p{p}_us") / 1000 for p in (50, 95, 99)
    }
    _lines(latency, "latency, ms", levels, old, percentiles)
    latency.set_yscale("log")
    latency.legend(frameon=False)
    _draw_bars(times, levels)
    figure.suptitle(title)
    figure.savefig(path, dpi=80)


def _lines(
    axis: Any, label: str, levels: Sequence[Level], old: Sequence[Level], lines: dict[str, Any]
) -> None:
    for i, (name, value) in enumerate(lines.items()):
        for shown, style, label in ((levels, "o-", name), (old, "--", "_")):
            x = [level.load.concurrency for level in shown]
            y = [value(level.load) for level in shown]
            axis.plot(
                x, y, style, color=f"C{i}", markersize=4, label=label
            )  # "_" is left out of a legend
    axis.set_xscale("log", base=2)
    axis.set_xticks([level.load.concurrency for level in levels])
    axis.xaxis.set_major_formatter("{x:.0f}")
    _label(axis, label)


def _draw_bars(axis: Any, levels: Sequence[Level]) -> None:
    """Draw the queue time, pale, and the compute time of each model as stacked bars, a colour a model."""
    names = list(dict.fromkeys(model.model for level in levels for model in level.models))
    at = range(len(levels))
    bottom = [0.0] * len(levels)
    for i, name in enumerate(names):
        of_name = [{m.model: m for m in level.models}.get(name) for level in levels]
        for field, alpha, label in (("queue_us", 0.35, f"{name}, queue"), ("compute_us", 1, name)):
            heights = [getattr(model, field, 0.0) / 1000 for model in of_name]
            axis.bar(at, heights, 0.7, bottom, color=f"C{i}", alpha=alpha, label=label)
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axis.set_xticks(at, [str(level.load.concurrency) for level in levels])
    axis.legend(frameon=False, fontsize="small")
    _label(axis, "mean time of a request, ms")


def _label(axis: Any, label: str) -> None:
    axis.set(xlabel="concurrency", ylabel=label)
    axis.tick_params(labelsize="small")
    axis.spines[["top", "right"]].set_visible(False)
