"""An index follows a folder of photos."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import indexer.encoding.features as features
import indexer.update.sync as module
from indexer.build import build_index
from indexer.encoding.features import open_images, opened_stores
from indexer.maintenance.copies import restore_snapshot, set_alias, take_snapshot
from indexer.store.snapshot import Snapshot
from indexer.update.images import add_images, delete_images, update_metadata
from indexer.update.sync import Encoding, PhotoSync, SyncReport, watch
from indexer.update.sync_plan import SeenPhotos
from sparta.errors import InputError
from sparta.extract.photos import Choice
from tests.bad_paths import add_bad_paths
from tests.indexer.tiny import draw

Images = dict[str, dict[str, Any]]
Job = Callable[[], PhotoSync]


@pytest.fixture
def encoding(model_dir: Path) -> Encoding:
    return Encoding([model_dir], device="cpu")


@pytest.fixture
def built(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    out = tmp_path / "index"
    images = open_images([photos], [model_dir], out, device="cpu")
    build_index(images, [model_dir], out, device="cpu")
    return out


@pytest.fixture
def job(built: Path, photos: Path, encoding: Encoding) -> Job:
    return lambda: PhotoSync(built, photos, encoding)


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


@pytest.mark.parametrize("noted", [True, False])
def test_photos_of_the_build_are_known(job: Job, built: Path, photos: Path, noted: bool) -> None:
    """By their sizes; if the build noted none, it is unknown that the index had another 2.png."""
    if not noted:
        shutil.rmtree(built / "sync")
    shutil.copy2(photos / "0.png", photos / "new.png")  # which the index does not have
    os.utime(photos / "1.png", ns=(0, 2**62))
    (photos / "2.png").write_bytes(b"other content")
    os.utime(photos / "2.png", ns=(0, 0))
    plan = job().run(dry=True).plan
    assert plan.changed == (["2.png"] if noted else [])
    assert plan.new == (["new.png"] if noted else ["2.png", "new.png"])
    assert not (plan.moved or plan.vanished or plan.touched)


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


@pytest.mark.parametrize("synced", [False, True])
def test_photos_of_the_build_are_known_by_content(
    built: Path, photos: Path, job: Job, synced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they are now, whatever their names and times; one may be a copy of another."""
    if synced:
        job().run()
    update_metadata(built, {"0.png": {"album": "a"}, "1.png": {"album": "b"}})
    monkeypatch.setattr(module, "add_images", nothing)
    (photos / "far").mkdir()
    (photos / "0.png").rename(photos / "far" / "renamed.png")
    os.utime(photos / "far" / "renamed.png", ns=(0, 1))
    os.utime(photos / "1.png", ns=(0, 2))
    assert counts(job().run()) == (0, 0, 1, 0, [])
    found = images_of(built)
    assert found["far/renamed.png"]["album"] == "a" and found["1.png"]["album"] == "b"
    content = (photos / "2.png").read_bytes()
    (photos / "2.png").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # of the same size
    os.utime(photos / "2.png", ns=(0, 3))
    assert job().run(dry=True).plan.changed == ["2.png"]


def test_photos_left_out_and_passed_over(built: Path, photos: Path, encoding: Encoding) -> None:
    (photos / "@eaDir").mkdir()
    for name in ("@eaDir/0.png", ".1.png", "a.dng"):
        shutil.copy(photos / "2.png", photos / name)
    (photos / "a.cr2").touch()
    report = PhotoSync(built, photos, encoding).run()
    assert counts(report) == (1, 0, 0, 0, []) and report.passed == {"RAW": 1}
    report = PhotoSync(built, photos, encoding, Choice([".*"], ["a.dng"])).run(yes=True)
    assert counts(report) == (0, 0, 1, 0, [])  # the same photo
    assert sorted(images_of(built)) == [".1.png", "0.png", "1.png", "2.png"]


XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><r:RDF
 xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><r:Description
 xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="%d"/></r:RDF></x:xmpmeta>"""
TAKEOUT = '{"description": "%d"}'


@pytest.mark.parametrize(
    ("beside", "text", "field"),
    [
        ("0.png.xmp", XMP, "rating"),
        ("0.xmp", XMP, "rating"),
        ("0.png.json", TAKEOUT, "description"),
        ("0.png.supplemental-metadata.json", TAKEOUT, "description"),
    ],
)
@pytest.mark.parametrize("first", [None, 1])
def test_files_beside_photos_are_followed(
    photos: Path,
    model_dir: Path,
    tmp_path: Path,
    encoding: Encoding,
    beside: str,
    text: str,
    field: str,
    first: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They change metadata, and nothing is encoded; what the user gave stays."""
    out = tmp_path / "index"
    if first:
        (photos / beside).write_text(text % first)
    images = open_images([photos], [model_dir], out, device="cpu")
    build_index(images, [model_dir], out, device="cpu")
    update_metadata(out, {"0.png": {"album": "a"}})
    monkeypatch.setattr(module, "add_images", nothing)

    def synced(described: int, **options: Any) -> Any:
        report = PhotoSync(out, photos, encoding).run(**options)
        assert (report.did, report.described) == (described, described)
        return images_of(out)["0.png"].get(field)

    before = images_of(out)["0.png"]
    assert str(synced(0)) == str(first)
    for value in (2, 3):
        (photos / beside).write_text(text % value)
        assert list(PhotoSync(out, photos, encoding).run(dry=True).plan.described) == ["0.png"]
        assert str(synced(1)) == str(value)
        assert synced(0) is not None
    os.utime(photos / beside, ns=(0, 1))
    assert str(synced(0)) == "3"
    (photos / beside).rename(tmp_path / "aside")
    assert synced(1) is None and synced(0) is None
    (tmp_path / "aside").rename(photos / beside)
    assert str(synced(1)) == "3"
    (photos / "sub").mkdir()
    (photos / "0.png").rename(photos / "sub" / "0.png")  # away from what is beside it
    assert counts(PhotoSync(out, photos, encoding).run()) == (0, 0, 1, 0, [])
    wanted = {name: value for name, value in before.items() if name != field} | {"album": "a"}
    assert images_of(out)["sub/0.png"] == wanted


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
    job: Job, built: Path, photos: Path, encoding: Encoding, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    job().run()
    draw(other / "9.png", 9)
    assert counts(PhotoSync(built, other, encoding).run())[0] == 1
    assert PhotoSync(built, other / "a", encoding).place == (other, "a/")
    for folder, problem in (
        (tmp_path, r"contains .*(other|photos), to which ids of photos in .*index are relative"),
        (photos / "0.png", r"0\.png is a file: give the folder"),
    ):
        with pytest.raises(InputError, match=problem):
            PhotoSync(built, folder, encoding)
    draw(other / "1.png", 9)
    with pytest.raises(InputError, match=r"'1.png' is in .*other and in .*photos: photos of two"):
        PhotoSync(built, other, encoding).run()


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


@pytest.mark.parametrize("how", ["built", "synced", "elsewhere"])
def test_photos_that_were_added_are_not_encoded_again(
    built: Path, photos: Path, encoding: Encoding, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless they change meanwhile. One that a sync leaves out stays in the index."""
    folder = photos.with_name("elsewhere") if how == "elsewhere" else photos
    draw(folder / "first.png", 4)
    job = PhotoSync(built, folder, encoding)
    if how != "built":
        job.run()
    names = ["again.png", "new.png", ".hidden.png"]
    if how != "elsewhere":  # whose photos must be in one folder
        names += [".trash/a.png", "aside/b.png"]
    for seed, name in enumerate(names, 5):
        draw(folder / name, seed)
    (folder / "aside").mkdir(exist_ok=True)
    (folder / "aside" / ".nomedia").touch()
    paths, models = [folder / name for name in names], encoding.models
    with opened_stores(built, paths, [], models, "cpu") as (stores, _):
        draw(folder / "again.png", 20)
        assert add_images(built, stores, models, note=True, device="cpu").added == len(names)
    plan = job.run(dry=True).plan
    assert plan.new == ["again.png", *(["first.png"] if how == "built" else [])]
    assert not (plan.changed or plan.vanished or plan.touched or plan.moved)
    assert counts(job.run()) == (len(plan.new) - 1, 1, 0, 0, [])
    monkeypatch.setattr(module, "add_images", nothing)
    os.utime(folder / "new.png", ns=(0, 1))
    assert list(job.run().plan.touched) == ["new.png"]  # known by its content
    (folder / "new.png").unlink()
    assert counts(job.run(yes=True)) == (0, 0, 0, 1, [])
    assert images_of(built).keys() >= {*names} - {"new.png"}


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

    def late(*arguments: Any, **options: Any) -> Any:
        if "3.png" in images_of(built):  # the second batch
            monkeypatch.setattr(module, "extract_stores", extract)
            if how == "restored":
                restore_snapshot(snapshot, built)
            else:
                set_alias(name, snapshot)
        return extract(*arguments, **options)

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


def test_a_watched_folder_is_followed(job: Job, built: Path, photos: Path, tmp_path: Path) -> None:
    found = job()
    found.run()
    reports: list[SyncReport] = []
    notices: list[str] = []

    def steps() -> Iterator[None]:
        """Four looks at the folder after each change."""
        draw(photos / "new.png", 5)
        yield from [None] * 4
        assert "new.png" in images_of(built)
        photos.rename(tmp_path / "elsewhere")
        yield from [None] * 4
        (tmp_path / "elsewhere").rename(photos)
        (photos / "new.png").rename(photos / "newer.png")
        yield from [None] * 4
        (photos / "0.png").unlink()  # from now on it cannot be read, which is said once
        (photos / "0.png").symlink_to("0.png")
        yield from [None] * 4

    pause = steps()
    with pytest.raises(StopIteration):
        watch(found, 0.1, reports.append, notices.append, pause=lambda _: next(pause))
    assert list(map(counts, reports)) == [
        (1, 0, 0, 0, []),
        (0, 0, 1, 0, []),
        (0, 0, 0, 0, ["0.png"]),
    ]
    assert len(notices) == 1 and "does not exist" in notices[0]
    assert sorted(images_of(built)) == ["0.png", "1.png", "2.png", "newer.png"]
