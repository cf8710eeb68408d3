"""What the tests of all engines ask, and what they compare."""

from __future__ import annotations

from indexer.search.answer import Answer
from tests.indexer.vocabulary import COMMON, RARE, WORDS

VOCABULARY = [*WORDS, COMMON, RARE, "dogs", "running", "sunny", "qqq", "[MASK]"]


def answer(result: Answer) -> list[tuple[int, str, float]]:
    return [(hit.rank, hit.image_id, hit.score) for hit in result.hits]
