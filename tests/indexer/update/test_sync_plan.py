"""What has to be done for a folder of photos, and the notes of what was seen of it."""

import os
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


def files(root: Path, text: str, time: int) -> list[str]:
    """Write photos, given as names with contents; returns their ids."""
    contents = dict(pair.split("=") for pair in text.split())
    for name, content in contents.items():
        path = root / f"{name}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        os.utime(path, ns=(1, time))
    return [f"{name}.jpg" for name in contents]


@pytest.mark.parametrize(
    ("read", "time", "before", "after", "moved"),
    [
        # By content, one by one.
        (True, 2, "a=same b=same c=else", "x=same y=same z=same", {"x": "a", "y": "b"}),
        # Contents that were not read are known by size and time, if only one file has these.
        (False, 1, "a=same b=other c=other", "aa=same bb=other cc=other", {"aa": "a"}),
        (False, 2, "a=same", "aa=same", {}),
        # A folder was moved.
        (False, 1, "a=same b=else", "far/a=same far/b=else", {"far/a": "a", "far/b": "b"}),
    ],
)
def test_photos_that_were_moved(
    tmp_path: Path, read: bool, time: int, before: str, after: str, moved: dict[str, str]
) -> None:
    former = files(tmp_path, before, 1)
    seen = {
        image_id: Seen(stamp, content_hash(tmp_path / image_id) if read else None)
        for image_id, stamp in scan_photos(tmp_path).photos.items()
    }
    for name in former:
        (tmp_path / name).unlink()
    now = files(tmp_path, after, time)
    plan = compare(tmp_path, scan_photos(tmp_path), seen)
    assert plan.moved == {f"{new}.jpg": f"{old}.jpg" for new, old in moved.items()}
    assert plan.new == [one for one in now if one not in plan.moved]
    assert plan.vanished == [one for one in former if one not in plan.moved.values()]


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
