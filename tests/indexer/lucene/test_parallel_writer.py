"""Indexes written in several parts: the same answers, and processes that end when they should."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.lucene.parallel_writer
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
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
    assert steps[-2:] == [("merge", 400, 400), ("columns", 400, 400)]
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
def test_a_process_that_dies_is_told(
    tokenizer: WordPieceTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pool:
        def submit(self, *_: object) -> Future[None]:
            failed: Future[None] = Future()
            failed.set_exception(BrokenProcessPool())
            return failed

        def shutdown(self, cancel_futures: bool = False) -> None:
            pass

    monkeypatch.setattr(indexer.lucene.parallel_writer, "ProcessPoolExecutor", lambda *_: Pool())
    with (
        pytest.raises(ChildProcessError, match="memory"),
        LuceneWriter(tmp_path / "lucene", tokenizer.vocabulary, 90) as writer,
    ):
        for shard in shards_of(random_postings(tokenizer, 300), 30):
            writer.add(shard)


KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
import numpy as np
import indexer.lucene.parallel_writer
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.postings import Postings

def die(stage, done, total):
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

indexer.lucene.parallel_writer.PART_POSTINGS = 1
one, starts = np.array([0], np.int32), np.array([0, 1])
with LuceneWriter(Path(sys.argv[1]), ["dog"], 9, die) as writer:
    for i in range(9):
        writer.add(Postings.without_grounding([str(i)], [{}], starts, one, one + 1))
"""


def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "lucene")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    workers = [int(pid) for pid in run.stdout.split()]
    assert workers, run.stderr
    end = time.monotonic() + 20
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < end, "the workers of a killed run go on"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "\nState:\tZ" not in status.read_text()
