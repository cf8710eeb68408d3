"""Latency: which queries are timed, and what the command prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eval.latency
from eval.latency import measure, read_queries
from indexer.lucene_searcher import LuceneSearcher
from indexer.searcher import SearchResult
from indexer.writing import write_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.conftest import SETTINGS, random_postings


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer) -> Path:
    folder = tmp_path_factory.mktemp("latency") / "index"
    baseline = np.zeros(len(tokenizer.vocabulary), np.float32)
    write_index(folder, [random_postings(tokenizer, 50)], tokenizer, baseline, SETTINGS, scale=1)
    return folder


def test_the_second_half_is_asked_anew_and_again(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    search = LuceneSearcher.search

    def recording(searcher: LuceneSearcher, query: str, k: int = 10) -> SearchResult:
        asked.append(query)
        return search(searcher, query, k)

    monkeypatch.setattr(LuceneSearcher, "search", recording)
    monkeypatch.setattr(LuceneSearcher, "warm_up", lambda searcher: None)
    monkeypatch.setattr(eval.latency, "BLOCK", 2)
    queries = ["dog", "cat qqq", "the red ball", "sky", "beach", "dogs dog", "run"]
    asked_for = [*queries[:3], "qqq [MASK]", *queries[3:]]
    found = measure(index, asked_for, k=5)
    warm_ups = eval.latency.WARM_UPS
    assert asked == warm_ups * queries[:3] + 2 * queries[3:]
    assert list(found) == ["new", "repeated"]
    for times in found.values():
        assert times.queries == 4 and times.lucene > 0
        assert times.ratio == pytest.approx(times.searcher / times.lucene)


def test_queries_are_distinct_lines(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("dog\n\n cat\ndog\n  \né")
    assert read_queries(file) == ["dog", " cat", "é"]
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_queries(file)


def test_too_few_queries_are_refused(index: Path) -> None:
    with pytest.raises(InputError, match="1 queries with a word"):
        measure(index, ["dog", "qqq"], k=5)


def test_the_command(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("dog\nred ball\ncat\nqqq\n")
    command = [sys.executable, "-m", "eval.latency", str(index), "--queries"]
    run = subprocess.run(
        [*command, str(file), "--limit", "3", "--json"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert answer["new"]["queries"] == 2 and answer["new"].keys() == answer["repeated"].keys()
    wrong = subprocess.run(
        [*command, str(tmp_path / "absent")], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1 and "Traceback" not in wrong.stderr
