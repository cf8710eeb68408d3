"""Searches that visit a share of the index: who does, who refuses, and what answers say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from indexer.columns import visited
from indexer.columns.manifest import FOLDER
from indexer.commands.search import search
from indexer.live.changes import Delete
from indexer.search.api import SearchResult
from indexer.search.browsing import Page
from indexer.search.live_columns import LiveColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_backend, open_index
from indexer.split import split_index
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.search.queries import answer

EVERY = 1000  # hits, more than there are images


@pytest.fixture
def written(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of two superblocks, of which a search may visit one."""
    monkeypatch.setattr(visited, "LEADERS", 1)
    return shutil.copytree(index, tmp_path / "index")


def assert_some(some: SearchResult, every: SearchResult) -> None:
    """Some of the hits are found, with their scores and in their order."""
    assert some.approximate and not every.approximate
    found = [hit[1:] for hit in answer(some)]
    assert 0 < len(found) < len(every.hits)
    assert found == [hit[1:] for hit in answer(every) if hit[1:] in found]


def test_scores_are_exact_and_hits_may_be_missing(written: Path) -> None:
    exact, capped = open_index(written), open_index(written, visited=0.1)
    assert_some(capped.search("dog beach", EVERY), exact.search("dog beach", EVERY))
    image_id = exact.search("dog beach", 1).hits[0].image_id
    assert_some(capped.similar(image_id, EVERY), exact.similar(image_id, EVERY))
    assert_some(capped.similar_to({"dog": 9}, EVERY), exact.similar_to({"dog": 9}, EVERY))
    browsed = capped.browse("dog", Page(EVERY)).result
    assert answer(browsed) == answer(exact.browse("dog", Page(EVERY)).result)
    assert not browsed.approximate
    assert not capped.with_finder(exact.finder).search("dog").approximate


def test_later_commits_are_searched_alike(written: Path) -> None:
    capped = open_index(written, visited=0.1)
    for image in range(2):
        with open_writer(written) as writer:
            writer.write([Delete(f"a/{image:05} é.jpg")])
            writer.commit()
        following = capped.refreshed()
        assert isinstance(following, LiveColumnSearcher)
        exact = open_index(written)
        assert_some(following.search("dog", EVERY), exact.search("dog", EVERY))
        opened = open_index(written, visited=0.1)
        assert answer(opened.search("dog", EVERY)) == answer(following.search("dog", EVERY))
        capped = following


def test_who_cannot_leave_anything_out(written: Path, tmp_path: Path) -> None:
    split_index(written, tmp_path / "divided", 2)
    for arguments, place in (
        ((written, "sparta", "lucene", 0.5), f"for {written} in Lucene; give --engine columns"),
        ((tmp_path / "divided", "sparta", "auto", 0.5), "for an index in shards"),
        ((written, "vse++", "auto", 0.5), r"for the backend vse\+\+"),
    ):
        with pytest.raises(InputError, match=f"^--visited is not {place}"):
            open_backend(*arguments)
    with pytest.raises(InputError, match=r"^--visited must be above 0"):
        open_index(written, visited=0)
    shutil.rmtree(written / FOLDER)
    with pytest.raises(InputError, match=r"give --engine columns$"):
        open_index(written, visited=0.5)
    assert type(open_index(written, visited=1)) is LuceneSearcher


def test_the_command_says_so(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for share in (1, 0.1):
        search(written, "dog", visited=share)
        assert ("Approximate" in capsys.readouterr().out) == (share < 1)
        search(written, "dog", visited=share, as_json=True)
        assert json.loads(capsys.readouterr().out)["approximate"] == (share < 1)
