"""What an answer depends on besides the images of one shard.

Whether any image has a term decides which words are unknown, and the largest impact of any image
which images have a word. Whoever merges assumes facts of the whole index, every shard reports its
own with its answer, and the answers are right if these add up to what was assumed. So no shard
needs to know of others, whatever was written to them meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from indexer.fields.kinds import Kind
from indexer.search.lucene import LuceneSearcher


@dataclass(frozen=True)
class Facts:
    """Facts of an index, or of one shard, as far as they are needed.

    Attributes:
        held: whether some image has a term.
        largest: impact of any image for a term, 0 for none.
        kinds: of all fields; None if not needed.
    """

    held: Mapping[str, bool] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, Kind] | None = None

    def of(self, searcher: LuceneSearcher) -> Facts:
        """The same facts of a shard."""
        return Facts(
            {term: searcher.holds(term) for term in self.held},
            {term: searcher.presence.largest(term) for term in self.largest},
            None if self.kinds is None else dict(searcher.field_index().kinds),
        )


NO_FACTS = Facts()


def merged(parts: Iterable[Facts]) -> Facts:
    """The facts of an index whose shards these are of, in their order."""
    held: dict[str, bool] = {}
    largest: dict[str, int] = {}
    kinds: dict[str, Kind] | None = None
    for part in parts:
        for term, some in part.held.items():
            held[term] = held.get(term, False) or some
        for term, impact in part.largest.items():
            largest[term] = max(largest.get(term, 0), impact)
        if part.kinds is not None:
            kinds = {**part.kinds, **(kinds or {})}
    return Facts(held, largest, kinds)


class KnownFacts:
    """The facts of an index as far as they were needed before; they may have changed since."""

    def __init__(self) -> None:
        self.held: dict[str, bool] = {}
        self.largest: dict[str, int] = {}
        self.kinds: Mapping[str, Kind] | None = None

    def copy(self) -> KnownFacts:
        """The same, to be changed apart."""
        other = KnownFacts()
        other.held, other.largest, other.kinds = self.held.copy(), self.largest.copy(), self.kinds
        return other

    def note(self, found: Facts) -> None:
        """Remember newer ones."""
        self.held.update(found.held)
        self.largest.update(found.largest)
        if found.kinds is not None:
            self.kinds = found.kinds
