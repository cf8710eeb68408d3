"""What was seen is written whole and read back."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from indexer.update.sync.seen import Seen, SeenPhotos, synced_folders
from sparta.errors import InputError
from sparta.features.extract.listing import Stamp


def test_round_trip(tmp_path: Path) -> None:
    root = Path(os.fsdecode(b"/photos/\xff"))
    assert SeenPhotos.open(tmp_path, root) is None and synced_folders(tmp_path) == []
    photos = {
        "b.jpg": Seen(Stamp(5, 7), "ab"),
        "a é.jpg": Seen(Stamp(2**40, 2**60)),
        "c.jpg": Seen(Stamp(0, 1), problem="the file is empty"),
    }
    for given in ({}, photos):
        SeenPhotos(root, given).save(tmp_path)
        found = SeenPhotos.open(tmp_path, root)
        assert found is not None and found == SeenPhotos(root, given)
    assert list(SeenPhotos(root, photos).of("b")) == ["b.jpg"]
    SeenPhotos(Path("/other")).save(tmp_path)
    assert sorted(synced_folders(tmp_path)) == [Path("/other"), root]
    assert len(list((tmp_path / "live").iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "foreign", "newer"])
def test_damage_is_named(tmp_path: Path, damage: str) -> None:
    SeenPhotos(tmp_path).save(tmp_path)
    [path] = (tmp_path / "live").iterdir()
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:50])
    else:
        metadata = {"version": "2", "root": "x"} if damage == "newer" else None
        schema = pa.schema({"a": pa.int8()}, metadata)
        with pa.ipc.new_file(str(path), schema) as writer:
            writer.write_table(schema.empty_table())
    with pytest.raises(InputError, match=r"sync-\w+\.arrow is damaged or of another version: del"):
        SeenPhotos.open(tmp_path, tmp_path)
