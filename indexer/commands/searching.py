"""What `sparta search` does, and its arguments where they are plain."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.dense.manifest import SPARSE
from sparta.errors import InputError
from sparta.plain_arguments import PlainCommand, PlainOption, positive

if TYPE_CHECKING:
    from indexer.search.api import Searcher, SearchResult, Selection


def run_search(
    index: Path,
    query: str = "",
    k: int = 10,
    explain: bool = False,
    backend: str = SPARSE,
    engine: str = "auto",
    substitute: bool = True,
    filter_text: str | None = None,
    sort: str | None = None,
    min_coverage: float | None = None,
    as_json: bool = False,
) -> None:
    """Search an index folder and print the answer; see `indexer.commands.search`."""
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
        sys.stdout.write(answer_json(query, result, explanations, corrections) + "\n")
        sys.stdout.flush()
        return
    from rich.console import Console

    from indexer.commands.answer_tables import answer_tables

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


def check_query(query: str, optional: bool = False) -> None:
    """Refuse a query without words.

    Args:
        query: any text.
        optional: whether it may be blank.

    Raises:
        InputError: if it is blank or not text.
    """
    if not (optional or query.strip()):
        raise InputError("the query is empty: describe what the photo should show")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InputError("the query is not UTF-8 text: check the terminal's encoding") from error


COMMAND = PlainCommand(
    run_search,
    {"index": Path, "query": str},
    {
        "-k": PlainOption("k", positive),
        "--explain": PlainOption("explain", True),
        "--backend": PlainOption("backend", str),
        "--engine": PlainOption("engine", str),
        "--substitute": PlainOption("substitute", True),
        "--no-substitute": PlainOption("substitute", False),
        "--filter": PlainOption("filter_text", str),
        "--sort": PlainOption("sort", str),
        "--json": PlainOption("as_json", True),
    },
)
