"""An index of photos, whose features are extracted some at a time and not kept."""

import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import indexer.encoding.features as features
import sparta.extract.job as job
from indexer.build import build_index
from indexer.encoding.features import open_images
from indexer.manifest import Manifest
from indexer.postings import ImagePostings
from indexer.settings import PruningSettings
from indexer.store.snapshot import Snapshot
from indexer.update.sync import Encoding, PhotoSync
from sparta.errors import InputError
from sparta.features.record import read_skipped
from sparta.files import find_work
from tests.indexer.tiny import draw
from tests.stores import kept_stores

Taken = list[list[str]]
PLAIN = PruningSettings(offset="none", top_n=9)  # the same for any sample


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Eleven photos in two folders, of which two cannot be used."""
    folder = tmp_path / "photos"
    for number in range(9):
        draw(folder / f"{'ab'[number % 2]}/{number}.png", number)
    (folder / "a" / "bad.jpg").write_text("no photo")
    (folder / "z.jpg").touch()
    return folder


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """The photos of each extraction; of four at most."""
    found: Taken = []
    extract = job.extract_augmented

    def noted(*arguments: Any, stamps: Any, **options: Any) -> Any:
        found.append(list(stamps))
        return extract(*arguments, stamps=stamps, **options)

    monkeypatch.setattr(features, "AT_ONCE", 4)
    monkeypatch.setattr(features, "extract_augmented", noted)
    return found


def build(photos: Path, model: Path, out: Path, **options: Any) -> Manifest:
    images = open_images([photos], [model], out, device="cpu")
    return build_index(images, [model], out, device="cpu", **options)


def images_of(index: Path) -> Iterator[ImagePostings]:
    snapshot = Snapshot.open(index)
    return snapshot.images(snapshot.live_documents().tolist())


def assert_same(found: Path, right: Path) -> None:
    """The same terms and scores; samples differ in the largest score, which the scale is of."""
    scales = [Manifest.open(index).scale for index in (found, right)]
    for one, other in zip(images_of(found), images_of(right), strict=True):
        assert (one.image_id, one.metadata) == (other.image_id, other.metadata)
        assert one.terms.tolist() == other.terms.tolist()
        whole = (one.impacts < 255) & (other.impacts < 255)  # of the others the score is larger
        errors = abs(one.impacts * scales[0] - other.impacts * scales[1])[whole]
        assert whole.any() and errors.max() <= sum(scales) / 2 + 1e-6


@pytest.mark.parametrize("shards", [None, 2])
def test_photos_in_parts_are_indexed_as_their_features(
    photos: Path, model_dir: Path, tmp_path: Path, taken: Taken, shards: int | None
) -> None:
    stores = kept_stores(photos, [model_dir], tmp_path / "right")
    right = build_index(stores, [model_dir], tmp_path / "right", PLAIN, device="cpu")
    taken.clear()
    stages: list[tuple[str, int, int]] = []
    out = tmp_path / "index"
    built = build(
        photos, model_dir, out, pruning=PLAIN, shards=shards, progress=lambda *s: stages.append(s)
    )
    assert [len(part) for part in taken] == [4, 4, 3]
    ids = {path.relative_to(photos).as_posix() for path in photos.glob("**/*.*")}
    assert {*chain(*taken)} == ids
    assert len({part[0][0] for part in map(sorted, taken)}) == 2, "the first is a sample"
    assert stages.count(("extract", 11, 11)) == stages.count(("encode", 11, 11)) == 1
    assert (built.images, built.postings) == (right.images, right.postings) == (9, right.postings)
    assert [one.image_id for one in read_skipped(out)] == ["a/bad.jpg", "z.jpg"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"photos", "right", "right.features", "index"}
    if shards is None:
        assert_same(out, tmp_path / "right")
        report = PhotoSync(out, photos, Encoding([model_dir], device="cpu")).run()
        assert not report.plan and len(report.skipped) == 2


def test_what_one_part_holds_is_equal_to_the_byte(
    photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    stores = kept_stores(photos, [model_dir], tmp_path / "right")
    build_index(stores, [model_dir], tmp_path / "right", device="cpu")
    build(photos, model_dir, tmp_path / "index")
    for path in (tmp_path / "right" / "segments").rglob("*.*"):
        other = tmp_path / "index" / path.relative_to(tmp_path / "right")
        assert path.read_bytes() == other.read_bytes(), path


def test_a_killed_run_continues_with_the_parts_whose_photos_are_the_same(
    photos: Path, model_dir: Path, tmp_path: Path, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "index"

    def killed_in_the_last_part(stage: str, done: int, total: int) -> None:
        if len(taken) == 3 and stage == "extract":
            raise KeyboardInterrupt

    def whole(name: str) -> Path:
        with monkeypatch.context() as patch:
            patch.setattr(features, "AT_ONCE", 100)
            build(photos, model_dir, tmp_path / name, pruning=PLAIN)
        taken.clear()
        return tmp_path / name

    with pytest.raises(KeyboardInterrupt):
        build(photos, model_dir, out, pruning=PLAIN, progress=killed_in_the_last_part)
    sample, _, third = taken
    taken.clear()
    (photos / third[0]).unlink()
    shutil.copy(photos / sample[0], photos / "y.png")
    build(photos, model_dir, out, pruning=PLAIN)
    assert {*chain(*taken[1:])} == {*third[1:], "y.png"}  # the first opens the scorers
    assert_same(out, whole("right"))
    # Part of the photos changes: theirs is extracted again.
    with pytest.raises(KeyboardInterrupt):
        build(photos, model_dir, out, pruning=PLAIN, progress=killed_in_the_last_part)
    changed = taken[1]
    taken.clear()
    draw(photos / changed[0], 77)
    build(photos, model_dir, out, pruning=PLAIN)
    assert {*changed} <= {*chain(*taken[1:])}
    assert_same(out, whole("right"))


def killed_at(parts: int, taken: Taken) -> Callable[[str, int, int], None]:
    def progress(stage: str, done: int, total: int) -> None:
        if len(taken) == parts and stage == "extract":
            raise KeyboardInterrupt

    return progress


def test_a_photo_that_comes_back_is_there_once(
    photos: Path, model_dir: Path, tmp_path: Path, taken: Taken
) -> None:
    """Its part was given up while it was away, and the others of the part went into another."""
    out, away = tmp_path / "index", tmp_path / "away.png"
    with pytest.raises(KeyboardInterrupt):
        build(photos, model_dir, out, pruning=PLAIN, progress=killed_at(3, taken))
    moved = taken[1][0]
    (photos / moved).rename(away)
    taken.clear()
    with pytest.raises(KeyboardInterrupt):
        build(photos, model_dir, out, pruning=PLAIN, progress=killed_at(3, taken))
    away.rename(photos / moved)
    build(photos, model_dir, out, pruning=PLAIN)
    ids = [image.image_id for image in images_of(out)]
    assert len(ids) == len({*ids}) == 9


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", "null"])
def test_a_damaged_note_of_a_part_is_made_again(
    photos: Path, model_dir: Path, tmp_path: Path, taken: Taken, content: str
) -> None:
    out = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        build(photos, model_dir, out, pruning=PLAIN, progress=killed_at(3, taken))
    [work] = find_work(out)
    notes = sorted(work.glob("part-*.json"))
    assert len(notes) == 2
    notes[0].write_text(content)
    build(photos, model_dir, out, pruning=PLAIN)
    assert len([*images_of(out)]) == 9


def test_what_is_saved_stays_when_the_disk_is_full(
    photos: Path,
    model_dir: Path,
    tmp_path: Path,
    taken: Taken,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        build(photos, model_dir, out, pruning=PLAIN, progress=killed_at(3, taken))
    [work] = find_work(out)
    saved = sorted(path.name for path in work.glob("part-*"))
    (photos / "0.png").write_bytes((photos / "a" / "0.png").read_bytes())  # another sample
    with monkeypatch.context() as patch:
        patch.setattr(job, "check_room", Mock(side_effect=InputError("free some room")))
        with pytest.raises(InputError, match="free some room"):
            build(photos, model_dir, out, pruning=PLAIN)
    assert [path.name for path in sorted(work.glob("part-*"))] == saved and saved


def test_photos_of_which_none_is_usable_leave_nothing(model_dir: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("a.jpg", "b.jpg"):
        (photos / name).touch()
    problem = r"no photo could be used: .*a\.jpg: the file is empty \(and 1 more\)"
    with pytest.raises(InputError, match=problem):
        build(photos, model_dir, tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
