"""The option `--filter`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from indexer.filters.expression import FilterError
from indexer.filters.text import parse_filter, pointed
from indexer.search.api import Fields, Filterable, Searcher, Selection
from indexer.search.browsing import Browsable
from indexer.search.open import open_searcher
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError


def allowed_by(text: str, searcher: Searcher, folder: Path) -> Selection:
    """The images that a filter lets through.

    Args:
        text: the filter.
        searcher: of the index folder; a dense one knows no fields.
        folder: of the index.

    Raises:
        InputError: if the filter cannot be read or does not fit the fields, with a line that
            points at the place.
    """
    try:
        return _fields(searcher, folder).allowed(parse_filter(text))
    except FilterError as error:
        raise InputError(f"--{pointed(text, error)}") from error


def images_let_through(text: str, folder: Path) -> tuple[list[str], int]:
    """Ids of the images that a filter lets through, sorted, and how many images there are.

    Raises:
        InputError: as `allowed_by`, and if the folder is not an index.
    """
    with closing(open_searcher(folder)) as searcher:
        found: Browsable = searcher
        return sorted(found.ids(allowed_by(text, searcher, folder))), len(searcher)


def _fields(searcher: Searcher, folder: Path) -> Fields:
    filterable = searcher if isinstance(searcher, Filterable) else Snapshot.open(folder)
    return filterable.field_index()
