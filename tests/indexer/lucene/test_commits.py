"""Commits read without Java, against what Java reads."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from indexer.live.changes import Delete, MetadataChange
from indexer.lucene.commits import newest_commit, newest_id, read_commit
from indexer.lucene.latest import LatestLucene
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from indexer.postings import Postings
from indexer.update.writer import open_writer
from sparta.errors import InputError


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


def test_damage_is_noticed(built: Path) -> None:
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
