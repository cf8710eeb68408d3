"""`sparta eval index`."""

from pathlib import Path
from typing import Annotated

import typer

from eval.commands.options import (
    STAGES,
    AsJson,
    Captions,
    ImageKey,
    IndexFolder,
    Out,
    Split,
    check_image_key,
    check_out,
)
from indexer.commands.options import SubstituteOption

RunFile = Annotated[
    Path | None, typer.Option(help="TREC run file to write: qid Q0 docid rank score tag.")
]
QrelsFile = Annotated[Path | None, typer.Option(help="TREC qrels file to write: qid 0 docid 1.")]
Depth = Annotated[int, typer.Option(min=1, help="Images per query in the TREC run.")]
Backend = Annotated[str | None, typer.Option(help="Dense backend of the index to search, by name.")]


def index(
    context: typer.Context,
    index: IndexFolder,
    captions: Captions,
    split: Split = "val",
    image_key: ImageKey = "file",
    backend: Backend = None,
    run: RunFile = None,
    qrels: QrelsFile = None,
    depth: Depth = 1000,
    substitute: SubstituteOption = True,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure text → image recall of an index: each caption searches for its photo.

    All images of the index take part, and images with equal scores are ordered by id, as in every
    search.

    [bold]TREC files[/bold]

    --run and --qrels write what trec_eval, ir_measures and ranx read. A query id is the image id,
    # and the number of the caption; in image ids, spaces and other characters than letters, digits
    and _.-~/ are percent-encoded. Scores that are equal are lowered by the smallest step, so that a
    tool that sorts by score finds our order.

    [bold]Examples[/bold]

    sparta eval index index/ --captions captions.jsonl

    sparta eval index index/ --captions captions.jsonl --split test --run out.trec
    --qrels out.qrels --depth 100
    """
    from rich.console import Console

    from eval.recall.index import check_file, measure_index_recall, write_qrels, write_run
    from eval.report import report
    from indexer.dense.manifest import SPARSE
    from indexer.search.open import open_backend
    from sparta.captions.read import read_captions
    from sparta.progress import progress_bars

    check_out(out)
    check_file(run, "--run")
    check_file(qrels, "--qrels")
    photos = read_captions(captions, split, image_key=check_image_key(image_key))
    searcher = open_backend(index, backend or SPARSE, "lucene")
    with progress_bars(STAGES, Console(stderr=True)) as progress:
        found = measure_index_recall(searcher, photos, substitute=substitute, progress=progress)
        if run is not None:
            write_run(searcher, photos, run, depth, backend or "sparta", substitute, progress)
    if qrels is not None:
        write_qrels(photos, qrels)
    report(found, context.params, out, as_json)
