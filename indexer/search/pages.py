"""What an engine found → one page of an answer, in the order of a ranking or of a field."""

from __future__ import annotations

from collections.abc import Set
from time import perf_counter

from indexer.answer import Answer, Condition, Correction, Hit, Position, Timings
from indexer.search.engine import Capability, Engine, Found, Page, Plan, is_before
from indexer.search.reader import Reader, Reading
from indexer.search.rerank import Rerank

MAX_CORRECTED, CORRECTIONS = 10, 3  # unknown words, and words for each
MS = 1000.0


def ranked(
    engine: Engine,
    reader: Reader,
    plan: Plan,
    k: int,
    offset: int,
    after: Position | None,
    reading: Reading,
    rerank: Rerank | None = None,
) -> Answer:
    """A page of the ranking: k hits from an offset, or after a position.

    With `rerank` the first hits of the ranking are ordered anew, the others follow by score.
    """
    depth = rerank.depth if rerank else 0
    wanted = max(depth, (after.rank if after else offset) + k)
    while True:
        found = engine.top(plan, wanted)
        reader.check(found.version)
        found = rerank(found) if rerank else found
        count, own = len(found.image_ids), [*(found.similarities or ())][:depth]
        if after is None:
            places, first = range(offset, min(offset + k, count)), offset + 1
            break
        pairs = enumerate(zip([*own, *found.scores[depth:]], found.image_ids, strict=True))
        # A position is among those that are ordered anew, or among the others.
        anew, first = after.rank <= depth, after.rank + 1
        later = [
            n
            for n, pair in pairs
            if (anew and n >= depth)
            or (anew == (n < depth) and is_before(after, *pair, falling=True))
        ]
        # Images that came meanwhile have pushed others behind those looked at.
        if len(later) >= k or count < wanted:
            places = later[:k]
            break
        wanted *= 2
    answer = _answer(reader, found.at(places), first, reading)
    if rerank is not None:
        answer.reranked = min(depth, count)
        if answer.last is not None and answer.last.rank <= depth:
            answer.last = answer.last._replace(value=answer.hits[-1].similarity)
    return answer


def surveyed(engine: Engine, reader: Reader, plan: Plan, page: Page, reading: Reading) -> Answer:
    """A page of all images that match, with their number and facets."""
    from indexer.filters.browse import most_frequent  # which a search by score does not need

    survey = engine.survey(plan, page)
    reader.check(survey.found.version)
    skipped = page.offset if page.after is None else 0
    places = range(len(survey.values))[skipped : skipped + page.k]
    first = page.offset if page.after is None else page.after.rank
    answer = _answer(reader, survey.found.at(places), first + 1, reading)
    answer.total = survey.total
    counts = survey.counts.items()
    answer.facets = {facet: most_frequent(own, facet) for facet, own in counts} or None
    if answer.last is not None:
        answer.last = answer.last._replace(value=survey.values[places[-1]])
    return answer


def _answer(reader: Reader, found: Found, first: int, reading: Reading) -> Answer:
    """The answer with the images that were found, of which the first has rank `first`."""
    ranks = range(first, first + len(found.image_ids))
    hits = [*map(Hit, ranks, found.image_ids, found.scores, found.metadata)]
    answer = Answer(hits, Timings(0, 0, 0, found.encode_ms), found.version)
    for hit, similarity in zip(hits, found.similarities or (), strict=False):
        hit.similarity = similarity
    if found.views is not None:
        for hit, view in zip(hits, found.views, strict=True):
            hit.view = view
    if hits:
        last = hits[-1]
        answer.last = Position(last.score, last.image_id, last.rank)
    if reading.notable:
        answer.rare, answer.substitutions = reading.rare, reading.substitutions
        answer.unknown = reading.unknown
    elif found.unknown:
        answer.unknown = [*found.unknown]
    if reading.signed:
        pairs = zip(reading.signed, found.having, strict=True)
        answer.conditions = [Condition(word.text, word.sign, n) for word, n in pairs]
    answer.missing_images = reader.missing_images
    answer.missing_shards = [*found.missing_shards]
    return answer


def finish(
    answer: Answer, reader: Reader, can: Set[Capability], start: float, tokenised: float
) -> None:
    """Record the times of a search that ends now, and list words near to others that it lacks."""
    end, times = perf_counter(), answer.timings
    times.tokenise_ms, times.total_ms = (tokenised - start) * MS, (end - start) * MS
    times.search_ms = (end - tokenised) * MS - times.encode_ms
    misspelt = [one.word for one in answer.substitutions if one.similarity is None]
    if (answer.unknown or misspelt) and Capability.SUGGEST in can:
        nearest, words = reader.held_words.correct, [*misspelt, *answer.unknown]
        near = ((word, nearest(word, CORRECTIONS)) for word in words[:MAX_CORRECTED])
        answer.corrections = [
            Correction(word, [one.word for one in found]) for word, found in near if found
        ]
