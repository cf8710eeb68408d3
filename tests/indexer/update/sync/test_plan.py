"""Photos of a folder: which are read, under which ids, what was seen of them and what differs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from indexer.build import build_index
from indexer.encoding.features import choose_photos, open_stores, opened_stores
from indexer.update.sync import as_built
from indexer.update.sync_plan import (
    Scan,
    Seen,
    SeenPhotos,
    compare,
    content_hash,
    place_of,
    scan_photos,
    synced_folders,
)
from sparta.errors import InputError
from sparta.extract.photos import Stamp
from sparta.features.record import Skipped
from sparta.features.store import FeatureStore


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


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    for name in ("a.jpg", "2024/b.png", "2024/beach/c.JPG", "2024/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_ids_are_relative_to_the_folder_of_the_index(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    year = pictures / "2024"
    assert choose_photos([year], str(pictures)) == (pictures, ["2024/b.png", "2024/beach/c.JPG"])
    monkeypatch.chdir(pictures)
    found = choose_photos([Path("a.jpg"), year / "beach", year / "beach" / "c.JPG"], ".")
    assert found == (pictures, ["2024/beach/c.JPG", "a.jpg"])


def test_a_link_to_a_photo_has_its_own_name(pictures: Path) -> None:
    (pictures / "link.jpg").symlink_to(pictures / "2024" / "b.png")
    assert choose_photos([pictures / "link.jpg"], str(pictures))[1] == ["link.jpg"]


def test_ids_of_others_are_relative_to_their_one_folder(pictures: Path, tmp_path: Path) -> None:
    for recorded in (None, str(tmp_path / "elsewhere")):
        whole = choose_photos([pictures], recorded)
        assert whole == (pictures, ["2024/b.png", "2024/beach/c.JPG", "a.jpg"])
        assert choose_photos([pictures / "a.jpg"], recorded) == (pictures, ["a.jpg"])
        with pytest.raises(InputError, match=r"2024 and .*beach are not both in the folder that"):
            choose_photos([pictures / "2024", pictures / "2024" / "beach"], recorded)


def test_what_is_not_there_is_named(pictures: Path) -> None:
    with pytest.raises(InputError, match=r"away.jpg does not exist"):
        choose_photos([pictures / "away.jpg"], None)
    (pictures / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no photo"):
        choose_photos([pictures / "empty"], str(pictures))


@pytest.fixture
def flipped(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    out = tmp_path / "index"
    stores = open_stores([photos], [model_dir], "visual_sparta", out, augmentations=2, device="cpu")
    build_index(stores, [model_dir], out, device="cpu")
    return out


def test_photos_are_extracted_as_those_of_the_index(
    flipped: Path, photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    (photos / "more").mkdir()
    shutil.copy(photos / "0.png", photos / "more" / "new.png")
    (photos / "more" / "empty.jpg").touch()
    before = sorted(tmp_path.rglob("*"))
    with opened_stores(flipped, [photos / "more", photos / "0.png"], [], [model_dir], "cpu") as (
        stores,
        skipped,
    ):
        assert [store.ids for store in stores] == [["0.png", "more/new.png"]] * 2
        assert [store.augmentation for store in stores] == ["plain", "flip"]
        assert skipped == [Skipped("more/empty.jpg", "the file is empty")]
        right = FeatureStore.open(tmp_path / "index.features" / "flip")
        own = stores[1]
        assert own[0].features.tobytes() == right[right.index("0.png")].features.tobytes()
    assert sorted(tmp_path.rglob("*")) == before


def test_photos_that_cannot_be_used_are_named(flipped: Path, photos: Path, model_dir: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (photos / name).touch()
    chosen = [photos / "a.jpg", photos / "b.jpg"]
    problem = r".*/a\.jpg: the file is empty \(and 1 more\)"
    with (
        pytest.raises(InputError, match=rf"no photo could be used: {problem}"),
        opened_stores(flipped, chosen, [], [model_dir], "cpu"),
    ):
        pass


def test_photos_below_a_folder(tmp_path: Path) -> None:
    for name in ("b.jpg", "a/c.PNG", "a/notes.txt", "a/deep/d.webp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, ns=(5, 7))
    (tmp_path / "a" / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    broken = os.fsdecode(b"\xff.jpg")
    (tmp_path / "a" / broken).touch()
    scan = scan_photos(tmp_path)
    assert list(scan.photos) == ["a/c.PNG", "a/deep/d.webp", "b.jpg"]
    assert scan.photos["b.jpg"] == Stamp(1, 7)
    assert scan.closed == []
    assert scan.problems == {
        "a/\\xff.jpg": "the file name is not UTF-8",
        "a/dangling.jpg": "No such file or directory",
    }
    assert scan.found == 5
    assert list(scan_photos(tmp_path, "a/deep/").photos) == ["a/deep/d.webp"]
    nothing = Scan({}, [], {})
    assert scan_photos(tmp_path / "missing") == scan_photos(tmp_path, "missing/") == nothing


def test_the_folder_that_ids_are_relative_to(tmp_path: Path) -> None:
    index, built = tmp_path / "index", tmp_path / "photos"
    index.mkdir()
    for photos, root, below in (
        (built, built, ""),
        (built / "a" / "b", built, "a/b/"),
        (tmp_path / "other", tmp_path / "other", ""),
    ):
        place = place_of(index, photos, str(built))
        assert place == (root, below)
        assert place.folder == photos
    assert place_of(index, tmp_path / "x", None) == (tmp_path / "x", "")
    for known in ("photos", "other"):
        with pytest.raises(InputError, match=rf"contains .*{known}, to which ids of photos in"):
            place_of(index, tmp_path, str(built) if known == "photos" else None)
        SeenPhotos(tmp_path / "other").save(index)
    assert place_of(index, tmp_path / "other" / "a", None) == (tmp_path / "other", "a/")


def test_a_file_is_no_folder_of_photos(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    with pytest.raises(InputError, match=r"a.jpg is a file: give the folder"):
        place_of(tmp_path, tmp_path / "a.jpg", None)
