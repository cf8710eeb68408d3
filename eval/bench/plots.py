"""Figures of `sparta bench speed`: time by number of images, time and recall by top-n."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from eval.bench.engines import ENGINES
from eval.bench.tables import Record, Results, is_dense, label, of_size, of_top_n, order
from eval.plotting import DOTS_PER_INCH, legend, panels

BY_SIZE, BY_TOP_N = "speed-by-size.png", "speed-by-top-n.png"
COLOURS = dict(zip(ENGINES, ("C0", "C3", "C2", "C4", "C5", "C1"), strict=True))
STYLES = ("-", "--", ":", "-.")  # of an engine's several dense vectors


def save_plots(results: Results, folder: Path) -> list[Path]:
    """Draw the figures that have at least two points; their files."""
    kinds = list(dict.fromkeys(one["kind"] for one in results.records))
    drawn = {BY_SIZE: _by_size(results, kinds), BY_TOP_N: _by_top_n(results, kinds)}
    saved = []
    for name, figure in drawn.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=DOTS_PER_INCH)
            saved.append(folder / name)
    return saved


def _by_size(results: Results, kinds: Sequence[str]) -> Figure | None:
    parts = {kind: of_size(results, kind) for kind in kinds}
    parts = {kind: own for kind, own in parts.items() if len({one["images"] for one in own}) > 1}
    if not parts:
        return None
    figure, axes = panels(len(parts), width=5, height=4)
    for one, (kind, records) in zip(axes, parts.items(), strict=True):
        for name, own, style in _lines(records):
            points = sorted((record["images"], record["ms"]) for record in own)
            colour = COLOURS[own[0]["engine"]]
            one.plot(*zip(*points, strict=True), "o", ms=4, ls=style, color=colour, label=name)
        one.set_xscale("log")
        one.xaxis.set_major_formatter("{x:,.0f}")
        one.set_xlabel(f"number of images ({kind})")
        _label_time(one)
        legend(one, columns=2)
    return figure


def _by_top_n(results: Results, kinds: Sequence[str]) -> Figure | None:
    parts = {kind: own for kind in kinds if (own := of_top_n(results, kind))}
    if not parts:
        return None
    recall = {one["top_n"]: one for one in results.recall}
    figure, axes = panels(len(parts) + bool(recall), width=5, height=4)
    for one, (kind, records) in zip(axes, parts.items(), strict=False):
        # Evenly spaced: the numbers of terms differ too much for one scale, and "all" has none.
        choices = sorted({record["top_n"] for record in records}, key=order)
        for name, own, _ in _lines(records):
            places = [choices.index(record["top_n"]) for record in own]
            times = [record["ms"] for record in own]
            one.plot(places, times, "o-", ms=4, color=COLOURS[own[0]["engine"]], label=name)
        one.set_xticks(range(len(choices)), [str(choice) for choice in choices])
        one.set_xlabel(f"terms an image keeps ({records[0]['images']:,} {kind})")
        _label_time(one)
        legend(one, columns=2)
    if recall:
        _recall_by_time(axes[-1], next(iter(parts.values())), recall)
    return figure


def _recall_by_time(axes: Axes, records: list[Record], recall: dict[int | str, Record]) -> None:
    """Figure 1 of the paper: a dot for each top-n, named beside it."""
    for name, own, _ in _lines([one for one in records if one["top_n"] in recall]):
        points = [(one["ms"], recall[one["top_n"]]["r1"]) for one in own]
        colour = COLOURS[own[0]["engine"]]
        axes.plot(*zip(*points, strict=True), "o-", ms=4, color=colour, label=name)
        for one, point in zip(own, points, strict=True):
            axes.annotate(str(one["top_n"]), point, (3, 3), textcoords="offset points", fontsize=6)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time of a query, ms")
    axes.set_ylabel("recall at 1, %")
    legend(axes, columns=2)


def _lines(records: list[Record]) -> list[tuple[str, list[Record], str]]:
    """Name, records and line style of each engine; styles differ by an engine's dense vectors."""
    lines: dict[str, list[Record]] = {}
    for one in records:
        lines.setdefault(label(one), []).append(one)
    dense = [name for name, own in lines.items() if is_dense(own[0])]
    vectors = list(dict.fromkeys(lines[name][0]["vectors"] for name in dense))
    return [
        (name, own, STYLES[vectors.index(own[0]["vectors"]) % len(STYLES) if name in dense else 0])
        for name, own in lines.items()
    ]


def _label_time(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_formatter("{x:g}" if high < 10 * low else NullFormatter())
    axes.set_ylabel("time of a query, ms")
