"""Indexes written in several parts: the same answers, and threads that end when they should."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import indexer.lucene.parallel_writer
from indexer.lucene.document import Texts
from indexer.lucene.jvm import java, start
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.schema import DELIMITER
from indexer.postings import ImagePostings, Postings
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.groundings import random_inputs
from tests.indexer.lucene.written import write_lucene
from tests.indexer.random_postings import SETTINGS, random_postings, shards_of, write_postings
from tests.indexer.vocabulary import COMMON
from tests.reference.searcher import ReferenceSearcher


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer.lucene.parallel_writer, "PART_POSTINGS", 500)


@pytest.mark.usefixtures("small_parts")
def test_an_index_of_many_parts_answers_like_the_reference(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, 400, seed=2)
    postings = replace(postings, impacts=postings.impacts * 257)  # up to 16 bits
    steps: list[tuple[str, int, int]] = []
    manifest = write_postings(
        tmp_path / "index",
        shards_of(postings, 30),
        tokenizer,
        replace(SETTINGS, bits=16),
        images=400,
        progress=lambda *step: steps.append(step),
    )
    assert (manifest.images, manifest.postings) == (400, len(postings.terms))
    assert len([name for name in manifest.parts if name.endswith(".si")]) == 1
    folders = sorted(path.name for path in (tmp_path / "index").iterdir() if path.is_dir())
    assert folders == ["columns", "lucene"]
    written = [done for stage, done, _ in steps if stage == "write"]
    assert len(written) > 4 and written == sorted(set(written)) and written[-1] == 400
    for stage in ("merge", "columns"):  # at the same time
        assert [step for step in steps if step[0] == stage][-1] == (stage, 400, 400)
    lucene, exact = LuceneSearcher(tmp_path / "index"), ReferenceSearcher(postings, tokenizer)
    for query in (COMMON, "dog beach", "dog cat beach ball red sky run the the", "dogs . 犬"):
        assert lucene.search(query, 500).hits == exact.search(query, 500).hits
    for document, image_id in enumerate(postings.ids):
        assert lucene.index.document(image_id) == document
        explained = (one.explain("dogs the 犬", image_id).terms for one in (lucene, exact))
        found, right = ([(term.impact, term.region) for term in terms] for terms in explained)
        assert found == right
    lucene.close()


@pytest.mark.usefixtures("small_parts")
def test_images_out_of_order_are_refused_across_shards(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    first, second, third = shards_of(random_postings(tokenizer, 90), 30)
    with (
        pytest.raises(ValueError, match="not rising"),
        LuceneWriter(tmp_path / "lucene", tokenizer.vocabulary, 90) as writer,
    ):
        writer.add(first)
        writer.add(third)
        writer.add(second)


def test_terms_lucene_would_cut_are_refused(tmp_path: Path) -> None:
    for term, said in (
        ("two words", "blank"),
        ("", "blank"),
        ("\x01", "blank"),
        ("a" * 244, "244"),
    ):
        with pytest.raises(InputError, match=f"term 1 of the vocabulary.*{said}"):
            LuceneWriter(tmp_path / "lucene", ["dog", term], 0)
    assert not (tmp_path / "lucene").exists()


@pytest.mark.usefixtures("small_parts")
def test_an_error_of_lucene_ends_the_index(
    tokenizer: WordPieceTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = shards_of(random_postings(tokenizer, 300), 30)
    with (
        pytest.raises(OSError, match="Lucene cannot write"),
        LuceneWriter(tmp_path / "lucene", tokenizer.vocabulary, 90) as writer,
    ):
        for number, shard in enumerate(shards):
            writer.add(shard)
            if number == 2:
                # As a full disk does: what Lucene writes next goes nowhere.
                part = sorted((tmp_path / "lucene.parts").iterdir())[-1]
                shutil.rmtree(part)
    assert not (tmp_path / "lucene").exists()
    assert_no_thread_adds()


@pytest.mark.usefixtures("small_parts")
def test_nothing_goes_on_after_an_error_of_the_caller(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    with (
        pytest.raises(KeyError),
        LuceneWriter(tmp_path / "lucene", tokenizer.vocabulary, 90) as writer,
    ):
        for shard in shards_of(random_postings(tokenizer, 300), 30):
            writer.add(shard)
        raise KeyError
    assert not (tmp_path / "lucene").exists()
    assert_no_thread_adds()


def assert_no_thread_adds() -> None:
    start()
    thread, end = java("java.lang.Thread"), time.monotonic() + 20
    while any("pool-" in one.getName() for one in thread.getAllStackTraces().keySet().toArray()):
        assert time.monotonic() < end, "threads that add documents go on"
        time.sleep(0.05)


def test_an_index_without_images_can_be_opened(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    write_lucene(tmp_path / "lucene", tokenizer.vocabulary, [])
    with closing(LuceneIndex(tmp_path / "lucene")) as index:
        assert len(index) == 0


@given(data=st.data())
def test_texts_have_terms_and_impacts(data: st.DataObject) -> None:
    words = st.text("aé犬😀b", min_size=1, max_size=20)
    vocabulary = data.draw(st.lists(words, min_size=1, max_size=9, unique=True))
    terms = st.sets(st.integers(0, len(vocabulary) - 1)).map(sorted)
    images = data.draw(st.lists(terms, max_size=5))
    impacts = st.sampled_from([1, 9, 10, 255, 256, 65_535])
    rows = [
        ImagePostings(
            str(number),
            {},
            np.array(own, np.int32),
            np.array([data.draw(impacts) for _ in own], np.int32),
            np.zeros(len(own), np.int16),
            random_inputs(1, 0, 1, 0),
        )
        for number, own in enumerate(images)
    ]
    postings = Postings.of(rows)
    right = [
        "".join(
            f"{vocabulary[term]}{DELIMITER}{impact} " for term, impact in zip(*pair, strict=True)
        )
        for pair in ((one.terms.tolist(), one.impacts.tolist()) for one in rows)
    ]
    assert Texts(vocabulary).of(postings) == right
