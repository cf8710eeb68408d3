"""A batch is divided by lines, each of which is read within limits."""

from __future__ import annotations

import json

from indexer.shards import owner
from server.cluster.writers import divided_lines
from server.json_bodies import MANY

SHARDS = 3


def test_each_line_goes_to_its_shard_and_keeps_its_number() -> None:
    lines = [json.dumps({"image_id": f"a{i}", "delete": True}).encode() for i in range(20)]
    parts = divided_lines(b"\n".join(lines), SHARDS)
    for place, line in enumerate(lines):
        own = parts[owner(f"a{place}", SHARDS)].split(b"\n")
        assert own[place] == line and sum(line in part for part in parts.values()) == 1


def test_what_cannot_be_read_is_left_to_the_first() -> None:
    wide = b'{"image_id": "a", "metadata": {"a": [' + b"1," * 400_000 + b"1]}}"
    lines = [b"no JSON", b"[1]", b'{"image_id": 3}', b"[" * 100_000, b"9" * 10**6, wide]
    assert divided_lines(b"\n".join(lines), SHARDS) == {0: b"\n".join(lines)}
    many = b'{"image_id": "a"}' + b"\n" * (MANY + 1)
    assert divided_lines(many, SHARDS) == {0: many}
