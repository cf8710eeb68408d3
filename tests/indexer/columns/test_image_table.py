"""Images by number and by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.columns import image_table
from indexer.columns.image_table import ImageTable
from indexer.columns.writer import ImageWriter


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_every_image_is_found_by_number_and_by_id(tmp_path: Path, batch: int) -> None:
    ids = sorted(["é/1.jpg", "a\0.jpg", "a", "𝄞.jpg", "\uffff.jpg", *map(str, range(40))])
    writer = ImageWriter(tmp_path)
    writer.add([], [])
    for start in range(0, len(ids), batch):
        part = ids[start : start + batch]
        writer.add(part, [{"width": len(one)} for one in part])
    writer.close()
    table = ImageTable(tmp_path)
    for number, image_id in enumerate(ids):
        assert table.stored(number) == (image_id, {"width": len(image_id)})
        assert table.document(image_id) == number
    for absent in ("", "a\0", "b", "é/2.jpg", "\ud800", "9z", "\U0010ffff"):
        assert table.document(absent) is None


def test_no_images(tmp_path: Path) -> None:
    ImageWriter(tmp_path).close()
    assert ImageTable(tmp_path).document("a") is None


def test_ids_are_found_whether_or_not_they_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_table, "REMEMBERED", 3)
    writer = ImageWriter(tmp_path)
    ids = [f"{number:02d}" for number in range(20)]
    writer.add(ids, [{}] * 20)
    writer.close()
    table = ImageTable(tmp_path)
    assert [table.stored(number).image_id for number in range(20)] == ids
    assert len(table._documents) <= 3
    assert list(map(table.document, [*ids, *ids])) == [*range(20), *range(20)]
    monkeypatch.setattr(table, "_find", None)
    assert table.document("19") == 19
