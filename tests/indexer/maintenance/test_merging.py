"""Several indexes become one, one becomes several; what an index says of itself."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.encoding.impacts import MEANS
from indexer.engines.open import open_index
from indexer.fields.kinds import save_kinds
from indexer.maintenance.combine import merge_indexes, split_index
from indexer.maintenance.copies import take_snapshot
from indexer.maintenance.info import index_info
from indexer.manifest import OFFSETS, UPLOADS, Manifest, describe_parts, index_folders, owner
from indexer.postings import ImagePostings, Postings
from indexer.state import IndexState, index_version, place_of
from indexer.store.changes import Add, Change, Delete
from indexer.store.snapshot import Snapshot
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.word_tables import WordTables
from tests.indexer.live_index import LiveReference, assert_same, write
from tests.indexer.random_postings import MakeIndex, change_manifest, random_postings, word_tables
from tests.indexer.tiny_dense import random_vectors, write_part
from tests.indexer.vocabulary import TOKENIZER

NAME = f"{hashlib.sha256(b'photo').hexdigest()}.jpg"  # of a photo that was sent


@pytest.fixture
def halves(make_index: MakeIndex, tmp_path: Path) -> list[Path]:
    """Copies of one index, of which each has deleted what the other has."""
    postings = random_postings(TOKENIZER, 20)
    first = make_index(tmp_path / "first", postings)
    second = shutil.copytree(first, tmp_path / "second")
    for number, index in enumerate((first, second)):
        write(index, *(Delete(image_id) for image_id in postings.ids[number::2]))
    return [first, second]


def test_the_merged_index_has_the_images_of_all(halves: list[Path], tmp_path: Path) -> None:
    right = LiveReference(random_postings(TOKENIZER, 20))
    added = Add(replace(next(iter(random_postings(TOKENIZER, 1, seed=1))), image_id="new"))
    write(halves[1], added)
    right.apply([added])
    tables = word_tables({"zebra": ()}, ["dog"])
    tables.save(halves[0])
    parts = {**Manifest.read(halves[0]).parts, **describe_parts(halves[0], "[rs]*.json")}
    change(halves[0], mean_error=0.25, parts=parts)
    (halves[1] / UPLOADS / "ab").mkdir(parents=True)
    (halves[1] / UPLOADS / "ab" / NAME).write_text("photo")
    out = tmp_path / "all"
    assert merge_indexes(halves, out) == 21
    assert Manifest.read(out).mean_error == pytest.approx(0.25)
    for engine in ("columns", "lucene"):
        assert_same(open_index(out, engine), right.searcher())
    assert verify_index(out) == [] and WordTables.open(out) == tables
    assert (out / UPLOADS / "ab" / NAME).read_text() == "photo"
    np.testing.assert_array_equal(np.load(out / MEANS), np.load(halves[0] / MEANS))
    write(out, Delete("new"))
    right.apply([Delete("new")])
    assert_same(open_index(out), right.searcher())


def change(index: Path, **fields: Any) -> None:
    manifest = Manifest.read(index)
    replace(manifest, **fields).save(index)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"scale": 0.25}, "its scale is 0.25 instead of 0.5"),
        ({"models": ["0123456789abcdef", "n"]}, "its models is 0123456789ab, n instead of m"),
        ({"features": ["bfloat16-f"]}, "its precision is bfloat16 instead of float32"),
        ({"features": ["f", "g"]}, "it has 2 augmentations of each photo instead of 1"),
    ],
)
def test_indexes_whose_images_were_encoded_otherwise_are_not_merged(
    halves: list[Path], tmp_path: Path, fields: dict[str, Any], problem: str
) -> None:
    change(halves[1], **fields)
    with pytest.raises(InputError, match=rf"second cannot be merged with .*first: {problem}"):
        merge_indexes(halves, tmp_path / "all")


def test_what_cannot_be_merged_is_refused(halves: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all"
    with pytest.raises(InputError, match=r"'a/00001 é.jpg' is in .*first and in .*first: delete"):
        merge_indexes([halves[0], halves[0]], out)
    with pytest.raises(InputError, match="second exists: give a new folder"):
        merge_indexes(halves, halves[1])
    offsets = np.load(halves[1] / OFFSETS)
    np.save(halves[1] / OFFSETS, offsets + 1)
    with pytest.raises(InputError, match="its offsets are those of other photos; build one"):
        merge_indexes(halves, out)
    np.save(halves[1] / OFFSETS, offsets)
    change(halves[1], photos="/photos")
    save_kinds(halves[0], {"width": "number", "code": "keyword"})
    save_kinds(halves[1], {"width": "number"})
    merge_indexes(halves, out)
    assert Manifest.read(out).photos is None
    assert json.loads((out / "fields.json").read_text()) == {"width": "number", "code": "keyword"}
    save_kinds(halves[1], {"width": "keyword"})
    with pytest.raises(InputError, match="declares the field 'width' as keyword, another index as"):
        merge_indexes(halves, tmp_path / "other")
    (halves[1] / "dense" / "vse").mkdir(parents=True)
    (halves[1] / "dense" / "vse" / "manifest.json").touch()
    with pytest.raises(InputError, match=r"second has dense parts \(vse\), which do not merge"):
        merge_indexes(halves, tmp_path / "other")


def test_shards_have_the_settings_of_the_whole(tmp_path: Path, index: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    split_index(index, tmp_path / "out", 2, lambda *step: steps.append(step))
    whole, folders = Manifest.open(index), index_folders(tmp_path / "out")
    for folder in folders:
        manifest = Manifest.open(folder)
        for field in ("scale", "bits", "vocabulary", "models", "features", "offset", "photos"):
            assert getattr(manifest, field) == getattr(whole, field)
        for name in (OFFSETS, MEANS):
            assert np.array_equal(np.load(folder / name), np.load(index / name))
    assert sum(len(Snapshot.open(folder)) for folder in folders) == whole.images
    assert steps[-1][1] == 300 and verify_index(tmp_path / "out") == []


def test_images_in_the_wrong_shard_are_found(tmp_path: Path, index: Path) -> None:
    out = tmp_path / "out"
    split_index(index, out, 2)
    (out / "shard-000").rename(tmp_path / "first")
    (out / "shard-001").rename(out / "shard-000")
    (tmp_path / "first").rename(out / "shard-001")
    first, second = verify_index(out)
    assert first.startswith(f"{out / 'shard-000'} has ")
    assert "of other shards, such as a/00" in second
    (out / "shard-001" / "manifest.json").unlink()
    assert "is not an index" in verify_index(out)[1]


def test_what_cannot_be_divided_is_refused(tmp_path: Path, make_index: MakeIndex) -> None:
    few = random_postings(TOKENIZER, 4)
    index = make_index(tmp_path / "index", few)
    with pytest.raises(InputError, match=r"^--shards 9: of 4 images none is in shard \d; make"):
        split_index(index, tmp_path / "out", 9)
    assert not (tmp_path / "out").exists()


def test_owners_never_change_and_are_spread() -> None:
    assert [owner(image_id, 5) for image_id in ("a.jpg", "b/é 犬.jpg", "\ud800")] == [4, 2, 4]
    counts = Counter(owner(f"photos/{number}.jpg", 4) for number in range(4000))
    assert all(900 < count < 1100 for count in counts.values())
    assert owner("anything", 1) == 0


def test_the_state_of_a_divided_index_is_of_all_shards(tmp_path: Path, index: Path) -> None:
    split_index(index, divided := tmp_path / "divided", 3)
    state, whole = IndexState.read(divided), IndexState.read(index)
    assert state.manifest.images == 300
    assert state.manifest.postings == whole.manifest.postings
    assert state.images == 300
    assert state.version != whole.version
    assert state.bytes > 1000
    expected = (
        rf"^{divided} is divided into 3 shards, .*`sparta merge {divided} --shards 1 --out NEW`$"
    )
    with pytest.raises(InputError, match=expected):
        Manifest.open(divided)


def term_means(images: Collection[ImagePostings]) -> NDArray[np.float64]:
    sums = np.zeros(len(TOKENIZER.vocabulary))
    for image in images:
        sums[image.terms] += image.impacts
    return sums / len(images)


@pytest.mark.parametrize("compact_at", [4096, 3])
def test_numbers_of_an_index_as_built_and_after_writes_are_those_of_its_images(
    built: Path,
    small: Postings,
    right: LiveReference,
    monkeypatch: pytest.MonkeyPatch,
    compact_at: int,
) -> None:
    monkeypatch.setattr("indexer.update.writer.COMPACT_AT", compact_at)
    found, before = index_info(built), term_means(list(small))
    assert (found.images, found.live, found.engines) == (12, None, ["columns", "lucene"])
    assert found.terms_per_image == len(small.terms) / 12
    assert found.fields["width"] == "number"
    assert sum(found.bytes.values()) == sum(
        path.stat().st_size for path in built.rglob("*") if path.is_file()
    )
    np.testing.assert_allclose(np.load(built / MEANS), before, rtol=1e-6)
    new = [replace(image, image_id=f"z{image.image_id}") for image in list(small)[:7]]
    gone = [Delete(small.ids[0]), Delete(small.ids[11]), Delete(new[0].image_id)]
    groups: list[list[Change]] = [[*map(Add, new)], [*gone, Add(replace(new[1], image_id="a"))]]
    for changes in groups:
        write(built, *changes)
        right.apply(changes)
    found, left = index_info(built), right.images.values()
    assert found.images == len(left) == 17 and found.live is not None
    assert found.terms_per_image == pytest.approx(sum(len(one.terms) for one in left) / 17)
    moved = np.abs(term_means(left) - before).sum() / before.sum()
    assert found.live.drift == pytest.approx(moved, rel=1e-5) and found.live.rebuild
    assert found.bytes["log"] >= found.live.log_bytes
    if compact_at == 4096:
        assert found.live.log_bytes > 0
        # Of the three that were deleted, one was when its change was read.
        assert (found.live.log_images, found.live.segments) == (7, 1)
        assert found.live.deleted_share == pytest.approx(2 / 19)


def test_what_changes_the_answers_changes_the_version(copy: Path, tmp_path: Path) -> None:
    write_part(copy, "one", random_vectors(300, 1))
    before, same = index_version(copy), Path(copytree(copy, tmp_path / "same"))
    assert index_version(same) == before
    write(same, Delete("a/00007 é.jpg"))
    assert index_version(same) == before  # commits have numbers of their own
    assert IndexState.read(same).images == IndexState.read(copy).images - 1
    rmtree(same / "dense")
    without = index_version(same)
    change_manifest(same, created="2001-01-01T00:00:00+00:00")
    assert len({before, without, index_version(same)}) == 3


def test_a_copy_is_at_another_place(index: Path, tmp_path: Path) -> None:
    alias, copy, divided = tmp_path / "alias", tmp_path / "copy", tmp_path / "divided"
    alias.symlink_to(index)
    assert place_of(alias) == place_of(index) == IndexState.read(alias).place
    take_snapshot(index, copy)
    assert index_version(copy) == index_version(index)
    assert place_of(copy) != place_of(index)
    before = place_of(copy)
    copy.rename(tmp_path / "moved")
    assert place_of(tmp_path / "moved") != before
    copytree(tmp_path / "moved", copy)
    assert place_of(copy) != before
    split_index(index, divided, 2)
    before = place_of(divided)
    (divided / "shard-001").rename(tmp_path / "shard")
    copytree(tmp_path / "shard", divided / "shard-001")
    assert place_of(divided) != before
    (divided / "shard-001").rename(tmp_path / "away")
    with pytest.raises(OSError, match="shard-001"):
        place_of(divided)
