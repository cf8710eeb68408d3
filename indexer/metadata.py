"""Metadata of photos from a file, stored with their images and returned with every hit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from indexer.postings import PostingShard
from sparta.errors import InputError

ID = "image"
RESERVED = ("width", "height")  # those of the photo itself

Metadata = Mapping[str, Mapping[str, Any]]  # image id → field → value of JSON


def read_metadata(path: Path) -> dict[str, dict[str, Any]]:
    """The metadata of a JSON Lines file: an object a photo, its id as the field `image`.

    Raises:
        InputError: naming the line that is not such an object, or has an id of an earlier one.
        OSError: if the file cannot be read.
    """
    found: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8") from error
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(fields, dict) or not isinstance(fields.get(ID), str):
            raise InputError(f'{path}, line {number} is not an object with "{ID}": the image id')
        if taken := [name for name in RESERVED if name in fields]:
            raise InputError(f"{path}, line {number}: {taken[0]} is the photo's; rename the field")
        image_id = fields.pop(ID)
        if image_id in found:
            raise InputError(f"{path}, line {number}: {image_id!r} is there twice")
        found[image_id] = fields
    return found


def described(shard: PostingShard, metadata: Metadata) -> PostingShard:
    """The shard, with the metadata of those of its images that have any."""
    postings = shard.postings
    fields = [
        {**own, **metadata.get(image_id, {})}
        for image_id, own in zip(postings.ids, postings.metadata, strict=True)
    ]
    return shard._replace(postings=replace(postings, metadata=fields))
