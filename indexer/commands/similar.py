"""`sparta similar`."""

from typing import Annotated

import typer

from indexer.commands.options import AsJson, Backend, Engine, FilterOption, Hits, IndexFolder
from indexer.dense.manifest import SPARSE
from sparta.errors import InputError

ImageIds = Annotated[list[str], typer.Argument(help="Id of an indexed image, or of several.")]
Words = Annotated[
    str, typer.Option(help="A query that the images should fit as well; it may only exclude.")
]


def similar(
    index: IndexFolder,
    image_id: ImageIds,
    words: Words = "",
    k: Hits = 10,
    backend: Backend = SPARSE,
    engine: Engine = "auto",
    filter_text: FilterOption = None,
    as_json: AsJson = False,
) -> None:
    """Find the images most similar to an indexed image, or to several.

    Query by image uses the top ten terms of the images as a weighted query, of which words have
    half of the weight; a dense model finds the nearest vectors instead, without words. The images
    themselves are left out.

    For example:

    sparta similar index/ "beach/two dogs.jpg"

    sparta similar index/ "beach/two dogs.jpg" -k 3 --json

    sparta similar index/ "beach/two dogs.jpg" "beach/3.jpg" --words "at night -ball"

    sparta similar index/ "beach/two dogs.jpg" --filter "-folder:beach"

    sparta similar index/ "beach/two dogs.jpg" --backend vse++
    """
    import json
    from dataclasses import asdict

    from indexer.commands.answer_tables import answer_tables
    from indexer.commands.filtering import allowed_by
    from indexer.search.api import Explainer, UnknownImageError
    from indexer.search.open import open_backend
    from sparta.console import Console

    searcher = open_backend(index, backend, engine)
    allowed = None if filter_text is None else allowed_by(filter_text, searcher, index)
    try:
        result = searcher.similar(image_id, k, words=words, allowed=allowed)
    except UnknownImageError as error:
        raise InputError(
            f"{index} has no image {error.args[0]!r}: give an id as sparta search shows it"
        ) from error
    if as_json:
        first, *also = image_id
        answer = {"image_id": first, "also": also, "words": words, **asdict(result)}
        typer.echo(json.dumps(answer, ensure_ascii=False, indent=2))
        return
    explanations = []
    if isinstance(searcher, Explainer):
        ids = [hit.image_id for hit in result.hits]
        explanations = searcher.explain_all(result.terms, ids, grounded=False)
    console = Console()
    if result.terms:
        terms = ", ".join(f"{term} ({count})" for term, count in result.terms.items())
        console.print(f"Query terms: {terms}")
    for part in answer_tables(result, explanations, explain=False):
        console.print(part)
