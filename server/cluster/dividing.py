"""Requests that write many images: divided by the shards that own these, answers put together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter

from indexer.shards import owner
from server.json_bodies import MANY, read_json
from server.problems import ProblemError
from server.schemas import BatchAnswer, DeleteAnswer


class _Line(BaseModel):
    """What says which shard a line is for."""

    image_id: str


_LINE = TypeAdapter(_Line)


def divided_lines(body: bytes, shards: int) -> dict[int, bytes]:
    """A batch for each shard; lines of others are empty, so that lines keep their numbers.

    What is no object with an id, or too much, is left to the first shard, which says so.
    """
    if body.count(b"\n") > MANY:
        return {0: body}
    lines = body.split(b"\n")
    parts: dict[int, list[bytes]] = {}
    for place, line in enumerate(lines):
        if line.strip():
            number = _owner_of_line(line, shards)
            parts.setdefault(number, [b""] * len(lines))[place] = line
    return {number: b"\n".join(own) for number, own in parts.items()} or {0: body}


def _owner_of_line(line: bytes, shards: int) -> int:
    try:
        return owner(read_json(_LINE, line).image_id, shards)
    except (ValueError, ProblemError):
        return 0


def divided_ids(body: bytes, shards: int) -> dict[int, bytes]:
    """A list of ids for each shard."""
    parts: dict[int, list[str]] = {}
    for image_id in json.loads(body):
        parts.setdefault(owner(image_id, shards), []).append(image_id)
    return {number: json.dumps(own).encode() for number, own in parts.items()} or {0: body}


def batch_answer(parts: Sequence[Mapping[str, Any]]) -> BatchAnswer:
    """What all shards have written of a batch."""
    found = [BatchAnswer.model_validate(part) for part in parts]
    counts = ("created", "replaced", "updated", "deleted")
    errors = sorted((error for one in found for error in one.errors), key=lambda error: error.line)
    return BatchAnswer(
        **{name: sum(getattr(one, name) for one in found) for name in counts}, errors=errors
    )


def delete_answer(parts: Sequence[Mapping[str, Any]], body: bytes) -> DeleteAnswer:
    """What all shards have deleted of a list of ids, missing ones in its order."""
    found = [DeleteAnswer.model_validate(part) for part in parts]
    missing = {image_id for one in found for image_id in one.missing}
    ids = [image_id for image_id in dict.fromkeys(json.loads(body)) if image_id in missing]
    return DeleteAnswer(deleted=sum(one.deleted for one in found), missing=ids)
