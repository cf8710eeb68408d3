"""`sparta similar`."""

from typing import Annotated

import typer

from indexer.commands.options import (
    AsJson,
    Backend,
    Engine,
    FilterOption,
    Hits,
    IndexFolder,
    reading_filter,
)
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
    engine: Engine = "columns",
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
    from indexer.engines.open import open_backend
    from indexer.search.searcher import Explain
    from indexer.store.images import UnknownImageError

    searcher = open_backend(index, backend, engine)
    how = None if as_json else Explain(grounded=False)
    try:
        with reading_filter(filter_text) as filter:
            answer = searcher.similar(image_id, k, words=words, filter=filter, explain=how)
    except UnknownImageError as error:
        raise InputError(
            f"{index} has no image {error.args[0]!r}: give an id as sparta search shows it"
        ) from error
    if as_json:
        from json import dumps

        first, *also = image_id
        about = {"image_id": first, "also": also, "query": words}
        typer.echo(dumps({**about, **answer.as_json()}, ensure_ascii=False, indent=2))
        return
    from indexer.commands.answer_tables import answer_tables
    from sparta.console import Console

    console = Console()
    if answer.terms:
        terms = ", ".join(f"{one.term} ({one.count})" for one in answer.terms)
        console.print(f"Query terms: {terms}")
    for part in answer_tables(answer, explain=False):
        console.print(part)
