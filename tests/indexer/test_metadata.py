"""Metadata of photos from a file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import ExifTags, Image
from pyarrow import parquet

from indexer.metadata import described, read_metadata
from indexer.postings import Postings, PostingShard
from indexer.rebuild import Kept
from sparta.errors import InputError
from tests.server.fake import DRAWINGS, postings_of


def test_images_have_the_metadata_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metadata.jsonl"
    path.write_text(
        '{"image": "garden/one.png", "taken": "2024", "tags": ["a"]}\n{"image": "x.jpg"}\n',
        encoding="utf-8",
    )
    metadata = read_metadata(path)
    assert metadata == {"garden/one.png": {"taken": "2024", "tags": ["a"]}, "x.jpg": {}}
    ids = ["garden/one.png", "garden/two.jpg"]
    shard = PostingShard(Postings.of([postings_of(i, DRAWINGS[i]) for i in ids]))
    assert Kept().described(shard, metadata).postings.metadata == [
        {"width": 320, "height": 240, "taken": "2024", "tags": ["a"]},
        {"width": 240, "height": 320},
    ]
    assert shard.postings.metadata[0] == {"width": 320, "height": 240}


def test_the_fields_of_a_photo_are_replaced_by_those_of_the_file(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Canon", "EOS 5D"
    (tmp_path / "garden").mkdir()
    Image.new("RGB", (20, 30)).save(tmp_path / "garden/one.jpg", exif=exif)
    ids = ["garden/gone.jpg", "garden/one.jpg"]
    drawing = DRAWINGS["garden/one.png"]
    shard = PostingShard(Postings.of([postings_of(i, drawing) for i in ids]))
    size = {"width": 320, "height": 240}
    found = Kept().described(described(shard, tmp_path), {"garden/one.jpg": {"make": "Leica"}})
    assert found.postings.metadata == [
        size,
        size | {"bytes": (tmp_path / ids[1]).stat().st_size, "make": "Leica", "model": "EOS 5D"},
    ]


def test_tables_are_read_as_lines_are(tmp_path: Path) -> None:
    text = 'image,iso,f,late,tags,note\n007,400,2.8,true,007,"a\nb"\nx.jpg,,,,,\n'
    (tmp_path / "m.csv").touch()
    assert read_metadata(tmp_path / "m.csv") == {}
    (tmp_path / "m.csv").write_text("\ufeff" + text, encoding="utf-8")
    fields = {"iso": 400, "f": 2.8, "late": True, "tags": "007", "note": "a\nb"}
    assert read_metadata(tmp_path / "m.csv") == {"007": fields, "x.jpg": {}}
    rows = [
        {"image": "a.jpg", "taken": datetime(2024, 5, 1, 8, 30), "tags": ["x", "y"], "n": 1},
        {"image": "b.jpg", "taken": None, "tags": [], "n": None},
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    assert read_metadata(tmp_path / "m.parquet") == {
        "a.jpg": {"taken": "2024-05-01T08:30:00", "tags": ["x", "y"], "n": 1},
        "b.jpg": {"tags": []},
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", b"image,a\nx.jpg\n", "line 2 has 1 cells, the first line 2"),
        ("m.csv", b'image\n"x', "line 2 is not CSV"),
        ("m.csv", b"a,b\n1,2\n", 'line 2 is not an object with "image"'),
        ("m.csv", b"image,width\nx,1\n", "line 2: width is the photo's"),
        ("m.jsonl", b'{"image": "a"}\n{', "line 2 is not JSON"),
        ("m.jsonl", b"[]", 'line 1 is not an object with "image": the image id'),
        ("m.jsonl", b'{"image": 1}', "line 1 is not an object"),
        (
            "m.jsonl",
            b'{"image": "a", "width": 3}',
            "line 1: width is the photo's; rename the field",
        ),
        ("m.jsonl", b'{"image": "a"}\n{"image": "a"}', "line 2: 'a' is there twice"),
        ("m.jsonl", b"\xff", "is not a text file in UTF-8"),
        ("m.parquet", b"something else", "is not Parquet"),
        ("m.parquet", None, r"row 1: .*; convert the column"),
    ],
)
def test_damaged_files_of_metadata_are_named(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is None:
        parquet.write_table(pa.Table.from_pylist([{"image": "a", "x": b"bytes"}]), path)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_metadata(path)
