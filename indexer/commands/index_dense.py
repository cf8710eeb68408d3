"""`sparta index-dense`."""

from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.options import BatchSize, Device

Features = Annotated[
    Path,
    typer.Argument(help="The index's plain feature store, or photos in the models' features."),
]
Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="[NAME=]MODEL",
        help="Dense model: folder or hub name. Its vectors become a backend of its own, under "
        "NAME or the model's configured name.",
    ),
]
Out = Annotated[Path, typer.Option(help="Index folder made by sparta index.")]
Hnsw = Annotated[
    bool, typer.Option("--hnsw", help="Store vectors in an HNSW graph: faster, may miss images.")
]


def index_dense(
    features: Features,
    model: Models,
    out: Out,
    hnsw: Hnsw = False,
    batch_size: BatchSize = 32,
    device: Device = "auto",
) -> None:
    """Add the image vectors of dense models to an index.

    Each model becomes a backend beside the inverted index.
    Photos are first turned into the features the models were trained on, stored in OUT.features.
    Of an index that was written to, images are embedded that are as they were built, or were added
    with the same features; the others keep the vectors that they have.

    For example:

    sparta index-dense features/ --model vse++/ --out index/

    sparta index-dense features/ --model vse++/ --model tuned=runs/7/ --hnsw --out index/
    """
    from indexer.commands.building import STAGES, dense_summary
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.dense.build import add_dense, check_index
    from indexer.dense.models import check_models, name_models
    from indexer.encoding.features import open_stores
    from indexer.engines.open import open_backend
    from sparta.console import Console
    from sparta.progress import progress_bars

    named = name_models(model)
    check_index(out)
    stages = {f"embed {name}": (f"Embedding for {name}", "images") for name in named}
    console = Console()
    added = {}
    with progress_bars(STAGES | stages, console) as show:
        models = list(named.values())
        [store] = open_stores([features], models, "vse", out, device=device, progress=show)
        check_models(named, store)
        for name, path in named.items():
            added[name] = add_dense(
                out,
                store,
                name,
                path,
                kind="hnsw" if hnsw else "flat",
                batch_size=batch_size,
                device=device,
                progress=show,
            )
    for name, manifest in added.items():
        missing = open_backend(out, name).missing_images
        left = f"; {missing:,} without" if missing else ""
        line = f"{out}: {dense_summary(name, manifest)}{left}"
        console.print(line, soft_wrap=True, highlight=False)
