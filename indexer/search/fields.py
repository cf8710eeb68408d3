"""Opens the typed fields of an index folder; parts that did not change since are shared."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from pathlib import Path

from indexer.fields.derived import PATH
from indexer.fields.part import FieldPart
from indexer.fields.store import read_kinds
from indexer.fields.writer import part_of
from indexer.filters.expression import Match
from indexer.filters.field_index import FieldIndex
from indexer.lucene.reader import LuceneIndex

log = logging.getLogger(__name__)

Parts = MutableMapping[str, FieldPart]


def open_fields(folder: Path, index: LuceneIndex, parts: Parts | None = None) -> FieldIndex:
    """The fields of an index folder: mapped from its columns, else made of the stored metadata.

    Args:
        folder: the index folder.
        index: its documents, read where the columns have no fields or are of another state.
        parts: of segments that were read before, by their names; replaced by those of the index.

    Raises:
        InputError: if the columns are damaged.
    """
    known, kinds, found = parts or {}, read_kinds(folder), {}
    for name, documents in index.segments.items():
        part = known.get(name)
        if part is None:
            log.warning("%s: reading the fields of all images of segment %s", folder, name)
            part = part_of(map(index.stored, documents), kinds)
        found[name] = part
        kinds = part.kinds | kinds
    if parts is not None:
        parts.clear()
        parts.update(found)
    return FieldIndex(list(found.values()), index.live)


def warm_up_filters(fields: FieldIndex) -> None:
    """Filter once by a piece of the path, which every image has."""
    fields.allowed(Match(field=PATH, values=("a",), mode="text"))
