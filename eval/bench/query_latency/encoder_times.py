"""What a text takes before an engine can search: word pieces, or a vector."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.dense_vectors import DenseSource
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.reporting.tables import PIECES
from sparta.tokenizer import Tokenizer


def embedding_times(dense: Sequence[DenseSource]) -> dict[str, Any]:
    """Name → times of embedding a text, for vectors of models."""
    return {
        one.name: {"text": one.about["text"], **_milliseconds(one.encode_seconds)}
        for one in dense
        if len(one.encode_seconds)
    }


def tokenising_times(queries: Sequence[TermQuery], tokenizer: Tokenizer) -> dict[str, Any]:
    """Times of turning a text into the terms that the inverted index searches for."""
    seconds = []
    for query in queries:
        start = time.perf_counter()
        _ = tokenizer.encode_query(query.text).terms
        seconds.append(time.perf_counter() - start)
    return {PIECES: {"text": PIECES, **_milliseconds(np.array(seconds))}}


def _milliseconds(seconds: NDArray[np.float64]) -> dict[str, float | int]:
    tails = {f"p{p}_ms": 1000 * float(np.percentile(seconds, p)) for p in (50, 95, 99)}
    return {"queries": len(seconds), "mean_ms": 1000 * float(seconds.mean()), **tails}
