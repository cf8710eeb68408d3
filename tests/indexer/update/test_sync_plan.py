"""What has to be done for a folder of photos, and the notes of what was seen of it."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from indexer.update.sync import stable
from indexer.update.sync_plan import (
    Scan,
    Seen,
    SeenPhotos,
    compare,
    content_hash,
    scan_photos,
    synced_folders,
)
from sparta.errors import InputError
from sparta.extract.photos import Stamp


def write(root: Path, contents: Mapping[str, str], time: int) -> None:
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        os.utime(path, ns=(1, time))


@pytest.mark.parametrize(
    ("read", "time", "before", "after", "moved"),
    [
        # By content, one by one.
        (
            True,
            2,
            {"a.jpg": "same", "b.jpg": "same", "c.jpg": "else"},
            {"x.jpg": "same", "y.jpg": "same", "z.jpg": "same"},
            {"x.jpg": "a.jpg", "y.jpg": "b.jpg"},
        ),
        # Contents that were not read are known by size and time, if only one file has these.
        (
            False,
            1,
            {"a.jpg": "same", "b.jpg": "other", "c.jpg": "other"},
            {"aa.jpg": "same", "bb.jpg": "other", "cc.jpg": "other"},
            {"aa.jpg": "a.jpg"},
        ),
        (False, 2, {"a.jpg": "same"}, {"aa.jpg": "same"}, {}),
        # A folder was moved.
        (
            False,
            1,
            {"a.jpg": "same", "b.jpg": "else"},
            {"far/a.jpg": "same", "far/b.jpg": "else"},
            {"far/a.jpg": "a.jpg", "far/b.jpg": "b.jpg"},
        ),
    ],
)
def test_photos_that_were_moved(
    tmp_path: Path,
    read: bool,
    time: int,
    before: dict[str, str],
    after: dict[str, str],
    moved: dict[str, str],
) -> None:
    write(tmp_path, before, 1)
    seen = {
        image_id: Seen(stamp, content_hash(tmp_path / image_id) if read else None)
        for image_id, stamp in scan_photos(tmp_path).photos.items()
    }
    for name in before:
        (tmp_path / name).unlink()
    write(tmp_path, after, time)
    plan = compare(tmp_path, scan_photos(tmp_path), seen)
    assert plan.moved == moved
    assert plan.new == sorted(after.keys() - moved.keys())
    assert plan.vanished == sorted(before.keys() - moved.values())


def test_what_was_seen_comes_back(tmp_path: Path) -> None:
    root = Path(os.fsdecode(b"/photos/\xff"))
    photos = {
        "b.jpg": Seen(Stamp(5, 7), "ab"),
        "a é.jpg": Seen(Stamp(2**40, 2**60)),
        "c.jpg": Seen(Stamp(0, 1), problem="the file is empty"),
    }
    for folder, given in ((root, {}), (root, photos), (Path("/other"), {})):
        SeenPhotos(folder, given).save(tmp_path)
    assert SeenPhotos.open(tmp_path, root) == SeenPhotos(root, photos)
    assert sorted(synced_folders(tmp_path)) == [Path("/other"), root]


@pytest.mark.parametrize("damage", ["cut", "foreign", "newer"])
def test_damage_of_what_was_seen_is_named(tmp_path: Path, damage: str) -> None:
    SeenPhotos(tmp_path).save(tmp_path)
    [path] = (tmp_path / "sync").iterdir()
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:50])
    else:
        metadata = {"version": "2", "root": "x"} if damage == "newer" else None
        schema = pa.schema({"a": pa.int8()}, metadata)
        with pa.ipc.new_file(str(path), schema) as writer:
            writer.write_table(schema.empty_table())
    with pytest.raises(InputError, match=r"sync/\w+\.arrow is damaged or of another version: del"):
        SeenPhotos.open(tmp_path, tmp_path)


def test_photos_count_once_they_are_the_same_twice() -> None:
    first, second = Stamp(1, 1), Stamp(2, 2)
    seen = {one: Seen(first) for one in ("same", "changing", "settled", "back", "gone")}
    before = {"same": first, "changing": first, "settled": second, "new": second, "back": first}
    before["gone soon"] = first
    now = {"same": first, "changing": second, "settled": second, "new": second, "newer": first}
    found = stable(Scan(now, ["x/"], {"y": "z"}), Scan(before, [], {}), seen)
    assert found.photos == dict.fromkeys(("same", "changing", "back", "gone"), first) | {
        "settled": second,
        "new": second,
    }
    assert (found.closed, found.problems) == (["x/"], {"y": "z"})
