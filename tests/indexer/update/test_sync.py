"""An index follows a folder of photos."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import indexer.encoding.features as features
import indexer.update.sync as module
from indexer.build import build_index
from indexer.encoding.features import choose_photos, open_stores, opened_stores
from indexer.maintenance.copies import restore_snapshot, set_alias, take_snapshot
from indexer.store.snapshot import Snapshot
from indexer.update.images import add_images, delete_images, update_metadata
from indexer.update.sync import Encoding, PhotoSync, SyncReport, as_built, stable, watch
from indexer.update.sync_plan import (
    Scan,
    Seen,
    SeenPhotos,
    compare,
    content_hash,
    scan_photos,
    scope_of,
    synced_folders,
)
from sparta.errors import InputError
from sparta.extract.photos import Stamp
from sparta.features.record import Skipped
from sparta.features.store import FeatureStore
from tests.bad_paths import add_bad_paths

Images = dict[str, dict[str, Any]]


@pytest.fixture
def encoding(model_dir: Path) -> Encoding:
    return Encoding([model_dir], device="cpu")


@pytest.fixture
def built(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    out = tmp_path / "index"
    stores = open_stores([photos], [model_dir], "visual_sparta", out, device="cpu")
    build_index(stores, [model_dir], out, device="cpu")
    return out


@pytest.fixture
def job(built: Path, photos: Path, encoding: Encoding) -> Callable[[], PhotoSync]:
    return lambda: PhotoSync(built, photos, encoding)


def draw(path: Path, seed: int) -> None:
    """A photo of noise, another for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 30, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def images_of(index: Path) -> Images:
    """Metadata by id."""
    images = Snapshot.open(index)
    return dict(map(images.stored, images.live_documents().tolist()))


def terms_of(index: Path, image_id: str) -> dict[int, int]:
    """The impact of each of an image's terms."""
    images = Snapshot.open(index)
    document = images.document(image_id)
    assert document is not None
    [image] = images.images([document])
    return dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))


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


def test_files_with_one_content_are_paired_one_by_one(tmp_path: Path) -> None:
    write(tmp_path, a="same", b="same", c="else")
    seen = seen_now(tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.jpg").unlink()
    write(tmp_path, x="same", y="same", z="same")
    plan = compare(tmp_path, scan_photos(tmp_path), seen)
    assert plan.moved == {"x.jpg": "a.jpg", "y.jpg": "b.jpg"}
    assert (plan.new, plan.vanished) == (["z.jpg"], ["c.jpg"])


def test_content_that_was_not_read_is_known_by_size_and_time(tmp_path: Path) -> None:
    write(tmp_path, a="same", b="other", c="other")
    seen = seen_now(tmp_path, hashed=False)
    for name in "abc":
        (tmp_path / f"{name}.jpg").rename(tmp_path / f"{name}{name}.jpg")
    plan = compare(tmp_path, scan_photos(tmp_path), seen)
    assert plan.moved == {"aa.jpg": "a.jpg"}
    assert (plan.new, plan.vanished) == (["bb.jpg", "cc.jpg"], ["b.jpg", "c.jpg"])
    os.utime(tmp_path / "aa.jpg", ns=(1, 5))
    assert compare(tmp_path, scan_photos(tmp_path), seen).moved == {}


def test_a_folder_was_moved(tmp_path: Path) -> None:
    write(tmp_path, a="same", b="else")
    os.utime(tmp_path / "a.jpg", ns=(1, 5))
    os.utime(tmp_path / "b.jpg", ns=(1, 5))
    seen = seen_now(tmp_path, hashed=False)
    (tmp_path / "far").mkdir()
    for name in "ab":
        (tmp_path / f"{name}.jpg").rename(tmp_path / "far" / f"{name}.jpg")
    plan = compare(tmp_path, scan_photos(tmp_path), seen)
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
        place = scope_of(index, photos, str(built))
        assert place == (root, below)
        assert place.folder == photos
    assert scope_of(index, tmp_path / "x", None) == (tmp_path / "x", "")
    for known in ("photos", "other"):
        with pytest.raises(InputError, match=rf"contains .*{known}, to which ids of photos in"):
            scope_of(index, tmp_path, str(built) if known == "photos" else None)
        SeenPhotos(tmp_path / "other").save(index)
    assert scope_of(index, tmp_path / "other" / "a", None) == (tmp_path / "other", "a/")
    (tmp_path / "a.jpg").touch()
    with pytest.raises(InputError, match=r"a.jpg is a file: give the folder"):
        scope_of(tmp_path, tmp_path / "a.jpg", None)


Job = Callable[[], PhotoSync]


def counts(report: SyncReport) -> tuple[int, int, int, int, list[str]]:
    skipped = [one.image_id for one in report.skipped]
    return report.added, report.replaced, report.moved, report.deleted, skipped


def nothing(*_: object, **__: object) -> None:
    raise AssertionError("nothing was to be encoded")


def test_what_was_built_is_not_encoded_again(
    job: Job, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "add_images", nothing)
    before = (built / "manifest.json").read_bytes()
    for _ in range(2):
        report = job().run()
        assert counts(report) == (0, 0, 0, 0, [])
        assert not report.plan and report.plan.seen == report.plan.found == 3
    assert (built / "manifest.json").read_bytes() == before


def test_new_changed_moved_and_vanished_photos(job: Job, built: Path, photos: Path) -> None:
    for number in range(3, 10):
        draw(photos / f"{number}.png", number)
    assert counts(job().run()) == (7, 0, 0, 0, [])
    update_metadata(built, {"1.png": {"album": "a"}, "2.png": {"album": "b"}})
    terms, other = terms_of(built, "1.png"), terms_of(built, "2.png")
    (photos / "far" / "away").mkdir(parents=True)
    (photos / "1.png").rename(photos / "far" / "away" / "renamed.png")
    (photos / "5.png").rename(photos / "far" / "5.png")
    draw(photos / "2.png", 20)
    draw(photos / "new.png", 21)
    (photos / "3.png").unlink()
    os.utime(photos / "4.png", ns=(0, 0))
    assert counts(job().run(dry=True)) == (0, 0, 0, 0, [])
    report = job().run()
    assert counts(report) == (1, 1, 2, 1, [])
    assert list(report.plan.touched) == ["4.png"]
    found = images_of(built)
    assert sorted(found) == sorted(
        ["0.png", "2.png", "4.png", "far/5.png", "far/away/renamed.png", "new.png"]
        + [f"{number}.png" for number in range(6, 10)]
    )
    assert found["far/away/renamed.png"]["album"] == "a"
    assert terms_of(built, "far/away/renamed.png") == terms
    assert found["2.png"]["album"] == "b"
    assert found["2.png"]["bytes"] == (photos / "2.png").stat().st_size
    assert terms_of(built, "2.png") != other
    assert not job().run().plan


def test_bad_photos_are_tried_again_only_when_they_change(
    job: Job, built: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "bad.jpg").write_text("no photo")
    draw(photos / "new.png", 5)
    report = job().run()
    assert counts(report) == (1, 0, 0, 0, ["bad.jpg"])
    with monkeypatch.context() as patch:
        patch.setattr(module, "extract_stores", nothing)
        report = job().run()
        assert counts(report) == (0, 0, 0, 0, ["bad.jpg"])
        assert "not an image" in report.skipped[0].reason
    # All of a run's photos are bad; the former image stays, which is better than none.
    before = images_of(built)
    (photos / "new.png").write_text("no photo")
    (photos / "bad.jpg").write_text("none yet")
    assert counts(job().run()) == (0, 0, 0, 0, ["bad.jpg", "new.png"])
    assert images_of(built) == before
    draw(photos / "bad.jpg", 6)
    assert counts(job().run()) == (1, 0, 0, 0, ["new.png"])
    (photos / "bad.jpg").unlink()
    (photos / "new.png").unlink()
    with pytest.raises(InputError, match="2 of 5 photos have vanished"):
        job().run()
    assert counts(job().run(yes=True)) == (0, 0, 0, 2, [])


def test_an_unmounted_disk_deletes_nothing(
    job: Job, built: Path, photos: Path, encoding: Encoding, tmp_path: Path
) -> None:
    job().run()
    before = images_of(built)
    photos.rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"photos does not exist, and 3 were there before: noth"):
        job().run()
    photos.mkdir()
    with pytest.raises(InputError, match=r"photos holds no photo any more, and 3 were there"):
        job().run()
    assert images_of(built) == before
    for empty, state in ((tmp_path / "none", "does not exist"), (built, "holds no photo")):
        with pytest.raises(InputError, match=f"{state}: nothing was changed; mount the disk"):
            PhotoSync(built, empty, encoding).run()
    assert counts(job().run(yes=True)) == (0, 0, 0, 3, [])


def test_images_deleted_from_the_index_stay_deleted(job: Job, built: Path, photos: Path) -> None:
    delete_images(built, ["1.png"])
    assert not job().run().plan
    (photos / "1.png").rename(photos / "one.png")
    assert counts(job().run()) == (0, 0, 0, 0, [])
    assert sorted(images_of(built)) == ["0.png", "2.png"]


def test_a_part_of_the_folder(job: Job, built: Path, photos: Path, encoding: Encoding) -> None:
    draw(photos / "year" / "a.png", 7)
    draw(photos / "b.png", 8)
    report = PhotoSync(built, photos / "year", encoding).run()
    assert counts(report) == (1, 0, 0, 0, [])
    assert sorted(images_of(built)) == ["0.png", "1.png", "2.png", "year/a.png"]
    assert counts(job().run()) == (1, 0, 0, 0, [])


def test_photos_of_two_folders_cannot_have_one_id(
    job: Job, built: Path, encoding: Encoding, tmp_path: Path
) -> None:
    job().run()
    draw(tmp_path / "other" / "9.png", 9)
    assert counts(PhotoSync(built, tmp_path / "other", encoding).run())[0] == 1
    draw(tmp_path / "other" / "1.png", 9)
    with pytest.raises(InputError, match=r"'1.png' is in .*other and in .*photos: photos of two"):
        PhotoSync(built, tmp_path / "other", encoding).run()


def test_a_killed_run_continues(
    job: Job, built: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    for number in range(3, 8):
        draw(photos / f"{number}.png", number)
    (photos / "0.png").rename(photos / "zero.png")
    calls = 0

    def killed(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return add_images(*args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module, "add_images", killed)
        with pytest.raises(KeyboardInterrupt):
            job().run()
    assert len(images_of(built)) == 7
    steps: list[tuple[str, int, int]] = []
    report = job().run(progress=lambda *step: steps.append(step))
    assert counts(report) == (1, 0, 0, 0, [])
    assert steps[-1] == ("encode", 1, 1)
    # As if it had been killed between the commit and the note of it.
    seen = SeenPhotos.open(built, photos)
    assert seen is not None
    seen.photos["0.png"] = seen.photos.pop("zero.png")
    del seen.photos["3.png"]
    seen.save(built)
    assert counts(job().run()) == (0, 1, 0, 0, [])
    assert not job().run().plan
    assert len(images_of(built)) == 8


def test_a_file_that_is_being_written_comes_again(
    job: Job, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(photos / "new.png", 5)

    def slow(*args: object, **options: object) -> object:
        found = add_images(*args, **options)  # type: ignore[arg-type]
        draw(photos / "new.png", 6)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(module, "add_images", slow)
        assert counts(job().run()) == (1, 0, 0, 0, [])
    assert counts(job().run()) == (0, 1, 0, 0, [])


@pytest.mark.parametrize("how", ["restored", "another name"])
def test_what_a_copy_lacks_is_not_taken_for_seen(
    built: Path,
    photos: Path,
    encoding: Encoding,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """A restore, or a switched name, between the batches of one run."""
    snapshot, name = tmp_path / "snapshot", tmp_path / "prod"
    set_alias(name, built)
    PhotoSync(name, photos, encoding).run()
    take_snapshot(built, snapshot)
    for number in (3, 4):
        draw(photos / f"{number}.png", number)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    extract = features.extract_stores

    def late(*arguments: Any) -> Any:
        if "3.png" in images_of(built):  # the second batch
            monkeypatch.setattr(module, "extract_stores", extract)
            if how == "restored":
                restore_snapshot(snapshot, built)
            else:
                set_alias(name, snapshot)
        return extract(*arguments)

    monkeypatch.setattr(module, "extract_stores", late)
    with pytest.raises(InputError, match="prod was replaced meanwhile: run sparta sync again"):
        PhotoSync(name, photos, encoding).run()
    PhotoSync(name, photos, encoding).run()
    assert sorted(images_of(name)) == [f"{number}.png" for number in range(5)]


def test_paths_that_cannot_be_read_change_nothing(
    job: Job, built: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(photos / "below" / "new.png", 5)
    reasons = add_bad_paths(photos)
    report = job().run()
    assert counts(report)[:4] == (1, 0, 0, 0)
    assert {one.image_id: one.reason for one in report.skipped} == reasons
    before = images_of(built)
    monkeypatch.setattr(module, "extract_stores", nothing)
    # Photos of the index stay while they cannot be read, and are the same afterwards.
    (photos / "0.png").rename(photos.parent / "kept.png")
    os.mkfifo(photos / "0.png")
    with monkeypatch.context() as patch:
        scan = os.scandir
        patch.setattr(os, "scandir", lambda path: scan(_open(Path(path))))
        report = job().run()
    skipped = {one.image_id: one.reason for one in report.skipped}
    assert skipped == reasons | {"0.png": "not a regular file", "below": "Permission denied"}
    assert not report.plan
    (photos / "0.png").unlink()
    (photos.parent / "kept.png").rename(photos / "0.png")
    report = job().run()
    assert (len(report.skipped), bool(report.plan)) == (len(reasons), False)
    assert images_of(built) == before


def _open(path: Path) -> Path:
    if path.name == "below":
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return path


def test_a_photo_that_could_not_be_read_is_tried_again(
    job: Job, built: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job().run()
    draw(photos / "new.png", 5)
    draw(photos / "0.png", 6)
    real = os.open

    def failing(path: str, *arguments: Any, **more: Any) -> int:
        if Path(path).name in ("new.png", "0.png"):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        for _ in range(2):
            report = job().run()
            assert counts(report) == (0, 0, 0, 0, ["0.png", "new.png"])
            assert {one.reason for one in report.skipped} == {"Input/output error"}
    assert sorted(images_of(built)) == ["0.png", "1.png", "2.png"]
    assert counts(job().run()) == (1, 1, 0, 0, [])


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


def test_nothing_has_vanished_while_something_arrives() -> None:
    first, second = Stamp(1, 1), Stamp(2, 2)
    seen = {"gone": Seen(first), "same": Seen(first)}
    before = Scan({"same": first}, [], {})
    arriving = Scan({"same": first, "new": second}, [], {})
    assert list(stable(arriving, before, seen).photos) == ["gone", "same"]
    assert list(stable(arriving, arriving, seen).photos) == ["new", "same"]
    assert list(stable(before, before, seen).photos) == ["same"]


def test_a_watched_folder_is_followed(
    job: Callable[[], PhotoSync], built: Path, photos: Path, tmp_path: Path
) -> None:
    found = job()
    found.run()
    steps = iter(range(100))
    reports: list[SyncReport] = []
    notices: list[str] = []

    def pause(_: float) -> None:
        step = next(steps)
        if step == 0:
            draw(photos / "new.png", 5)
        elif step == 4:
            assert "new.png" in images_of(built)
            photos.rename(tmp_path / "elsewhere")
        elif step == 8:
            (tmp_path / "elsewhere").rename(photos)
            (photos / "new.png").rename(photos / "newer.png")
        elif step == 12:  # from now on 0.png cannot be read, which is said once
            (photos / "0.png").unlink()
            (photos / "0.png").symlink_to("0.png")
        elif step == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(found, 0.1, reports.append, notices.append, pause=pause)
    assert list(map(counts, reports)) == [
        (1, 0, 0, 0, []),
        (0, 0, 1, 0, []),
        (0, 0, 0, 0, ["0.png"]),
    ]
    assert len(notices) == 1 and "does not exist" in notices[0]
    assert sorted(images_of(built)) == ["0.png", "1.png", "2.png", "newer.png"]
