"""What an index has: its manifests, as it was built and after writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.care.combine import split_index
from indexer.care.copies import take_snapshot
from indexer.care.info import index_info
from indexer.dense.build import add_dense
from indexer.encoding.impacts import MEANS
from indexer.postings import ImagePostings, Postings
from indexer.state import IndexState, index_version, place_of
from indexer.store.changes import Add, Change, Delete
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.live_index import LiveReference
from tests.indexer.sealed import change
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import TOKENIZER
from tests.server.drawings import index_drawings, store_drawings
from tests.server.fake import DRAWINGS


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
        with open_writer(built) as writer:
            writer.write(changes)
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


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    store = store_drawings(folder / "store")
    out = index_drawings(folder / "drawings", folder / "photos", store.fingerprint)
    add_dense(out, store, "vse++", save_dense_model(folder / "m", "vse++", 1, seed=1), device="cpu")
    return out


def test_what_changes_the_answers_changes_the_version(drawings: Path, tmp_path: Path) -> None:
    before, copy = index_version(drawings), copytree(drawings, tmp_path / "copy")
    assert index_version(copy) == before
    with open_writer(copy) as writer:
        writer.write([Delete(image_id) for image_id in DRAWINGS][:1])
    assert index_version(copy) == before  # commits have numbers of their own
    assert IndexState.read(copy).images == IndexState.read(drawings).images - 1
    rmtree(copy / "dense")
    without = index_version(copy)
    change(copy, created="2001-01-01T00:00:00+00:00")
    assert len({before, without, index_version(copy)}) == 3


def test_a_copy_is_at_another_place(drawings: Path, tmp_path: Path) -> None:
    alias, copy, divided = tmp_path / "alias", tmp_path / "copy", tmp_path / "divided"
    alias.symlink_to(drawings)
    assert place_of(alias) == place_of(drawings) == IndexState.read(alias).place
    take_snapshot(drawings, copy)
    assert index_version(copy) == index_version(drawings)
    assert place_of(copy) != place_of(drawings)
    before = place_of(copy)
    copy.rename(tmp_path / "moved")
    assert place_of(tmp_path / "moved") != before
    copytree(tmp_path / "moved", copy)
    assert place_of(copy) != before
    split_index(drawings, divided, 2)
    before = place_of(divided)
    (divided / "shard-001").rename(tmp_path / "shard")
    copytree(tmp_path / "shard", divided / "shard-001")
    assert place_of(divided) != before
    (divided / "shard-001").rename(tmp_path / "away")
    with pytest.raises(OSError, match="shard-001"):
        place_of(divided)


def test_the_state_of_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an index"):
        IndexState.read(tmp_path)
