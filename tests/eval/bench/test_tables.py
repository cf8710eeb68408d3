"""Tables of records made up by hand."""

from pathlib import Path

from eval.bench.tables import Results, sheets

PLAIN = {"kind": "copies", "vectors": None, "k": 10, "threads": 1, "overlap_at_10": 1.0}


def record(engine: str, images: int, ms: float, **changes: object) -> dict[str, object]:
    times = {"ms": ms, "low_ms": 0.9 * ms, "high_ms": 1.3 * ms}
    times |= {"queries_per_second": 1000 / ms, "queries": 5000, "index_bytes": images * 1000}
    return PLAIN | {"engine": engine, "images": images, "top_n": 1000} | times | changes


RECORDS = [
    record("lucene", 1000, 4),
    record("columns", 1000, 0.5),
    record("columns", 5000, 2),
    record("columns", 5000, 8, k=100),
    record("columns", 5000, 3, threads=2, queries_per_second=600),
    record("columns", 5000, 0.7, top_n=100),
    record("columns", 5000, 2.5, top_n="all"),
    record("lucene", 5000, 9, top_n="all"),
    record("numpy", 1000, 50, top_n=None, vectors="vse", queries=70),
    record("numpy", 1000, 120, top_n=None, vectors="clustered"),
    record("numpy", 1000, 7, top_n=None, vectors="vse", kind="mixed"),
]
RECALL = [
    {"top_n": 100, "r1": 20.0, "r5": 40.25, "r10": 60.0},
    {"top_n": "all", "r1": 30.0, "r5": 50.0, "r10": 70.0},
]


def tables(**changes: object) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    results = Results(Path("x"), records=RECORDS, **changes)  # type: ignore[arg-type]
    return {
        sheet.title: (sheet.columns[1:], {name: cells for name, *cells in sheet.rows})
        for sheet in sheets(results)
    }


def test_table_2_has_queries_and_times_by_images() -> None:
    made, sizes = tables(), ["1,000", "5,000"]
    about = "copies, top-n 1000, k 10, threads 1"
    assert made[f"Queries per second by images (table 2): {about}"] == (
        sizes,
        {
            "lucene": ["250", "-"],
            "columns": ["2,000", "500"],
            "numpy (vse)": ["20*", "-"],
            "numpy (clustered)": ["8.33", "-"],
        },
    )
    assert made[f"Milliseconds a query by images: {about}"][1] == {
        "lucene": ["4 ±20%", "-"],
        "columns": ["0.5 ±20%", "2 ±20%"],
        "numpy (vse)": ["50* ±20%", "-"],
        "numpy (clustered)": ["120 ±20%", "-"],
    }
    assert made[f"Times as long as columns: {about}"][1]["numpy (vse)"] == ["100", "-"]
    assert made[f"Index on disk, MB: {about}"][1]["columns"] == ["1.0", "5.0"]
    two = "Queries per second by images (table 2): copies, top-n 1000, k 10, threads 2"
    assert made[two] == (["5,000"], {"columns": ["600"]})


def test_table_3_has_times_and_recall_by_top_n_of_the_largest_collection() -> None:
    found = tables(recall=RECALL)[
        "Speed and recall by terms an image keeps (table 3): copies, 5,000 images, k 10"
    ]
    columns = ["columns ms", "columns per s", "lucene ms", "lucene per s", "R@1", "R@5", "R@10"]
    assert found == (
        columns,
        {
            "100": ["0.7", "1,429", "-", "-", "20.0", "40.2", "60.0"],
            "1000": ["2", "500", "-", "-", "-", "-", "-"],
            "all": ["2.5", "400", "9", "111", "30.0", "50.0", "70.0"],
        },
    )
    assert [*tables()].count("R@1") == 0


def test_encoders() -> None:
    encoders = {"vse": {"text": "bert", "ms": 3, "p50_ms": 2.9, "p95_ms": 4.1234}}
    title = "Encoding the text of a query on one core, ms: add it to a dense engine's time"
    assert tables(encoders=encoders)[title][1] == {"vse": ["bert", "3", "2.9", "4.12"]}
