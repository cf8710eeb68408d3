"""Images get other ids in one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.update.sync.plan as module
from indexer.live.changes import Add, Delete
from indexer.postings import Postings
from indexer.search.open import open_index
from indexer.update.sync.plan import move_and_delete
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import random_postings


def test_images_keep_terms_and_metadata(
    tokenizer: WordPieceTokenizer,
    make_index: Callable[[Path, Postings], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
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
