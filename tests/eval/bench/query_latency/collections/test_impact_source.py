"""Impacts read back out of an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eval.bench.query_latency.collections.impact_source
from eval.bench.query_latency.collections.impact_source import read_source
from indexer.postings import Postings
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.random_postings import random_postings, write_postings


@pytest.fixture
def postings(tokenizer: WordPieceTokenizer) -> Postings:
    return random_postings(tokenizer, 60)


@pytest.fixture
def index(tmp_path: Path, tokenizer: WordPieceTokenizer, postings: Postings) -> Path:
    write_postings(tmp_path / "index", [postings], tokenizer)
    return tmp_path / "index"


def test_every_impact_is_read(
    index: Path, postings: Postings, tokenizer: WordPieceTokenizer
) -> None:
    source = read_source(index)
    assert source.vocabulary == tokenizer.vocabulary
    assert (source.name, source.bits, source.about["top_n"]) == ("none", 8, "all")
    expected = np.zeros((60, len(tokenizer.vocabulary)), np.uint8)
    for row, image in enumerate(postings):
        expected[row, image.terms] = image.impacts
    found = np.zeros_like(expected)
    found[:, source.terms] = source.impacts
    np.testing.assert_array_equal(found, expected)
    assert source.impacts.any(axis=0).all()


def test_of_many_images_some_are_drawn(
    index: Path, postings: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [row.tolist() for row in read_source(index).impacts]
    monkeypatch.setattr(eval.bench.query_latency.collections.impact_source, "LARGEST", 20)
    source = read_source(index)
    drawn = [row.tolist() for row in source.impacts]
    rest = iter(whole)
    assert len(drawn) == 20 == source.about["images"] and drawn != whole[:20]
    assert all(row in rest for row in drawn)  # in the index's order


def test_a_folder_that_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an index"):
        read_source(tmp_path)
