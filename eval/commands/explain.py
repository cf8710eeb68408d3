"""`sparta explain`."""

import json
from pathlib import Path
from typing import Annotated

import typer


def explain(
    context: typer.Context,
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    image: Annotated[str, typer.Argument(help="Id of a photo in the index.")],
    query: Annotated[list[str], typer.Argument(help="What was asked, in one text or several.")],
    figure: Annotated[
        Path | None,
        typer.Option(
            help="Picture of the photo with what won each term drawn over it, a .png; its numbers "
            "go beside it, as .json."
        ),
    ] = None,
    photos: Annotated[
        Path | None, typer.Option(help="Folder of photos (default: as the index knows it).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell a photo's score for a query term by term, and what in the photo won each.

    A term's score is the largest that any region of the photo, or any token of a region's label,
    gives it (equation 10). Which one that was is kept in the index: no model runs.

    [bold]Examples[/bold]

    sparta explain index/ beach/1.jpg "two brown dogs play on the beach"

    sparta explain index/ beach/1.jpg "two dogs" "a ball in the sand" --figure why.png
    """
    from rich.console import Console

    from eval.grounding.explained_pairs import explain_all, open_photos
    from indexer.commands.output import terms_table
    from indexer.commands.search import check_query
    from indexer.search.lucene import LuceneSearcher

    for text in query:
        check_query(text)
    if figure is not None:
        from eval.plotting import check_out

        check_out(figure, "--figure")
    searcher = LuceneSearcher(index)
    found = explain_all(searcher, [(image, text) for text in query])
    records = [one.record() for one in found]
    if figure is not None:
        from eval.figures.grounding import draw
        from eval.plotting import save

        pictures = open_photos(photos or searcher.manifest.photos, [image])
        save(draw(found, pictures), {"examples": records}, figure, context.params)
    if as_json:
        typer.echo(json.dumps(records, ensure_ascii=False, indent=2))
        return
    console = Console()
    for one in found:
        title = f"{image}: “{one.query}” ({one.explanation.score:g})"
        console.print(terms_table(one.explanation, title))
