"""Opens the typed fields of an index folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.columns.manifest import FOLDER, columns_fit, has_columns
from indexer.fields.part import FIELDS, FieldPart
from indexer.fields.store import read_kinds
from indexer.fields.writer import FieldWriter
from indexer.filters.field_index import CachedPart, FieldIndex
from indexer.lucene.reader import Stored

log = logging.getLogger(__name__)


class StoredDocuments(Protocol):
    """Ids and metadata of documents by number: a `LuceneIndex`."""

    @property
    def documents(self) -> int: ...  # noqa: D102
    @property
    def live(self) -> NDArray[np.bool_] | None: ...  # noqa: D102
    def stored(self, document: int) -> Stored: ...  # noqa: D102


def open_fields(folder: Path, images: StoredDocuments) -> FieldIndex:
    """The fields of an index folder: mapped from its columns, else made of the stored metadata.

    Args:
        folder: the index folder.
        images: its documents, read where the columns have no fields or are of another state.

    Raises:
        InputError: if the columns are damaged.
    """
    columns = folder / FOLDER
    if has_columns(folder) and columns_fit(folder) and (columns / FIELDS).is_file():
        return FieldIndex([CachedPart(FieldPart.open(columns))], images.live)
    log.warning("%s: reading the fields of all images, which an index built now has ready", folder)
    writer = FieldWriter(read_kinds(folder))
    for document in range(images.documents):
        image_id, metadata = images.stored(document)
        writer.add([image_id], [metadata])
    return FieldIndex([CachedPart(writer.part())], images.live)
