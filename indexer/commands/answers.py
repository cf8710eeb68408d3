"""Answers of `sparta search` and `sparta similar` as JSON, and the words for their unknown ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from indexer.search.api import Explanation, Searcher, SearchResult
from indexer.search.words import Suggester

Corrections = Mapping[str, Sequence[str]]  # unknown word → words of the index, the nearest first


def corrections_of(searcher: Searcher, unknown: Sequence[str]) -> Corrections:
    """The words of the index nearest to unknown ones, where there are any."""
    if not isinstance(searcher, Suggester):
        return {}
    found = {word: [held.word for held in searcher.correct(word)] for word in unknown}
    return {word: near for word, near in found.items() if near}


def answer_json(
    query: str, result: SearchResult, explanations: list[Explanation], corrections: Corrections
) -> str:
    """An answer as JSON, with each hit's terms if there are explanations."""
    answer = {"query": query, **asdict(result), "corrections": corrections}
    for hit, explanation in zip(answer["hits"], explanations, strict=False):
        hit["terms"] = [asdict(term) for term in explanation.terms]
    return json.dumps(answer, ensure_ascii=False, indent=2)
