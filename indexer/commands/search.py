"""`sparta search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
)
from indexer.dense.manifest import SPARSE
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.search.api import Searcher, SearchResult, Selection

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
    from indexer.commands.answers import answer_json, corrections_of
    from indexer.search.api import Explainer
    from indexer.search.open import open_backend

    check_query(query, optional=filter_text is not None or sort is not None)
    if explain and backend != SPARSE:
        raise InputError(f"--explain: the scores of {backend} are not sums over terms")
    searcher = open_backend(index, backend, engine)
    allowed = None
    if filter_text is not None:
        from indexer.commands.filtering import allowed_by

        allowed = allowed_by(filter_text, searcher, index)
    if sort is not None or not query.strip():
        result = _browsed(searcher, query, k, sort, substitute, allowed, min_coverage)
    else:
        result = searcher.search(
            query, k, substitute=substitute, allowed=allowed, min_coverage=min_coverage
        )
    explanations = []
    if query.strip() and isinstance(searcher, Explainer) and (explain or not as_json):
        ids = [hit.image_id for hit in result.hits]
        explanations = searcher.explain_all(query, ids, substitute=substitute, grounded=explain)
    corrections = corrections_of(searcher, result.unknown)
    if as_json:
        typer.echo(answer_json(query, result, explanations, corrections))
        return
    from indexer.commands.answer_tables import answer_tables
    from sparta.console import Console

    console = Console()
    if not (query.strip() or result.hits):
        console.print("The filter lets no image through.")
        return
    for part in answer_tables(result, explanations, explain, corrections):
        console.print(part)


def _browsed(
    searcher: Searcher,
    query: str,
    k: int,
    sort: str | None,
    substitute: bool,
    allowed: Selection | None,
    min_coverage: float | None,
) -> SearchResult:
    """The first of all matching images by a field, or by their ids.

    Raises:
        InputError: if there is no such field, or the backend finds every image.
    """
    from indexer.filters.expression import FilterError
    from indexer.search.browsing import Browsable, Page

    if not isinstance(searcher, Browsable):
        raise InputError(f"--backend: searches without words, and --sort, are of {SPARSE} alone")
    try:
        return searcher.browse(
            query,
            Page(k, order=sort),
            substitute=substitute,
            allowed=allowed,
            min_coverage=min_coverage,
        ).result
    except FilterError as error:
        raise InputError(f"--sort: {error.reason}") from error
