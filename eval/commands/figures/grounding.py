"""`sparta figure grounding`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.figures.options import Picture
from eval.commands.options import IndexFolder, OptionalCaptions, Split
from sparta.errors import InputError


def grounding(
    context: typer.Context,
    index: IndexFolder,
    out: Picture,
    captions: OptionalCaptions = None,
    split: Split = "val",
    count: Annotated[int, typer.Option(min=1, help="Photos to take from the captions.")] = 10,
    queries: Annotated[
        Path | None,
        typer.Option(help="Instead of captions: a file of image ids and queries, a tab between."),
    ] = None,
    photos: Annotated[
        Path | None, typer.Option(help="Folder of photos (default: the one the index names).")
    ] = None,
) -> None:
    """Draw over photos what won each term of a query (VisualSparta, figure 3).

    From captions, photos at even distances in the order of their ids are taken, each with its first
    caption, to avoid a selection by hand.

    [bold]Examples[/bold]

    sparta figure grounding index/ --captions captions.jsonl --count 10 --out grounding.png

    sparta figure grounding index/ --queries chosen.tsv --photos photos/ --out grounding.png
    """
    from eval.figures.grounding import draw
    from eval.grounding.explained_pairs import every_nth, explain_all, open_photos, read_pairs
    from eval.plotting import check_picture, save
    from indexer.search.lucene import LuceneSearcher
    from sparta.captions.read import read_captions

    check_picture(out)
    if (captions is None) == (queries is None):
        raise InputError("photos and queries: give --captions or --queries, and not both")
    if captions is not None:
        pairs = every_nth(read_captions(captions, split), count)
    else:
        assert queries is not None
        pairs = read_pairs(queries)
    searcher = LuceneSearcher(index)
    found = explain_all(searcher, pairs)
    pictures = open_photos(photos or searcher.manifest.photos, [image for image, _ in pairs])
    save(draw(found, pictures), {"examples": [one.record() for one in found]}, out, context.params)
