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
    check_query,
    reading_filter,
)
from indexer.dense.manifest import SPARSE
from sparta.errors import InputError

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
    engine: Engine = "columns",
    substitute: SubstituteOption = True,
    filter_text: FilterOption = None,
    sort: Sort = None,
    min_coverage: MinCoverage = None,
    as_json: AsJson = False,
) -> None:
    """Find the images that match a text; without one, all that a filter lets through.

    For example:

    sparta search index/ "two dogs on a beach"

    sparta search index/ "two dogs on a beach" -k 3 --explain

    sparta search index/ "dogs on a +beach -ball red^2"

    sparta search index/ "a dog catches a frisbee" --min-coverage 0.8

    sparta search index/ -- '-"fire truck" red'

    sparta search index/ "two dogs on a beach" --backend vse++ --json

    sparta search index/ "two dogs" --filter "taken:2024-06..2024-08 -folder:raw"

    sparta search index/ --filter "camera:canon" --sort -taken
    """
    from indexer.engines.open import open_backend
    from indexer.search.searcher import Explain

    check_query(query, optional=filter_text is not None or sort is not None)
    if explain and backend != SPARSE:
        raise InputError(f"--explain: the scores of {backend} are not sums over terms")
    searcher = open_backend(index, backend, engine)
    with reading_filter(filter_text) as filter:
        answer = searcher.search(
            query,
            k,
            substitute=substitute,
            filter=filter,
            min_coverage=min_coverage,
            sort=sort,
            explain=Explain(grounded=explain) if explain or not as_json else None,
        )
    if as_json:
        from json import dumps

        typer.echo(dumps({"query": query, **answer.as_json()}, ensure_ascii=False, indent=2))
        return
    from indexer.commands.answer_tables import answer_tables
    from sparta.console import Console

    console = Console()
    if not (query.strip() or answer.hits):
        console.print("The filter lets no image through.")
        return
    for part in answer_tables(answer, explain):
        console.print(part)
