"""Deletions, metadata and moves of images: all of them, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.update.sync.moves as moves
from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.live.commit import log_path
from indexer.live.given import FILE
from indexer.live.log import ChangeLog, read_log
from indexer.search.open import open_index
from indexer.update import delete as delete_module
from indexer.update.delete import delete_images
from indexer.update.metadata import AT_ONCE, UpdateReport, update_metadata
from indexer.update.sync.moves import move_and_delete
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import MakeIndex, random_postings


def test_all_or_none(tokenizer: WordPieceTokenizer, make_index: MakeIndex, tmp_path: Path) -> None:
    postings = random_postings(tokenizer, 10)
    index, right = make_index(tmp_path / "index", postings), LiveReference(postings)
    for absent, named in ((["x"], "'x':"), (["x", "y", "z"], "'x' and 2 more:")):
        with pytest.raises(InputError, match=rf"index has no image {named} .*nothing was deleted"):
            delete_images(index, [postings.ids[0], *absent])
    assert_same(open_index(index), right.searcher(tokenizer))
    gone = [postings.ids[i] for i in (0, 3, 3)]
    assert delete_images(index, gone) == 8
    right.apply(map(Delete, gone))
    assert_same(open_index(index), right.searcher(tokenizer))
    assert delete_images(index, postings.ids[4:]) == 2
    assert delete_images(index, [postings.ids[1], postings.ids[2]]) == 0
    assert open_index(index).search("dog the").unknown == ["dog", "the"]


def test_many_are_deleted_in_parts_and_each_once(
    tokenizer: WordPieceTokenizer,
    make_index: MakeIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    postings = random_postings(tokenizer, 10)
    index, append = make_index(tmp_path / "index", postings), ChangeLog.append
    parts: list[int] = []

    def note(log: ChangeLog, changes: Sequence[Change]) -> int:
        if log.path.name != FILE:  # the record of what the user gave
            parts.append(len(changes))
        return append(log, changes)

    monkeypatch.setattr(delete_module, "AT_ONCE", 3)
    monkeypatch.setattr(ChangeLog, "append", note)
    assert delete_images(index, [*postings.ids[:7], *postings.ids[:4]]) == 3
    assert parts == [3, 3, 1]
    assert [change.image_id for change in read_log(log_path(index, 1))] == postings.ids[:7]


def test_fields_are_merged_and_null_removes_one(
    tokenizer: WordPieceTokenizer, make_index: MakeIndex, tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, 10)
    index, right = make_index(tmp_path / "index", postings), LiveReference(postings)
    first, second, third = postings.ids[:3]
    before = right.images[first].metadata
    steps: list[tuple[str, int, int]] = []
    report = update_metadata(
        index,
        {
            first: {"album": "sea", "width": None},
            "absent": {"a": 1},
            second: {"b": None},
            third: {},
        },
        lambda *step: steps.append(step),
    )
    assert report == UpdateReport(changed=1, unchanged=2, unknown=["absent"])
    assert steps[-1] == ("update", 4, 4)
    after = {name: value for name, value in before.items() if name != "width"} | {"album": "sea"}
    right.apply([MetadataChange(first, after)])
    assert_same(open_index(index), right.searcher(tokenizer))
    assert update_metadata(index, {first: {"album": "sea"}}).unchanged == 1


def test_many_images(tokenizer: WordPieceTokenizer, make_index: MakeIndex, tmp_path: Path) -> None:
    postings = random_postings(tokenizer, AT_ONCE + 1)
    index = make_index(tmp_path / "index", postings)
    wanted = {image_id: {"number": i} for i, image_id in enumerate(postings.ids)}
    assert update_metadata(index, wanted) == UpdateReport(AT_ONCE + 1, 0, [])
    found = open_index(index)
    for image_id, fields in wanted.items():
        assert found.metadata(image_id)["number"] == fields["number"]


def test_a_value_that_cannot_be_json_is_refused(
    tokenizer: WordPieceTokenizer, make_index: MakeIndex, tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, 2)
    index = make_index(tmp_path / "index", postings)
    with pytest.raises(InputError, match=r"metadata of .* cannot be JSON"):
        update_metadata(index, {postings.ids[0]: {"x": float("nan")}})


def test_moved_images_keep_terms_and_metadata(
    tokenizer: WordPieceTokenizer,
    make_index: MakeIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moves, "AT_ONCE", 2)
    postings = random_postings(tokenizer, 12)
    index, right = make_index(tmp_path / "index", postings), LiveReference(postings)
    moved = {f"z/{number}.jpg": postings.ids[number] for number in (4, 0, 2, 7, 11)}
    gone = [postings.ids[5], "absent"]
    assert move_and_delete(index, moved | {"y.jpg": "absent too"}, gone) == (5, 1)
    for new, former in moved.items():
        right.apply([Add(replace(right.images[former], image_id=new)), Delete(former)])
    right.apply([Delete(postings.ids[5])])
    assert_same(open_index(index), right.searcher(tokenizer))
    # The same again, as after an interruption.
    assert move_and_delete(index, moved, gone) == (0, 0)
    assert_same(open_index(index), right.searcher(tokenizer))
