"""`sparta eval grounding`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import CAPTIONS, SPLIT, check_out


def grounding(
    context: typer.Context,
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    features: Annotated[Path, typer.Option(help="Feature store the index was made of.")],
    captions: Annotated[Path, CAPTIONS],
    split: Annotated[str, SPLIT] = "val",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON file that also says how it was measured.")
    ] = None,
) -> None:
    """Count where the terms of captions point in their own photos.

    A term is won by the whole photo, by a box or by a token of a region's label. Where a term is
    itself a word of a label ("dog", and the detector has found a dog), or of an attribute, a
    region called so is the right one. Chance is to point at any region of the photo.

    [bold]Example[/bold]

    sparta eval grounding index/ --features features/ --captions captions.jsonl --split val
    """
    from rich.console import Console

    from eval.grounding.detector_labels import measure_label_agreement
    from eval.report import report
    from indexer.search.lucene import LuceneSearcher
    from sparta.captions.read import read_captions
    from sparta.features.store import FeatureStore
    from sparta.progress import progress_bars
    from sparta.tokenizer import WordPieceTokenizer

    check_out(out)
    photos = read_captions(captions, split)
    store = FeatureStore.open(features)
    searcher, tokenizer = LuceneSearcher(index), WordPieceTokenizer.from_folder(index)
    with progress_bars({"explain": ("Explaining", "photos")}, Console(stderr=True)) as show:
        found = measure_label_agreement(
            searcher, tokenizer, store, photos, lambda *steps: show("explain", *steps)
        )
    report(found, context.params, out, as_json)
