"""`sparta sync` of a sharded index does what it does to a whole one."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import indexer.update.sync as module
from indexer.build import build_index
from indexer.encoding.features import open_images
from indexer.engines.open import open_index
from indexer.maintenance.combine import merge_indexes
from indexer.maintenance.copies import restore_snapshot, take_snapshot
from indexer.store.given import FormerImages
from indexer.update.images import delete_images, update_metadata
from indexer.update.sync import Encoding, PhotoSync, SyncReport, watch
from indexer.update.sync_plan import SeenPhotos
from indexer.update.writer import IndexWriter
from indexer.verify import verify_index
from tests.indexer.tiny import draw as draw_noise
from tests.needs import EVERY

Images = dict[str, tuple[dict[str, Any], dict[int, int]]]


def draw(path: Path, seed: int) -> None:
    """A photo whose file has another size than others: by size fields know their content."""
    draw_noise(path, seed, width=20 + seed % 1000)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(12):
        draw(tmp_path / "photos" / f"{number:02}.png", number)
    return tmp_path / "photos"


@pytest.fixture
def indexes(photos: Path, model_dir: Path, tmp_path: Path) -> list[Path]:
    """A whole index and one in three shards."""
    outs = [tmp_path / "whole", tmp_path / "shards"]
    for out, shards in zip(outs, (None, 3), strict=True):
        images = open_images([photos], [model_dir], out, device="cpu")
        build_index(images, [model_dir], out, device="cpu", shards=shards)
    return outs


def job(index: Path, photos: Path, model_dir: Path) -> PhotoSync:
    return PhotoSync(index, photos, Encoding([model_dir], device="cpu"))


def images_of(index: Path) -> Images:
    """Metadata, and the impact of each term."""
    images, found = FormerImages(index), Images()
    for image_id in open_index(index).ids():
        image = images.image(image_id)
        assert image is not None
        terms = dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))
        found[image_id] = dict(image.metadata), terms
    return found


def counts(report: SyncReport) -> tuple[int, ...]:
    return report.added, report.replaced, report.moved, report.deleted, report.described


def describe(photo: Path, title: str) -> None:
    """Write a file beside a photo that says something."""
    text = (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
        'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
        'xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
        f'xmp:Rating="{title}"/></rdf:RDF></x:xmpmeta>'
    )
    photo.with_name(f"{photo.name}.xmp").write_text(text)


def change_folder(photos: Path, chance: random.Random) -> None:
    """New, changed, moved, exchanged, vanished and described photos."""
    paths = sorted(photos.rglob("*.png"))
    chance.shuffle(paths)
    draw(photos / f"new-{chance.random():.6f}.png", chance.randrange(1000, 10**6))
    draw(paths.pop(), chance.randrange(1000, 10**6))
    paths.pop().unlink()
    describe(paths.pop(), str(chance.randrange(1, 6)))
    first, second = paths.pop(), paths.pop()
    if chance.random() < 0.7:
        first.rename(photos / "other")
        second.rename(first)
        (photos / "other").rename(second)
    moved = paths.pop()
    (photos / "far").mkdir(exist_ok=True)
    last = paths.pop()
    moved.rename(photos / "far" / f"{chance.random():.6f}.png")
    if chance.random() < 0.7:
        last.rename(moved)


@pytest.mark.parametrize("seed", range(3 if EVERY else 1))
def test_what_is_synced_is_the_same(
    indexes: list[Path], photos: Path, model_dir: Path, seed: int
) -> None:
    """Fields and deletions of users too; after each change of the number of shards as well."""
    chance, (whole, shards) = random.Random(seed), indexes
    for step, count in enumerate((3, 2, 4)):
        ids = open_index(whole).ids()
        for index in indexes:
            update_metadata(index, {ids[0]: {"album": step}, ids[1]: {"rating": 3}})
            delete_images(index, [ids[2 + step]])
        change_folder(photos, chance)
        for index in indexes:
            job(index, photos, model_dir).run(yes=True)
            assert verify_index(index) == []
        assert images_of(shards) == images_of(whole)
        for index in indexes:
            assert not job(index, photos, model_dir).run().plan
        merge_indexes([shards], None, count)
        assert not job(shards, photos, model_dir).run().plan


def test_moves_need_no_encoding(
    indexes: list[Path], photos: Path, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a sync after the build, or after a change of the number of shards."""

    def nothing(*_: object, **__: object) -> None:
        raise AssertionError("nothing was to be encoded")

    monkeypatch.setattr(module, "add_images", nothing)
    _, shards = indexes
    update_metadata(shards, {"03.png": {"album": "a"}})
    delete_images(shards, ["04.png"])
    assert not job(shards, photos, model_dir).run().plan
    (photos / "far").mkdir()
    for number in range(12):
        (photos / f"{number:02}.png").rename(photos / "far" / f"new {number:02}.png")
    dry = job(shards, photos, model_dir).run(dry=True)
    assert counts(dry) == (0, 0, 0, 0, 0) and len(dry.plan.moved) == 12
    assert counts(job(shards, photos, model_dir).run()) == (0, 0, 11, 0, 0)
    found = images_of(shards)
    assert found["far/new 03.png"][0]["album"] == "a" and "far/new 04.png" not in found
    for count in (1, 2, 4):
        merge_indexes([shards], None, count)
        assert not job(shards, photos, model_dir).run().plan
    assert images_of(shards) == found


class Ended(BaseException):
    """Stands for the end of the process."""


def chain(photos: Path) -> None:
    """Photos that take each other's places, one that comes to another's, and simple moves."""
    (photos / "far").mkdir()
    for number in (0, 1, 2):
        (photos / f"{number:02}.png").rename(photos / "far" / f"{number:02}.png")
    for number in range(7, 3, -1):
        (photos / f"{number:02}.png").rename(photos / f"{number + 1:02}.png.x")
    (photos / "08.png").unlink()
    for path in photos.glob("*.x"):
        path.rename(path.with_suffix(""))
    (photos / "10.png").rename(photos / "x")
    (photos / "11.png").rename(photos / "10.png")
    (photos / "x").rename(photos / "11.png")


@pytest.mark.parametrize("how", ["killed", "killed after"])
def test_a_sync_that_is_killed_anywhere_goes_on(
    indexes: list[Path], photos: Path, model_dir: Path, tmp_path: Path, how: str
) -> None:
    """What moves from shard to shard is neither lost nor taken for another."""
    whole, built = indexes
    for index in indexes:
        update_metadata(index, {f"{number:02}.png": {"number": number} for number in range(12)})
        delete_images(index, ["05.png"])
    chain(photos)
    job(whole, photos, model_dir).run(yes=True)
    right = images_of(whole)
    assert right["far/01.png"][0]["number"] == 1 and right["10.png"][0]["number"] == 11
    ended = 1
    while ended:
        index = Path(shutil.copytree(built, tmp_path / f"index-{ended}"))
        left = ended

        def ending(call: Any) -> Any:
            def ends(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0 and how == "killed":
                    raise Ended
                found = call(*arguments, **options)
                if left == 0:
                    raise Ended
                return found

            return ends

        with pytest.MonkeyPatch.context() as patch:
            for owner, name in ((IndexWriter, "write"), (SeenPhotos, "save")):
                patch.setattr(owner, name, ending(getattr(owner, name)))
            try:
                job(index, photos, model_dir).run(yes=True)
                ended = 0
            except Ended:
                ended += 1 if EVERY else 3
        for _ in range(2):
            job(index, photos, model_dir).run(yes=True)
        assert images_of(index) == right, ended
        assert verify_index(index) == []
        shutil.rmtree(index)


def test_a_sharded_index_is_followed(indexes: list[Path], photos: Path, model_dir: Path) -> None:
    """With --watch; what is restored is brought up to date again."""
    _, shards = indexes
    take_snapshot(shards, shards.with_name("snapshot"))
    reports: list[SyncReport] = []
    draw(photos / "new.png", 99)
    os.utime(photos / "00.png", ns=(0, 0))

    class Enough(Exception):
        pass

    def pause(_: float, times: list[int] = [3]) -> None:  # noqa: B006
        times[0] -= 1
        if not times[0]:
            raise Enough

    with pytest.raises(Enough):
        watch(job(shards, photos, model_dir), 0.1, reports.append, print, pause=pause)
    assert [counts(one) for one in reports] == [(1, 0, 0, 0, 0)]
    restore_snapshot(shards.with_name("snapshot"), shards)
    assert counts(job(shards, photos, model_dir).run()) == (1, 0, 0, 0, 0)
    (photos / "01.png").rename(photos / "far.png")
    assert counts(job(shards, photos, model_dir).run()) == (0, 0, 1, 0, 0)
    assert "far.png" in images_of(shards)
