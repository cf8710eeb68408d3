"""Plots of the figures of `sparta bench speed`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from eval.bench.tables import (
    Record,
    Results,
    alone,
    at,
    groups,
    heading,
    is_dense,
    label,
    usual_top_n,
)
from eval.plotting import DOTS_PER_INCH, legend, panels
from sparta.errors import InputError

SIZES, TOP_NS, RECALLS = "latency-by-size.png", "latency-by-top-n.png", "recall-by-latency.png"


# How an index was pruned; older files lack the last two, the choice by frequency.
PRUNING = ("offset", "terms", "bits", "top_n", "asked", "asked_power")
Recalls = dict[tuple[Any, ...], float]  # recall at 10 by these


def save_plots(results: Results, folder: Path, recall: Recalls) -> None:
    """Draw every plot that has at least two points.

    Args:
        results: measured.
        folder: for the pictures.
        recall: of indexes pruned as those measured; may be empty.
    """
    parts = groups(results.records)
    drawn = {
        SIZES: _by_size(parts),
        TOP_NS: _by_top_n(parts),
        RECALLS: _by_latency(results, recall),
    }
    for name, figure in drawn.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=DOTS_PER_INCH)


def read_recall(path: Path) -> Recalls:
    """Recall at 10 by how an index was pruned and rounded.

    Raises:
        InputError: if the file is not one of `sparta eval pruning`.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        return {_key(row): row["r10"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"--recall {path} is not a file of sparta eval pruning") from error


def _by_size(parts: list[list[Record]]) -> Figure | None:
    kept = [part for part in parts if len({one["images"] for one in part}) > 1]
    if not kept:
        return None
    figure, axes = panels(len(kept), width=5.5, height=4.5)
    for one, part in zip(axes, kept, strict=True):
        top_n = usual_top_n(part)
        sizes = sorted({record["images"] for record in part})
        _lines(one, at(alone(part), top_n=top_n), "images")
        one.set_xscale("log")
        one.set_xticks(sizes, [f"{size:,}" for size in sizes])
        one.xaxis.set_minor_formatter(NullFormatter())
        _label(one, f"images ({heading(part)}, top-n {top_n})")
    return figure


def _by_top_n(parts: list[list[Record]]) -> Figure | None:
    sparse = [[one for one in part if not is_dense(one)] for part in parts]
    kept = [part for part in sparse if len({one["top_n"] for one in part}) > 1]
    if not kept:
        return None
    figure, axes = panels(len(kept), width=5.5, height=4.5)
    for one, part in zip(axes, kept, strict=True):
        images = max(record["images"] for record in part)
        shown = [
            record | {"terms": record["postings"] / images}
            for record in at(alone(part), images=images)
        ]
        _lines(one, shown, "terms")
        one.set_xscale("log")
        # Where images have no more terms than that, 2000 and all are the same place.
        ticks: dict[float, list[str]] = {}
        for record in sorted(shown, key=lambda record: record["terms"]):
            place = next((x for x in ticks if record["terms"] < 1.1 * x), record["terms"])
            ticks[place] = list(dict.fromkeys([*ticks.get(place, []), str(record["top_n"])]))
        one.set_xticks(list(ticks), [", ".join(names) for names in ticks.values()])
        one.xaxis.set_minor_formatter(NullFormatter())
        _label(one, f"top-n ({heading(part)}, {images:,} images)")
    return figure


def _by_latency(results: Results, recall: Recalls) -> Figure | None:
    known = [
        one | {"recall": recall[_pruned(results, one)]}
        for group in groups(results.records)
        for one in alone(group)
        if _pruned(results, one) in recall
    ]
    if not known:
        return None
    images = max(one["images"] for one in known)
    figure, (axes,) = panels(1, width=5.5, height=4.5)
    lines: dict[str, list[Any]] = {}
    for one in at(known, images=images):
        name = f"{one['engine']}, {one['kind']}, {_vectors(results, one)}"
        point = (one["mean_ms"], one["recall"], str(one["top_n"]))
        lines.setdefault(name, []).append(point)
    for name, points in lines.items():
        milliseconds, recalls, names = zip(*sorted(points), strict=True)
        axes.plot(milliseconds, recalls, marker="o", label=name)
        for where in zip(milliseconds, recalls, names, strict=True):
            axes.annotate(where[2], where[:2], (3, 3), textcoords="offset points", fontsize=7)
    axes.set_xscale("log")
    axes.set_xlabel(f"mean time of a query, ms ({images:,} images)")
    axes.set_ylabel("recall at 10, %")
    legend(axes)
    return figure


def _pruned(results: Results, record: Record) -> tuple[Any, ...]:
    """How the index a record's vectors come from was pruned, and the record's own top-n."""
    return _key(results.sources.get(record["vectors"], {}) | {"top_n": record["top_n"]})


def _key(about: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(about.get(key) for key in PRUNING)


def _vectors(results: Results, record: Record) -> str:
    """The pruning of a record's vectors, but for the top-n."""
    about = results.sources[record["vectors"]]
    asked = about.get("asked", "none")
    chosen = "" if asked == "none" else f", asked {asked[:12]} {about['asked_power']:g}"
    return f"offset {about['offset']}{chosen}, {about['bits']} bits"


def _lines(axes: Axes, records: list[Record], key: str) -> None:
    """A line an engine, named in the order in which the lines end; those of vectors are dashed."""
    last = max(one[key] for one in records)
    lines: dict[str, list[Record]] = {}
    for one in sorted(records, key=lambda one: (one[key] != last, -one["mean_ms"])):
        lines.setdefault(label(one), []).append(one)
    for number, (name, own) in enumerate(lines.items()):
        points = sorted((one[key], one["mean_ms"]) for one in own)
        style = "--" if is_dense(own[0]) else "-"
        colour = colormaps["tab20"](number % 20)
        axes.plot(*zip(*points, strict=True), "o", ms=4, ls=style, color=colour, label=name)


def _label(axes: Axes, across: str) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_formatter("{x:g}" if high < 30 * low else NullFormatter())
    axes.set_xlabel(across)
    axes.set_ylabel("mean time of a query, ms")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7)
