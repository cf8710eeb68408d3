"""`sparta delete`."""

from typing import Annotated

import typer

from indexer.commands.options import IndexFolder

Ids = Annotated[list[str], typer.Argument(help="Ids of images, as sparta search shows them.")]


def delete(index: IndexFolder, ids: Ids) -> None:
    """Delete images from an index; all of them, or none if one is not there.

    The photos themselves stay where they are. The next search finds the images no longer, a
    running sparta serve within a second or two.

    [bold]Examples[/bold]

    sparta delete index/ "beach/two dogs.jpg"

    sparta delete index/ 2023/a.jpg 2023/b.jpg
    """
    from indexer.update.delete import delete_images

    left = delete_images(index, ids)
    count = len(set(ids))
    typer.echo(f"{index}: {count:,} image{'s' * (count != 1)} deleted; {left:,} in all")
