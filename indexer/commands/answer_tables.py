"""Answers of `sparta search` and `sparta similar` as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from indexer.search.answer import Answer, Hit, TermExplanation

LONGEST_WORD = 100  # letters; a word piece tokenizer knows none longer


def answer_tables(answer: Answer, explain: bool) -> Iterator[RenderableType]:
    """An answer for the terminal: hits, each hit's terms with `explain`, words without postings."""
    if answer.hits:
        yield _hits_table(answer.hits)
    else:
        yield "No image shares a word with the query."
    if explain:
        for hit in answer.hits:
            yield terms_table(hit.explanation or [], f"{hit.image_id} ({hit.score:g})")
    yield from _conditions(answer)
    if answer.substitutions:
        words = (f"{found.word} → {found.term}" for found in answer.substitutions)
        yield f"Substitutes: {', '.join(words)}"
    if answer.rare:
        quoted = (f'"{_shortened(word)}"' for word in answer.rare)
        yield f"Rarely seen in training: {', '.join(quoted)}"
    if answer.unknown:
        yield f"Unknown words: {', '.join(map(_shortened, answer.unknown))}"
    for near in answer.corrections:
        similar = ", ".join(near.words)
        yield f"Words of the index spelled like {_shortened(near.word)!r}: {similar}"


def _conditions(answer: Answer) -> Iterator[RenderableType]:
    for sign, name in (("+", "Required"), ("-", "Excluded")):
        words = [
            f"{_shortened(found.word)} ({found.images:,} images have it)"
            for found in answer.conditions
            if found.sign == sign
        ]
        if words:
            yield f"{name}: {', '.join(words)}"


def _hits_table(hits: list[Hit]) -> Table:
    if hits[0].explanation is None:
        table = Table("rank", "score", "image")
        for hit in hits:
            table.add_row(str(hit.rank), f"{hit.score:.4f}", hit.image_id)
        return table
    table = Table("rank", "score", "covers", "image", "matching words")
    for hit in hits:
        matching = sorted(hit.explanation or (), key=lambda term: -term.score)
        words = dict.fromkeys(_source(term) for term in matching if term.score)
        covers = "" if hit.coverage is None else f"{hit.coverage:.0%}"
        table.add_row(str(hit.rank), f"{hit.score:g}", covers, hit.image_id, ", ".join(words))
    return table


def terms_table(terms: list[TermExplanation], title: str) -> Table:
    """An image's score term by term, with the grounding of each term."""
    table = Table("term", "word", "count", "impact", "score", "won by", "box", title=title)
    for term in terms:
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
