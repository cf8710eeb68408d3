"""`sparta delete`."""

from typing import Annotated

import typer

from indexer.commands.options import IndexFolder, Yes, reading_filter
from sparta.errors import InputError

Ids = Annotated[
    list[str] | None, typer.Argument(help="Ids of images, as sparta search shows them.")
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Delete the images that it lets through instead: conditions on fields of their "
        "metadata, such as 'taken:..2009 folder:raw'.",
    ),
]
FEW = 10  # images that a filter may delete without a question


def delete(
    index: IndexFolder, ids: Ids = None, filter_text: Filter = None, yes: Yes = False
) -> None:
    """Delete images from an index; all of them, or none if one is not there.

    The photos themselves stay where they are. The next search finds the images no longer, a
    running sparta serve within a second or two.

    For example:

    sparta delete index/ "beach/two dogs.jpg"

    sparta delete index/ 2023/a.jpg 2023/b.jpg

    sparta delete index/ --filter "folder:raw -rating:>=3"
    """
    from indexer.commands.consent import ask
    from indexer.engines.open import open_index
    from indexer.update.delete import delete_images

    if bool(ids) == (filter_text is not None):
        raise InputError("give ids, or a --filter, and not both")
    if filter_text is not None:
        searcher = open_index(index)
        with reading_filter(filter_text) as filter:
            ids, images = searcher.ids(filter), len(searcher)
        if not ids:
            typer.echo(f"{index}: the filter lets none of {images:,} images through")
            return
        if len(ids) > FEW:
            ask(f"{index}: delete {len(ids):,} of {images:,} images?", yes)
    left = delete_images(index, ids or [])
    count = len(set(ids or []))
    typer.echo(f"{index}: {count:,} image{'s' * (count != 1)} deleted; {left:,} in all")
