"""The figures of `sparta bench speed`: a JSON file that grows cell by cell, and tables of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sparta.errors import InputError

FILE = "speed.json"
SAME_MACHINE = ("processor", "cores")
Record = dict[str, Any]
USUAL = 1000  # top-n of tables and pictures over sizes, if it was measured
FAST = "columns"  # the engine that others are compared with
PIECES = "word pieces"  # the encoding of a text for the inverted index

FULL = (
    *("collection", "images", "engine", "top-n", "postings/image", "k", "threads", "queries"),
    *("mean ms", "p50", "p95", "p99", "queries/s", "overlap at 10"),
    *("memory MB", "index MB", "build s"),
)
PACE = ("warm_up", "seconds")
COLLECTIONS = (
    "- **copies** are drawn with replacement, every impact perturbed by 15 %.",
    "- **mixed** images take every term from one of two images drawn so: none is near another.",
    "- **drawn** images come from a distribution fitted to those that there are: none is a copy.",
)


# ---- the file ------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """The conditions of one figure.

    Attributes:
        kind: of the collection: "copies", "mixed" or "drawn".
        vectors: whose: an index's offset, a dense part's name, "synthetic" or "clustered".
        engine: name.
        images: in the collection.
        top_n: terms an image keeps, "all", or None for vectors of dense models.
        k: hits of an answer.
        threads: that searched at once.
    """

    kind: str
    vectors: str
    engine: str
    images: int
    top_n: int | str | None
    k: int
    threads: int


@dataclass
class Results:
    """The file's content.

    Attributes:
        runs: the command's runs that wrote it: arguments and circumstances.
        sources: kind and name of vectors → where they come from.
        engines: name → settings and promise.
        left_out: name → why.
        encoders: name of dense vectors → times of embedding a text, milliseconds.
        records: one for each cell: its figures, and the run that measured it.
    """

    path: Path
    runs: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, Any] = field(default_factory=dict)
    engines: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    encoders: dict[str, Any] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path) -> Results:
        """Read the results of earlier runs from a folder, if there are any.

        Raises:
            InputError: if the file is not a results file.
        """
        path = folder / FILE
        if not path.is_file():
            return cls(path)
        try:
            return cls(path, **json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is not a file of sparta bench speed: {error}") from error

    def begin(self, run: dict[str, Any]) -> None:
        """Note a new run.

        Raises:
            InputError: if earlier ones were on another machine.
        """
        for earlier in self.runs:
            for key in SAME_MACHINE:
                if earlier[key] != run[key]:
                    raise InputError(
                        f"{self.path} was measured on another machine ({key} {earlier[key]}, here "
                        f"{run[key]}): choose another --out"
                    )
        self.runs.append(run)

    def source(self, name: str, about: dict[str, Any]) -> None:
        """Note where vectors come from.

        Raises:
            InputError: if those of that name are others.
        """
        about = json.loads(json.dumps(about))
        if self.sources.setdefault(name, about) != about:
            raise InputError(
                f"{self.path} holds figures for other {name} vectors: choose another --out"
            )

    def has(self, cell: Cell) -> bool:
        """Whether a cell is measured."""
        return any(_cell(record) == cell for record in self.records)

    def add(self, cell: Cell, figures: Mapping[str, Any]) -> None:
        """Add a cell's figures."""
        self.records.append({**cell._asdict(), **figures, "run": len(self.runs) - 1})

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {key: value for key, value in vars(self).items() if key != "path"}
        unfinished = self.path.with_name(self.path.name + ".unfinished")
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.path)


def _cell(record: Mapping[str, Any]) -> Cell:
    return Cell(*(record[name] for name in Cell._fields))


# ---- which records -------------------------------------------------------------------------------


def is_dense(record: Record) -> bool:
    """Whether a record is of vectors of a dense model, to which no top-n applies."""
    return record["top_n"] is None


def groups(records: list[Record]) -> list[list[Record]]:
    """Records by the sparse vectors they are of, with the dense engines' of the same kind."""
    keys = dict.fromkeys((one["kind"], one["vectors"]) for one in records if not is_dense(one))
    if not keys:
        return [records] if records else []
    return [
        [
            one
            for one in records
            if one["kind"] == kind and (is_dense(one) or one["vectors"] == vectors)
        ]
        for kind, vectors in keys
    ]


def heading(group: list[Record]) -> str:
    """The sparse vectors of a group."""
    names = [f"{one['kind']}, {one['vectors']}" for one in group if not is_dense(one)]
    return names[0] if names else f"{group[0]['kind']}, dense"


def top_ns(group: list[Record]) -> list[int | str]:
    """Those measured, rising."""
    found = dict.fromkeys(one["top_n"] for one in group if not is_dense(one))
    return sorted(found, key=lambda n: (n == "all", 0 if n == "all" else n))


def usual_top_n(group: list[Record]) -> int | str | None:
    """1000, or else the largest measured."""
    found = top_ns(group)
    return USUAL if USUAL in found else (found[-1] if found else None)


def label(record: Record) -> str:
    """An engine's name, with its vectors where they are of a dense model."""
    engine: str = record["engine"]
    return f"{engine} ({record['vectors']})" if is_dense(record) else engine


def at(group: list[Record], **values: object) -> list[Record]:
    """Records with these values; top-n does not apply to dense engines."""
    return [
        one
        for one in group
        if all(
            one[key] == value or (key == "top_n" and is_dense(one)) for key, value in values.items()
        )
    ]


def alone(group: list[Record]) -> list[Record]:
    """Records of the smallest k and the fewest threads."""
    k, threads = min(one["k"] for one in group), min(one["threads"] for one in group)
    return at(group, k=k, threads=threads)


# ---- tables --------------------------------------------------------------------------------------


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


# ---- for a terminal, and as Markdown -------------------------------------------------------------


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
    warm_up, seconds = (_range([one[key] for one in results.runs]) for key in PACE)
    lines = [
        "# Speed",
        "",
        f"{run['cores']} cores of {run['processor']}; visualsparta {run['package_version']}, "
        f"{run['date']}. Engines take turns in blocks of queries; each warms up for "
        f"{warm_up} s and is then timed for about {seconds} s, or ten queries, in every cell. "
        "A query has one core; indexes are built on all.",
        "",
    ]
    for sheet in [*sheets(results), full(results)]:
        lines += [f"## {sheet.title}", "", _line(sheet.columns)]
        lines.append(_line(["---"] + ["--:"] * (len(sheet.columns) - 1)))
        lines += [*(_line(row) for row in sheet.rows), ""]
    lines += ["Memory is that of the arrays or files a search reads from.", ""]
    lines += ["## Collections", "", *COLLECTIONS]
    for name, about in results.sources.items():
        facts = (f"{key} {one}" for key, one in about.items() if not isinstance(one, list))
        lines.append(f"- **{name}**: {', '.join(facts)}.")
    lines += ["", "## Engines", ""]
    for name, about in results.engines.items():
        promise = about["promise"][0].upper() + about["promise"][1:]
        lines.append(f"- **{name}**: {about['settings']}. {promise}.")
    lines += [f"- {name} was left out: {why}." for name, why in results.left_out.items()]
    return "\n".join(lines) + "\n"


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
