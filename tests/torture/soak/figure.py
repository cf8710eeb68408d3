"""Latency and memory during a soak, drawn over time."""

from __future__ import annotations

from matplotlib.figure import Figure

from eval.plotting import legend, panels
from tests.torture.soak.results import Soaked


def draw(found: Soaked) -> Figure:
    """Two panels: percentiles of the windows in ms, and the samples of the memory in MB."""
    figure, (latency, memory) = panels(2)
    windows = [window for window in found.windows() if window["answers"]]
    for name in ("p50_ms", "p99_ms"):
        times = [window["from_s"] / 60 for window in windows]
        latency.plot(times, [window[name] for window in windows], marker=".", label=name[:3])
    minutes = [one.seconds / 60 for one in found.samples]
    memory.plot(minutes, [one.all_mb for one in found.samples], label="all processes")
    memory.plot(minutes, [one.oldest_mb for one in found.samples], label="oldest worker, private")
    for axes, unit in ((latency, "ms"), (memory, "MB")):
        axes.set_xlabel("minutes")
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        legend(axes)
    return figure
