"""The reference of searches: one image after the other in plain Python; slow, obvious, exact."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from indexer.answer import (
    Answer,
    Bucket,
    Condition,
    Explanation,
    Hit,
    Position,
    QueryTerm,
    Substitution,
    TermExplanation,
    Timings,
    Version,
    WinningLabel,
)
from indexer.filters.expression import Filter
from indexer.grounding import UNKNOWN, Grounding, Winner
from indexer.postings import ImagePostings
from indexer.query import Query, QueryError, parsed
from indexer.search.words import FUNCTION_WORDS
from indexer.store.images import UnknownImageError
from sparta.tokenizer import TermTokenizer
from tests.reference.filters import lets_through

PRESENT, TERMS, COUNTS = 0.45, 10, 256
DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Spoken:
    """A word of a query: its text, its pieces or its substitute, sign, and how often it counts."""

    def __init__(self, text: str, pieces: Sequence[str], sign: str, times: int) -> None:
        self.text, self.pieces, self.sign, self.times = text, list(pieces), sign, times
        self.near: Substitution | None = None
        self.clause = False  # has a sign, a weight or quotation marks with one of these
        self.function = text.strip().lower() in FUNCTION_WORDS


class ReferenceSearcher:
    """Answers as `Searcher` does, over images in memory."""

    def __init__(
        self,
        images: Iterable[ImagePostings],
        tokenizer: TermTokenizer,
        substitutes: Mapping[str, Sequence[tuple[str, float]]] | None = None,
        rare: Set[str] = frozenset(),
    ) -> None:
        self._images = {one.image_id: one for one in sorted(images, key=lambda one: one.image_id)}
        self._tokenizer, self._substitutes, self._rare = tokenizer, substitutes or {}, rare
        vocabulary = tokenizer.vocabulary
        self._impacts = {
            image_id: {
                vocabulary[term]: int(impact)
                for term, impact in zip(one.terms, one.impacts, strict=True)
            }
            for image_id, one in self._images.items()
        }
        self._largest = Counter[str]()
        for own in self._impacts.values():
            self._largest |= Counter(own)

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        filter: Filter | None = None,
        min_coverage: float | None = None,
        sort: str | None = None,
        facets: Sequence[str] = (),
        offset: int = 0,
        after: Position | None = None,
    ) -> Answer:
        """See `Searcher.search`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        wanted = parsed(query)
        words = self._words(wanted, substitute)
        if words and all(clause.sign == "-" for clause in wanted.clauses):
            raise QueryError("it only excludes", wanted.text, 1)
        everything = not wanted.text.strip()
        found: list[tuple[str, float]] = []
        for image_id in self._images:
            score = self._score(image_id, self._counts(words))
            covered = self._coverage(image_id, words) >= (min_coverage or 0) - 1e-9
            right = self._passes(image_id, filter) and not self._against(image_id, words)
            if (score or everything) and right and covered:
                found.append((image_id, score))
        browsed = bool(sort or facets) or everything
        ordered = self._ordered(found, sort)
        if after is not None:
            ordered, offset = ordered[after.rank :], after.rank  # nothing was written meanwhile
            page = ordered[:k]
        else:
            page = ordered[offset : offset + k]
        hits = [
            Hit(rank, image_id, score, self._images[image_id].metadata)
            for rank, (image_id, score) in enumerate(page, offset + 1)
        ]
        if min_coverage is not None and not browsed:
            for hit in hits:
                hit.coverage = self._coverage(hit.image_id, words)
        last = None
        if hits:
            value = self._value(hits[-1].image_id, sort) if sort else hits[-1].score
            last = Position(value, hits[-1].image_id, hits[-1].rank)
        answer = self._answer(hits, words, last)
        if browsed:
            answer.total = len(found)
            matching = [image_id for image_id, _ in found]
            answer.facets = {name: self._facet(name, matching) for name in facets} or None
        return answer

    def top(self, words: Mapping[str, int], k: int, allowed: Any = None) -> list[tuple[int, float]]:
        """The best images of counted terms: their places in the order of ids, and scores."""
        scores = [self._score(image_id, words) for image_id in self._images]
        found = [
            (place, score)
            for place, score in enumerate(scores)
            if score and (allowed is None or allowed[place])
        ]
        return sorted(found, key=lambda pair: -pair[1])[:k]

    def similar(
        self,
        image_ids: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        filter: Filter | None = None,
    ) -> Answer:
        """See `Searcher.similar`."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        ids = [image_ids] if isinstance(image_ids, str) else list(dict.fromkeys(image_ids))
        added = Counter[str]()
        for image_id in ids:
            self._image(image_id)
            added.update(self._impacts[image_id])
        spoken = self._words(parsed(words), True)
        own = {term: n for term, n in self._counts(spoken).items() if self._largest[term]}
        terms = self._query_of(added, own)
        found = []
        for image_id in self._images:
            score = self._score(image_id, terms)
            right = self._passes(image_id, filter) and not self._against(image_id, spoken)
            if score and right and image_id not in ids:
                found.append((image_id, score))
        hits = [
            Hit(rank, image_id, score, self._images[image_id].metadata)
            for rank, (image_id, score) in enumerate(self._ordered(found, None)[:k], 1)
        ]
        last = Position(hits[-1].score, hits[-1].image_id, hits[-1].rank) if hits else None
        answer = self._answer(hits, spoken, last)
        answer.terms = [QueryTerm(*pair) for pair in terms.items()]
        return answer

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """See `Searcher.explain`."""
        image, words = self._image(image_id), self._words(parsed(query), substitute)
        grounding = Grounding(image.terms, image.positions, image.inputs)
        ids = {term: number for number, term in enumerate(self._tokenizer.vocabulary)}
        terms = []
        for excluded in (False, True):
            some = [word for word in words if (word.sign == "-") == excluded]
            counts = Counter[str]()
            for word in some:
                counts.update(dict.fromkeys(word.pieces, 0))
                for piece in word.pieces:
                    counts[piece] += word.times
            for term, count in counts.items():
                source = next(
                    (word for word in some if term in word.pieces and not word.near),
                    next(word for word in some if term in word.pieces),
                )
                impact = self._impacts[image_id].get(term, 0)
                won = winner(grounding, ids[term], self._tokenizer.vocabulary)
                near = source.near.similarity if source.near else None
                sign: Any = source.sign
                about = (term, source.text, count, impact, float(count * impact))
                terms.append(TermExplanation(*about, *won, near, sign))
        score = sum(term.score for term in terms)
        coverage = self._coverage(image_id, words) if words else None
        against = self._against(image_id, words)
        return Explanation(image_id, score, terms, coverage, against, image.metadata)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """See `Searcher.metadata`."""
        return self._image(image_id).metadata

    def ids(self, filter: Filter | None = None) -> list[str]:
        """See `Searcher.ids`."""
        return [image_id for image_id in self._images if self._passes(image_id, filter)]

    def __len__(self) -> int:
        return len(self._images)

    def close(self) -> None:
        """Nothing is open."""

    # ---- words ----

    def _words(self, query: Query, substitute: bool) -> list[Spoken]:
        words: list[Spoken] = []
        for clause in query.clauses:
            encoded = self._tokenizer.encode_query(clause.text)
            if not clause.word:
                words += [Spoken(word.text, word.pieces, "", 1) for word in encoded.words]
                continue
            spoken = [piece for piece in encoded.pieces if any(map(str.isalnum, piece))]
            times = 0 if clause.sign == "-" else clause.weight
            words.append(Spoken(clause.text, spoken or encoded.pieces, clause.sign, times))
            words[-1].clause = True
        for word in words:
            word.text = word.text.strip()
            if substitute and word.sign != "-" and not self._known(word):
                for term, similarity in self._substitutes.get("".join(word.pieces), ()):
                    if self._largest[term]:
                        word.near = Substitution(word.text, term, similarity)
                        word.pieces = [term]
                        break
        return [one for one in words if one.clause or self._known(one) or not one.function]

    def _known(self, word: Spoken) -> bool:
        return any(self._largest[piece] for piece in word.pieces)

    def _counts(self, words: Sequence[Spoken]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for word in words:
            for piece in word.pieces if word.times else ():
                counts[piece] = counts.get(piece, 0) + word.times
        return counts

    def _has(self, image_id: str, word: Spoken) -> bool:
        own = self._impacts[image_id]
        least = [max(1, math.ceil(PRESENT * self._largest[piece])) for piece in word.pieces]
        pairs = zip(word.pieces, least, strict=True)
        return bool(word.pieces) and all(own.get(piece, 0) >= enough for piece, enough in pairs)

    def _against(self, image_id: str, words: Sequence[Spoken]) -> list[str]:
        return [
            word.sign + word.text
            for word in words
            if word.sign and self._has(image_id, word) == (word.sign == "-")
        ]

    def _coverage(self, image_id: str, words: Sequence[Spoken]) -> float:
        sums = [sum(self._largest[piece] for piece in word.pieces) for word in words]
        known = [own for own, word in zip(sums, words, strict=True) if own and word.times]
        if not known:
            return 0.0
        mean = sum(known) / len(known)
        weights = [word.times * (own or mean) for own, word in zip(sums, words, strict=True)]
        pairs = zip(weights, words, strict=True)
        had = sum(weight for weight, word in pairs if self._has(image_id, word))
        return had / sum(weights)

    def _query_of(self, impacts: Mapping[str, int], words: Mapping[str, int]) -> dict[str, int]:
        rising = [term for term in self._tokenizer.vocabulary if impacts.get(term)]
        best = sorted(rising, key=lambda term: -impacts[term])[:TERMS]
        half = COUNTS // 2 if words else COUNTS
        terms = Counter[str]()
        for weights in ({term: impacts[term] for term in best}, words):
            total = sum(weights.values())
            shares = {term: weight * half // total for term, weight in weights.items()}
            terms.update({term: share for term, share in shares.items() if share})
        return dict(terms.most_common() if words else terms)

    # ---- images ----

    def _image(self, image_id: str) -> ImagePostings:
        if image_id not in self._images:
            raise UnknownImageError(image_id)
        return self._images[image_id]

    def _score(self, image_id: str, counts: Mapping[str, int]) -> float:
        own = self._impacts[image_id]
        return float(sum(count * own.get(term, 0) for term, count in counts.items()))

    def _fields(self, image_id: str) -> dict[str, Any]:
        folder = image_id.rpartition("/")[0]
        return {"path": image_id, "folder": folder, **self._images[image_id].metadata}

    def _passes(self, image_id: str, filter: Filter | None) -> bool:
        return filter is None or lets_through(filter, self._fields(image_id))

    def _values(self, image_id: str, name: str) -> list[Any]:
        found = self._fields(image_id).get(name)
        values = found if isinstance(found, list) else [found]
        return [float(one) if type(one) is int else one for one in values if one is not None]

    def _value(self, image_id: str, sort: str) -> Any:
        values = self._values(image_id, sort.removeprefix("-"))
        if not values:
            return None
        best = max(values) if sort.startswith("-") else min(values)
        return _microseconds(best) if isinstance(best, str) and DATE.match(best) else best

    def _ordered(
        self, found: Sequence[tuple[str, float]], sort: str | None
    ) -> list[tuple[str, float]]:
        by_id = sorted(found)
        if sort is None:
            return sorted(by_id, key=lambda pair: -pair[1])
        known = [pair for pair in by_id if self._value(pair[0], sort) is not None]
        falling = sort.startswith("-")
        known.sort(key=lambda pair: self._value(pair[0], sort), reverse=falling)
        return known + [pair for pair in by_id if self._value(pair[0], sort) is None]

    def _facet(self, facet: str, image_ids: Sequence[str]) -> list[Bucket]:
        name, _, period = facet.partition(":")
        length = {"year": 4, "month": 7, "day": 10}.get(period)
        counts = Counter[Any]()
        for image_id in image_ids:
            counts.update({one[:length] if length else one for one in self._values(image_id, name)})
        best = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:100]
        return [Bucket(*pair) for pair in (sorted(best) if length else best)]

    def _answer(self, hits: list[Hit], words: Sequence[Spoken], last: Position | None) -> Answer:
        unknown = [one.text for one in words if not self._known(one)]
        searched = [one for one in words if self._known(one) and one.sign != "-"]
        told = (one for one in searched if not one.function)
        rare = [one.text for one in told if not self._rare.isdisjoint(one.pieces)]
        conditions = []
        for word in words:
            if word.sign:
                sign: Any = word.sign
                count = sum(self._has(image_id, word) for image_id in self._images)
                conditions.append(Condition(word.text, sign, count))
        return Answer(
            hits,
            Timings(0, 0, 0),
            Version(()),
            unknown=list(dict.fromkeys(unknown)),
            rare=list(dict.fromkeys(rare)),
            substitutions=list(dict.fromkeys(word.near for word in words if word.near)),
            conditions=conditions,
            last=last,
        )


def _microseconds(date: str) -> float:
    """Since 1970."""
    from datetime import UTC, datetime

    moment = datetime.fromisoformat(date).replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6


def winner(grounding: Grounding, term: int, vocabulary: Sequence[str]) -> Winner:
    """What won one term, by its vocabulary id."""
    inputs, terms = grounding.inputs, grounding.terms.tolist()
    position = int(grounding.positions[terms.index(term)]) if term in terms else -1
    if position < 0:
        return UNKNOWN
    token = position - len(inputs.boxes)
    region = position if token < 0 else int(inputs.label_regions[token])
    x1, y1, x2, y2 = inputs.boxes[region].tolist()
    if token < 0:
        return region, (x1, y1, x2, y2), None
    spoken = inputs.label_terms[inputs.label_regions == region]
    words = " ".join(vocabulary[i] for i in spoken).replace(" ##", "")
    label = WinningLabel(vocabulary[inputs.label_terms[token]], words)
    return region, (x1, y1, x2, y2), label
