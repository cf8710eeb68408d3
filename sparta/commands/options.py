"""Options that several commands share: one flag has one meaning everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparta.errors import InputError

ADVANCED = "Advanced options"  # panel of a help, after the others


def advanced(*names: str, **settings: Any) -> Any:
    """An option in the panel of advanced ones."""
    return typer.Option(*names, rich_help_panel=ADVANCED, **settings)


IndexFolder = Annotated[Path, typer.Argument(help="Index folder.")]
Photos = Annotated[
    Path | None, typer.Option(help="Folder of photos (default: the one that was indexed).")
]
Hits = Annotated[int, typer.Option("-k", min=1, help="Maximum number of hits.")]
FilterText = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Only images whose metadata match, such as 'taken:2024-06..2024-08 -folder:raw'.",
    ),
]
Backend = Annotated[
    str, typer.Option(help="sparta, the inverted index, or the name of a dense model.")
]
Engine = Annotated[str, advanced(help="Engine of the inverted index: columns or lucene.")]
Substitute = Annotated[
    bool,
    advanced(
        "--substitute/--no-substitute",
        help="Correct misspelt words, and replace those that the index lacks by the nearest terms.",
    ),
]
Rerank = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Order the first N hits by a dual encoder's similarity, where the index was built "
        "with --rerank.",
    ),
]
ReadPhotos = Annotated[
    bool,
    typer.Option(
        "--photo-metadata/--no-photo-metadata",
        help="Store time, camera, place, rating and keywords from the photos' EXIF, XMP and IPTC.",
    ),
]
Frequencies = Annotated[
    str,
    advanced(
        metavar="model|FILE|none",
        help="Term frequencies for choosing an image's terms: of the model's training captions, "
        "of a text file with one query a line, or none.",
    ),
]
Include = Annotated[
    list[str],
    advanced(
        metavar="PATTERN",
        help="Take what is left out by default (hidden, thumbnails, deleted).",
    ),
]
Exclude = Annotated[
    list[str],
    advanced(
        metavar="PATTERN",
        help="Leave out files or folders of this name or path: raw, '*.png'.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

BatchSize = Annotated[int, advanced(min=1, help="Images per pass of a model.")]
Device = Annotated[str, advanced(help="auto, cpu, cuda, …")]
Ray = Annotated[
    str | None,
    advanced(
        metavar="ADDRESS|local",
        help="Compute on a Ray cluster: HOST:PORT of its head, auto, or local. All machines need "
        "the same folders and models under the same paths.",
    ),
]


def check_query(query: str, optional: bool = False) -> None:
    """Refuse a query without words.

    Args:
        query: any text.
        optional: whether it may be blank.

    Raises:
        InputError: if it is blank or not text.
    """
    if not (optional or query.strip()):
        raise InputError("the query is empty: describe what the photo should show")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InputError("the query is not UTF-8 text: check the terminal's encoding") from error
