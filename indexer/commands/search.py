"""`sparta search`."""

from __future__ import annotations

from typing import Annotated

import typer

from indexer.commands.options import (
    AsJson,
    Backend,
    Engine,
    FilterOption,
    Hits,
    IndexFolder,
    SubstituteOption,
)
from indexer.commands.searching import run_search
from indexer.dense.manifest import SPARSE

Query = Annotated[
    str,
    typer.Argument(
        help="What the photo should show; +word: it must have the word, -word: it must not, "
        "word^3: counts three times. Write -- before a query that begins with a sign."
    ),
]
MinCoverage = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Only images that have words with this share of the query's weight.",
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="Order all matching images by a field, with - before it for the largest first.",
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show each word piece's impact and grounding.")
]


def search(
    index: IndexFolder,
    query: Query = "",
    k: Hits = 10,
    explain: Explain = False,
    backend: Backend = SPARSE,
    engine: Engine = "auto",
    substitute: SubstituteOption = True,
    filter_text: FilterOption = None,
    sort: Sort = None,
    min_coverage: MinCoverage = None,
    as_json: AsJson = False,
) -> None:
    """Find the images that match a text; without one, all that a filter lets through.

    [bold]Examples[/bold]

    sparta search index/ "two dogs on a beach"

    sparta search index/ "two dogs on a beach" -k 3 --explain

    sparta search index/ "dogs on a +beach -ball red^2"

    sparta search index/ "a dog catches a frisbee" --min-coverage 0.8

    sparta search index/ -- '-"fire truck" red'

    sparta search index/ "two dogs on a beach" --backend vse++ --json

    sparta search index/ "two dogs" --filter "taken:2024-06..2024-08 -folder:raw"

    sparta search index/ --filter "camera:canon" --sort -taken
    """
    run_search(
        index,
        query,
        k,
        explain,
        backend,
        engine,
        substitute,
        filter_text,
        sort,
        min_coverage,
        as_json,
    )
