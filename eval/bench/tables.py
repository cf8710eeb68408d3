"""The results of `sparta bench speed`: a JSON file that grows, the paper's tables, and figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from eval.bench.engines import ENGINES, Promise
from eval.plotting import DOTS_PER_INCH, legend, panels
from eval.report import markdown_head
from sparta.errors import InputError
from sparta.json_values import Json, JsonMapping

FILE = "speed.json"
SAME = ("machine", "pace")  # of all runs that share a file
Record = Json
NONE = "-"
ENOUGH = 1_000  # timed queries of a cell; fewer are marked
SHORT = "*"  # marks what was timed for too few queries
COLLECTIONS = {
    "near-duplicates": "photos drawn with replacement, every impact perturbed by 15 %, as the "
    "paper enlarges COCO; easier to search than photos",
    "blends": "every term from one of two photos drawn so: no image is near another, harder than "
    "photos",
    "synthetic": "drawn from a distribution fitted to the photos: as alike as they are, none a "
    "copy",
}


# ---- the file ------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """The conditions of one figure."""

    kind: str  # of the collection: one of `COLLECTIONS`
    vectors: str | None  # name of the dense vectors, None for impacts
    engine: str  # name
    images: int  # in the collection
    top_n: int | str | None  # terms an image keeps, "all", or None for dense vectors
    k: int  # hits of an answer
    threads: int  # that searched at once


@dataclass
class Results:
    """The file's content."""

    path: Path  # of the file
    # The runs that wrote it: their heads (see `eval.report.head_of`) and pace.
    runs: list[Json] = field(default_factory=list)
    about: Json = field(default_factory=dict)  # images, vectors and queries that were used, by name
    engines: Json = field(default_factory=dict)  # name → settings and promise
    encoders: Json = field(default_factory=dict)  # dense vectors → milliseconds of embedding a text
    # One for each top-n; the name of dense vectors of the photos stands in its place.
    recall: list[Record] = field(default_factory=list)
    # One for each cell: its figures, and the run that measured it.
    records: list[Record] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path) -> Results:
        """Read the results of earlier runs from a folder, if there are any."""
        path = folder / FILE
        if not path.is_file():
            return cls(path)
        try:
            found = cls(path, **json.loads(path.read_text(encoding="utf-8")))
            if others := {one["kind"] for one in found.records} - COLLECTIONS.keys():
                raise ValueError(f"it has collections of other kinds: {', '.join(others)}")
            return found
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path} is not a results file of this version of sparta bench speed: choose "
                f"another --out ({error})"
            ) from error

    def begin(self, run: Json) -> None:
        """Note a new run, on the machine and with the pace of the earlier ones."""
        for earlier in self.runs:
            for key in SAME:
                if earlier[key] != run[key]:
                    raise InputError(
                        f"{self.path} was measured with {key} {earlier[key]}, not {run[key]}: "
                        "choose another --out"
                    )
        self.runs.append(run)

    def note(self, name: str, about: Json) -> None:
        """Note what images, vectors or queries are used, the same in all runs."""
        about = json.loads(json.dumps(about))
        if self.about.setdefault(name, about) != about:
            raise InputError(f"{self.path} holds figures for other {name}: choose another --out")

    def has(self, cell: Cell) -> bool:
        """Whether a cell is measured."""
        return any(record | cell._asdict() == record for record in self.records)

    def add(self, cell: Cell, figures: JsonMapping) -> None:
        """Add a cell's figures."""
        self.records.append({**cell._asdict(), **figures, "run": len(self.runs) - 1})

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {key: value for key, value in vars(self).items() if key != "path"}
        unfinished = self.path.with_name(self.path.name + ".unfinished")
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.path)


# ---- which records -------------------------------------------------------------------------------


def is_dense(record: Record) -> bool:
    """Whether a record is of dense vectors, to which no top-n applies."""
    return record["vectors"] is not None


def label(record: Record) -> str:
    """An engine's name, with its vectors where they are dense."""
    engine: str = record["engine"]
    return f"{engine} ({record['vectors']})" if is_dense(record) else engine


def of_size(results: Results, kind: str, threads: int | None = None) -> list[Record]:
    """Records of table 2: the first top-n, the fewest hits, and the given or fewest threads."""
    records = _simplest([one for one in results.records if one["kind"] == kind], threads)
    top_n = first_top_n(records)
    return [one for one in records if is_dense(one) or one["top_n"] == top_n]


def of_top_n(results: Results, kind: str) -> list[Record]:
    """Records of table 3: the largest collection measured with several top-n, by rising top-n."""
    records = _simplest(
        [one for one in results.records if one["kind"] == kind and not is_dense(one)]
    )
    choices: dict[int, set[int | str]] = {}
    for one in records:
        choices.setdefault(one["images"], set()).add(one["top_n"])
    images = max((size for size, own in choices.items() if len(own) > 1), default=None)
    return sorted(
        (one for one in records if one["images"] == images), key=lambda one: order(one["top_n"])
    )


def first_top_n(records: list[Record]) -> int | str | None:
    """The top-n of the most collections: that of table 2."""
    found = [one["top_n"] for one in records if not is_dense(one)]
    return max(dict.fromkeys(found), key=found.count, default=None)


def order(top_n: int | str) -> float:
    """Numbers rise; "all" comes last."""
    return float("inf") if top_n == "all" else float(top_n)


def _simplest(records: list[Record], threads: int | None = None) -> list[Record]:
    k = min((one["k"] for one in records), default=0)
    threads = threads or min((one["threads"] for one in records), default=0)
    return [one for one in records if (one["k"], one["threads"]) == (k, threads)]


# ---- tables --------------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """A table."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def sheets(results: Results) -> list[Sheet]:
    """Tables 2 and 3 of the paper for every kind of collection, sizes on disk, and encoders."""
    made: list[Sheet] = []
    for kind in dict.fromkeys(one["kind"] for one in results.records):
        made += [*_by_size(results, kind), *_with_text(results, kind), *_by_top_n(results, kind)]
    if results.encoders:
        keys = ("ms", "p50_ms", "p95_ms")
        rows = [
            [name, one["text"], *(f"{one[key]:.3g}" for key in keys)]
            for name, one in results.encoders.items()
        ]
        title = "Encoding the text of a query on one core, ms: add it to a dense engine's time"
        made.append(Sheet(title, ["vectors", "text", "mean", "p50", "p95"], rows))
    return made


def _with_text(results: Results, kind: str) -> Iterator[Sheet]:
    """All engines, where the text of a query was embedded for dense ones."""
    records = of_size(results, kind)
    if not any("text_ms" in one for one in records):
        return
    columns = ["images", "engine", "search, p50", "p95", "with the text, p50", "p95"]
    rows = []
    for one in sorted(records, key=lambda one: int(one["images"])):
        search = [one[f"p{p}_ms"] for p in (50, 95)]
        whole = [one.get(f"text_p{p}_ms", ms) for p, ms in zip((50, 95), search, strict=True)]
        size = f"{one['index_bytes'] / one['images']:,.0f}"
        times = [*map(_short, [*search, *whole])]
        rows.append([f"{one['images']:,}", label(one), *times, size, f"{one['overlap_at_10']:.0%}"])
    columns += ["bytes an image", "of its ten best"]
    yield Sheet(f"Milliseconds from the text of a query: {_conditions(records)}", columns, rows)


def _by_size(results: Results, kind: str) -> Iterator[Sheet]:
    own = [one for one in results.records if one["kind"] == kind]
    for threads in sorted({one["threads"] for one in own}):
        records = of_size(results, kind, threads)
        about = _conditions(records)
        yield _sheet(f"Queries per second by images (table 2): {about}", records, _rate)
        yield _sheet(
            f"Milliseconds a query by images: {about}", records, lambda one: _ms(one, spread=True)
        )
    records = of_size(results, kind)
    about = _conditions(records)
    yield _sheet(
        f"Index on disk, MB: {about}", records, lambda one: f"{one['index_bytes'] / 1e6:,.1f}"
    )


def _conditions(records: list[Record]) -> str:
    top_n, one = first_top_n(records), records[0]
    terms = "" if top_n is None else f", top-n {top_n}"
    return f"{one['kind']}{terms}, k {one['k']}, threads {one['threads']}"


def _sheet(title: str, records: list[Record], cell: Callable[[Record], str]) -> Sheet:
    sizes = sorted({one["images"] for one in records})
    found = {(label(one), one["images"]): cell(one) for one in records}
    engines = dict.fromkeys(name for name, _ in found)
    rows = [[name, *(found.get((name, size), NONE) for size in sizes)] for name in engines]
    return Sheet(title, ["engine", *(f"{size:,}" for size in sizes)], rows)


def _by_top_n(results: Results, kind: str) -> Iterator[Sheet]:
    records = of_top_n(results, kind)
    if not records:
        return
    engines = list(dict.fromkeys(one["engine"] for one in records))
    recall = {one["top_n"]: one for one in results.recall}
    columns = ["top-n", *(f"{name} {unit}" for name in engines for unit in ("ms", "per s"))]
    columns += ["R@1", "R@5", "R@10"] if recall else []
    rows = []
    for top_n in dict.fromkeys(one["top_n"] for one in records):
        found = {one["engine"]: one for one in records if one["top_n"] == top_n}
        cells = [
            cell(found[name]) if name in found else NONE
            for name in engines
            for cell in (_ms, _rate)
        ]
        if recall:
            own = recall.get(top_n)
            cells += [f"{own[key]:.1f}" if own else NONE for key in ("r1", "r5", "r10")]
        rows.append([str(top_n), *cells])
    about = f"{kind}, {records[0]['images']:,} images, k {records[0]['k']}"
    yield Sheet(f"Speed and recall by terms an image keeps (table 3): {about}", columns, rows)


def _rate(one: Record) -> str:
    return _short(one["queries_per_second"]) + SHORT * bool(one["queries"] < ENOUGH)


def _ms(one: Record, spread: bool = False) -> str:
    half = (one["high_ms"] - one["low_ms"]) / 2 / one["ms"]
    return _short(one["ms"]) + SHORT * bool(one["queries"] < ENOUGH) + f" ±{half:.0%}" * spread


def _short(figure: float) -> str:
    return f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}"


# ---- for a terminal, and as Markdown -------------------------------------------------------------


def shown(sheet: Sheet) -> Table:
    """For a terminal, without its title."""
    table = Table(box=SIMPLE_HEAD)
    for number, column in enumerate(sheet.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def method(results: Results) -> list[str]:
    """How the cells were timed, in sentences."""
    pace, queries = results.runs[-1]["pace"], results.about["queries"]
    text = [
        f"Engines take turns in {pace['rounds']} rounds; every cell is timed for "
        f"{pace['seconds']:g} s, after a warm-up of {pace['warm_up']:,} queries or as many "
        f"seconds. All are asked the same {queries['count']:,} queries ({queries['from']}), "
        "shuffled again and again (seed 0). A query has one core.",
        "Milliseconds are the median of the rounds (±: half their interquartile range); queries/s "
        "= 1,000 * threads / ms. Exact engines gave the answers of a full scan to the first "
        "queries. Dense vectors are perturbed copies of given ones, also among synthetic images.",
    ]
    few = [one["queries"] for one in results.records if one["queries"] < ENOUGH]
    if few:
        text.append(
            f"{SHORT} Fewer than {ENOUGH:,} queries fitted into the time ({min(few):,} at least): "
            "a larger --seconds times more."
        )
    if results.recall:
        one = results.recall[0]
        text.append(
            f"Recall: {one['queries']:,} captions of {one['photos']:,} photos, ranked among "
            f"{one['images']:,} photos with the same top-n, by a full scan."
        )
    for name, one in results.encoders.items():
        if one.get("kept_at_10") is not None:
            text.append(
                f"Of the ten best photos by {name}, {one['kept_at_10']:.0%} are among the ten best "
                f"by terms, in the {results.about['images']['images']:,} photos themselves."
            )
    return text


def markdown(results: Results) -> str:
    """All tables, the engines' settings, what was left out, and how it was measured."""
    runs = dict.fromkeys(one["run"] for one in results.records)
    heads = [markdown_head(results.runs[number]) for number in runs]
    lines = ["# Speed", "", *heads, *(f"- {one}" for one in method(results)), ""]
    for sheet in sheets(results):
        lines += [f"## {sheet.title}", "", _line(sheet.columns)]
        lines.append(_line(["---"] + ["--:"] * (len(sheet.columns) - 1)))
        lines += [*(_line(row) for row in sheet.rows), ""]
    kinds = dict.fromkeys(one["kind"] for one in results.records)
    lines += ["## Collections", "", *(f"- **{kind}**: {COLLECTIONS[kind]}." for kind in kinds)]
    for name, about in results.about.items():
        facts = (f"{key} {one}" for key, one in about.items() if not isinstance(one, list))
        lines.append(f"- **{name}**: {', '.join(facts)}.")
    lines += ["", "## Engines", ""]
    for name, about in results.engines.items():
        promise = about["promise"][0].upper() + about["promise"][1:]
        lines.append(f"- **{name}**: {about['settings']}. {promise}.")
    lines += ["", "Memory is that of the arrays or files a search reads from."]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


# ---- figures: time by number of images, time and recall by top-n --------------------------------

BY_SIZE, BY_TOP_N = "speed-by-size.png", "speed-by-top-n.png"
COLOURS = dict(zip(ENGINES, ("C0", "C3", "C2", "C4", "C5", "C1"), strict=True))
STYLES = ("-", "--", ":", "-.")  # of an engine's several dense vectors


def save_plots(results: Results, folder: Path) -> list[Path]:
    """Draw the figures that have at least two points; their files."""
    kinds = list(dict.fromkeys(one["kind"] for one in results.records))
    drawn = {BY_SIZE: _draw_by_size(results, kinds), BY_TOP_N: _draw_by_top_n(results, kinds)}
    saved = []
    for name, figure in drawn.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=DOTS_PER_INCH)
            saved.append(folder / name)
    return saved


def _draw_by_size(results: Results, kinds: Sequence[str]) -> Figure | None:
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


def _draw_by_top_n(results: Results, kinds: Sequence[str]) -> Figure | None:
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
        kind, records = next(iter(parts.items()))
        for vectors in of_size(results, kind):
            exact = ENGINES[vectors["engine"]].promise != Promise.NEAR
            if is_dense(vectors) and exact and vectors["images"] == records[0]["images"]:
                records.append(vectors | {"top_n": vectors["vectors"]})
        _recall_by_time(axes[-1], records, recall)
    return figure


def _recall_by_time(axes: Axes, records: list[Record], recall: dict[int | str, Record]) -> None:
    """Figure 1 of the paper: a dot for each top-n and dense model, whose time is from the text."""
    for name, own, _ in _lines([one for one in records if one["top_n"] in recall]):
        points = [(one.get("text_ms", one["ms"]), recall[one["top_n"]]["r1"]) for one in own]
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
