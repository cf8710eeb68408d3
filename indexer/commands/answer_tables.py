"""Answers of `sparta search` and `sparta similar` as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from rich.console import RenderableType
from rich.table import Table

from indexer.commands.answers import Corrections
from indexer.search.api import Explanation, SearchResult, TermExplanation

LONGEST_WORD = 100  # letters; a word piece tokenizer knows none longer


def answer_tables(
    result: SearchResult,
    explanations: list[Explanation],
    explain: bool,
    corrections: Corrections = MappingProxyType({}),
) -> Iterator[RenderableType]:
    """An answer for the terminal: hits, each hit's terms with `explain`, words without postings."""
    if result.hits:
        yield _hits_table(result, explanations)
    else:
        yield "No image shares a word with the query."
    if explain:
        for explanation in explanations:
            yield terms_table(explanation, f"{explanation.image_id} ({explanation.score:g})")
    yield from _conditions(result)
    if result.substitutions:
        words = (f"{found.word} → {found.term}" for found in result.substitutions)
        yield f"Substitutes: {', '.join(words)}"
    if result.rare:
        quoted = (f'"{_shortened(word)}"' for word in result.rare)
        yield f"Rarely seen in training: {', '.join(quoted)}"
    if result.unknown:
        yield f"Unknown words: {', '.join(map(_shortened, result.unknown))}"
    for word, near in corrections.items():
        yield f"Words of the index spelled like {_shortened(word)!r}: {', '.join(near)}"


def _conditions(result: SearchResult) -> Iterator[RenderableType]:
    for sign, name in (("+", "Required"), ("-", "Excluded")):
        words = [
            f"{_shortened(found.word)} ({found.images:,} images have it)"
            for found in result.conditions
            if found.sign == sign
        ]
        if words:
            yield f"{name}: {', '.join(words)}"


def _hits_table(result: SearchResult, explanations: list[Explanation]) -> Table:
    if not explanations:
        table = Table("rank", "score", "image")
        for hit in result.hits:
            table.add_row(str(hit.rank), f"{hit.score:.4f}", hit.image_id)
        return table
    table = Table("rank", "score", "covers", "image", "matching words")
    for hit, explanation in zip(result.hits, explanations, strict=True):
        matching = sorted(explanation.terms, key=lambda term: -term.score)
        words = dict.fromkeys(_source(term) for term in matching if term.score)
        covers = "" if explanation.coverage is None else f"{explanation.coverage:.0%}"
        table.add_row(str(hit.rank), f"{hit.score:g}", covers, hit.image_id, ", ".join(words))
    return table


def terms_table(explanation: Explanation, title: str) -> Table:
    """An image's score term by term, with the grounding of each term."""
    table = Table("term", "word", "count", "impact", "score", "won by", "box", title=title)
    for term in explanation.terms:
        table.add_row(*_term_row(term))
    return table


def _term_row(term: TermExplanation) -> tuple[str, ...]:
    box = "" if term.box is None else " ".join(f"{side:.2f}" for side in term.box)
    numbers = str(term.count), str(term.impact), f"{term.score:g}"
    return term.term, _source(term), *numbers, won_by(term), box


def _shortened(word: str) -> str:
    """A word for the terminal, whose lines take minutes to break for a word of many pages."""
    return word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…"


def _source(term: TermExplanation) -> str:
    """The word of the query, with its sign, that a term comes from; an arrow to a substitute."""
    word = term.sign + term.word
    return word if term.similarity is None else f"{word} → {term.term}"


def won_by(term: TermExplanation) -> str:
    """The region or label that won a term, in words; empty if unknown."""
    if term.region is None:
        return ""
    region = "whole photo" if term.whole else f"region {term.region}"
    if term.label is None:
        return region
    token, words = term.label.token, term.label.words
    return f"label “{token}”{'' if token == words else f' in “{words}”'}, {region}"
