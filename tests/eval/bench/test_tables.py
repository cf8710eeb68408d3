"""Tables of records made up by hand."""

from __future__ import annotations

from pathlib import Path

from eval.bench.tables import Results, sheets

PLAIN = {"kind": "copies", "vectors": "mean", "k": 10, "threads": 1, "overlap_at_10": 1.0}


def record(engine: str, images: int, ms: float, **changes: object) -> dict[str, object]:
    times = {"mean_ms": ms, "queries_per_second": 1000 / ms}
    return PLAIN | {"engine": engine, "images": images, "top_n": 1000} | times | changes


RECORDS = [
    record("lucene", 1000, 4),
    record("columns", 1000, 0.5),
    record("columns", 1000, 0.1, top_n=100),
    record("columns", 5000, 2),
    record("columns", 5000, 8, k=100),
    record("columns", 5000, 3, threads=2, queries_per_second=600),
    record("columns", 5000, 0.7, top_n=100),
    record("columns", 5000, 2.5, top_n="all"),
    record("columns", 5000, 9, vectors="none"),
    record("numpy", 1000, 50, top_n=None, vectors="vse"),
    record("numpy", 1000, 120, top_n=None, vectors="clustered"),
    record("numpy", 1000, 7, top_n=None, vectors="vse", kind="mixed"),
]
ENCODERS = {
    "word pieces": {"text": "word pieces", "mean_ms": 0.25, "p50_ms": 0.2, "p95_ms": 0.5},
    "vse": {"text": "bert", "mean_ms": 3, "p50_ms": 3, "p95_ms": 4},
    "mv": {"text": "bigru", "mean_ms": 2, "p50_ms": 2, "p95_ms": 2.5},
}


def tables() -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    results = Results(Path("x"), records=RECORDS, encoders=ENCODERS)
    return {
        sheet.title: (sheet.columns[1:], {name: cells for name, *cells in sheet.rows})
        for sheet in sheets(results)
    }


def test_tables_over_sizes() -> None:
    made, sizes = tables(), ["1,000", "5,000"]
    about = "copies, mean, top-n 1000, k = 10"
    dense = {"numpy (vse)": ["50", ""], "numpy (clustered)": ["120", ""]}
    assert made[f"Mean ms of a query by images: {about}"] == (
        sizes,
        {"lucene": ["4", ""], "columns": ["0.5", "2"], **dense},
    )
    assert made[f"Queries/s by images, threads: 2: {about}"] == (sizes, {"columns": ["", "600"]})
    assert made[f"Times as many queries/s by columns: {about}"] == (
        sizes,
        {
            "lucene": ["8", ""],
            "columns": ["1", "1"],
            "numpy (vse)": ["100", ""],
            "numpy (clustered)": ["240", ""],
        },
    )
    assert made["Mean ms of a query by images: copies, none, top-n 1000, k = 10"][1] == {
        "columns": ["", "9"],
        **dense,
    }


def test_what_encoding_the_text_adds() -> None:
    about = "The same with encoding the text: copies, mean, top-n 1000, k = 10"
    assert tables()[about][1] == {
        "lucene + word pieces": ["4.25", ""],
        "columns + word pieces": ["0.75", "2.25"],
        "numpy + bert (vse)": ["53", ""],
        "numpy + bert of vse (clustered)": ["123", ""],
        "numpy + bigru of mv (clustered)": ["122", ""],
    }


def test_the_table_over_top_n_is_of_the_largest_collection() -> None:
    found = tables()["Mean ms of a query by top-n: copies, mean, 5,000 images"]
    assert found == (["100", "1000", "all"], {"columns": ["0.7", "2", "2.5"]})
