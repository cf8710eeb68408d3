"""Results of published sites: a JSON file with one record a site, and lines of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench.publishing.measure import Connection, measure_site
from eval.machine import circumstances

SEARCHED = ("postings", "bounds", "ranks", "words", "terms", "substitutes", "index")


def measure_and_save(
    out: Path,
    about: dict[str, Any],
    sizes: dict[str, int],
    site: Path,
    queries: Path,
    browser: str,
    visits: int,
    later: int = 3,
) -> str:
    """Measure a site with random queries, and put the record into a file.

    Args:
        out: the JSON file; records of other sites stay.
        about: what the site and its "host" are, by which its record is known.
        sizes: bytes of each kind of file.
        site: the folder.
        queries: a file with one a line.
        browser: path of Chromium.
        visits: how many.
        later: queries of a visit after the first.

    Returns:
        the line of the site in the table of docs/publish.md.
    """
    lines = [line for line in queries.read_text(encoding="utf-8").splitlines() if line.strip()]
    chosen = np.random.default_rng(0).choice(lines, (visits, 1 + later), replace=False).tolist()
    connection = Connection()
    found = measure_site(site, chosen, browser, connection, about["host"])
    record = {
        **about,
        "queries": queries.name,
        "visits": visits,
        "mbit": connection.mbit,
        "latency_ms": connection.latency_ms,
        "sizes": sizes,
        **found,
        "circumstances": circumstances(),
    }
    known = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else []
    others = [one for one in known if any(one[key] != value for key, value in about.items())]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps([*others, record], indent=1) + "\n", encoding="utf-8")
    return line(record)


def line(record: dict[str, Any]) -> str:
    """A row of the table: megabytes, kilobytes and milliseconds, medians and 90th percentiles."""
    index = sum(record["sizes"].get(kind, 0) for kind in SEARCHED)
    first, later, compute = record["first"], record["next"], record["compute_ms"]
    cells = [
        f"{record['images']:,}, {record['kind']}",
        record["host"],
        f"{index / 1e6:,.1f} MB",
        f"{record['sizes'].get('records', 0) / 1e6:,.1f} MB",
        _pair(first["bytes"], 1e3, "KB"),
        _pair(first["ms"], 1, "ms"),
        _pair(later["bytes"], 1e3, "KB"),
        _pair(later["ms"], 1, "ms"),
        _pair(compute, 1, "ms"),
    ]
    return f"| {' | '.join(cells)} |"


def _pair(found: dict[str, float], unit: float, name: str) -> str:
    return f"{found['median'] / unit:,.0f} / {found['p90'] / unit:,.0f} {name}"
