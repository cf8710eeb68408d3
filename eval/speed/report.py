"""Tables of what was measured: for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from eval.speed.results import Results

Record = dict[str, Any]
FAST = "columns"  # what the others are held against
USUAL = 1000  # top-n of the tables over sizes, if it was measured


class Sheet(NamedTuple):
    """A table in words."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def sheets(results: Results) -> list[Sheet]:
    """What people look for first: times over sizes and over top-n, ratios, encoders."""
    made = []
    for group in groups(results):
        made += list(_of_group(group))
    if results.encoders:
        rows = [
            [name, one["text"], *(f"{one[key]:.1f}" for key in ("mean_ms", "p50_ms", "p95_ms"))]
            for name, one in results.encoders.items()
        ]
        columns = ["vectors", "text network", "mean", "p50", "p95"]
        made.append(Sheet("Embedding one text on one core, ms", columns, rows))
    return made


def groups(results: Results) -> list[list[Record]]:
    """Records by the sparse vectors they are of, with the dense engines' of the same kind."""
    keys = dict.fromkeys(
        (one["kind"], one["vectors"]) for one in results.records if one["top_n"] is not None
    )
    if not keys:
        return [results.records] if results.records else []
    return [
        [
            one
            for one in results.records
            if one["kind"] == kind and (one["top_n"] is None or one["vectors"] == vectors)
        ]
        for kind, vectors in keys
    ]


def heading(group: list[Record]) -> str:
    """The sparse vectors of a group."""
    names = [f"{one['kind']}, {one['vectors']}" for one in group if one["top_n"] is not None]
    return names[0] if names else f"{group[0]['kind']}, dense"


def usual_top_n(group: list[Record]) -> int | str | None:
    """1000, or else the first top-n measured."""
    found = list(dict.fromkeys(one["top_n"] for one in group if one["top_n"] is not None))
    return USUAL if USUAL in found else (found or [None])[0]


def label(record: Record) -> str:
    """An engine's name, with its vectors where they are of a dense model."""
    engine: str = record["engine"]
    return engine if record["top_n"] is not None else f"{engine} ({record['vectors']})"


def at(group: list[Record], **values: object) -> list[Record]:
    """Records with these values; top-n is none of dense engines' business."""
    return [
        one
        for one in group
        if all(
            one[key] == value or (key == "top_n" and one["top_n"] is None)
            for key, value in values.items()
        )
    ]


def _of_group(group: list[Record]) -> Iterator[Sheet]:
    name, top_n, k = heading(group), usual_top_n(group), min(one["k"] for one in group)
    threads = sorted({one["threads"] for one in group})
    sizes = sorted({one["images"] for one in group})
    usual = at(group, k=k, top_n=top_n)
    columns = ["engine", *(f"{size:,}" for size in sizes)]
    alone = at(usual, threads=threads[0])
    about = f"{name}, top-n {top_n}, k = {k}"
    for count in threads:
        rows = _rows(at(usual, threads=count), "images", sizes, _rate)
        yield Sheet(f"Queries/s by images, {count} thread(s): {about}", columns, rows)
    rows = _rows(alone, "images", sizes, _mean)
    yield Sheet(f"Mean ms of a query by images: {about}", columns, rows)
    fast = {one["images"]: one for one in alone if one["engine"] == FAST}
    if fast:
        rows = _rows(alone, "images", sizes, lambda one: _ratio(one, fast.get(one["images"])))
        yield Sheet(f"Times as many queries/s by {FAST}: {about}", columns, rows)
    choices = list(dict.fromkeys(one["top_n"] for one in group if one["top_n"] is not None))
    choices.sort(key=lambda n: (n == "all", n if n != "all" else 0))
    if len(choices) > 1:
        largest = [one for one in at(group, k=k, threads=threads[0]) if one["top_n"] is not None]
        largest = at(largest, images=sizes[-1])
        rows = _rows(largest, "top_n", choices, _mean)
        columns = ["engine", *map(str, choices)]
        yield Sheet(f"Mean ms of a query by top-n: {name}, {sizes[-1]:,} images", columns, rows)
    rows = _rows(alone, "images", sizes, lambda one: f"{one['overlap_at_10']:.3f}")
    yield Sheet(
        f"Overlap at 10 with exact search: {about}", ["engine", *(f"{s:,}" for s in sizes)], rows
    )


def _rows(
    records: list[Record], key: str, values: list[Any], cell: Callable[[Record], str]
) -> list[list[str]]:
    found = {(label(one), one[key]): cell(one) for one in records}
    engines = dict.fromkeys(name for name, _ in found)
    return [[name, *(found.get((name, value), "") for value in values)] for name in engines]


def _rate(one: Record) -> str:
    rate = one["queries_per_second"]
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"


def _mean(one: Record) -> str:
    return f"{one['mean_ms']:.3g}" if one["mean_ms"] < 100 else f"{one['mean_ms']:,.0f}"


def _ratio(one: Record, fast: Record | None) -> str:
    if fast is None:
        return ""
    ratio = fast["queries_per_second"] / one["queries_per_second"]
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def full(results: Results) -> Sheet:
    """Every record."""
    columns = ["collection", "images", "engine", "top-n", "postings/image", "k", "threads"]
    columns += ["queries", "mean ms", "p50", "p95", "p99", "queries/s", "overlap at 10"]
    columns += ["memory MB", "index MB", "build s"]
    rows = []
    for one in results.records:
        per_image = f"{one['postings'] / one['images']:,.0f}" if one["postings"] else ""
        times = [f"{one[key]:.3f}" for key in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")]
        sizes = [f"{one[key] / 1e6:,.1f}" for key in ("memory_bytes", "index_bytes")]
        rows.append(
            [
                f"{one['kind']}, {one['vectors']}",
                f"{one['images']:,}",
                one["engine"],
                str(one["top_n"] or ""),
                per_image,
                str(one["k"]),
                str(one["threads"]),
                f"{one['queries']:,}",
                *times,
                _rate(one),
                f"{one['overlap_at_10']:.3f}",
                *sizes,
                f"{one['build_seconds']:,.1f}",
            ]
        )
    return Sheet("All figures", columns, rows)


def shown(sheet: Sheet) -> Table:
    """For a terminal, without its title."""
    table = Table(box=SIMPLE_HEAD)
    for number, column in enumerate(sheet.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def markdown(results: Results) -> str:
    """All tables, the engines' settings, what was left out, and how it was measured."""
    run = results.runs[-1]
    lines = [
        "# Speed",
        "",
        f"{run['cores']} cores of {run['processor']}; visualsparta {run['package_version']}, "
        f"{run['date']}. Engines take turns in blocks of queries; each warms up for "
        f"{run['warm_up']:g} s and is then timed for about {run['seconds']:g} s, or ten queries, "
        "in every cell. A query has one core; indexes are built on all.",
        "",
    ]
    for sheet in [*sheets(results), full(results)]:
        lines += [f"## {sheet.title}", "", _line(sheet.columns)]
        lines.append(_line(["---"] + ["--:"] * (len(sheet.columns) - 1)))
        lines += [*(_line(row) for row in sheet.rows), ""]
    lines += ["Memory is that of the arrays or files a search reads from.", "", "## Engines", ""]
    for name, about in results.engines.items():
        lines.append(f"- **{name}**: {about['settings']}. {about['promise'].capitalize()}.")
    lines += [f"- {name} was left out: {why}." for name, why in results.left_out.items()]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
