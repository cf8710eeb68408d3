"""Small collections, queries and a plan over them."""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from eval.bench.collections import Corpus, ImpactSource, keep_top
from eval.bench.engines import find
from eval.bench.queries import QuerySet, TermQuery, draw_queries
from eval.bench.speed import Choices, Pace, SpeedPlan
from eval.bench.vectors import DenseSource

HURRY = Pace(seconds=0.01, warm_up=10, rounds=2)
EXACT = ["lucene", "columns", "bm25s"]


def source(images: int = 40, terms: int = 30, bits: int = 8, seed: int = 0) -> ImpactSource:
    """Few levels, so that many images tie; terms 3, 5, 7, … of twice as many."""
    rng = np.random.default_rng(seed)
    impacts = rng.integers(0, 2**bits, (images, terms)) * (rng.random((images, terms)) < 0.5)
    impacts[:, ::2] //= 2 ** (bits - 2)
    return made(impacts.astype(np.uint8 if bits <= 8 else np.uint16), bits)


def photo_like(images: int = 1000, terms: int = 1500, seed: int = 0) -> ImpactSource:
    """Independent terms whose frequencies fall, as those of captions do."""
    rng = np.random.default_rng(seed)
    frequencies = np.clip(0.6 * np.arange(1, terms + 1) ** -0.15, 0.01, 0.95)
    impacts = np.clip(rng.gamma(1.5, 20, (images, terms)), 1, 255)
    return made((impacts * (rng.random((images, terms)) < frequencies)).astype(np.uint8), 8)


def made(impacts: np.ndarray, bits: int) -> ImpactSource:
    images, terms = impacts.shape
    ids = np.arange(3, 3 + 2 * terms, 2, dtype=np.int32)
    vocabulary = [f"w{number}" for number in range(2 * terms + 4)]
    names = [f"{number:05d}.jpg" for number in range(images)]
    frequencies = np.arange(terms, 0, -1)
    return ImpactSource(vocabulary, names, ids, impacts, bits, None, frequencies, {"top_n": "all"})


def rows(source: ImpactSource) -> csr_array:
    """All impacts as they are."""
    return keep_top(source, source.impacts, None)


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


def dense(name: str, queries: int, dimension: int = 128) -> DenseSource:
    rng = np.random.default_rng(1)
    images = rng.standard_normal((300, dimension), dtype=np.float32)
    asked = rng.standard_normal((queries, dimension), dtype=np.float32)
    images /= np.linalg.norm(images, axis=-1, keepdims=True)
    asked /= np.linalg.norm(asked, axis=-1, keepdims=True)
    return DenseSource(name, images, asked, np.empty(0), {"text": "bert"})


def plan(
    work: Path,
    engines: list[str],
    vectors: list[DenseSource] | None = None,
    sizes: tuple[int, ...] = (1000, 5000),
    top_n: tuple[int, ...] = (100, 50),
    pace: Pace = HURRY,
) -> SpeedPlan:
    """Made-up images and queries; two k, two numbers of threads."""
    found, missing = find(engines)
    assert not missing
    images = photo_like()
    asked = draw_queries(images, 40)
    if vectors is None:
        vectors = [dense("flat", 40)]
    names = [one.name for one in vectors]
    choices = Choices(
        "near-duplicates", sizes, top_n, (10, 100), (1, 2), engines, names, pace, work
    )
    return SpeedPlan(choices, images, vectors, QuerySet(asked, [], "drawn"), found)
