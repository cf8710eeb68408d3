"""A Lucene index: written in parts, read in bulk and one by one, its commits without Java."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import indexer.lucene.parallel_writer
from indexer.store.changes import Delete, MetadataChange
from indexer.lucene.commits import newest_commit, newest_id, read_commit
from indexer.lucene.jvm import java, start
from indexer.lucene.latest import LatestLucene
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.lucene.reader import LuceneIndex
from indexer.lucene.updater import LuceneUpdater
from indexer.parts import LUCENE
from indexer.postings import ImagePostings, Postings
from indexer.search.lucene import LuceneSearcher
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.lucene.written import edit_lucene, write_lucene
from tests.indexer.random_postings import SETTINGS, random_postings, shards_of, write_postings
from tests.indexer.search.queries import bitmaps
from tests.indexer.vocabulary import COMMON, RARE, TOKENIZER, WORDS
from tests.reference.searcher import ReferenceSearcher

DELETED = [0, 17, 99, 100, 250, 299]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory, postings: Postings) -> Iterator[LuceneIndex]:
    """Three segments, each of which has lost images."""
    folder = tmp_path_factory.mktemp("segments")
    parts = [folder / str(number) for number in range(3)]
    for part, shard in zip(parts, shards_of(postings, 100), strict=True):
        write_lucene(part, TOKENIZER.vocabulary, [shard])
    edit_lucene(folder / "all", parts, [postings.ids[document] for document in DELETED])
    with closing(LuceneIndex(folder / "all")) as lucene:
        yield lucene


def test_documents_that_were_deleted_are_not_live(segments: LuceneIndex, index: Path) -> None:
    assert segments.live is not None
    assert np.flatnonzero(~segments.live).tolist() == DELETED
    assert (len(segments), segments.documents) == (294, 300)
    whole = LuceneIndex(index / "lucene")
    assert whole.live is None
    whole.close()


@pytest.mark.parametrize("few", [0, 1000])
@settings(max_examples=60)
@given(
    words=st.lists(st.sampled_from([*WORDS, COMMON]), min_size=1, max_size=12),
    k=st.integers(1, 320),
    allowed=bitmaps(300),
)
def test_deleted_documents_are_never_found(
    segments: LuceneIndex,
    exact: ReferenceSearcher,
    few: int,
    words: list[str],
    k: int,
    allowed: NDArray[np.bool_] | None,
) -> None:
    assert segments.live is not None
    both = segments.live if allowed is None else allowed & segments.live
    counts = {word: words.count(word) for word in words}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.lucene.reader.FEW", few)
        found = segments.top(" ".join(words), k, allowed)
    assert found == exact.top(counts, k, both)


def test_postings_are_those_that_were_written_but_for_deleted_images(
    segments: LuceneIndex, postings: Postings
) -> None:
    documents = np.repeat(np.arange(len(postings)), np.diff(postings.starts))
    kept = ~np.isin(documents, DELETED)
    for number, term in enumerate(TOKENIZER.vocabulary):
        own = (postings.terms == number) & kept
        expected = np.stack([documents[own], postings.impacts[own]], axis=1)
        np.testing.assert_array_equal(segments.postings(term), expected, term)
    common, impacts = segments.postings(COMMON), segments.term_impacts(COMMON)
    assert np.flatnonzero(impacts).tolist() == common[:, 0].tolist() and len(common) == 294
    assert impacts[np.flatnonzero(impacts)].tolist() == common[:, 1].tolist()
    assert segments.postings(RARE).shape == (0, 2)


def test_stored_fields_are_those_of_each_document(segments: LuceneIndex) -> None:
    found = segments.read_stored(range(90, 210))  # of all segments
    assert found == [segments.stored(document) for document in range(90, 210)]
    assert segments.read_stored(range(0)) == []


def test_a_document_without_the_fields_is_reported(
    segments: LuceneIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.lucene.reader.RAW", "missing")
    with pytest.raises(InputError, match="is damaged"):
        segments.read_stored(range(2))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer.lucene.parallel_writer, "PART_POSTINGS", 500)


@pytest.mark.usefixtures("small_parts")
def test_an_index_of_many_parts_answers_like_the_reference(tmp_path: Path) -> None:
    postings = random_postings(TOKENIZER, 400, seed=2)
    postings = replace(postings, impacts=postings.impacts * 257)  # up to 16 bits
    steps: list[tuple[str, int, int]] = []
    manifest = write_postings(
        tmp_path / "index",
        shards_of(postings, 30),
        TOKENIZER,
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
    lucene, exact = LuceneSearcher(tmp_path / "index"), ReferenceSearcher(postings, TOKENIZER)
    for query in (COMMON, "dog beach", "dog cat beach ball red sky run the the", "dogs . 犬"):
        assert lucene.search(query, 500).hits == exact.search(query, 500).hits
    for document, image_id in enumerate(postings.ids):
        assert lucene.index.document(image_id) == document
        explained = (one.explain("dogs the 犬", image_id).terms for one in (lucene, exact))
        found, right = ([(term.impact, term.region) for term in terms] for terms in explained)
        assert found == right
    lucene.close()


@pytest.mark.usefixtures("small_parts")
def test_images_out_of_order_are_refused_across_shards(tmp_path: Path) -> None:
    first, second, third = shards_of(random_postings(TOKENIZER, 90), 30)
    with (
        pytest.raises(ValueError, match="not rising"),
        LuceneWriter(tmp_path / "lucene", TOKENIZER.vocabulary, 90) as writer,
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
def test_an_error_of_lucene_ends_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = shards_of(random_postings(TOKENIZER, 300), 30)
    with (
        pytest.raises(OSError, match="Lucene cannot write"),
        LuceneWriter(tmp_path / "lucene", TOKENIZER.vocabulary, 90) as writer,
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


def test_an_index_without_images_can_be_opened(tmp_path: Path) -> None:
    write_lucene(tmp_path / "lucene", TOKENIZER.vocabulary, [])
    with closing(LuceneIndex(tmp_path / "lucene")) as index:
        assert len(index) == 0


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_lucene(tmp_path / "lucene", TOKENIZER.vocabulary, [random_postings(TOKENIZER, 20)])
    return tmp_path / "lucene"


def test_many_blocks_of_images_of_other_sizes(written: Path, postings: Postings) -> None:
    """Documents are refilled while Lucene still indexes others."""
    images = {image.image_id: image for image in postings}
    updater = LuceneUpdater(written, TOKENIZER.vocabulary)
    left = list(images.values())
    for size in [1, 40, 3, 90, 2, 70, 1, 93]:
        own, left = left[:size], left[size:]
        updater.replace(own)
    updater.commit({"a": "b"})
    updater.close({})
    assert left == []
    with closing(LuceneIndex(written)) as index:
        assert len(index) == len(images)  # those of the same ids were replaced
        documents = [index.document(image_id) for image_id in images]
        found = index.images([one for one in documents if one is not None], TOKENIZER.vocabulary)
        assert [image.image_id for image in found] == list(images)
        for image in found:
            right = images[image.image_id]
            for name in ("terms", "impacts", "positions"):
                assert getattr(image, name).tolist() == getattr(right, name).tolist()
            assert image.metadata == right.metadata


def test_what_lucene_refuses_in_its_threads_is_an_error_of_the_commit(
    written: Path, postings: Postings
) -> None:
    images: list[ImagePostings] = list(postings)[:3]
    updater = LuceneUpdater(written, TOKENIZER.vocabulary)
    updater.replace([images[0], replace(images[1], impacts=0 * images[1].impacts), images[2]])
    with pytest.raises(OSError, match=r"^Lucene cannot write: .*frequency"):
        updater.commit({})
    updater.abandon()
    with closing(LuceneIndex(written)) as index:
        assert len(index) == 20


def newest(folder: Path) -> Path:
    found = newest_commit(folder / LUCENE)
    assert found is not None
    return found


def test_every_commit_is_read_as_java_reads_it(built: Path, small: Postings) -> None:
    assert read_commit(newest(built)).data == {}
    with open_writer(built) as writer:
        for number, image_id in enumerate(small.ids):  # deletions, and segments that come and go
            writer.write([MetadataChange(image_id, {"n": number}), Delete(small.ids[number // 2])])
            commit = writer.commit()
            assert read_commit(newest(built)).data == commit.data()
            with closing(LuceneIndex(built / LUCENE)) as index:
                assert read_commit(newest(built)) == (index.id, index.commit_data)
                assert newest_id(built / LUCENE) == index.id


def test_damage_of_a_commit_is_noticed(built: Path) -> None:
    path = newest(built)
    content = path.read_bytes()
    for damaged in (b"", content[:-1], content[:30] + bytes([content[30] ^ 1]) + content[31:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"^{path} is (damaged|of another format)"):
            read_commit(path)
    other = content[:13] + b"\x63" + content[14:-8]  # a later format, as it would be written
    path.write_bytes(other + crc32(other).to_bytes(8, "big"))
    with pytest.raises(InputError, match="of another format"):
        read_commit(path)


def test_a_commit_is_open_as_long_as_it_is_read(built: Path, small: Postings) -> None:
    opened: list[LuceneIndex] = []

    def open_index() -> LuceneIndex:
        opened.append(LuceneIndex(built / LUCENE))
        return opened[-1]

    latest = LatestLucene(open_index)
    other = latest.shared()
    with open_writer(built) as writer:
        first = writer.commit().version
        with latest.reading(first) as former:
            writer.write([Delete(small.ids[0])])
            version = writer.commit().version
            with other.reading(first) as same:
                assert same is former
            with latest.reading(version) as newer:
                assert newer is not former and len(newer) == len(former) - 1
                with latest.reading(first) as found:  # a later one serves as well
                    assert found is newer
            assert former.document(small.ids[0]) is not None
        with pytest.raises(InputError, match="closed"):
            former.document(small.ids[1])
        latest.close()
        assert newer.document(small.ids[1]) is not None
        other.close()
        with pytest.raises(InputError, match="closed"):
            newer.document(small.ids[1])
    assert len(opened) == 1
