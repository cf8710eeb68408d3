"""`sparta export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from indexer.commands.options import IndexFolder
from sparta.errors import InputError

Format = Annotated[
    Literal["lucene", "anserini", "opensearch", "npz"],
    typer.Argument(
        metavar="FORMAT",
        help="lucene: a folder that Pyserini's LuceneImpactSearcher opens. anserini: JSON Lines "
        "for its JsonVectorCollection. opensearch: bulk requests and the mapping for them. npz: a "
        "sparse matrix of SciPy.",
    ),
]
Out = Annotated[Path, typer.Argument(help="Folder for the export; must not exist.")]
Field = Annotated[
    str | None, typer.Option(help="OpenSearch's field for the impacts (default: impacts).")
]
Kind = Annotated[
    Literal["rank_features", "sparse_vector"] | None,
    typer.Option(
        help="Kind of that field: rank_features, searched exactly (default), or sparse_vector, "
        "searched approximately, with numbers of terms in place of terms."
    ),
]


def export(
    format: Format, index: IndexFolder, out: Out, field: Field = None, kind: Kind = None
) -> None:
    """Write the impacts of an index for another search engine, or as a matrix.

    The images are those of the newest commit, in the order of their ids. The index stays as it is,
    and may be searched and written to meanwhile.

    For example:

    sparta export lucene index/ lucene/

    sparta export opensearch index/ requests/ --field impacts --kind rank_features

    sparta export npz index/ matrix/
    """
    from indexer.commands.building import STAGES
    from indexer.export import export_index
    from sparta.console import Console
    from sparta.progress import progress_bars

    if (field or kind) and format != "opensearch":
        raise InputError("--field and --kind are of opensearch: leave them out")
    stages = STAGES | {"export": ("Reading images", "images")}
    with progress_bars(stages, Console(stderr=True)) as progress:
        images = export_index(
            format,
            index,
            out,
            field=field or "impacts",
            kind=kind or "rank_features",
            progress=progress,
        )
    typer.echo(f"{out}: {images:,} images")
