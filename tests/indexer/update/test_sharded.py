"""A divided index that is written to answers as a whole one that the same is written to."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings

from indexer.live.changes import Add, Delete
from indexer.live.commit import log_path
from indexer.live.log import read_log
from indexer.postings import ImagePostings, Postings
from indexer.search.open import open_searcher
from indexer.shards import index_folders
from indexer.split import split_index
from indexer.update.delete import delete_images
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.live_index import QUERIES, LiveReference, Opened
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.update.test_writer import STEPS, changes_of
from tests.indexer.vocabulary import TOKENIZER
from tests.served_load import ranking

IMAGES = 12  # as STEPS choose from twice as many


@pytest.fixture(scope="module")
def indexes(
    tmp_path_factory: pytest.TempPathFactory,
    small: Postings,
    make_index: MakeIndex,
) -> Path:
    """A folder with an index, and the same in three shards."""
    folder = tmp_path_factory.mktemp("indexes")
    split_index(make_index(folder / "whole", small), folder / "divided", 3)
    return folder


@settings(max_examples=8)
@given(steps=STEPS)
def test_any_changes(
    indexes: Path,
    small: Postings,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, list[int]]],
) -> None:
    folder = tmp_path_factory.mktemp("written") / "indexes"
    shutil.copytree(indexes, folder)
    pool: list[ImagePostings] = list(random_postings(TOKENIZER, 2 * IMAGES, seed=1))
    right, folders = LiveReference(small), [folder / "whole", folder / "divided"]
    opened = [Opened(one) for one in folders]
    for kind, chosen in [*steps, ("commit", [])]:
        if kind in ("kill", "reopen"):
            for one in opened:
                one.kill() if kind == "kill" else one.close()
            opened = [Opened(one) for one in folders]
        elif kind in ("commit", "wait"):
            for one in opened:
                one.writer.commit()
            assert len(opened[1].writer) == len(opened[0].writer)
            check_answers(*folders)
        else:
            changes = changes_of(kind, chosen, pool, right)
            right.apply(changes)
            for one in opened:
                one.writer.sync(one.writer.write(changes))
            for change in changes:
                there = [change.image_id in one.writer for one in opened]
                assert there == [change.image_id in right.images] * 2
    for one in opened:
        one.close()


def check_answers(whole: Path, divided: Path) -> None:
    with closing(open_searcher(whole)) as right, closing(open_searcher(divided)) as found:
        assert len(found) == len(right)
        for query in QUERIES:
            assert ranking(found.search(query, 99)) == ranking(right.search(query, 99))


def test_all_changes_are_written_or_none(indexes: Path, small: Postings, tmp_path: Path) -> None:
    divided = tmp_path / "divided"
    shutil.copytree(indexes / "divided", divided)
    ids = [image.image_id for image in small]
    with open_writer(divided) as writer:
        with pytest.raises(InputError, match="1 to 32766"):
            writer.write([*map(Delete, ids), Delete("")])
        assert all(image_id in writer for image_id in ids)
        assert writer.metadata(ids[0]) == {"width": 0}
        writer.write([Add(next(iter(random_postings(TOKENIZER, 1, seed=5))))])
        writer.settle()
    assert delete_images(divided, ids[1:]) == 1
    with pytest.raises(InputError, match="nothing was deleted"):
        delete_images(divided, [ids[0], "nothing"])
    assert sum(len(list((one / "live").glob("log-*"))) for one in index_folders(divided)) >= 3


def test_no_shard_logs_deletions_of_what_it_lacks(
    indexes: Path, small: Postings, tmp_path: Path
) -> None:
    divided = tmp_path / "divided"
    shutil.copytree(indexes / "divided", divided)
    with open_writer(divided) as writer:
        gone = [*(f"nothing/{i}" for i in range(3000)), small.ids[0], small.ids[0]]
        writer.sync(writer.write(list(map(Delete, gone))))
        logs = [log_path(one, 1) for one in index_folders(divided)]
        assert sum(len(list(read_log(log))) for log in logs) == 1
    with closing(open_searcher(divided)) as found:
        assert len(found) == IMAGES - 1
