"""Images are deleted all together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from indexer.live.changes import Change, Delete
from indexer.live.commit import log_path
from indexer.live.given import FILE
from indexer.live.log import ChangeLog, read_log
from indexer.postings import Postings
from indexer.search.open import open_index
from indexer.update import delete as module
from indexer.update.delete import delete_images
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import random_postings


def test_all_or_none(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
) -> None:
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
    make_index: Callable[[Path, Postings], Path],
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

    monkeypatch.setattr(module, "AT_ONCE", 3)
    monkeypatch.setattr(ChangeLog, "append", note)
    assert delete_images(index, [*postings.ids[:7], *postings.ids[:4]]) == 3
    assert parts == [3, 3, 1]
    assert [change.image_id for change in read_log(log_path(index, 1))] == postings.ids[:7]
