"""`sparta eval grounding`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import AsJson, Captions, IndexFolder, Out, Split, check_out


def grounding(
    context: typer.Context,
    index: IndexFolder,
    features: Annotated[Path, typer.Option(help="Feature store the index was built from.")],
    captions: Captions,
    split: Split = "val",
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Compare the grounding of captions' terms with the labels of an object detector.

    A term is won by the whole photo, a box or a token of a region's label. If the term is a word of
    a region's label (a caption says "dog" and the detector labelled a dog) or of its attribute,
    regions with that word are right. Chance is to choose any region of the photo.

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
    with progress_bars({"explain": ("Explaining", "photos")}, Console(stderr=True)) as progress:
        found = measure_label_agreement(searcher, tokenizer, store, photos, progress)
    report(found, context.params, out, as_json)
