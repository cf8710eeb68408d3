"""Images as rows of a collection, and its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from indexer.fields.kinds import CONVERSIONS, Kind, with_derived
from indexer.postings import ImagePostings
from sparta.errors import InputError
from sparta.extras import require

KEY, IMAGE_ID, IMPACTS = "id", "image_id", "impacts"
FIELDS, METADATA = "fields", "metadata"
LONGEST = 65_535  # bytes of a text in Milvus
MARKER = "."  # key of the row that says what the collection has; that of no image
INDEX = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
# The best documents at a time, with nothing left out: both ratios are 0 by default, too.
INDEX_PARAMETERS = {"inverted_index_algo": "DAAT_MAXSCORE", "drop_ratio_build": 0.0}
SEARCH = {"metric_type": "IP", "params": {"drop_ratio_search": 0.0}}


def key_of(image_id: str) -> str:
    """The primary key of an image: its id in UTF-8, in hexadecimal digits.

    Keys are in the order of the ids, and no character of an id needs escaping in a filter.
    """
    return image_id.encode().hex()


def schema(client: Any) -> tuple[Any, Any]:
    """The schema of a collection and its index, as `create_collection` takes them."""
    kinds = require("pymilvus").DataType
    made = client.create_schema(auto_id=False, enable_dynamic_field=False)
    made.add_field(KEY, kinds.VARCHAR, max_length=LONGEST, is_primary=True)
    for name in (IMAGE_ID, METADATA):
        made.add_field(name, kinds.VARCHAR, max_length=LONGEST)
    made.add_field(FIELDS, kinds.JSON)
    made.add_field(IMPACTS, kinds.SPARSE_FLOAT_VECTOR)
    index = client.prepare_index_params()
    index.add_index(IMPACTS, params=INDEX_PARAMETERS, **INDEX)
    return made, index


def row_of(image: ImagePostings, kinds: Mapping[str, Kind], terms: int) -> dict[str, Any]:
    """One image as a row.

    Args:
        image: with its metadata.
        kinds: of the fields of its metadata.
        terms: size of the vocabulary, a number that no term has; it stands for no terms at all,
            which a vector in Milvus cannot have.

    Raises:
        InputError: if it has more than Milvus can store.
    """
    impacts = dict(zip(image.terms.tolist(), image.impacts.astype(float).tolist(), strict=True))
    row = {
        KEY: key_of(image.image_id),
        IMAGE_ID: image.image_id,
        METADATA: json.dumps(image.metadata),
        FIELDS: typed(image.image_id, image.metadata, kinds),
        IMPACTS: impacts or {terms: 1.0},
    }
    for name in (KEY, METADATA):
        if len(row[name]) > LONGEST:
            what = "id" if name == KEY else name
            raise InputError(
                f"{image.image_id[:80]}: its {what} takes {len(row[name]):,} characters, Milvus "
                f"stores {LONGEST:,}"
            )
    return row


def marker_row(text: str, terms: int) -> dict[str, Any]:
    """The row of the marker, which no search finds."""
    nothing = {IMAGE_ID: "", FIELDS: {}}
    return {KEY: MARKER, METADATA: text, IMPACTS: {terms: 1.0}, **nothing}


def typed(image_id: str, metadata: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The fields of an image with values of their kinds; a list where the metadata has one.

    Keywords are texts, numbers and booleans as in JSON, dates microseconds since 1970, points
    [latitude, longitude]. Values that a field's kind cannot have are left out.
    """
    found: dict[str, Any] = {}
    for name, value in with_derived(image_id, metadata).items():
        convert = CONVERSIONS[kinds[name]] if name in kinds else _nothing
        if isinstance(value, list):
            values = [one for one in map(convert, value) if one is not None]
            found |= {name: values} if values else {}
        elif (one := convert(value)) is not None:
            found[name] = one
    return found


def _nothing(value: Any) -> None:
    """Of a field that has no kind."""
