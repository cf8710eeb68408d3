"""Small collections, queries and a plan over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eval.bench.query_latency.collections.corpus import Corpus, CorpusRows
from eval.bench.query_latency.collections.dense_vectors import DenseSource
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.collections.synthetic import synthetic_queries, synthetic_source
from eval.bench.query_latency.engines.registry import find
from eval.bench.query_latency.plan import LatencyPlan
from eval.bench.query_latency.timing import Pace

HURRY = Pace(warm_up=0, seconds=0)
EXACT = ["lucene", "columns", "bm25s"]


def source(images: int = 40, terms: int = 30, bits: int = 8, seed: int = 0) -> ImpactSource:
    """Few levels, so that many images tie; terms 3, 5, 7, … of twice as many."""
    rng = np.random.default_rng(seed)
    impacts = rng.integers(0, 2**bits, (images, terms)) * (rng.random((images, terms)) < 0.5)
    impacts[:, ::2] //= 2 ** (bits - 2)
    kind = np.uint8 if bits <= 8 else np.uint16
    ids = np.arange(3, 3 + 2 * terms, 2, dtype=np.int32)
    vocabulary = [f"w{number}" for number in range(2 * terms + 4)]
    return ImpactSource("tiny", vocabulary, ids, impacts.astype(kind), bits, {"top_n": "all"})


def rows(source: ImpactSource) -> CorpusRows:
    """All impacts as they are."""
    image, place = source.impacts.nonzero()
    starts = np.concatenate([[0], np.cumsum(np.bincount(image, minlength=len(source.impacts)))])
    return CorpusRows(starts, source.terms[place], source.impacts[image, place].astype(np.int32))


def corpus(folder: Path, source: ImpactSource) -> Corpus:
    return Corpus.write(folder, source.vocabulary, source.bits, [rows(source)])


def queries(source: ImpactSource, count: int = 20, seed: int = 0) -> list[TermQuery]:
    """Two to twelve terms, some twice, some in no image."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        terms = rng.integers(0, len(source.vocabulary), rng.integers(2, 13)).tolist()
        text = " ".join(source.vocabulary[term] for term in terms)
        made.append(TermQuery(number, text, text, {term: terms.count(term) for term in terms}))
    return made


def dense(name: str, queries: int, views: int = 1, dimension: int = 128) -> DenseSource:
    rng = np.random.default_rng(views)
    images = rng.standard_normal((300, views, dimension), dtype=np.float32)
    asked = rng.standard_normal((queries, dimension), dtype=np.float32)
    images /= np.linalg.norm(images, axis=-1, keepdims=True)
    asked /= np.linalg.norm(asked, axis=-1, keepdims=True)
    return DenseSource(name, images, asked, {"text": "bert", "dimension": dimension}, np.empty(0))


def plan(work: Path, engines: list[str], **changes: object) -> LatencyPlan:
    """Two sizes of made-up images, two top-n; whatever is not changed."""
    found, missing = find(engines)
    assert not missing
    values: dict[str, object] = {
        "source": synthetic_source(1000),
        "dense": [dense("flat", 40), dense("views", 40, views=3)],
        "queries": synthetic_queries(40),
        "kind": "copies",
        "sizes": [1000, 5000],
        "top_n": [100, 50],
        "ks": [10, 100],
        "threads": [1, 2],
        "engines": found,
        "pace": HURRY,
        "work": work,
    }
    return LatencyPlan(**(values | changes))  # type: ignore[arg-type]
