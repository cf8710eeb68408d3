"""Feature stores: records, shards, damage, and stores on another machine."""

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparta.addresses import folder_at
from sparta.errors import InputError
from sparta.features.record import SKIPPED, FeatureSource, ImageFeatures, Skipped, skipped_summary
from sparta.features.store import FeatureStore, Stamps, stores_in, verify_stores
from sparta.features.writer import Changes, StoreWriter
from tests import tiny
from tests.indexer import tiny as index_tiny
from tests.stores import write_store

SOURCE = FeatureSource("region", "detector", "abc", 5, 64)


def image(image_id: str, regions: int = 3, seed: int = 0) -> ImageFeatures:
    made = tiny.image(regions, ("dog",), seed + sum(image_id.encode()))
    return replace(made, image_id=image_id)


def images(count: int = 7) -> list[ImageFeatures]:
    return [image(f"ü/{i:03d}.jpg", regions=1 + i % 4) for i in range(count)]


def assert_same(found: ImageFeatures, expected: ImageFeatures) -> None:
    np.testing.assert_array_equal(found.features, expected.features)
    np.testing.assert_array_equal(found.boxes, expected.boxes)
    rest = ("image_id", "labels", "attributes", "width", "height")
    assert [getattr(found, name) for name in rest] == [getattr(expected, name) for name in rest]


def test_gives_back_what_was_written(tmp_path: Path) -> None:
    written = images()
    store = write_store(tmp_path / "s", SOURCE, iter(written), photos=tmp_path, shard_size=3)
    assert len(store) == 7
    assert store.shards == [range(0, 3), range(3, 6), range(6, 7)]
    assert (store.source, store.photos, store.augmentation) == (SOURCE, tmp_path, "plain")
    assert store.ids == [entry.image_id for entry in written]
    for row, entry in enumerate(written):
        assert_same(store[row], entry)
        assert store.index(entry.image_id) == row
    assert_same(store[-1], written[-1])
    assert_same(pickle.loads(pickle.dumps(store))[5], written[5])  # as loaders of data do
    assert len(pickle.dumps(store)) < 1000
    assert [entry.image_id for entry in store] == store.ids
    assert not store[0].features.flags.owndata  # a view of the bytes read
    assert not store[0].features.flags.writeable
    with pytest.raises(IndexError):
        store[7]
    with pytest.raises(KeyError):
        store.index("absent.jpg")


def test_holds_no_file_open(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", SOURCE, images(), shard_size=1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [store[row] for row in range(len(store))]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert_same(kept[0], images()[0])


def resident(folder: Path) -> int:
    """Pages of a folder's mapped files that count as this process's memory, in kB."""
    maps = Path("/proc/self/smaps").read_text().split(f" {folder}/")[1:]
    return sum(int(text.split("Rss:")[1].split()[0]) for text in maps)


@pytest.mark.parametrize(("images", "regions", "width"), [(100, 3, 50_000), (300, 5000, 1)])
def test_what_was_read_leaves_memory(tmp_path: Path, images: int, regions: int, width: int) -> None:
    """Features of 30 MB; boxes of 27 MB."""
    features, boxes = np.ones((regions, width), np.float16), np.ones((regions, 4), np.float32)
    parts = features, boxes, ("",) * regions, ("",) * regions, 640, 480
    large = (ImageFeatures(f"{i:03d}", *parts) for i in range(images))
    store = write_store(tmp_path / "s", replace(SOURCE, dimension=width), large)
    for entry in store:
        assert entry.features.sum(dtype=np.float32) + entry.boxes.sum() == regions * (width + 4)
    # Not 0: large pages, which the kernel maps whole, hold the ends of the features too.
    assert 0 < resident(store.folder) < 8_000


def test_fingerprint_follows_content(tmp_path: Path) -> None:
    def fingerprint(name: str, source: FeatureSource, entries: list[ImageFeatures]) -> str:
        return write_store(tmp_path / name, source, entries).fingerprint

    first = fingerprint("a", SOURCE, images())
    assert fingerprint("b", replace(SOURCE, backbone="other/name"), images()) == first
    changed = [*images()[:-1], image("ü/006.jpg", regions=3, seed=1)]
    others = [
        fingerprint("c", SOURCE, changed),
        fingerprint("d", SOURCE, images()[:-1]),
        fingerprint("e", replace(SOURCE, weights="abd"), images()),
    ]
    assert len({first, *others}) == 4


def test_says_why_it_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a feature store"):
        FeatureStore.open(tmp_path)
    folder = tmp_path / "s"
    writer = StoreWriter(folder, SOURCE)
    writer.write_shard(images())
    with pytest.raises(InputError, match=r"unfinished .1 shards so far"):
        FeatureStore.open(folder)
    writer.finish()

    shard = folder / "shard-00000.arrow"
    content = shard.read_bytes()
    shard.write_bytes(content[:-10])
    with pytest.raises(InputError, match=f"has {len(content) - 10} bytes instead of"):
        FeatureStore.open(folder)
    shard.write_bytes(bytes(len(content)))
    with pytest.raises(InputError, match="is damaged"):
        FeatureStore.open(folder)[0]
    shard.unlink()
    with pytest.raises(InputError, match="is missing"):
        FeatureStore.open(folder)
    shard.write_bytes(content)

    header = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps(header | {"format": 99}))
    with pytest.raises(InputError, match="format 99, this version reads 2"):
        FeatureStore.open(folder)
    named = json.dumps(header)
    for text in ("{", named.replace("backbone", "bacibone"), named.replace("photos", "qhotos")):
        (folder / "store.json").write_text(text)
        with pytest.raises(InputError, match="is damaged"):
            FeatureStore.open(folder)


def test_a_shard_that_was_replaced_by_half_of_it_is_noticed(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s", SOURCE, images())
    assert store[6].image_id == images()[6].image_id  # its content is compared with its hash once
    shard = store.folder / "shard-00000.arrow"
    content = shard.read_bytes()
    shard.unlink()  # its mapping remains
    shard.write_bytes(content[:600])
    with pytest.raises(InputError, match=r"is damaged \(it ends within row 6"):
        store[6]


def test_continues_behind_the_last_whole_shard(tmp_path: Path) -> None:
    folder, entries = tmp_path / "s", images()
    writer = StoreWriter(folder, SOURCE)
    writer.write_shard(entries[:3], [Skipped("bad.jpg", "truncated")])
    writer.write_shard(entries[3:6])
    # A power cut took the second shard, and a kill came between its log and its header.
    (folder / "shard-00001.arrow").write_bytes(b"")
    with (folder / "skipped.jsonl").open("a") as file:
        file.write("half a li")
    again = StoreWriter(folder, SOURCE)
    assert (again.done, again.images, again.skipped) == (1, 3, 1)
    again.write_shard(entries[3:6])
    again.write_shard(entries[6:])
    store = again.finish()
    whole = write_store(tmp_path / "t", SOURCE, entries, shard_size=3)
    assert store.fingerprint == whole.fingerprint
    assert json.loads((folder / "skipped.jsonl").read_text()) == {
        "image_id": "bad.jpg",
        "reason": "truncated",
    }


def test_refuses_other_inputs(tmp_path: Path) -> None:
    StoreWriter(tmp_path / "s", SOURCE, inputs={"files": "3"}).write_shard(images())
    with pytest.raises(InputError, match=r"weights: 'new' against 'abc'; augmentation: 'flip'"):
        StoreWriter(tmp_path / "s", replace(SOURCE, weights="new"), augmentation="flip")
    with pytest.raises(InputError, match=r"files: '4' against '3'.*another --out, or delete"):
        StoreWriter(tmp_path / "s", SOURCE, inputs={"files": "4"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    with pytest.raises(InputError, match="not empty and holds no feature store"):
        StoreWriter(tmp_path / "mine", SOURCE)
    with pytest.raises(InputError, match="is not empty"):
        write_store(tmp_path / "s", SOURCE, images())


def test_refuses_rows_that_would_break_the_store(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "s", SOURCE)
    writer.write_shard([image("b")])
    with pytest.raises(ValueError, match="'a' comes after 'b'"):
        writer.write_shard([image("a")])
    with pytest.raises(ValueError, match="'c' comes after 'c'"):
        writer.write_shard([image("c"), image("c")])
    endless = replace(image("c"), features=np.full((3, 5), np.inf, np.float16))
    with pytest.raises(ValueError, match="finite"):
        writer.write_shard([endless])
    with pytest.raises(ValueError, match=r"\[n, 5\]"):
        writer.write_shard([replace(image("c"), features=np.zeros((3, 4), np.float16))])


def test_a_store_on_another_machine_is_read_shard_by_shard(tmp_path: Path) -> None:
    (photos := folder_at("memory://some-photos")).mkdir()
    near = write_store(tmp_path / "store", SOURCE, images(), photos=photos, shard_size=3)
    copy = folder_at("memory://store")
    for path in near.folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    store = pickle.loads(pickle.dumps(FeatureStore.open(copy)))
    assert store.ids == near.ids and store.fingerprint == near.fingerprint
    assert str(store.photos) == "memory://some-photos"
    for row in (0, 6, 1, 5, 2, 4, 3):
        assert_same(store[row], near[row])
        assert len(store._shards) == 1
    damaged = bytearray((near.folder / "shard-00001.arrow").read_bytes())
    damaged[-200] ^= 1
    (copy / "shard-00001.arrow").write_bytes(bytes(damaged))
    again = FeatureStore.open(copy)
    assert_same(again[0], near[0])
    with pytest.raises(InputError, match=r"shard-00001\.arrow is damaged"):
        again[3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ("dog",)}, r"features .* expected \[n, d\]"),
        ({"boxes": np.zeros((2, 4), np.float32)}, r"features .* expected \[n, d\]"),
        ({"features": np.zeros(3, np.float16)}, r"features .* expected \[n, d\]"),
        *[
            ({"boxes": np.full((3, 4), value, np.float32)}, "boxes must be relative")
            for value in (-0.01, 1.01, 320, math.nan)
        ],
    ],
)
def test_parts_must_agree_and_boxes_be_relative(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"0-3\.jpg: {message}"):
        replace(tiny.image(3), **change)


FIRST = {"a": [1, 1], "b": [1, 1], "c": [1, 1]}


def written(folder: Path, stamps: Stamps) -> StoreWriter:
    return StoreWriter(folder, SOURCE, inputs={"files": str(stamps)}, stamps=stamps)


def test_nothing_is_taken_over_where_stamps_are_damaged(tmp_path: Path) -> None:
    first = written(tmp_path / "s", FIRST)
    first.write_shard([image(name) for name in FIRST])
    first.finish()
    (stamps,) = (tmp_path / "s").glob("stamps-*.json")
    stamps.write_text("{")
    second = written(tmp_path / "s", {"b": [1, 1]})
    assert second.unchanged.changes == Changes(added=0, changed=1, removed=2, kept=0)
    assert "b" not in second.unchanged


def test_stores_in_a_folder(tmp_path: Path) -> None:
    plain, flip, cut = (
        index_tiny.write_store(tmp_path / name).folder for name in ("plain", "flip", "z")
    )
    (tmp_path / "other").mkdir()
    assert stores_in(tmp_path) == [flip, plain, cut]
    assert stores_in(str(plain)) == [plain]
    assert stores_in(tmp_path / "other") == []
    steps: list[tuple[str, int, int]] = []
    assert verify_stores([str(plain)]) == []
    assert verify_stores(stores_in(tmp_path), lambda *step: steps.append(step)) == []
    assert [step[0] for step in steps] == ["hash"] * 9 and steps[-1][1] == steps[-1][2]
    (flip / "store.json").write_text("{")
    content = bytearray((cut / "shard-00000.arrow").read_bytes())
    content[len(content) // 2] ^= 1
    (cut / "shard-00000.arrow").write_bytes(content)
    first, second = verify_stores(stores_in(tmp_path))
    assert "flip" in first
    assert "shard-00000.arrow is damaged (its content has another hash)" in second


def test_the_summary_gives_the_most_frequent_reason(tmp_path: Path) -> None:
    assert skipped_summary(tmp_path) is None
    reasons = ["the file is empty", "no decoder", "no decoder"]
    lines = [json.dumps({"image_id": f"{i}", "reason": text}) for i, text in enumerate(reasons)]
    (tmp_path / SKIPPED).write_text("\n".join(lines) + "\n")
    assert skipped_summary(tmp_path) == (
        f"3 photos could not be used: see {tmp_path / SKIPPED}; 2 of them: no decoder"
    )
