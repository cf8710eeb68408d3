"""The `index` and `search` commands."""

import os
from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError


def index(
    features: Annotated[
        list[Path],
        typer.Argument(help="A folder of photos, or feature stores: views of the same photos."),
    ],
    model: Annotated[
        list[str],
        typer.Option(help="VisualSparta model: folder or hub name. Repeat it to average models."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the index; replaced once it is whole.")],
    views: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Views of each photo to average: plain, mirrored, then random crops (default: 1).",
        ),
    ] = None,
    top_n: Annotated[str, typer.Option(help="Terms an image keeps, or: all.")] = "1000",
    bits: Annotated[int, typer.Option(min=1, max=16, help="Bits of an impact.")] = 8,
    baseline: Annotated[
        str,
        typer.Option(
            help="Taken off each term's scores before pruning: mean, median, minimum of the "
            "corpus, or none (the paper's pruning)."
        ),
    ] = "mean",
    terms: Annotated[
        str, typer.Option(help="Terms of the index: seen in the model's training, or all.")
    ] = "seen",
    batch_size: Annotated[int, typer.Option(min=1, help="Images per pass.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
) -> None:
    """Encode images, prune their terms and write a Lucene index to search.

    Photos are first turned into the features the model was trained on, kept in OUT.features. A run
    that was interrupted continues when started again. Scores averaged over several views and
    models find more, at no cost when searching.

    [bold]Examples[/bold]

    sparta index features/ --model model/ --out index/

    sparta index photos/ --model seed0/ --model seed1/ --views 4 --out index/

    sparta index photos/ --model model/ --out index/ --top-n all --baseline none
    """
    # As for sparta extract: torch's threads must leave the cores to the decoding workers.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from huggingface_hub.utils import logging as hub_logging
    from rich.console import Console
    from transformers.utils import logging

    from indexer.build import build_index
    from indexer.report import STAGES, summary
    from indexer.sources import open_features
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    logging.disable_progress_bar()
    if top_n != "all" and not top_n.isdecimal():
        raise InputError(f"--top-n must be a number or all, got {top_n!r}")
    console = Console()
    with progress_bars(STAGES, console) as show:
        stores = open_features(features, model, out, views=views, device=device, progress=show)
        manifest = build_index(
            stores,
            model,
            out,
            top_n=None if top_n == "all" else int(top_n),
            bits=bits,
            baseline=baseline,  # type: ignore[arg-type]
            terms=terms,  # type: ignore[arg-type]
            batch_size=batch_size,
            device=device,
            progress=show,
        )
    console.print(f"{out}: {summary(manifest)}", soft_wrap=True, highlight=False)


def search(
    index: Annotated[Path, typer.Argument(help="Index folder made by sparta index.")],
    query: Annotated[str, typer.Argument(help="What the photo should show.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Images to show.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show each word piece's impact and region.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the images that fit a text.

    [bold]Examples[/bold]

    sparta search index/ "two dogs on a beach"

    sparta search index/ "two dogs on a beach" -k 3 --explain

    sparta search index/ "two dogs on a beach" --json
    """
    from rich.console import Console

    from indexer.lucene_searcher import LuceneSearcher
    from indexer.report import answer_json, answer_tables

    if not query.strip():
        raise InputError("the query is empty: say what the photo should show")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InputError("the query is not UTF-8 text: check the terminal's encoding") from error
    searcher = LuceneSearcher(index)
    result = searcher.search(query, k)
    wanted = result.hits if explain or not as_json else []
    explanations = [searcher.explain(query, hit.image_id) for hit in wanted]
    if as_json:
        typer.echo(answer_json(query, result, explanations))
        return
    console = Console()
    for part in answer_tables(result, explanations, explain):
        console.print(part)
