"""The Lucene output: one segment in id order, whatever it was written in."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import indexer.lucene.writer
from indexer.lucene.commits import read_newest
from indexer.lucene.jvm import java, start
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.writer import LuceneWriter
from indexer.postings import Postings
from sparta.errors import InputError
from tests.indexer.random_postings import random_postings, shards_of
from tests.indexer.vocabulary import COMMON, TOKENIZER
from tests.reference.searcher import ReferenceSearcher

DATA = {"version": "3", "lineage": "abc"}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer.lucene.writer, "PART_POSTINGS", 500)
    monkeypatch.setattr(indexer.lucene.writer, "AT_ONCE", 16)


def write(folder: Path, shards: Iterable[Postings]) -> list[tuple[str, int, int]]:
    """Write some images, and return the progress."""
    steps: list[tuple[str, int, int]] = []
    with LuceneWriter(
        folder, TOKENIZER.vocabulary, 400, lambda *step: steps.append(step), DATA
    ) as writer:
        for shard in shards:
            writer.add(shard)
    return steps


def assert_written(folder: Path, postings: Postings) -> None:
    """Compare an index with what was written, through Lucene's own reader."""
    names = {path.suffix for path in folder.iterdir()}
    assert len([*folder.glob("*.si")]) == 1 and not names & {".lock", ".nvm", ".nvd"}  # no norms
    commit = read_newest(folder)
    assert commit is not None and commit.data == DATA
    documents = np.repeat(np.arange(len(postings)), np.diff(postings.starts))
    with closing(LuceneIndex(folder)) as lucene:
        assert lucene.documents == len(lucene) == len(postings)
        for number, term in enumerate(TOKENIZER.vocabulary):
            own = postings.terms == number
            expected = np.stack([documents[own], postings.impacts[own]], axis=1)
            np.testing.assert_array_equal(lucene.postings(term), expected, term)
        for document, image_id in enumerate(postings.ids):
            assert lucene.document(image_id) == document
            assert lucene.stored(document) == (image_id, postings.metadata[document])
        exact = ReferenceSearcher(postings, TOKENIZER)
        for counts in ({COMMON: 1}, {"dog": 2, "beach": 1}, {"dog": 1, "cat": 3, "red": 1}):
            text = " ".join(word for word, count in counts.items() for _ in range(count))
            for k in (1, 10, 500):  # ties by image id
                assert lucene.top(text, k) == exact.top(counts, k)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [1, 30, 400])
def test_parts_become_one_segment_in_id_order(tmp_path: Path, size: int) -> None:
    postings = random_postings(TOKENIZER, 400, seed=2)
    postings = replace(postings, impacts=postings.impacts * 257)  # up to 16 bits
    steps = write(tmp_path / "lucene", shards_of(postings, size))
    written = [done for stage, done, _ in steps if stage == "write"]
    assert len(written) > 4 and written == sorted(set(written)) and written[-1] == 400
    assert steps[-1] == ("merge", 400, 400)
    assert [path.name for path in tmp_path.iterdir()] == ["lucene"]
    assert_written(tmp_path / "lucene", postings)


def test_a_small_index_is_one_part(tmp_path: Path) -> None:
    postings = random_postings(TOKENIZER, 130)  # two lists of documents
    write(tmp_path / "lucene", [postings])
    assert_written(tmp_path / "lucene", postings)


def test_an_index_without_images_can_be_opened(tmp_path: Path) -> None:
    write(tmp_path / "lucene", [])
    with closing(LuceneIndex(tmp_path / "lucene")) as lucene:
        assert len(lucene) == 0


@pytest.mark.usefixtures("small_parts")
def test_images_out_of_order_are_refused_across_shards(tmp_path: Path) -> None:
    first, second, third = shards_of(random_postings(TOKENIZER, 90), 30)
    with pytest.raises(ValueError, match="not rising"):
        write(tmp_path / "lucene", [first, third, second])
    assert not (tmp_path / "lucene").exists()


def test_a_folder_is_never_written_over(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        write(tmp_path, [])


@pytest.mark.parametrize(
    ("term", "said"), [("two words", "blank"), ("", "blank"), ("\x01", "blank"), ("a" * 244, "244")]
)
def test_terms_lucene_would_cut_are_refused(tmp_path: Path, term: str, said: str) -> None:
    with pytest.raises(InputError, match=f"term 1 of the vocabulary.*{said}"):
        LuceneWriter(tmp_path / "lucene", ["dog", term], 0)
    assert not (tmp_path / "lucene").exists()


@pytest.mark.usefixtures("small_parts")
def test_an_error_of_lucene_ends_the_index(tmp_path: Path) -> None:
    shards = shards_of(random_postings(TOKENIZER, 300), 30)
    with (
        pytest.raises(OSError, match="Lucene cannot write"),
        LuceneWriter(tmp_path / "lucene", TOKENIZER.vocabulary, 90) as writer,
    ):
        for number, shard in enumerate(shards):
            writer.add(shard)
            if number == 2:  # as a full disk does: what Lucene writes next goes nowhere
                shutil.rmtree(sorted((tmp_path / "lucene.parts").iterdir())[-1])
    assert not (tmp_path / "lucene").exists()
    assert_no_thread_adds()


def test_an_impact_that_lucene_refuses_is_an_error(tmp_path: Path) -> None:
    postings = random_postings(TOKENIZER, 3)
    with pytest.raises(OSError, match=r"^Lucene cannot write: .*frequency"):
        write(tmp_path / "lucene", [replace(postings, impacts=0 * postings.impacts)])
    assert_no_thread_adds()


@pytest.mark.usefixtures("small_parts")
def test_nothing_goes_on_after_an_error_of_the_caller(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyError),
        LuceneWriter(tmp_path / "lucene", TOKENIZER.vocabulary, 90) as writer,
    ):
        for shard in shards_of(random_postings(TOKENIZER, 300), 30):
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
