"""Metadata of photos, from their files and from a file about them, returned with every hit."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from indexer.fields.kinds import check_count
from indexer.manifest import UPLOAD
from indexer.postings import PostingShard
from sparta.addresses import id_problem
from sparta.errors import InputError
from sparta.extract.photo_metadata import photo_metadata
from sparta.features.record import METADATA
from sparta.json_values import Json, JsonMapping, JsonValue

ID = "image"
RESERVED = ("width", "height", "bytes", "path", "folder", UPLOAD)  # those of the photo itself
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?")

Metadata = Mapping[str, JsonMapping]  # image id → field → value of JSON


def read_metadata(path: Path) -> dict[str, Json]:
    """The metadata of a file: JSON Lines, CSV or Parquet, by its suffix (JSON Lines by default).

    It has an object or row a photo, with the photo's id as the field `image`. Empty cells of a
    table are fields that a photo does not have; numbers, `true` and `false` in a CSV file are read
    as such.

    Raises:
        InputError: naming the line or row that is damaged, has an id of an earlier one, or more
            fields than an index can have.
        OSError: if the file cannot be read.
    """
    found: dict[str, Json] = {}
    names: set[str] = set()
    for place, fields in _READERS.get(path.suffix.lower(), _json_lines)(path):
        if not isinstance(fields, dict) or not isinstance(fields.get(ID), str):
            raise InputError(f'{path}, {place} is not an object with "{ID}": the image id')
        if taken := [name for name in RESERVED if name in fields]:
            raise InputError(f"{path}, {place}: {taken[0]} is the photo's; rename the field")
        image_id = fields.pop(ID)
        if problem := id_problem(image_id):
            raise InputError(f"{path}, {place}: the image id {image_id[:50]!r} {problem}")
        if image_id in found:
            raise InputError(f"{path}, {place}: {image_id!r} is there twice")
        found[image_id] = fields
        given = {name for name, value in fields.items() if value is not None}
        check_count(names, given, f"{path}, {place}")
        names |= given
    return found


def imported_metadata(stores: object) -> dict[str, Json]:
    """What an import noted of the images of feature stores; {} for none, and for photos."""
    path = stores[0].folder / METADATA if isinstance(stores, list) else None
    return read_metadata(path) if path and path.is_file() else {}


def _json_lines(path: Path) -> Iterator[tuple[str, JsonValue]]:
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from error


def _csv(path: Path) -> Iterator[tuple[str, JsonValue]]:
    rows = csv.reader(_text(path).splitlines(keepends=True), strict=True)
    try:
        names = next(rows, [])
        for cells in rows:
            if len(cells) != len(names):
                raise InputError(
                    f"{path}, line {rows.line_num} has {len(cells)} cells, the first line "
                    f"{len(names)}"
                )
            row = zip(names, cells, strict=True)
            yield f"line {rows.line_num}", {name: _cell(name, text) for name, text in row if text}
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num} is not CSV: {error}") from error


def _cell(name: str, text: str) -> JsonValue:
    if name == ID:
        return text
    if text in ("true", "false"):
        return text == "true"
    if number := _NUMBER.fullmatch(text):
        return float(text) if number[2] else int(text)
    return text


def _parquet(path: Path) -> Iterator[tuple[str, JsonValue]]:
    from sparta.readers.embeddings import parquet_batches  # which few need

    number = 0
    for batch in parquet_batches(path):
        for row in batch.to_pylist():
            number += 1
            fields = {name: _plain(value) for name, value in row.items() if value is not None}
            try:
                json.dumps(fields)
            except TypeError as error:
                raise InputError(f"{path}, row {number}: {error}; convert the column") from error
            yield f"row {number}", fields


def _plain(value: JsonValue | date) -> JsonValue:
    """A value of a table as JSON has it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return [_plain(one) for one in value] if isinstance(value, list) else value


_READERS = {".csv": _csv, ".parquet": _parquet}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8") from error


def described(shard: PostingShard, photos: Path | None) -> PostingShard:
    """The shard, with what the files of its photos say (EXIF, XMP and IPTC), None for no photos."""
    postings = shard.postings
    fields = [
        {**own, **_of_file(photos, image_id)}
        for image_id, own in zip(postings.ids, postings.metadata, strict=True)
    ]
    return shard._replace(postings=replace(postings, metadata=fields))


def _of_file(photos: Path | None, image_id: str) -> Json:
    try:
        return photo_metadata(photos / image_id) if photos else {}
    except OSError:  # the photo has gone since its features were made
        return {}
