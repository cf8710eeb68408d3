"""The `index` and `search` commands."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sparta.errors import InputError


def index(
    features: Annotated[
        list[Path],
        typer.Argument(help="A folder of photos, or feature stores: views of the same photos."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the index; replaced once it is whole.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help="VisualSparta model: folder or hub name. Repeat it to average models."),
    ] = None,
    dense: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]MODEL",
            help="Dense model whose vectors are added as a backend of its own. Without --model, "
            "to the index that is in OUT.",
        ),
    ] = None,
    hnsw: Annotated[
        bool, typer.Option("--hnsw", help="Dense vectors in a graph: faster, may miss images.")
    ] = False,
    views: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Views of each photo to average: plain, mirrored, then random crops (default: 1).",
        ),
    ] = None,
    top_n: Annotated[str, typer.Option(help="Terms an image keeps, or: all.")] = "1000",
    bits: Annotated[int, typer.Option(min=1, max=16, help="Bits of an impact.")] = 8,
    offset: Annotated[
        str,
        typer.Option(
            help="Taken off each term's scores before pruning: mean, median, minimum of the "
            "corpus, or none (the paper's pruning)."
        ),
    ] = "mean",
    terms: Annotated[
        str, typer.Option(help="Terms of the index: seen in the model's training, or all.")
    ] = "trained",
    batch_size: Annotated[int, typer.Option(min=1, help="Images per pass.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
) -> None:
    """Encode images, prune their terms and write a Lucene index to search.

    Photos are first turned into the features the model was trained on, kept in OUT.features. A run
    that was interrupted continues when started again. Scores averaged over several views and
    models find more, at no cost when searching.

    Dense models answer beside the inverted index. Building that anew drops them, since images may
    have changed: name them again.

    [bold]Examples[/bold]

    sparta index features/ --model model/ --out index/

    sparta index photos/ --model seed0/ --model seed1/ --views 4 --out index/

    sparta index photos/ --model model/ --out index/ --top-n all --offset none

    sparta index features/ --dense vse++/ --dense tuned=runs/7/ --out index/
    """
    # As for sparta extract: torch's threads must leave the cores to the decoding workers.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from huggingface_hub.utils import logging as hub_logging
    from rich.console import Console
    from transformers.utils import logging

    from indexer.build import build_index
    from indexer.commands.output import STAGES, dense_stage, dense_summary, summary
    from indexer.dense.build import add_dense, check_index, check_models, name_models
    from indexer.inputs import open_features
    from sparta.progress import progress_bars

    logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    logging.disable_progress_bar()
    if top_n != "all" and not top_n.isdecimal():
        raise InputError(f"--top-n must be a number or all, got {top_n!r}")
    sparse, parts = model or [], name_models(dense or [])
    if not sparse and not parts:
        raise InputError("nothing to index with: give --model, --dense or both")
    if hnsw and not parts:
        raise InputError("--hnsw is how the vectors of a --dense model are kept: give one")
    if not sparse:
        check_index(out)
        if len(features) > 1 or views:
            raise InputError("--dense embeds the plain view alone: give that, without --views")
    said = []
    console = Console()
    with progress_bars(STAGES | {name: dense_stage(name) for name in parts}, console) as show:
        stores = open_features(
            features,
            sparse,
            out,
            dense=list(parts.values()),
            views=views,
            device=device,
            progress=show,
        )
        if parts:
            check_models(parts, stores[0])
        if sparse:
            manifest = build_index(
                stores,
                sparse,
                out,
                top_n=None if top_n == "all" else int(top_n),
                bits=bits,
                offset=offset,  # type: ignore[arg-type]
                terms=terms,  # type: ignore[arg-type]
                batch_size=batch_size,
                device=device,
                progress=show,
            )
            said.append(summary(manifest))
        for name, path in parts.items():
            added = add_dense(
                out,
                stores[0],
                name,
                path,
                kind="hnsw" if hnsw else "flat",
                batch_size=batch_size,
                device=device,
                progress=partial(show, name),
            )
            said.append(dense_summary(name, added))
    for line in said:
        console.print(f"{out}: {line}", soft_wrap=True, highlight=False)
