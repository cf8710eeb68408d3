"""Options that several commands of the indexer share, and the check of their queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.filters.expression import Filter

IndexFolder = Annotated[Path, typer.Argument(help="Index folder made by sparta index.")]
Hits = Annotated[int, typer.Option("-k", min=1, help="Images to return.")]
Backend = Annotated[str, typer.Option(help="sparta (the inverted index) or a dense model's name.")]
Engine = Annotated[
    str,
    typer.Option(help="What finds images: columns or lucene."),
]
SubstituteOption = Annotated[
    bool,
    typer.Option(
        "--substitute/--no-substitute",
        help="Replace words that the index lacks by the nearest trained terms, if the index has a "
        "table of substitutes.",
    ),
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Images that may be found: conditions on fields of their metadata, such as "
        "'taken:2024-06..2024-08 camera:canon -folder:raw'.",
    ),
]
ReadPhotos = Annotated[
    bool,
    typer.Option(
        "--photo-metadata/--no-photo-metadata",
        help="Store what the photos' files say (EXIF, XMP, IPTC): time, camera, place, rating, "
        "keywords. Whoever may search sees it.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

BatchSize = Annotated[int, typer.Option(min=1, help="Images per pass of a model.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, …")]


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


@contextmanager
def reading_filter(text: str | None) -> Iterator[Filter | None]:
    """The filter of `--filter`; errors of the filter and of other options name the option.

    Raises:
        InputError: if it cannot be read, or a search within does not fit the fields or the engine.
    """
    from indexer.search.answer import RefusedError

    try:
        if text is None:
            yield None
            return
        # A search without a filter does not need them.
        from indexer.filters.expression import FilterError
        from indexer.filters.syntax import parse_filter, pointed

        try:
            yield parse_filter(text)
        except FilterError as error:
            raise InputError(f"--{pointed(text, error)}") from error
    except RefusedError as error:
        if error.field in ("sort", "min_coverage", "words"):
            option = error.field.replace("_", "-")
            raise InputError(f"--{option}: {error.reason}") from error
        raise InputError(error.reason) from error
