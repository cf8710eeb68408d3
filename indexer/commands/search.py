"""The `search` command."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.dense.manifest import SPARSE
from sparta.errors import InputError


def search(
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    query: Annotated[str, typer.Argument(help="What the photo should show.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Images to show.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show each word piece's impact and what won it.")
    ] = False,
    backend: Annotated[
        str, typer.Option(help="sparta (the inverted index), a dense model's name, or ensemble.")
    ] = "sparta",
    engine: Annotated[
        str,
        typer.Option(
            help="What sums the impacts: columns, which are made if missing, lucene, or auto: "
            "columns if the index has them."
        ),
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the images that fit a text.

    [bold]Examples[/bold]

    sparta search index/ "two dogs on a beach"

    sparta search index/ "two dogs on a beach" -k 3 --explain

    sparta search index/ "two dogs on a beach" --backend vse++ --json
    """
    from rich.console import Console

    from indexer.commands.output import answer_json, answer_tables
    from indexer.search.api import Explainer
    from indexer.search.open import open_backend

    check_query(query)
    if explain and backend != SPARSE:
        raise InputError(f"--explain: the scores of {backend} are no sums over terms")
    searcher = open_backend(index, backend, engine)
    result = searcher.search(query, k)
    explanations = []
    if isinstance(searcher, Explainer) and (explain or not as_json):
        explanations = [searcher.explain(query, hit.image_id) for hit in result.hits]
    if as_json:
        typer.echo(answer_json(query, result, explanations))
        return
    console = Console()
    for part in answer_tables(result, explanations, explain):
        console.print(part)


def check_query(query: str) -> None:
    """Refuse a query that asks nothing.

    Raises:
        InputError: if it is blank or no text.
    """
    if not query.strip():
        raise InputError("the query is empty: say what the photo should show")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InputError("the query is not UTF-8 text: check the terminal's encoding") from error
