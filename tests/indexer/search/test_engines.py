"""Lucene and columns against the reference scorer, and Lucene against Pyserini's own searcher."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexer.lucene.commits import newest_commit
from indexer.search.columns import ColumnSearcher
from indexer.update.conversion import make_live
from numpy.typing import NDArray

from indexer.parts import LUCENE
from indexer.postings import Postings
from indexer.search.api import UnknownImageError
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.store.changes import Delete
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.search.queries import VOCABULARY, answer, bitmaps
from tests.indexer.vocabulary import COMMON, RARE, TOKENIZER
from tests.reference.searcher import ReferenceSearcher

WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=25)


def assert_answered(searcher: LuceneSearcher, exact: ReferenceSearcher, query: str, k: int) -> None:
    found, right = searcher.search(query, k), exact.search(query, k)
    assert answer(found) == answer(right)
    assert [hit.metadata for hit in found.hits] == [hit.metadata for hit in right.hits]
    assert found.unknown == right.unknown


@pytest.mark.parametrize(
    "query",
    [
        "dog",
        "dog dog dog beach dog",
        f"{COMMON} {COMMON}",
        f"qqq {RARE} qqq dogs",
        f"qqq {RARE}",
        "",
        ". ... | _ é 犬",
        " ".join(["dog cat"] * 3000),
    ],
)
@pytest.mark.parametrize("k", [1, 7, 10_000])
def test_hits_equal_the_reference(
    searcher: LuceneSearcher, exact: ReferenceSearcher, query: str, k: int
) -> None:
    assert_answered(searcher, exact, query, k)


@settings(max_examples=200)
@given(words=WORDS, k=st.integers(1, 320))
def test_random_queries_equal_the_reference(
    searcher: LuceneSearcher, exact: ReferenceSearcher, words: list[str], k: int
) -> None:
    assert_answered(searcher, exact, " ".join(words), k)


@settings(max_examples=200)
@given(words=WORDS, k=st.integers(1, 320), allowed=bitmaps(300), few=st.sampled_from([0, 20, 1000]))
def test_answers_among_some_images_equal_the_reference(
    searcher: LuceneSearcher,
    exact: ReferenceSearcher,
    words: list[str],
    k: int,
    allowed: NDArray[np.bool_] | None,
    few: int,
) -> None:
    query, image_id = " ".join(words), f"a/{k % 300:05d} é.jpg"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.lucene.reader.FEW", few)
        found = searcher.search(query, k, allowed=allowed)
        near = searcher.similar(image_id, k, allowed=allowed)
    assert answer(found) == answer(exact.search(query, k, allowed=allowed))
    assert answer(near) == answer(exact.similar(image_id, k, allowed=allowed))


@pytest.mark.parametrize("engine", [LuceneSearcher, ColumnSearcher])
def test_ties_are_in_the_order_of_image_ids_beyond_lucenes_early_stop(
    make_index: MakeIndex, tmp_path: Path, engine: type[LuceneSearcher]
) -> None:
    postings = random_postings(TOKENIZER, 4000, seed=1)
    exact, allowed = ReferenceSearcher(postings, TOKENIZER), np.arange(4000) % 3 > 0
    with closing(engine(make_index(tmp_path / "index", postings))) as searcher:
        for query in (COMMON, "dog beach", "dog cat beach ball red sky run the the"):
            assert_answered(searcher, exact, query, 30)
            found = searcher.search(query, 30, allowed=allowed)
            assert answer(found) == answer(exact.search(query, 30, allowed=allowed))


def test_the_reference_scorer_on_an_example_done_by_hand() -> None:
    postings = random_postings(TOKENIZER, 40)
    exact = ReferenceSearcher(postings, TOKENIZER)
    dog, s = TOKENIZER.vocabulary.index("dog"), TOKENIZER.vocabulary.index("##s")
    scores = {}
    for image in postings:
        impacts = dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))
        scores[image.image_id] = 2 * impacts.get(dog, 0) + impacts.get(s, 0)
    right = sorted((-score, image_id) for image_id, score in scores.items() if score)
    found = exact.search("dogs dog", 1000)
    assert [(-hit.score, hit.image_id) for hit in found.hits] == right


def test_less_than_one_hit_and_unknown_images_are_refused(
    searcher: LuceneSearcher, exact: ReferenceSearcher
) -> None:
    for k in (0, -1):
        for one in (searcher, exact):
            with pytest.raises(ValueError, match="at least 1"):
                one.search("dog", k)
    assert len(searcher) == 300
    assert searcher.metadata("a/00007 é.jpg") == {"width": 7}
    for image_id in ("a/absent.jpg", "a/00007 é.jpg\0", "a", "", "\ud800", "x" * 70_000):
        with pytest.raises(UnknownImageError):
            searcher.metadata(image_id)
    with pytest.raises(UnknownImageError):
        searcher.explain("dog", "a/absent.jpg")


def test_images_out_of_order_are_refused(make_index: MakeIndex, tmp_path: Path) -> None:
    rows = list(random_postings(TOKENIZER, 4))
    with pytest.raises(ValueError, match="not rising"):
        make_index(tmp_path / "index", Postings.of([rows[1], rows[0], *rows[2:]]))


PYSERINI = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from indexer.lucene.jvm import start
start()
from pyserini.search.lucene import LuceneImpactSearcher
from sparta.tokenizer import WordPieceTokenizer

class Counts:
    def encode(self, text):
        return dict(tokenizer.encode_query(text).terms)

folder = Path(sys.argv[1])
tokenizer = WordPieceTokenizer.from_folder(folder)
searcher = LuceneImpactSearcher(str(folder / "lucene"), Counts(), min_idf=-1)
answers = []
for query in json.loads(sys.argv[2]):
    hits = searcher.search(query, 300)
    answers.append([(i + 1, hit.docid, hit.score) for i, hit in enumerate(hits)])
print(json.dumps([answers, json.loads(searcher.doc("a/00007 é.jpg").raw())]))
"""


def test_pyserinis_own_searcher_opens_the_index(index: Path, exact: ReferenceSearcher) -> None:
    if importlib.util.find_spec("pyserini") is None:
        pytest.skip("pyserini is not installed")
    queries = ["dog", "dogs dog the beach", COMMON, ". | 犬"]
    root = str(Path(__file__).resolve().parents[3])
    run = subprocess.run(
        [sys.executable, "-c", PYSERINI.format(root=root), str(index), json.dumps(queries)],
        env=os.environ | {"OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers, raw = json.loads(run.stdout.splitlines()[-1])
    for query, found in zip(queries, answers, strict=True):
        # Pyserini nudges tied scores apart by a millionth.
        right = answer(exact.search(query, 300))
        assert [(rank, image_id) for rank, image_id, _ in found] == [r[:2] for r in right]
        assert [score for *_, score in found] == pytest.approx([r[2] for r in right], abs=1e-2)
    assert raw == {"width": 7}


# ---- columns and Java ----------------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True])
def test_java_is_started_by_the_first_explanation_alone(copy: Path, live: bool) -> None:
    if live:
        with open_writer(copy) as writer:
            writer.write([Delete("a/00001 é.jpg")])
    script = f"""
import sys
from pathlib import Path
from indexer.search.open import open_index
searcher = open_index(Path({str(copy)!r}))
hits = searcher.search("dog {COMMON}", 3).hits
ids = [hit.image_id for hit in hits]
plain = searcher.explain_all("dog {COMMON}", ids, grounded=False)
searcher.field_index()
assert searcher.refreshed() is None and (not {live} or searcher.similar(ids[0]).hits)
assert "jnius" not in sys.modules, "Java was started"
grounded = searcher.explain_all("dog {COMMON}", ids)
assert "jnius" in sys.modules
assert [one.score for one in plain] == [one.score for one in grounded] == [h.score for h in hits]
searcher.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("live", [False, True])
def test_a_process_ends_only_when_java_has_answered(copy: Path, live: bool) -> None:
    """It hung, now and then, where it ended while a daemon thread was in Java."""
    if live:
        make_live(copy)
    script = f"""
import time
from pathlib import Path
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
def slow(searcher, *_):
    time.sleep(1)
    searcher.explain("dog", searcher.search("{COMMON}", 1).hits[0].image_id)
    print("explained")
LuceneSearcher._warm_up_explaining = slow
open_index(Path({str(copy)!r})).prepare_explaining()
raise SystemExit(3)
"""
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (3, "explained\n"), ended.stderr


def test_explanations_without_grounding_have_the_same_impacts(index: Path) -> None:
    with closing(open_index(index, "columns")) as columns:
        ids = [hit.image_id for hit in columns.search(f"dog cat {COMMON}", 20).hits]
        grounded = columns.explain_all(f"dog cat {COMMON}", ids)
        plain = columns.explain_all(f"dog cat {COMMON}", ids, grounded=False)
    assert any(term.region is not None for one in grounded for term in one.terms)
    for one in grounded:
        one.terms = [replace(term, region=None, box=None, label=None) for term in one.terms]
    assert plain == grounded


def test_an_index_that_was_written_to_since_is_followed_and_not_mixed_with_the_former(
    copy: Path, tmp_path: Path
) -> None:
    with closing(ColumnSearcher(copy)) as searcher:
        assert searcher.refreshed() is None
        first, *others = [hit.image_id for hit in searcher.search(COMMON, 5).hits]
        other = shutil.copytree(copy, tmp_path / "other")
        with open_writer(copy) as writer:
            writer.write([Delete(first)])
        newer = searcher.refreshed()
        assert newer is not None
        with closing(newer):
            assert [hit.image_id for hit in newer.search(COMMON, 4).hits] == others
            assert newer.explain(COMMON, others[0]).score == newer.search(COMMON).hits[0].score
            assert newer.refreshed() is None
    with closing(ColumnSearcher(other)) as searcher:
        newest = newest_commit(other / LUCENE)
        assert newest is not None
        newest.write_bytes(newest.read_bytes() + b"x")
        with pytest.raises(InputError, match="was written to or replaced: open it again"):
            searcher.explain(COMMON, first)
        assert searcher.search(COMMON, 1).hits[0].image_id == first
