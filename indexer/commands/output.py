"""What the indexer's commands show: progress bars, tables, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from indexer.dense.manifest import DenseManifest
from indexer.manifest import Manifest
from indexer.search.api import Explanation, SearchResult, TermExplanation

STAGES = {
    "extract": ("Extracting features", "photos"),
    "offset": ("Measuring offsets", "images"),
    "encode": ("Encoding images", "images"),
    "write": ("Writing Lucene", "images"),
    "merge": ("Merging Lucene", "images"),
    "columns": ("Laying out columns", "images"),
}


def summary(manifest: Manifest) -> str:
    """One line on a finished index."""
    clipped = f", {manifest.clipped:,} scores clipped" if manifest.clipped else ""
    return (
        f"{manifest.images:,} images, {manifest.postings:,} postings of "
        f"{manifest.distinct_terms:,} terms; one impact is {manifest.scale:.4g}, "
        f"mean error {manifest.mean_error:.2g}{clipped}"
    )


def dense_stage(name: str) -> tuple[str, str]:
    """What the progress bar of a dense model says, as in `STAGES`."""
    return f"Embedding for {name}", "images"


def dense_summary(name: str, manifest: DenseManifest) -> str:
    """One line on a finished dense part."""
    views = f" in {manifest.views} views" if manifest.views > 1 else ""
    return (
        f"{name}: vectors of {manifest.images:,} images{views}, {manifest.dimension} numbers "
        f"each, {manifest.kind}"
    )


def answer_json(query: str, result: SearchResult, explanations: list[Explanation]) -> str:
    """An answer for programs, with the hits' terms if there are explanations."""
    answer = {"query": query, **asdict(result)}
    for hit, explanation in zip(answer["hits"], explanations, strict=False):
        hit["terms"] = [asdict(term) for term in explanation.terms]
    return json.dumps(answer, ensure_ascii=False, indent=2)


def answer_tables(
    result: SearchResult, explanations: list[Explanation], explain: bool
) -> Iterator[RenderableType]:
    """An answer for people: the hits, each one's terms if asked for, and the unknown words."""
    if result.hits:
        yield _hits_table(result, explanations)
    else:
        yield "No image shares a word with the query."
    if explain:
        for explanation in explanations:
            yield terms_table(explanation, f"{explanation.image_id} ({explanation.score:g})")
    if result.unknown:
        yield f"Unknown words: {escape(', '.join(result.unknown))}"


def _hits_table(result: SearchResult, explanations: list[Explanation]) -> Table:
    if not explanations:
        table = Table("rank", "score", "image")
        for hit in result.hits:
            table.add_row(str(hit.rank), f"{hit.score:.4f}", escape(hit.image_id))
        return table
    table = Table("rank", "score", "image", "matching words")
    for hit, explanation in zip(result.hits, explanations, strict=True):
        matching = sorted(explanation.terms, key=lambda term: -term.score)
        words = dict.fromkeys(term.word for term in matching if term.impact)
        name = escape(hit.image_id)
        table.add_row(str(hit.rank), f"{hit.score:g}", name, escape(", ".join(words)))
    return table


def terms_table(explanation: Explanation, title: str) -> Table:
    """An image's score term by term, with what won each."""
    table = Table("term", "word", "count", "impact", "score", "won by", "box", title=escape(title))
    for term in explanation.terms:
        table.add_row(*map(escape, _term_row(term)))
    return table


def _term_row(term: TermExplanation) -> tuple[str, ...]:
    box = "" if term.box is None else " ".join(f"{side:.2f}" for side in term.box)
    numbers = str(term.count), str(term.impact), f"{term.score:g}"
    return term.term, term.word, *numbers, won_by(term), box


def won_by(term: TermExplanation) -> str:
    """What won a term, in words; nothing where that is not known."""
    if term.region is None:
        return ""
    region = "whole photo" if term.whole else f"region {term.region}"
    if term.label is None:
        return region
    token, words = term.label.token, term.label.words
    return f"label “{token}”{'' if token == words else f' in “{words}”'}, {region}"
