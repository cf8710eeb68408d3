"""`sparta eval exclusion`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import STAGES, AsJson, IndexFolder, Out, check_out


def exclusion(
    context: typer.Context,
    index: IndexFolder,
    captions: Annotated[
        Path, typer.Option(help="Captions of photos of the index, as for sparta eval index.")
    ],
    split: Annotated[str, typer.Option(help="Split of the photos that are measured.")] = "val",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure how well an excluded word (-dog) removes the photos that show it.

    A photo should go if one of its captions has the word; it goes if its impact for each piece of
    the word reaches 0.45 of the largest in the index. All words of at least three photos are
    excluded one by one, but for stop words. A second table has searches for one word without
    another: each word with the one that most of its photos have as well, where at least ten have
    both and ten do not.

    [bold]Example[/bold]

    sparta eval exclusion index/ --captions captions.jsonl --split val
    """
    from rich.console import Console

    from eval.exclusion.study import measure_exclusion
    from eval.report import report
    from indexer.search.open import open_index
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    check_out(out)
    photos = read_captions(captions, split)
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_exclusion(open_index(index), photos, progress)
    report(found, context.params, out, as_json)
