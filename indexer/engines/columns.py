"""Searches the columns of one commit: filters, signed words and coverage become masks here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from indexer.answer import RefusedError, Version
from indexer.search.engine import (
    Capability,
    Documents,
    Fact,
    Found,
    Needs,
    Page,
    Plan,
    Statistics,
    Survey,
    is_before,
)
from indexer.store.images import UnknownImageError
from indexer.store.snapshot import Snapshot

if TYPE_CHECKING:
    from indexer.filters.browse import Order
    from indexer.filters.evaluate import FieldIndex

CACHED_BYTES = 2**26  # of bitmaps, one a term; of a million images 64 terms
ROUNDING = 1e-9  # of shares that add up to 1
OF_SEGMENTS = frozenset(Capability) - {Capability.QUICK}

Mask = NDArray[np.bool_]  # [documents], those that may be found


class ColumnsEngine:
    """Searches one commit of an index; see `Engine`. Immutable, and safe from any thread.

    Other engines override `_best`, and leave everything else to the segments.
    """

    can = frozenset(Capability)
    name = "columns"

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._version = Version(((0, snapshot.commit.lineage, snapshot.commit.version),))
        most = max(8, CACHED_BYTES // max(1, snapshot.documents))
        self._bitmap = lru_cache(most)(partial(_bitmap, snapshot))

    def statistics(self, terms: Sequence[int] = (), *facts: Fact) -> Statistics:
        """Facts of the commit; see `Engine.statistics`."""
        snapshot = self.snapshot
        of_terms = {"largest": snapshot.largest_impact, "frequencies": snapshot.frequency}
        found: dict[str, Any] = {
            fact: np.array([*map(of_terms[fact], terms)], np.int64)
            if fact in of_terms
            else getattr(snapshot, fact)
            for fact in facts
        }
        return Statistics(self._version, len(snapshot), 0, **found)

    def top(self, plan: Plan, k: int) -> Found:
        """The k best images; see `Engine.top`."""
        allowed: Mask | None = None
        having: Sequence[int] = ()
        if plan.filter is not None or plan.signed or plan.min_coverage:
            allowed, having = self._allowed(plan)
        if not plan.like:
            return self._found(*self._best(plan, k, allowed), having)
        left_out = {self._document(image_id) for image_id in plan.like}
        documents, scores = self._best(plan, k + len(left_out), allowed)
        kept = [n for n, document in enumerate(documents) if document not in left_out][:k]
        return self._found([documents[n] for n in kept], [scores[n] for n in kept], having)

    def _best(self, plan: Plan, k: int, allowed: Mask | None) -> tuple[list[int], list[float]]:
        """The k best documents and their scores, in the order of hits."""
        documents, scores = self.snapshot.top(plan.terms, k, allowed)
        return documents.tolist(), [*map(float, scores.tolist())]

    def _found(self, documents: Sequence[int], scores: list[float], having: Sequence[int]) -> Found:
        stored = self.snapshot.stored_all(documents)
        image_ids, metadata = [one[0] for one in stored], [one[1] for one in stored]
        return Found(self._version, image_ids, scores, metadata, having)

    def _allowed(self, plan: Plan) -> tuple[Mask | None, list[int]]:
        """The documents that may be found, and how many images have each signed word."""
        allowed: Mask | None = None
        if plan.filter is not None:
            allowed = self._fields(plan).allowed(plan.filter)
        counts = []
        for needs in plan.signed:
            having = self._having(needs)
            counts.append(int(np.count_nonzero(having)))
            if needs.required is not None:
                right = having if needs.required else ~having
                allowed = right if allowed is None else allowed & right
        if plan.min_coverage:
            shares = np.zeros(self.snapshot.documents)
            for needs in plan.weighed:
                if needs.weight:
                    shares += needs.weight * self._having(needs)
            covering = shares >= plan.min_coverage - ROUNDING
            allowed = covering if allowed is None else allowed & covering
        return allowed, counts

    def _fields(self, plan: Plan) -> FieldIndex:
        return self.snapshot.field_index(plan.kinds)

    def _having(self, needs: Needs) -> Mask:
        """[documents] whether each image has a word; none has a word without terms."""
        if not needs.least:
            return np.zeros(self.snapshot.documents, np.bool_)
        found: Mask = np.logical_and.reduce([self._bitmap(*one) for one in needs.least])
        return found

    def survey(self, plan: Plan, page: Page) -> Survey:
        """Count and order all images that match; see `Engine.survey`."""
        # A search by score does not need them.
        from indexer.filters.browse import Order, count_values
        from indexer.filters.expression import FilterError

        snapshot, fields = self.snapshot, self._fields(plan)
        allowed, having = self._allowed(plan)
        scores = np.zeros(snapshot.documents)
        if plan.everything:
            matching = fields.live() if allowed is None else allowed
        else:
            for term, count in plan.terms.items():
                scores += np.multiply(snapshot.term_impacts(term), count, dtype=np.float64)
            matching = scores > 0 if allowed is None else (scores > 0) & allowed
        if snapshot.live is not None:
            matching = matching & snapshot.live
        counts: dict[str, Counter[str | float | bool]] = {}
        for facet in page.facets:
            try:
                counts[facet] = count_values(fields, facet, matching)
            except FilterError as error:
                raise RefusedError("facets", error.reason) from error
        try:
            order = Order(fields, page.sort, scores, lambda one: snapshot.stored(one).image_id)
        except FilterError as error:
            raise RefusedError("sort", error.reason) from error
        first = _first(order, matching, page)
        found = self._found(first, scores[first].tolist(), having)
        values = [order.value(document) for document in first]
        return Survey(found, values, int(np.count_nonzero(matching)), counts)

    def documents(
        self, image_ids: Sequence[str], terms: Sequence[int] | None, grounded: bool = False
    ) -> Documents:
        """What the segments store of some images; see `Engine.documents`."""
        snapshot = self.snapshot
        numbers = [self._document(image_id) for image_id in image_ids]
        if terms is None:
            held = [snapshot.terms_of(number) for number in numbers]
            wanted = np.unique(np.concatenate([np.empty(0, np.int64), *held])).tolist()
        else:
            wanted = list(terms)
        return Documents(
            self._version,
            [snapshot.stored(number).metadata for number in numbers],
            wanted,
            snapshot.impacts(numbers, wanted),
            snapshot.groundings(numbers) if grounded else None,
        )

    def _document(self, image_id: str) -> int:
        document = self.snapshot.document(image_id)
        if document is None:
            raise UnknownImageError(image_id)
        return document

    def refreshed(self) -> ColumnsEngine | None:
        """The engine at the newest commit; see `Engine.refreshed`."""
        newer = self.snapshot.refreshed()
        return None if newer is None else self.over(newer)

    def over(self, snapshot: Snapshot) -> ColumnsEngine:
        """The same engine over another commit."""
        return ColumnsEngine(snapshot)

    def close(self) -> None:
        """Nothing: files are mapped as long as something refers to them."""


def _bitmap(snapshot: Snapshot, term: int, least: int) -> Mask:
    found: Mask = snapshot.term_impacts(term) >= least
    return found


def _first(order: Order, matching: Mask, page: Page) -> list[int]:
    """The first documents in the order of a page, or those after its position."""
    after = page.after
    if after is None:
        return order.first(matching, page.offset + page.k)
    wanted = after.rank + page.k
    while True:
        first = order.first(matching, wanted)
        later = [
            document
            for document in first
            if is_before(after, order.value(document), order.image_id(document), order.falling)
        ]
        if len(later) >= page.k or len(first) < wanted:
            return later[: page.k]
        wanted *= 2
