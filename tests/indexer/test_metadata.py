"""Metadata of photos from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.metadata import described, read_metadata
from indexer.postings import Postings, PostingShard
from sparta.errors import InputError
from tests.server.drawings import postings_of
from tests.server.fake import DRAWINGS


def test_images_have_theirs(tmp_path: Path) -> None:
    path = tmp_path / "metadata.jsonl"
    path.write_text(
        '{"image": "garden/one.png", "taken": "2024", "tags": ["a"]}\n{"image": "x.jpg"}\n',
        encoding="utf-8",
    )
    metadata = read_metadata(path)
    assert metadata == {"garden/one.png": {"taken": "2024", "tags": ["a"]}, "x.jpg": {}}
    ids = ["garden/one.png", "garden/two.jpg"]
    shard = PostingShard(Postings.of([postings_of(i, DRAWINGS[i]) for i in ids]))
    assert described(shard, metadata).postings.metadata == [
        {"width": 320, "height": 240, "taken": "2024", "tags": ["a"]},
        {"width": 240, "height": 320},
    ]
    assert shard.postings.metadata[0] == {"width": 320, "height": 240}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"image": "a"}\n{', "line 2 is not JSON"),
        (b"[]", 'line 1 is not an object with "image": the image id'),
        (b'{"image": 1}', "line 1 is not an object"),
        (b'{"image": "a", "width": 3}', "line 1: width is the photo's; rename the field"),
        (b'{"image": "a"}\n{"image": "a"}', "line 2: 'a' is there twice"),
        (b"\xff", "is not a text file in UTF-8"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "metadata.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_metadata(path)
