"""Images by number and by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.columns import image_table
from indexer.columns.image_table import ImageTable
from indexer.columns.writer import ImageWriter


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_every_image_is_found_by_number_and_by_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(image_table, "REMEMBERED", 3)
    ids = sorted(["é/1.jpg", "a\0.jpg", "a", "𝄞.jpg", "\uffff.jpg", *map(str, range(40))])
    writer = ImageWriter(tmp_path)
    writer.add([], [])
    for start in range(0, len(ids), batch):
        part = ids[start : start + batch]
        writer.add(part, [{"width": len(one)} for one in part])
    writer.close()
    table = ImageTable(tmp_path)
    for number, image_id in enumerate([*ids, *ids]):
        assert table.stored(number % len(ids)) == (image_id, {"width": len(image_id)})
        assert table.document(image_id) == number % len(ids)
    for beyond in (-1, len(ids)):
        with pytest.raises(IndexError):
            table.stored(beyond)
    for absent in ("", "a\0", "b", "é/2.jpg", "\ud800", "9z", "\U0010ffff"):
        assert table.document(absent) is None
