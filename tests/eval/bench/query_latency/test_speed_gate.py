"""The query path may not become slower: columns against Lucene, in the same run, by ratio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.enlarge import enlarge
from eval.bench.query_latency.collections.synthetic import synthetic_queries, synthetic_source
from eval.bench.query_latency.engines.base import Engine
from eval.bench.query_latency.engines.columns_engine import ColumnsEngine
from eval.bench.query_latency.engines.lucene_engine import LuceneEngine
from eval.bench.query_latency.ground_truth import GroundTruth
from eval.bench.query_latency.timing import Pace, Timed, interleave

IMAGES, TERMS, QUERIES, K = 20_000, 300, 400, 10
LEAST_RATIO = 3.0


def median_seconds(timed: Timed) -> float:
    return sorted(timed.latencies)[len(timed.latencies) // 2]


def test_columns_are_faster_than_lucene(tmp_path: Path) -> None:
    """Medians of the same queries, asked in turns, so that a busy machine slows both alike."""
    source, queries = synthetic_source(2000), synthetic_queries(QUERIES)
    rows = enlarge(source, IMAGES, TERMS, "mixed")
    corpus = Corpus.write(tmp_path / "corpus", source.vocabulary, source.bits, rows)
    engines: dict[str, Engine[Any]] = {
        "lucene": LuceneEngine(corpus, tmp_path / "lucene"),
        "columns": ColumnsEngine(corpus, tmp_path / "columns"),
    }
    for engine in engines.values():
        engine.folder.mkdir()
        engine.build()
        engine.open()
    timed = interleave(engines, queries, K, 1, Pace(warm_up=1.5, seconds=2))
    truth = GroundTruth.of_impacts(corpus, queries[:100])
    for name, engine in engines.items():
        assert truth.check(name, engine.promise, timed[name].answers, K) == 1
        engine.close()
    ratio = median_seconds(timed["lucene"]) / median_seconds(timed["columns"])
    assert ratio >= LEAST_RATIO, f"columns are only {ratio:.1f} times as fast as Lucene"
