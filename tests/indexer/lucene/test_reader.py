"""An index of Lucene that is damaged or of another commit is not searched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.lucene.reader
from indexer.care.combine import merge_segments
from indexer.lucene.reader import LuceneIndex, check_lucene, open_lucene
from indexer.manifest import LUCENE
from indexer.postings import Postings
from indexer.store.changes import Add, Delete
from indexer.store.commit import COMMIT, read_commit
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.lucene.written import read_lucene
from tests.indexer.vocabulary import COMMON, WORDS
from tests.reference.searcher import ReferenceSearcher


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
    for path in sorted({*folder.iterdir()} - {folder / COMMIT}):
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
    monkeypatch.setattr(indexer.lucene.reader, "CHECKED_AT_OPENING", 0)
    [path] = folder.glob("*.doc")
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"\xff" * (len(content) - 80) + content[-20:])
    with pytest.raises(InputError, match=r"is damaged|cannot be opened"):  # noqa: SIM117
        with closing(opened_newest(copy)) as lucene:
            lucene.top(" ".join(WORDS), 300)


def test_a_folder_without_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{tmp_path} cannot be opened"):
        LuceneIndex(tmp_path)
