"""Copies of an index that is written to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import indexer.care.copies as module
import indexer.update.writer
from indexer.care.copies import copy_index, link_uploads, set_alias
from indexer.dense.build import add_dense
from indexer.engines.open import open_backend, open_index, snapshot_of
from indexer.manifest import UPLOADS
from indexer.postings import Postings
from indexer.state import bytes_below
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.images import UnknownImageError
from indexer.update.sync_plan import SeenPhotos
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import random_postings
from tests.indexer.vocabulary import TOKENIZER


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_index_as_it_was_built_is_linked(index: Path, tmp_path: Path) -> None:
    assert copy_index(index, tmp_path / "copy").version == 0
    assert files(tmp_path / "copy") == files(index)
    assert (tmp_path / "copy" / "manifest.json").samefile(index / "manifest.json")


def test_dense_parts_are_copied(
    sparse_index: Path, store: FeatureStore, dense_model: Path, make_copy: Any, tmp_path: Path
) -> None:
    index = make_copy(sparse_index)
    add_dense(index, store, "vse", dense_model, device="cpu")
    copy_index(index, tmp_path / "copy")
    assert len(open_backend(tmp_path / "copy", "vse")) == len(store)


@pytest.mark.parametrize("compact_at", [4096, 2])
def test_later_writes_change_neither(
    built: Path,
    small: Postings,
    right: LiveReference,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compact_at: int,
) -> None:
    monkeypatch.setattr(indexer.update.writer, "COMPACT_AT", compact_at)
    index, postings = built, small
    others = list(random_postings(TOKENIZER, 11, seed=1))
    with open_writer(index) as writer:
        for number, image in enumerate(others):
            changes: list[Change] = [
                Add(replace(image, image_id=f"n{number}")),
                Delete(postings.ids[number]),
                MetadataChange(postings.ids[-1], {"step": number}),
            ]
            writer.write(changes)
            writer.commit()
            right.apply(changes)
            if number == 6:
                SeenPhotos(tmp_path).save(index)
                unseen: list[Change] = [Add(replace(image, image_id="acknowledged"))]
                writer.sync(writer.write(unseen))
                taken = copy_index(index, tmp_path / "copy")
                then = LiveReference(right.images.values())
                right.apply(unseen)
        monkeypatch.undo()
    copy = tmp_path / "copy"
    assert_same(open_index(copy), then.searcher())
    assert_same(open_index(index), right.searcher())
    assert taken.version == 7 and SeenPhotos.open(copy, tmp_path) is not None
    assert verify_index(copy) == []
    # The next writer applies what was acknowledged, and changes nothing of the other index.
    before = files(index)
    with open_writer(copy) as writer:
        assert "acknowledged" in writer
        writer.write([Delete("n0")])
    then.apply([*unseen, Delete("n0")])
    assert_same(open_index(copy), then.searcher())
    assert files(index) == before


def test_a_copy_while_a_writer_commits_is_of_one_commit(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer.update.writer, "COMPACT_AT", 10)
    images, ended = list(random_postings(TOKENIZER, 10, seed=1)), Event()

    def write() -> None:
        with open_writer(built) as writer:
            number = 0
            while not ended.is_set():
                image = replace(images[number % 10], image_id=f"n{number:05d}")
                writer.write([Add(image), Delete(f"n{number - 5:05d}")])
                writer.commit()
                number += 1
            monkeypatch.undo()

    thread = Thread(target=write)
    thread.start()
    try:
        for number in range(4):
            commit = copy_index(built, tmp_path / f"{number}")
            found = open_index(tmp_path / f"{number}")
            assert snapshot_of(found).commit == commit
            assert verify_index(tmp_path / f"{number}") == []
            assert len(found) == commit.images
    finally:
        ended.set()
        thread.join()


def test_photos_that_were_sent_to_a_server_are_copied(
    index: Path, tmp_path: Path, make_copy: Any
) -> None:
    own, copy = make_copy(index), tmp_path / "copy"
    (own / UPLOADS / "ab").mkdir(parents=True)
    for name in ("abc.jpg", ".unfinished"):
        (own / UPLOADS / "ab" / name).write_text("photo")
    for name, target in (("self.jpg", "self.jpg"), ("long.jpg", "n" * 300)):
        (own / UPLOADS / "ab" / name).symlink_to(target)
    copy_index(own, copy)
    assert [path.name for path in (copy / UPLOADS / "ab").iterdir()] == ["abc.jpg"]
    assert bytes_below(own / UPLOADS) == 2 * len("photo")
    link_uploads(own, copy)


def test_files_that_cannot_be_linked_are_copied(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_disk(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", other_disk)
    copy_index(index, tmp_path / "copy")
    assert files(tmp_path / "copy") == files(index)
    assert not (tmp_path / "copy" / "manifest.json").samefile(index / "manifest.json")
    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        copy_index(index, tmp_path / "other")


def test_damage_is_no_reason_to_try_again(index: Path, tmp_path: Path, make_copy: Any) -> None:
    damaged = make_copy(index)
    (damaged / "term_offsets.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"term_offsets\.npy"):
        copy_index(damaged, tmp_path / "new")
    with pytest.raises(InputError, match="is not an index"):
        copy_index(tmp_path, tmp_path / "new")


def test_an_index_that_is_never_the_same_is_not_copied(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(range(1000))
    monkeypatch.setattr(module, "index_version", lambda _: str(next(versions)))
    with pytest.raises(InputError, match="index changes faster than it can be copied"):
        copy_index(index, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()

    def gone(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(module, "_copy", gone)
    with pytest.raises(InputError, match="index changes faster than it can be copied"):
        copy_index(index, tmp_path / "copy")


def test_a_copy_has_the_files_of_one_index_alone(
    index: Path, make_copy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one build: the name is switched, or a folder moved, while it is copied."""
    first, second, name = make_copy(index), tmp_path / "second", tmp_path / "prod"
    copy_index(index, second)
    for folder, image_id in ((first, "a/00001 é.jpg"), (second, "a/00002 é.jpg")):
        with open_writer(folder) as writer:
            writer.write([Delete(image_id)])
    set_alias(name, first)
    link = module.link_file

    def switching() -> None:
        set_alias(name, second)

    def moving() -> None:
        first.rename(tmp_path / "moved")
        second.rename(first)

    for replace_index, gone in ((switching, "a/00001 é.jpg"), (moving, "a/00002 é.jpg")):
        set_alias(name, first)

        def late(source: Path, target: Path, act: Callable[[], None] = replace_index) -> None:
            monkeypatch.setattr(module, "link_file", link)
            link(source, target)
            act()

        monkeypatch.setattr(module, "link_file", late)
        copy = tmp_path / replace_index.__name__
        copy_index(name, copy)
        assert verify_index(copy) == []
        searcher = open_index(copy)
        assert len(searcher) == 299
        with pytest.raises(UnknownImageError, match=gone):
            searcher.metadata(gone)
