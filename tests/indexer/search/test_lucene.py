"""Lucene against the reference scorer, and against Pyserini's own searcher."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.postings import Postings
from indexer.search.api import UnknownImageError
from indexer.search.lucene import LuceneSearcher
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.bitmaps import bitmaps
from tests.indexer.random_postings import random_postings
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.vocabulary import COMMON, RARE
from tests.reference.searcher import ReferenceSearcher


@pytest.mark.parametrize(
    "query",
    [
        "dog",
        "two dogs running on a beach",
        "dog dog dog beach dog",
        COMMON,
        f"{COMMON} {COMMON}",
        f"qqq {RARE}",
        "qqq dog",
        ". ... | _ é 犬",
        " ".join(["dog cat"] * 3000),
    ],
)
@pytest.mark.parametrize("k", [1, 7, 10_000])
def test_hits_equal_the_reference(
    lucene: LuceneSearcher, exact: ReferenceSearcher, query: str, k: int
) -> None:
    found, right = lucene.search(query, k), exact.search(query, k)
    assert answer(found) == answer(right)
    assert [hit.metadata for hit in found.hits] == [hit.metadata for hit in right.hits]
    assert found.unknown == right.unknown


@settings(max_examples=300)
@given(words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=25), k=st.integers(1, 320))
def test_random_queries_equal_the_reference(
    lucene: LuceneSearcher, exact: ReferenceSearcher, words: list[str], k: int
) -> None:
    query = " ".join(words)
    assert answer(lucene.search(query, k)) == answer(exact.search(query, k))
    assert lucene.search(query, k).unknown == exact.search(query, k).unknown


@pytest.mark.parametrize("few", [0, 20, 1000])
@settings(max_examples=100)
@given(
    words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=25),
    k=st.integers(1, 320),
    allowed=bitmaps(300),
)
def test_answers_among_some_images_equal_the_reference(
    lucene: LuceneSearcher,
    exact: ReferenceSearcher,
    few: int,
    words: list[str],
    k: int,
    allowed: NDArray[np.bool_] | None,
) -> None:
    query = " ".join(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexer.lucene.reader.FEW", few)
        found = lucene.search(query, k, allowed=allowed)
        image_id = f"a/{k % 300:05d} é.jpg"
        near = lucene.similar(image_id, k, allowed=allowed)
    assert answer(found) == answer(exact.search(query, k, allowed=allowed))
    assert answer(near) == answer(exact.similar(image_id, k, allowed=allowed))


def test_ties_are_in_the_order_of_image_ids_beyond_lucenes_early_stop(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
) -> None:
    postings = random_postings(tokenizer, 4000, seed=1)
    lucene = LuceneSearcher(make_index(tmp_path / "index", postings))
    exact = ReferenceSearcher(postings, tokenizer)
    for query in (COMMON, "dog beach", "dog cat beach ball red sky run the the"):
        assert answer(lucene.search(query, 30)) == answer(exact.search(query, 30))
        allowed = np.arange(4000) % 3 > 0
        found = lucene.search(query, 30, allowed=allowed)
        assert answer(found) == answer(exact.search(query, 30, allowed=allowed))
    lucene.close()


def test_the_reference_scorer_on_an_example_done_by_hand(tokenizer: WordPieceTokenizer) -> None:
    postings = random_postings(tokenizer, 40)
    exact = ReferenceSearcher(postings, tokenizer)
    dog, s = tokenizer.vocabulary.index("dog"), tokenizer.vocabulary.index("##s")
    scores = {}
    for image in postings:
        impacts = dict(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))
        scores[image.image_id] = 2 * impacts.get(dog, 0) + impacts.get(s, 0)
    right = sorted((-score, image_id) for image_id, score in scores.items() if score)
    found = exact.search("dogs dog", 1000)
    assert [(-hit.score, hit.image_id) for hit in found.hits] == right


def test_unknown_words(lucene: LuceneSearcher) -> None:
    result = lucene.search(f"qqq {RARE} qqq dogs")
    assert result.unknown == ["qqq", RARE]
    nothing = lucene.search("qqq")
    assert nothing.hits == [] and nothing.unknown == ["qqq"]
    assert lucene.search("").hits == []


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(lucene: LuceneSearcher, exact: ReferenceSearcher, k: int) -> None:
    for searcher in (lucene, exact):
        with pytest.raises(ValueError, match="at least 1"):
            searcher.search("dog", k)


def test_explanations_equal_the_reference_and_sum_to_the_score(
    lucene: LuceneSearcher, exact: ReferenceSearcher
) -> None:
    query = f"dogs dog running {RARE} the qqq"
    for hit in lucene.search(query, 300).hits:
        found, right = lucene.explain(query, hit.image_id), exact.explain(query, hit.image_id)
        assert found.score == hit.score == sum(term.score for term in found.terms)
        for mine, theirs in zip(found.terms, right.terms, strict=True):
            assert (mine.term, mine.word, mine.count) == (theirs.term, theirs.word, theirs.count)
            assert (mine.impact, mine.region) == (theirs.impact, theirs.region)
            assert mine.label == theirs.label
            assert (mine.box is None) == (theirs.box is None)
            if mine.box and theirs.box:
                assert mine.box == pytest.approx(theirs.box, abs=1e-5)


def test_metadata_and_unknown_images(lucene: LuceneSearcher) -> None:
    assert len(lucene) == 300
    assert lucene.metadata("a/00007 é.jpg") == {"width": 7}
    for image_id in ("a/absent.jpg", "a/00007 é.jpg\0", "a", "", "\ud800", "x" * 70_000):
        with pytest.raises(UnknownImageError):
            lucene.metadata(image_id)
    with pytest.raises(UnknownImageError):
        lucene.explain("dog", "a/absent.jpg")


def test_images_out_of_order_are_refused(
    tokenizer: WordPieceTokenizer, make_index: Callable[[Path, Postings], Path], tmp_path: Path
) -> None:
    rows = list(random_postings(tokenizer, 4))
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
