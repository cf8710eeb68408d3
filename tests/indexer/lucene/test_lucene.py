"""Lucene's index: one segment in id order, not searched if damaged or of another commit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.engines.lucene
import indexer.lucene.writer
from indexer.care.combine import merge_segments
from indexer.engines.lucene import LuceneIndex, check_lucene, open_lucene
from indexer.lucene.jvm import java, start
from indexer.lucene.writer import LuceneWriter
from indexer.manifest import LUCENE
from indexer.postings import ImagePostings, Postings
from indexer.store.changes import Add, Delete
from indexer.store.commit import read_commit
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.lucene.written import read_lucene
from tests.indexer.random_postings import random_postings, shards_of
from tests.indexer.vocabulary import COMMON, TOKENIZER, WORDS
from tests.reference.searcher import ReferenceSearcher

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
        (image.image_id, image.metadata, {terms[term]: impact for term, impact in pairs(image)})
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


def opened_newest(index: Path) -> LuceneIndex:
    return open_lucene(index, read_commit(index))


@pytest.fixture(scope="module")
def opened(index: Path) -> Iterator[LuceneIndex]:
    with closing(opened_newest(index)) as lucene:
        yield lucene


def test_a_long_query_counts_every_word(opened: LuceneIndex, exact: ReferenceSearcher) -> None:
    assert opened.top("dog cat " * 3000, 30) == exact.top({"dog": 3000, "cat": 3000}, 30)
    assert opened.top(" ".join(map(str, range(5000))) + " dog", 9) == exact.top({"dog": 1}, 9)


def test_an_index_that_was_written_to_since_is_not_searched_until_it_is_merged(
    built: Path, small: Postings
) -> None:
    with closing(opened_newest(built)) as lucene:
        assert lucene.documents == 12
    with open_writer(built) as writer:
        writer.write([Delete(small.ids[3]), Add(replace(next(iter(small)), image_id="new"))])
    with pytest.raises(
        InputError, match=r"is not of commit 1, .* `sparta merge .*--engine columns"
    ):
        opened_newest(built)
    merge_segments(built)
    with closing(opened_newest(built)) as lucene:
        assert lucene.documents == 12
        assert {one for one, _ in lucene.top(COMMON, 20)} == {*range(12)}
    merged = [image_id for image_id, *_ in read_lucene(built / LUCENE).documents]
    assert merged == [*(one for one in small.ids if one != small.ids[3]), "new"]
    shutil.rmtree(built / LUCENE)
    with pytest.raises(InputError, match="has no Lucene index: make one with `sparta merge"):
        opened_newest(built)


def test_damage_is_named(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy / LUCENE
    check_lucene(folder)
    for path in sorted({*folder.iterdir()} - {folder / "commit.json"}):
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (flipped, content[:-1], content[:5], b""):
            path.write_bytes(damaged)
            for check in (lambda: check_lucene(folder), lambda: opened_newest(copy).close()):
                with pytest.raises(InputError, match=f"^{path} is damaged: .*write it again"):
                    check()
        path.unlink()
        with pytest.raises(InputError, match=f"^{folder} cannot be opened: .*write it again"):
            check_lucene(folder)
        path.write_bytes(content)
    check_lucene(folder)
    # A large index is not read whole when it is opened; what Lucene notices is one line, too.
    monkeypatch.setattr(indexer.engines.lucene, "CHECKED_AT_OPENING", 0)
    [path] = folder.glob("*.doc")
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"\xff" * (len(content) - 80) + content[-20:])
    with pytest.raises(InputError, match=r"is damaged|cannot be opened"):  # noqa: SIM117
        with closing(opened_newest(copy)) as lucene:
            lucene.top(" ".join(WORDS), 300)
