"""Images that Lucene indexes in threads of its own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.lucene.reader import LuceneIndex
from indexer.lucene.updater import LuceneUpdater
from indexer.postings import ImagePostings, Postings
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.lucene.written import write_lucene
from tests.indexer.random_postings import random_postings


@pytest.fixture
def folder(tmp_path: Path, tokenizer: WordPieceTokenizer) -> Path:
    write_lucene(tmp_path / "lucene", tokenizer.vocabulary, [random_postings(tokenizer, 20)])
    return tmp_path / "lucene"


def test_many_blocks_of_images_of_other_sizes(
    folder: Path, tokenizer: WordPieceTokenizer, postings: Postings
) -> None:
    """Documents are refilled while Lucene still indexes others."""
    images = {image.image_id: image for image in postings}
    updater = LuceneUpdater(folder, tokenizer.vocabulary)
    left = list(images.values())
    for size in [1, 40, 3, 90, 2, 70, 1, 93]:
        own, left = left[:size], left[size:]
        updater.replace(own)
    updater.commit({"a": "b"})
    updater.close({})
    assert left == []
    with closing(LuceneIndex(folder)) as index:
        assert len(index) == len(images)  # those of the same ids were replaced
        documents = [index.document(image_id) for image_id in images]
        found = index.images([one for one in documents if one is not None], tokenizer.vocabulary)
        assert [image.image_id for image in found] == list(images)
        for image in found:
            right = images[image.image_id]
            for name in ("terms", "impacts", "positions"):
                assert getattr(image, name).tolist() == getattr(right, name).tolist()
            assert image.metadata == right.metadata


def test_what_lucene_refuses_in_its_threads_is_an_error_of_the_commit(
    folder: Path, tokenizer: WordPieceTokenizer, postings: Postings
) -> None:
    images: list[ImagePostings] = list(postings)[:3]
    updater = LuceneUpdater(folder, tokenizer.vocabulary)
    updater.replace([images[0], replace(images[1], impacts=0 * images[1].impacts), images[2]])
    with pytest.raises(OSError, match=r"^Lucene cannot write: .*frequency"):
        updater.commit({})
    updater.abandon()
    with closing(LuceneIndex(folder)) as index:
        assert len(index) == 20
