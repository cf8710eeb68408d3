"""`sparta similar`."""

from typing import Annotated

import typer

from indexer.commands.options import AsJson, Backend, Engine, Hits, IndexFolder
from indexer.dense.manifest import SPARSE
from sparta.errors import InputError

ImageId = Annotated[str, typer.Argument(help="Id of an indexed image.")]


def similar(
    index: IndexFolder,
    image_id: ImageId,
    k: Hits = 10,
    backend: Backend = SPARSE,
    engine: Engine = "auto",
    as_json: AsJson = False,
) -> None:
    """Find the images most similar to an indexed image.

    Query by image uses the image's top ten terms as a weighted query; a dense model finds the
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

    from indexer.commands.answers import answer_tables
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
        ids = [hit.image_id for hit in result.hits]
        explanations = searcher.explain_all(result.terms, ids)
    console = Console()
    if result.terms:
        terms = ", ".join(f"{term} ({count})" for term, count in result.terms.items())
        console.print(f"Query terms: {escape(terms)}")
    for part in answer_tables(result, explanations, explain=False):
        console.print(part)
