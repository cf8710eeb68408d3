"""The `similar` command."""

from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError


def similar(
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    image_id: Annotated[str, typer.Argument(help="An image of the index, as it is called there.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Images to show.")] = 10,
    backend: Annotated[
        str, typer.Option(help="sparta (the inverted index), a dense model's name, or ensemble.")
    ] = "sparta",
    engine: Annotated[
        str, typer.Option(help="What sums the impacts: columns, lucene or auto.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the images most like one of the index.

    The image's strongest terms are the query, each counting by its impact. A dense model finds the
    nearest vectors instead. The image itself is left out.

    [bold]Examples[/bold]

    sparta similar index/ "beach/two dogs.jpg"

    sparta similar index/ "beach/two dogs.jpg" -k 3 --json

    sparta similar index/ "beach/two dogs.jpg" --backend vse++
    """
    import json
    from dataclasses import asdict

    from rich.console import Console
    from rich.markup import escape

    from indexer.commands.output import answer_tables
    from indexer.search.api import Explainer, UnknownImageError
    from indexer.search.open import open_backend

    searcher = open_backend(index, backend, engine)
    try:
        result = searcher.similar(image_id, k)
    except UnknownImageError as error:
        raise InputError(
            f"{index} has no image {image_id!r}: give an id as sparta search shows it"
        ) from error
    if as_json:
        answer = {"image_id": image_id, **asdict(result)}
        typer.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    explanations = []
    if isinstance(searcher, Explainer):
        explanations = [searcher.explain_terms(result.terms, hit.image_id) for hit in result.hits]
    console = Console()
    if result.terms:
        asked = ", ".join(f"{term} ({count})" for term, count in result.terms.items())
        console.print(f"Asked for: {escape(asked)}")
    for part in answer_tables(result, explanations, explain=False):
        console.print(part)
