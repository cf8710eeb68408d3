"""`sparta explain`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, IndexFolder
from indexer.commands.options import SubstituteOption, check_query


def explain(
    context: typer.Context,
    index: IndexFolder,
    image: Annotated[str, typer.Argument(help="Id of a photo in the index.")],
    query: Annotated[list[str], typer.Argument(help="One query or several.")],
    figure: Annotated[
        Path | None,
        typer.Option(
            help="PNG file to write: the photo with the region that won each term; its numbers are "
            "written beside it, as .json."
        ),
    ] = None,
    photos: Annotated[
        Path | None, typer.Option(help="Folder of photos (default: the one the index names).")
    ] = None,
    substitute: SubstituteOption = True,
    as_json: AsJson = False,
) -> None:
    """Explain a photo's score for a query: the impact of each term, and what in the photo won it.

    A term's score is the maximum over all regions of the photo and all tokens of their labels
    (equation 10). The index stores which one won, so that no model runs.

    For example:

    sparta explain index/ beach/1.jpg "two brown dogs play on the beach"

    sparta explain index/ beach/1.jpg "two dogs" "a ball in the sand" --figure why.png
    """
    from eval.figures import grounding
    from indexer.commands.answer_tables import terms_table
    from indexer.search.lucene import LuceneSearcher
    from sparta.console import Console

    for text in query:
        check_query(text)
    if figure is not None:
        from eval.plotting import check_picture

        check_picture(figure, "--figure")
    searcher = LuceneSearcher(index)
    found = [grounding.explain(searcher, image, text, substitute) for text in query]
    records = [one.record() for one in found]
    if figure is not None:
        from eval.plotting import save
        from eval.report import head_of, index_models

        drawn = grounding.draw(found, photos or searcher.manifest.photos)
        head = head_of(context, index_models(index))
        save(drawn, {**head, "examples": records}, figure)
    if as_json:
        typer.echo(json.dumps(records, ensure_ascii=False, indent=2))
        return
    console = Console()
    for one in found:
        title = f"{image}: “{one.query}” ({one.explanation.score:g})"
        console.print(terms_table(one.explanation, title))
        if one.explanation.against:
            console.print(f"A search leaves it out: {' '.join(one.explanation.against)}")
