"""What is in an index, as built and after writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.care.info import index_info
from indexer.live.changes import Add, Delete
from indexer.postings import Postings
from indexer.update.writer import open_writer
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import random_postings


def test_as_built_and_written_to(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, 40)
    index = make_index(tmp_path / "index", postings)
    found = index_info(index)
    assert (found.images, found.live, found.engines) == (40, None, ["lucene", "columns"])
    assert found.terms_per_image == len(postings.terms) / 40
    assert found.fields["width"] == "number"
    assert sum(found.bytes.values()) == sum(
        path.stat().st_size for path in index.rglob("*") if path.is_file()
    )
    images = list(postings)
    # Every image again under another name: the same means. Then one that has all that is new.
    again = [Add(replace(image, image_id=f"z{image.image_id}")) for image in images]
    with open_writer(index) as writer:
        writer.write(again)
        writer.write([Delete(images[0].image_id), Delete(f"z{images[0].image_id}")])
    found = index_info(index)
    assert found.images == 78 and found.live is not None
    wanted = (2 * len(postings.terms) - 2 * len(images[0].terms)) / 78
    assert found.terms_per_image == pytest.approx(wanted)
    live = found.live
    assert (live.log_changes, live.segments, live.rebuild) == (42, 1, False)
    assert live.drift is not None and 0 < live.drift < 0.1
    assert live.deleted_share == pytest.approx(1 / 79)  # the other was deleted before it was read
    assert live.log_bytes > 0 and found.bytes["live"] >= live.log_bytes
