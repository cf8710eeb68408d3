"""What an engine found → one page of an answer, in the order of a ranking or of a field."""

from __future__ import annotations

from collections.abc import Callable, Set
from time import perf_counter

from indexer.answer import Answer, Condition, Correction, Hit, Position, Timings
from indexer.search.engine import Capability, Engine, Found, Page, Plan, is_before
from indexer.search.reader import Reader, Reading

MAX_CORRECTED, CORRECTIONS = 10, 3  # unknown words, and words for each
MS = 1000.0


def ranked(
    engine: Engine,
    reader: Reader,
    plan: Plan,
    page: Page,
    reading: Reading,
    depth: int = 0,
    reorder: Callable[[Found], Found] | None = None,
) -> Answer:
    """A page of the ranking, of which `reorder` orders the first `depth` images anew."""
    after, k = page.after, page.k
    begin = page.offset if after is None else after.rank
    wanted = max(depth, begin + k)
    while True:
        found = engine.top(plan, wanted)
        reader.check(found.version)
        found = found if reorder is None else reorder(found)
        count = len(found.image_ids)
        if after is None:
            later = [*range(begin, count)]
            break
        values = [*(found.similarities or ())][:depth] + found.scores[depth:]
        anew = after.rank <= depth  # whether the position is among the first
        later = [
            n
            for n, pair in enumerate(zip(values, found.image_ids, strict=True))
            if (anew and n >= depth)
            or (anew == (n < depth) and is_before(after, *pair, falling=True))
        ]
        # Images that came meanwhile have pushed others behind those looked at.
        if len(later) >= k or count < wanted:
            break
        wanted *= 2
    answer = _answer(reader, found.at(later[:k]), begin + 1, reading)
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
