"""`sparta search` and `similar`, and answers as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from indexer.answer import Answer, Hit, TermExplanation
from indexer.dense.manifest import SPARSE
from sparta.commands.options import (
    AsJson,
    Backend,
    Engine,
    FilterText,
    Hits,
    IndexFolder,
    Rerank,
    Substitute,
    advanced,
    check_query,
)
from sparta.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from indexer.filters.expression import Filter

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
    if answer.reranked:
        yield f"Re-ranked: the first {answer.reranked}, by a dual encoder's similarity"
    yield from _conditions(answer)
    for misspelt, name in ((True, "Corrected"), (False, "Substitutes")):
        some = [one for one in answer.substitutions if (one.similarity is None) == misspelt]
        if some:
            words = ", ".join(f"{_shortened(one.word)} → {one.term}" for one in some)
            yield f"{name}: {words}; --no-substitute searches as typed"
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


def _hits_table(hits: Sequence[Hit]) -> Table:
    from rich.table import Table

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
        score = f"{hit.score:g}"
        if hit.similarity is not None:
            score += f" (similarity {hit.similarity:.4f})"
        table.add_row(str(hit.rank), score, covers, hit.image_id, ", ".join(words))
    return table


def terms_table(terms: list[TermExplanation], title: str) -> Table:
    """An image's score term by term, with the grounding of each term."""
    from rich.table import Table

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


@contextmanager
def reading_filter(text: str | None) -> Iterator[Filter | None]:
    """The filter of `--filter`; errors of the filter and of other options name the option.

    Raises:
        InputError: if it cannot be read, or a search within does not fit the fields or the engine.
    """
    from indexer.answer import RefusedError

    try:
        if text is None:
            yield None
            return
        # A search without a filter does not need them.
        from indexer.filters.expression import FilterError
        from indexer.filters.syntax import parse_filter, pointed

        try:
            yield parse_filter(text)
        except FilterError as error:
            raise InputError(f"--{pointed(text, error)}") from error
    except RefusedError as error:
        if error.field in ("sort", "min_coverage", "rerank", "words"):
            option = error.field.replace("_", "-")
            raise InputError(f"--{option}: {error.reason}") from error
        raise InputError(error.reason) from error


Query = Annotated[
    str,
    typer.Argument(
        help="What the photo should show. +word: required, -word: excluded, word^3: counts three "
        "times. Write -- before a query that begins with a sign."
    ),
]
MinCoverage = Annotated[
    float | None,
    advanced(min=0, max=1, help="Only images that have this share of the query's weight."),
]
Sort = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD", help="Order all matching images by a field; - before it: largest first."
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show each term's impact, and what in the photo won it.")
]


def search(
    index: IndexFolder,
    query: Query = "",
    k: Hits = 10,
    filter_text: FilterText = None,
    sort: Sort = None,
    explain: Explain = False,
    rerank: Rerank = 0,
    backend: Backend = SPARSE,
    engine: Engine = "columns",
    substitute: Substitute = True,
    min_coverage: MinCoverage = None,
    as_json: AsJson = False,
) -> None:
    """Find the images that match a text; without a text, all images that match a filter.

    For example:

    sparta search index/ "two dogs on a beach" -k 3 --explain

    sparta search index/ "dogs on a +beach -ball red^2"

    sparta search index/ -- '-"fire truck" red'

    sparta search index/ "two dogs" --filter "taken:2024-06..2024-08 -folder:raw"

    sparta search index/ --filter "camera:canon" --sort -taken
    """
    from indexer.engines.open import open_backend
    from indexer.search.explanations import Explain

    check_query(query, optional=filter_text is not None or sort is not None)
    if explain and backend != SPARSE:
        raise InputError(f"--explain: the scores of {backend} are not sums over terms")
    searcher = open_backend(index, backend, engine)
    with reading_filter(filter_text) as filter:
        answer = searcher.search(
            query,
            k,
            substitute=substitute,
            filter=filter,
            min_coverage=min_coverage,
            sort=sort,
            rerank=rerank,
            explain=Explain(grounded=explain) if explain or not as_json else None,
        )
    if as_json:
        from json import dumps

        typer.echo(dumps({"query": query, **answer.as_json()}, ensure_ascii=False, indent=2))
        return
    from sparta.console import Console

    console = Console()
    if not (query.strip() or answer.hits):
        console.print("The filter lets no image through.")
        return
    for part in answer_tables(answer, explain):
        console.print(part)


ImageIds = Annotated[list[str], typer.Argument(help="Id of an indexed image, or of several.")]
Words = Annotated[
    str, typer.Option(help="A query that the images should match too; it may only exclude.")
]


def similar(
    index: IndexFolder,
    image_id: ImageIds,
    words: Words = "",
    k: Hits = 10,
    filter_text: FilterText = None,
    backend: Backend = SPARSE,
    engine: Engine = "columns",
    as_json: AsJson = False,
) -> None:
    """Find the images most similar to an indexed image, or to several, without these.

    The inverted index searches for the images' ten largest terms. A dense model compares its
    image embeddings.

    For example:

    sparta similar index/ "beach/two dogs.jpg" -k 3

    sparta similar index/ "beach/two dogs.jpg" "beach/3.jpg" --words "at night -ball"

    sparta similar index/ "beach/two dogs.jpg" --backend vse++
    """
    from indexer.engines.open import open_backend
    from indexer.search.explanations import Explain
    from indexer.store.images import UnknownImageError

    searcher = open_backend(index, backend, engine)
    how = None if as_json else Explain(grounded=False)
    try:
        with reading_filter(filter_text) as filter:
            answer = searcher.similar(image_id, k, words=words, filter=filter, explain=how)
    except UnknownImageError as error:
        raise InputError(
            f"{index} has no image {error.args[0]!r}: give an id as sparta search shows it"
        ) from error
    if as_json:
        from json import dumps

        first, *also = image_id
        about = {"image_id": first, "also": also, "query": words}
        typer.echo(dumps({**about, **answer.as_json()}, ensure_ascii=False, indent=2))
        return
    from sparta.console import Console

    console = Console()
    if answer.terms:
        terms = ", ".join(f"{one.term} ({one.count})" for one in answer.terms)
        console.print(f"Query terms: {terms}")
    for part in answer_tables(answer, explain=False):
        console.print(part)
