"""A rebuild keeps what the user gave to the index, and a changed file loses what it said alone."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image, ImageDraw

from indexer.build import build_index
from indexer.encoding.features import open_images
from indexer.engines.open import open_index
from indexer.fields.kinds import read_kinds
from indexer.maintenance.combine import merge_indexes
from indexer.maintenance.copies import take_snapshot
from indexer.manifest import index_folders
from indexer.settings import PruningSettings
from indexer.store.changes import Add, Delete, MetadataChange
from indexer.store.given import FILE
from indexer.update.images import add_images, delete_images, update_metadata
from indexer.update.sync import Encoding, PhotoSync
from indexer.verify import verify_index
from server.writing.bodies import ImageBody
from server.writing.forward import Board
from server.writing.index import PhotoEncoder, WritableIndex
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.live_index import Opened, write
from tests.indexer.store.images import image
from tests.indexer.tiny import same_but
from tests.stores import kept_stores

GPS = {"latitude", "longitude"}
Build = Callable[..., list[str]]


def fields_of(index: Path) -> dict[str, dict[str, Any]]:
    """Metadata of all images by id."""
    found: dict[str, dict[str, Any]] = {}
    for folder in index_folders(index):
        with closing(open_index(folder)) as searcher:
            hits = searcher.search("", 100).hits
            found |= {hit.image_id: dict(hit.metadata) for hit in hits}
    return found


@pytest.fixture(params=[None, 2], ids=["whole", "shards"])
def shards(request: pytest.FixtureRequest) -> int | None:
    found: int | None = request.param
    return found


@pytest.fixture
def build(store: FeatureStore, model_dir: Path, tmp_path: Path) -> Build:
    """Builds `tmp_path / "index"` and returns what was said."""

    def run(stores: Sequence[FeatureStore] = (store,), **options: Any) -> list[str]:
        said: list[str] = []
        out = tmp_path / "index"
        build_index(stores, [model_dir], out, device="cpu", notice=said.append, **options)
        assert verify_index(out) == []
        return said

    return run


SENT = image("sent", {5: 100, 7: 100, 9: 100}, {"album": "Rome"})


def test_fields_deletions_and_sent_images_stay(
    build: Build, store: FeatureStore, shards: int | None, tmp_path: Path
) -> None:
    index, (first, second, third, fourth, *_) = tmp_path / "index", store.ids
    file = {first: {"album": "Crete", "rating": 1}, second: {"album": "Oslo"}}
    assert build(metadata=file, kinds={"album": "keyword"}, shards=shards) == []
    update_metadata(
        index, {first: {"rating": 5}, second: {"width": 1, "note": "mine", "album": None}}
    )
    delete_images(index, [third])
    write(index, Add(SENT, {"album": "Rome"}, "terms"))
    update_metadata(index, {"sent": {"rating": 2}})
    before = fields_of(index)
    assert before[first] == {"width": 40, "height": 30, "album": "Crete", "rating": 5}
    said = build(shards=shards)
    assert said == [
        "kept of the former index: images with fields: 2, deletions: 1, images sent or added: 1"
    ]
    assert fields_of(index) == before and third not in before
    assert all(read_kinds(one)["album"] == "keyword" for one in index_folders(index))
    # Once more; the file of the first build again, then with one new value, which counts.
    build(metadata=file, shards=shards)
    assert fields_of(index) == before
    build(metadata={**file, first: {"album": "Paros", "rating": 1}}, shards=3 if shards else None)
    assert fields_of(index) == before | {first: before[first] | {"album": "Paros"}}
    # An image that is not there for a while has its fields when it comes back.
    build([same_but(tmp_path / "less", store, drop=fourth)], shards=shards)
    update_metadata(index, {second: {"note": "later"}})
    build(shards=shards)
    assert fields_of(index)[second]["note"] == "later" and fourth in fields_of(index)


def test_a_log_that_nobody_applied_is_kept(
    build: Build, store: FeatureStore, tmp_path: Path
) -> None:
    build()
    opened = Opened(tmp_path / "index")
    opened.writer.write([MetadataChange(store.ids[0], {"album": "x"}, {"album": "x"})])
    opened.writer.write([Delete(store.ids[1])])
    opened.writer.sync()
    opened.kill()
    build()
    found = fields_of(tmp_path / "index")
    assert found[store.ids[0]]["album"] == "x" and store.ids[1] not in found


@pytest.mark.parametrize("sent", ["features", None])
def test_what_would_be_lost_is_refused(
    build: Build, shards: int | None, tmp_path: Path, sent: Any
) -> None:
    build(shards=shards)
    index = tmp_path / "index"
    write(index, Add(SENT, {}, sent))
    before = fields_of(index)
    with pytest.raises(InputError, match=r"1 images that the new one would lack, such as 'sent'"):
        build()
    assert fields_of(index) == before
    delete_images(index, ["sent"])
    build()


def test_a_damaged_index_is_replaced_unless_something_was_given(
    build: Build, store: FeatureStore, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    build()
    (index / "manifest.json").write_text("{}")
    build()
    update_metadata(index, {store.ids[0]: {"album": "Crete"}})
    whole = (index / "manifest.json").read_text()
    (index / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match=r"what was given to .*index cannot be kept"):
        build()
    (index / "manifest.json").write_text(whole)
    content = (index / FILE).read_bytes()
    for damaged in (b"?" + content[1:], content[:-1], None):
        (index / FILE).write_bytes(damaged) if damaged else (index / FILE).unlink()
        assert str(index / FILE) in verify_index(index)[0]
        with pytest.raises(InputError, match=r"cannot be kept \(.*given\.log is"):
            build()
    (index / FILE).write_bytes(content)
    build()
    # Of an index that nobody has written to since, too.
    build(metadata={store.ids[0]: {"album": "Crete"}})
    (index / FILE).write_bytes((index / FILE).read_bytes()[:-1])
    assert str(index / FILE) in verify_index(index)[0]


def test_copies_have_the_record(
    build: Build, store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    index, other = tmp_path / "index", tmp_path / "other"
    build()
    shutil.copytree(index, other)
    write(other, Add(SENT, {"album": "Rome"}, "terms"))
    delete_images(other, list(store.ids))
    update_metadata(index, {store.ids[0]: {"album": "Crete"}})
    take_snapshot(index, tmp_path / "snapshot")
    merge_indexes([tmp_path / "snapshot", other], tmp_path / "both")
    build_index([store], [model_dir], tmp_path / "both", device="cpu")
    found = fields_of(tmp_path / "both")
    assert found[store.ids[0]]["album"] == "Crete" and found["sent"]["album"] == "Rome"
    assert len(found) == 22


def draw(path: Path, colour: str, shape: str, *, gps: bool = True, quality: int = 90) -> None:
    """A drawing on a field of its colour, with what cameras write."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = "Acme", "One"
    if gps:
        exif.get_ifd(ExifTags.IFD.GPSInfo).update(
            {1: "N", 2: (48.0, 51.0, 29.0), 3: "E", 4: (2.0, 17.0, 40.0)}
        )
    picture = Image.new("RGB", (128, 96), colour)
    pen = ImageDraw.Draw(picture)
    (pen.ellipse if shape == "sun" else pen.rectangle)(
        (20, 10, 90, 80), fill="yellow", outline="red"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, exif=exif, quality=quality)


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    photos = tmp_path / "photos"
    for number, (colour, shape) in enumerate(
        [("blue", "sun"), ("green", "box"), ("white", "sun"), ("brown", "box"), ("black", "sun")]
    ):
        draw(photos / f"{number}.jpg", colour, shape)
    return photos


def build_photos(photos: Path, out: Path, **options: Any) -> list[str]:
    said: list[str] = []
    images = open_images([photos], ["sample"], out, device="cpu")
    build_index(images, ["sample"], out, device="cpu", notice=said.append, **options)
    return said


@pytest.mark.parametrize("way", ["sync", "add", "rebuild", "rebuild in shards"])
def test_values_of_a_file_go_with_it_and_given_ones_stay_with_the_content(
    drawn: Path, tmp_path: Path, way: str
) -> None:
    index = tmp_path / "index"
    about = {"0.jpg": {"rating": 3}, "1.jpg": {"rating": 4}}
    build_photos(drawn, index, metadata=about)
    update_metadata(index, {f"{n}.jpg": {"album": f"album {n}", "model": None} for n in range(3)})
    delete_images(index, ["3.jpg", "4.jpg"])
    draw(drawn / "0.jpg", "blue", "sun", gps=False, quality=80)  # the same without its place
    draw(drawn / "1.jpg", "orange", "sun", gps=False)  # something else
    draw(drawn / "4.jpg", "purple", "box")
    if way == "sync":
        report = PhotoSync(index, drawn, Encoding(["sample"], device="cpu")).run(yes=True)
        assert report.aside == 1
    elif way == "add":
        stores = kept_stores(drawn, ["sample"], tmp_path / "new")
        assert add_images(index, stores, ["sample"], device="cpu").aside == 1
    else:
        said = build_photos(drawn, index, shards=2 if "shards" in way else None)
        assert said == [
            "kept of the former index: images with fields: 2, deletions: 1; put aside, since "
            "their photos show something else: fields of 1"
        ]
    found = fields_of(index)
    assert set(found) == {"0.jpg", "1.jpg", "2.jpg", "4.jpg"} | (
        {"3.jpg"} if way == "add" else set()
    )
    assert found["0.jpg"]["album"] == "album 0" and found["0.jpg"]["rating"] == 3
    assert not GPS & set(found["0.jpg"]) and "model" not in found["0.jpg"]
    assert not {"album", "rating", *GPS} & set(found["1.jpg"]) and found["1.jpg"]["model"] == "One"
    assert found["2.jpg"]["album"] == "album 2" and set(found["2.jpg"]) >= GPS
    # The former content comes back, and with it what was given to it.
    draw(drawn / "1.jpg", "green", "box")
    build_photos(drawn, index)
    assert fields_of(index)["1.jpg"]["album"] == "album 1"
    assert fields_of(index)["1.jpg"]["rating"] == 4


def test_photos_that_change_places_keep_their_own(drawn: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build_photos(drawn, index)

    def sync() -> tuple[int, int, int]:
        report = PhotoSync(index, drawn, Encoding(["sample"], device="cpu")).run(yes=True)
        return report.added + report.replaced, report.moved, report.deleted

    update_metadata(index, {f"{n}.jpg": {"album": f"album {n}"} for n in range(4)})
    delete_images(index, ["4.jpg"])
    (drawn / "0.jpg").rename(tmp_path / "0.jpg")
    (drawn / "1.jpg").rename(drawn / "0.jpg")
    (tmp_path / "0.jpg").rename(drawn / "1.jpg")
    (drawn / "2.jpg").rename(drawn / "moved.jpg")
    (drawn / "4.jpg").rename(drawn / "away.jpg")
    draw(drawn / "2.jpg", "pink", "box")
    assert sync() == (1, 3, 0)
    right = {"0.jpg": "album 1", "1.jpg": "album 0", "moved.jpg": "album 2", "3.jpg": "album 3"}
    for _ in range(2):
        found = fields_of(index)
        assert {one: values["album"] for one, values in found.items() if "album" in values} == right
        assert set(found) == {*right, "2.jpg"}
        build_photos(drawn, index)


def test_photos_that_were_sent_are_encoded_again(
    drawn: Path, shards: int | None, tmp_path: Path
) -> None:
    index, sent = tmp_path / "index", tmp_path / "sent.jpg"
    build_photos(drawn, index, shards=shards)
    draw(sent, "red", "box")
    encoder = PhotoEncoder(index_folders(index)[0], ["sample"])
    writable = WritableIndex(index, encoder, Board(1))
    body = ImageBody.model_construct(
        photo=sent.read_bytes(), features=None, terms=None, metadata={"album": "Rome"}
    )
    for image_id in ("beach/new.jpg", "0.jpg"):
        writable.write([writable.encode(image_id, body)])
    writable.update("beach/new.jpg", {"rating": 5, "model": None})
    writable.close()
    before = fields_of(index)
    assert before["beach/new.jpg"]["upload"] == before["0.jpg"]["upload"]
    for pruning in (PruningSettings(), PruningSettings(top_n=50)):
        build_photos(drawn, index, shards=shards, pruning=pruning)
        assert fields_of(index) == before
        uploads = [path for path in index.rglob("uploads/*/*") if path.is_file()]
        assert {path.read_bytes() for path in uploads} == {sent.read_bytes()}
    for path in uploads:
        path.unlink()
    with pytest.raises(InputError, match="2 images that the new one would lack"):
        build_photos(drawn, index, shards=shards)


def test_the_folder_it_was_built_from_may_have_become_a_circle(drawn: Path, tmp_path: Path) -> None:
    index, moved = tmp_path / "index", tmp_path / "moved"
    build_photos(drawn, index)
    update_metadata(index, {"0.jpg": {"album": "Crete"}})
    drawn.rename(moved)
    drawn.symlink_to("photos")
    encoding = Encoding(["sample"], device="cpu")
    assert not PhotoSync(index, moved, encoding).run(dry=True).plan.vanished
    with pytest.raises(InputError, match="photos does not exist"):
        PhotoSync(index, drawn, encoding).run()
    build_photos(moved, index)
    assert fields_of(index)["0.jpg"]["album"] == "Crete"
