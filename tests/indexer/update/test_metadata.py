"""Metadata of images changes, and nothing else of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.live.changes import MetadataChange
from indexer.postings import Postings
from indexer.search.open import open_index
from indexer.update.metadata import AT_ONCE, UpdateReport, update_metadata
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import random_postings


def test_fields_are_merged_and_null_removes_one(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
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


def test_many_images(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, AT_ONCE + 1)
    index = make_index(tmp_path / "index", postings)
    wanted = {image_id: {"number": i} for i, image_id in enumerate(postings.ids)}
    assert update_metadata(index, wanted) == UpdateReport(AT_ONCE + 1, 0, [])
    found = open_index(index)
    for image_id, fields in wanted.items():
        assert found.metadata(image_id)["number"] == fields["number"]


def test_a_value_that_cannot_be_json_is_refused(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, 2)
    index = make_index(tmp_path / "index", postings)
    with pytest.raises(InputError, match=r"metadata of .* cannot be JSON"):
        update_metadata(index, {postings.ids[0]: {"x": float("nan")}})
