"""The typed fields of a published index, a file each, which filters and facets read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from indexer.fields.derived import FOLDER, PATH
from indexer.fields.kinds import Kind
from indexer.fields.part import FieldColumn
from indexer.fields.writer import part_of
from server.publish.folder import SiteFolder
from server.publish.packs import deflated, leb128
from server.publish.records import Shown
from server.publish.terms import as_json

_TYPES: Mapping[Kind, str] = {"number": "<f8", "date": "<i8", "boolean": "u1", "geo": "<f8"}


def write_fields(
    site: SiteFolder, images: Sequence[Shown], kinds: Mapping[str, Kind], paths: bool
) -> dict[str, Any]:
    """Write the fields of images.

    Args:
        site: the folder.
        images: [N] by position.
        kinds: declared, by field.
        paths: whether ids are paths, which are fields then.

    Returns:
        by the name of each field its kind and its file.
    """
    part = part_of(((image.image_id, image.metadata) for image in images), kinds)
    written = {}
    for name, column in sorted(part.columns.items()):
        if paths or name not in (PATH, FOLDER):
            content = deflated(_packed(column))
            written[name] = [column.kind, site.put_named("index/field", ".bin", content)]
    return written


def _packed(column: FieldColumn) -> bytes:
    """How many values each image has, then the values, after a header with a keyword's words."""
    header = as_json(None if column.words is None else column.words.to_pylist())
    counts = leb128(np.diff(column.starts))
    kind = _TYPES.get(column.kind)
    values = leb128(column.values) if kind is None else column.values.astype(kind)
    parts = [header, counts.tobytes(), values.tobytes()]
    return b"".join(leb128(np.array([len(part)])).tobytes() + part for part in parts)
