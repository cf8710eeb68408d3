"""The results as tables of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from eval.bench.query_latency.reporting.record_selection import (
    Record,
    alone,
    at,
    groups,
    heading,
    is_dense,
    label,
    top_ns,
    usual_top_n,
)
from eval.bench.query_latency.reporting.results_file import Results

FAST = "columns"  # the engine that others are compared with
PIECES = "word pieces"  # the encoding of a text for the inverted index

FULL = (
    *("collection", "images", "engine", "top-n", "postings/image", "k", "threads", "queries"),
    *("mean ms", "p50", "p95", "p99", "queries/s", "overlap at 10"),
    *("memory MB", "index MB", "build s"),
)


class Sheet(NamedTuple):
    """A table."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def sheets(results: Results) -> list[Sheet]:
    """The main tables: times over sizes and over top-n, ratios, encoders."""
    made = []
    for group in groups(results.records):
        made += [*_by_size(group, results.encoders), *_by_top_n(group)]
    if results.encoders:
        rows = [
            [name, one["text"], *(f"{one[key]:.3g}" for key in ("mean_ms", "p50_ms", "p95_ms"))]
            for name, one in results.encoders.items()
        ]
        columns = ["vectors", "text", "mean", "p50", "p95"]
        made.append(Sheet("Encoding one text on one core, ms", columns, rows))
    return made


def _by_size(group: list[Record], encoders: dict[str, Any]) -> Iterator[Sheet]:
    top_n, sizes = usual_top_n(group), sorted({one["images"] for one in group})
    usual = at(group, top_n=top_n)
    about = f"{heading(group)}, top-n {top_n}, k = {min(one['k'] for one in group)}"

    def sheet(title: str, records: list[Record], cell: Callable[[Record], str]) -> Sheet:
        columns = ["engine", *(f"{size:,}" for size in sizes)]
        return Sheet(f"{title}: {about}", columns, _rows(records, "images", sizes, cell))

    quickest = {one["images"]: one for one in alone(usual) if one["engine"] == FAST}
    for threads in sorted({one["threads"] for one in usual}):
        asked = alone(at(usual, threads=threads))
        yield sheet(f"Queries/s by images, threads: {threads}", asked, _rate)
    yield sheet("Mean ms of a query by images", alone(usual), lambda one: _ms(one["mean_ms"]))
    if encoders:
        texts = list(_with_text(alone(usual), encoders))
        yield sheet("The same with encoding the text", texts, lambda one: _ms(one["mean_ms"]))
    if quickest:
        compared = [one for one in alone(usual) if one["images"] in quickest]
        yield sheet(
            f"Times as many queries/s by {FAST}",
            compared,
            lambda one: _ratio(quickest[one["images"]], one),
        )
    yield sheet(
        "Overlap at 10 with exact search", alone(usual), lambda one: f"{one['overlap_at_10']:.3f}"
    )


def _by_top_n(group: list[Record]) -> Iterator[Sheet]:
    sparse, choices = [one for one in group if not is_dense(one)], top_ns(group)
    if len(choices) > 1:
        images = max(one["images"] for one in sparse)
        shown = at(alone(sparse), images=images)
        rows = _rows(shown, "top_n", choices, lambda one: _ms(one["mean_ms"]))
        title = f"Mean ms of a query by top-n: {heading(group)}, {images:,} images"
        yield Sheet(title, ["engine", *map(str, choices)], rows)


def _with_text(records: list[Record], encoders: dict[str, Any]) -> Iterator[Record]:
    """Records with the time of the encoders that can stand before them.

    Made-up vectors have no encoder of their own: they get each of those there are.
    """
    for one in records:
        own = one["vectors"] if is_dense(one) else PIECES
        others = [name for name in encoders if name != PIECES] if is_dense(one) else []
        for name in [own] if own in encoders else others:
            of = "" if name == own else f" of {name}"
            engine = f"{one['engine']} + {encoders[name]['text']}{of}"
            yield one | {"engine": engine, "mean_ms": one["mean_ms"] + encoders[name]["mean_ms"]}


def _rows(
    records: list[Record], key: str, values: list[Any], cell: Callable[[Record], str]
) -> list[list[str]]:
    found = {(label(one), one[key]): cell(one) for one in records}
    engines = dict.fromkeys(name for name, _ in found)
    return [[name, *(found.get((name, value), "") for value in values)] for name in engines]


def _rate(one: Record) -> str:
    rate = one["queries_per_second"]
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.3g}" if milliseconds < 100 else f"{milliseconds:,.0f}"


def _ratio(one: Record, other: Record) -> str:
    ratio = one["queries_per_second"] / other["queries_per_second"]
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def full(results: Results) -> Sheet:
    """Every record."""
    rows = []
    for one in results.records:
        per_image = f"{one['postings'] / one['images']:,.0f}" if one["postings"] else ""
        rows.append(
            [
                f"{one['kind']}, {one['vectors']}",
                f"{one['images']:,}",
                one["engine"],
                str(one["top_n"] or ""),
                per_image,
                *(str(one[key]) for key in ("k", "threads", "queries")),
                *(f"{one[key]:.3f}" for key in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")),
                _rate(one),
                f"{one['overlap_at_10']:.3f}",
                *(f"{one[key] / 1e6:,.1f}" for key in ("memory_bytes", "index_bytes")),
                f"{one['build_seconds']:,.1f}",
            ]
        )
    return Sheet("All figures", [*FULL], rows)
