"""`sparta eval recall`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import CAPTIONS, SPLIT, STAGES


def recall(
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    captions: Annotated[Path, CAPTIONS],
    split: Annotated[str, SPLIT] = "val",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask an index every caption and count how often its photo comes first.

    All images of the index take part, captioned or not.

    [bold]Examples[/bold]

    sparta eval recall index/ --captions captions.jsonl

    sparta eval recall index/ --captions captions.jsonl --split test --json
    """
    import json
    from dataclasses import asdict

    from rich.console import Console

    from eval.recall import recall_of, recall_table
    from indexer.lucene_searcher import LuceneSearcher
    from sparta.progress import progress_bars
    from training.data.captions import read_captions

    photos = read_captions(captions, split)
    searcher = LuceneSearcher(index)
    with progress_bars(STAGES, Console(stderr=True)) as show:
        found = recall_of(
            searcher, photos, progress=lambda done, total: show("search", done, total)
        )
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"recall": found.recall._asdict()}, indent=2))
    else:
        Console().print(recall_table(found))
