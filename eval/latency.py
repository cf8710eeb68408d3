"""How long an answer takes beside Lucene's own search call: `python -m eval.latency --help`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from eval.machine import circumstances
from indexer.lucene import LuceneIndex
from indexer.lucene_searcher import LuceneSearcher
from indexer.manifest import LUCENE
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer

WARM_UPS = 10  # Java goes on compiling what it runs often for some 20,000 queries
BLOCK = 100  # queries


@dataclass(frozen=True)
class Latency:
    """Medians over the same queries, in milliseconds.

    Attributes:
        queries: timed.
        lucene: Lucene's search call alone, its query made before.
        searcher: the whole `LuceneSearcher.search`: word pieces, query, search, ids, metadata.
        ratio: of the two.
    """

    queries: int
    lucene: float
    searcher: float
    ratio: float


def measure(index: Path, queries: list[str], k: int) -> dict[str, Latency]:
    """Warm up with the first half of the queries, time the other half once, and once more.

    Queries without any word piece of the vocabulary, which Lucene is not asked, are left out.

    Lucene and the whole search take turns, a block of queries each: near enough in time to meet
    the same machine, far enough apart that neither finds a query's postings in the processor's
    cache because the other has just read them.

    Returns:
        "new" and "repeated" queries' latencies, on one thread.

    Raises:
        InputError: if fewer than two queries are left.
    """
    searcher, own = LuceneSearcher(index), LuceneIndex(index / LUCENE)
    searcher.warm_up()
    tokenizer = WordPieceTokenizer.from_folder(index)
    queries = [text for text in queries if tokenizer.encode_query(text).pieces]
    if len(queries) < 2:
        raise InputError(f"{len(queries)} queries with a word of the index: give at least two")

    def timed(texts: list[str]) -> list[tuple[float, float]]:
        lucene = [own.query(" ".join(tokenizer.encode_query(text).pieces)) for text in texts]
        alone = [_seconds(own.searcher.search, query, k) for query in lucene]
        return list(zip(alone, (_seconds(searcher.search, text, k) for text in texts), strict=True))

    half = len(queries) // 2
    blocks = [queries[start : start + BLOCK] for start in range(half, len(queries), BLOCK)]
    for _ in range(WARM_UPS):
        timed(queries[:half])
    found = {}
    for name in ("new", "repeated"):
        seconds = [pair for block in blocks for pair in timed(block)]
        lucene, whole = (1000 * float(part) for part in np.median(seconds, axis=0))
        found[name] = Latency(len(seconds), lucene, whole, whole / lucene)
    searcher.close()
    own.close()
    return found


def _seconds(call: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def read_queries(path: Path) -> list[str]:
    """A file's distinct lines that are not blank.

    Raises:
        InputError: if it is not UTF-8 text.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
    return [line for line in dict.fromkeys(lines) if line.strip()]


def latency_table(found: dict[str, Latency]) -> Table:
    """A table for people."""
    table = Table("queries", "timed", "Lucene alone, ms", "whole search, ms", "ratio")
    for name, times in found.items():
        milliseconds = (f"{time:.3f}" for time in (times.lucene, times.searcher))
        table.add_row(name, str(times.queries), *milliseconds, f"{times.ratio:.2f}")
    return table


def latency(
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    queries: Annotated[Path, typer.Option(help="Text file, one query a line.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Images of an answer.")] = 10,
    limit: Annotated[int, typer.Option(min=2, help="Distinct queries to read at most.")] = 5000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time whole searches and, for the same queries, Lucene's search call alone.

    Half of the queries warm up; the others are asked once (new) and once more (repeated).

    Example: python -m eval.latency index/ --queries queries.txt
    """
    found = measure(index, read_queries(queries)[:limit], k)
    if as_json:
        times = {name: asdict(times) for name, times in found.items()}
        typer.echo(json.dumps({"k": k, **times, **circumstances()}))
    else:
        Console().print(latency_table(found))


if __name__ == "__main__":
    try:
        typer.run(latency)
    except (InputError, OSError) as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)
