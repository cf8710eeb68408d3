"""What was seen of a folder of photos, and how it differs from what is there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from indexer.update.sync import as_built
from indexer.update.sync_plan import (
    Seen,
    SeenPhotos,
    compare,
    content_hash,
    scan_photos,
    synced_folders,
)
from sparta.errors import InputError
from sparta.features.extract.photos import Stamp


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def write(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        path = root / f"{name}.jpg"
        path.write_text(content)
        os.utime(path, ns=(1, 1000 + len(name)))


def seen_now(root: Path, hashed: bool = True) -> Mapping[str, Seen]:
    return {
        image_id: Seen(stamp, content_hash(root / image_id) if hashed else None)
        for image_id, stamp in scan_photos(root).photos.items()
    }


def test_files_with_one_content_are_paired_one_by_one(root: Path) -> None:
    write(root, a="same", b="same", c="else")
    seen = seen_now(root)
    for name in "abc":
        (root / f"{name}.jpg").unlink()
    write(root, x="same", y="same", z="same")
    plan = compare(root, scan_photos(root), seen)
    assert plan.moved == {"x.jpg": "a.jpg", "y.jpg": "b.jpg"}
    assert (plan.new, plan.vanished) == (["z.jpg"], ["c.jpg"])


def test_content_that_was_not_read_is_known_by_size_and_time(root: Path) -> None:
    write(root, a="same", b="other", c="other")
    seen = seen_now(root, hashed=False)
    for name in "abc":
        (root / f"{name}.jpg").rename(root / f"{name}{name}.jpg")
    plan = compare(root, scan_photos(root), seen)
    assert plan.moved == {"aa.jpg": "a.jpg"}
    assert (plan.new, plan.vanished) == (["bb.jpg", "cc.jpg"], ["b.jpg", "c.jpg"])
    os.utime(root / "aa.jpg", ns=(1, 5))
    assert compare(root, scan_photos(root), seen).moved == {}


def test_a_folder_was_moved(root: Path) -> None:
    write(root, a="same", b="else")
    os.utime(root / "a.jpg", ns=(1, 5))
    os.utime(root / "b.jpg", ns=(1, 5))
    seen = seen_now(root, hashed=False)
    (root / "far").mkdir()
    for name in "ab":
        (root / f"{name}.jpg").rename(root / "far" / f"{name}.jpg")
    plan = compare(root, scan_photos(root), seen)
    assert plan.moved == {"far/a.jpg": "a.jpg", "far/b.jpg": "b.jpg"}


def test_what_was_seen_comes_back(tmp_path: Path) -> None:
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
    assert len(list((tmp_path / "sync").iterdir())) == 2


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


@pytest.mark.parametrize("features", ["there", "gone", "of another folder", "of another build"])
def test_photos_of_the_build_are_known(built: Path, photos: Path, features: str) -> None:
    folder = built.with_name("index.features")
    header = folder / "plain" / "store.json"
    if features == "gone":
        shutil.rmtree(folder)
    elif features != "there":
        wrong = {"of another folder": {"photos": "/"}, "of another build": {"fingerprint": "x"}}
        header.write_text(json.dumps(json.loads(header.read_text()) | wrong[features]))
    recorded = features == "there"
    shutil.copy2(photos / "0.png", photos / "new.png")  # which the index does not have
    os.utime(photos / "1.png", ns=(0, 2**62))
    (photos / "2.png").write_bytes(b"other content")
    os.utime(photos / "2.png", ns=(0, 0))
    scan = scan_photos(photos)
    seen = as_built(built, photos, scan).photos
    same = [one for one, stamp in scan.photos.items() if one in seen and seen[one].stamp == stamp]
    assert same == ["0.png", "1.png"]
    assert sorted(seen) == ["0.png", "1.png", "2.png"][: 3 if recorded else 2]
    assert all(one.sha256 is None and one.problem is None for one in seen.values())
