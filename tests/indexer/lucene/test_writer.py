"""The Lucene output: one segment in id order, whatever it was written in."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.lucene.writer
from indexer.lucene.jvm import java, start
from indexer.lucene.writer import LuceneWriter
from indexer.postings import ImagePostings, Postings
from sparta.errors import InputError
from tests.indexer.lucene.written import read_lucene
from tests.indexer.random_postings import random_postings, shards_of
from tests.indexer.vocabulary import TOKENIZER

COMMIT = {"version": "3", "lineage": "abc"}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer.lucene.writer, "PART_POSTINGS", 500)
    monkeypatch.setattr(indexer.lucene.writer, "AT_ONCE", 16)


def write(folder: Path, shards: Iterable[Postings]) -> list[tuple[str, int, int]]:
    """Write some images, and return the progress."""
    steps: list[tuple[str, int, int]] = []
    with LuceneWriter(
        folder, TOKENIZER.vocabulary, 400, lambda *step: steps.append(step), COMMIT
    ) as writer:
        for shard in shards:
            writer.add(shard)
    return steps


def assert_written(folder: Path, postings: Postings) -> None:
    """Compare an index with what was written."""
    names = [path.name for path in folder.iterdir()]
    assert not [name for name in names if name.endswith(".lock")]
    found = read_lucene(folder)
    assert found.commit == COMMIT
    terms = TOKENIZER.vocabulary
    assert found.documents == [
        (
            image.image_id,
            image.metadata,
            {terms[term]: impact for term, impact in pairs(image)},
        )
        for image in postings
    ]


def pairs(image: ImagePostings) -> list[tuple[int, int]]:
    return list(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))


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
    assert read_lucene(tmp_path / "lucene") == (COMMIT, [])


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
