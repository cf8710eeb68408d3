"""The columns of one commit of a live index: segments, then the newest images."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.engine import best_of_newest
from indexer.columns.index import Remembered
from indexer.columns.layout import LEVELS, NARROW
from indexer.columns.live.newest import Newest, NewImage
from indexer.columns.live.segment import Segment, Segments
from indexer.columns.live.state import ColumnState
from indexer.live.changes import Add, Change, Delete
from indexer.lucene.stored import Stored

RANK = 24  # bits below a rank, for the newest images between two of the segments
Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # of documents, and of superblocks
_ALL: NDArray[np.bool_] = np.empty(0, np.bool_)


class LiveColumns:
    """Search over the images of one commit. Immutable, and safe from any thread.

    Documents are numbered segment by segment, where numbers rise with the ids, and then as the
    newest images were added. A deleted or replaced image keeps its number.

    Attributes:
        segments: images that were there when the change log began.
        newest: those added since, in matrices of which the last one may have room.
        live: [documents] which of them are not deleted, None for all.
        places: id → document of the newest images that are not deleted.
        documents: how many numbers there are.
        vocabulary: number of terms.
        bits: of an impact, at most.

    Args:
        segments, newest, live, places: the same.
        gaps: before how many images of the segments each of the newest comes, by id.
    """

    def __init__(
        self,
        segments: Segments,
        newest: Sequence[Newest],
        live: NDArray[np.bool_] | None,
        places: Mapping[str, int],
        gaps: NDArray[np.int64],
    ) -> None:
        self.segments, self.newest, self.live, self.places = segments, newest, live, places
        self._parts: list[Segment | Newest] = [*segments.all, *newest]
        *self._firsts, self.documents = accumulate(map(len, self._parts), initial=0)
        self._first_newest = self._firsts[len(segments.all)]
        self._largest = np.max([segments.largest, *(one.largest for one in newest)], axis=0)
        self._masks: Remembered[Masks] = Remembered()
        self._gaps, self._newest_by_id = gaps, _numbered(newest, gaps)
        self.vocabulary, self.bits = len(self._largest), 8 * newest[0].columns.itemsize

    @classmethod
    def open(
        cls,
        index: Path,
        number: int,
        vocabulary: int,
        bits: int,
        previous: LiveColumns | None = None,
    ) -> LiveColumns:
        """Open a state of the columns; `after` then applies its log from the beginning.

        Args:
            index: the index folder.
            number: of the state.
            vocabulary: number of terms.
            bits: of an impact.
            previous: columns of an earlier commit, whose segments are shared.

        Raises:
            InputError: if a file is missing or damaged.
        """
        opened = {one.folder: one for one in previous.segments.all} if previous is not None else {}
        state = ColumnState.open(index, number)
        segments = [opened.get(index / name) or Segment(index / name) for name in state.segments]
        live = [
            state.live(index, number, name, len(segment))
            for name, segment in zip(state.segments, segments, strict=True)
        ]
        return cls(
            Segments(segments, vocabulary),
            [Newest.empty(vocabulary, bits)],
            None if all(own.all() for own in live) else np.concatenate(live),
            {},
            np.empty(0, np.int64),
        )

    def __len__(self) -> int:
        """Number of images that are not deleted."""
        return self._count

    @cached_property
    def _count(self) -> int:
        return self.documents if self.live is None else int(np.count_nonzero(self.live))

    def after(self, changes: Iterable[Change]) -> LiveColumns:
        """The columns after some changes; these stay as they are.

        Only one thread at a time may call this, here or on what it returns.

        Args:
            changes: in order; one of the metadata of an absent image has no effect.

        Raises:
            InputError: if a term of an image is not of the vocabulary or an impact has more bits.
        """
        final = self.last(changes)
        gone = [found for found in map(self.document, final) if found is not None]
        added = [image for image in final.values() if image is not None]
        places = {key: place for key, place in self.places.items() if key not in final}
        places |= {image.image_id: self.documents + i for i, image in enumerate(added)}
        live = self.live
        if gone or live is not None:
            live = np.ones(self.documents + len(added), np.bool_)
            live[: self.documents] = True if self.live is None else self.live
            live[gone] = False
        gaps = np.array([self.segments.before(image.image_id) for image in added], np.int64)
        newest, gaps = _with_images(self.newest, added), np.concatenate([self._gaps, gaps])
        return LiveColumns(self.segments, newest, live, places, gaps)

    def last(self, changes: Iterable[Change]) -> dict[str, NewImage | None]:
        """What each changed image is after all changes, None if it is deleted.

        Args:
            changes: see `after`.
        """
        final: dict[str, NewImage | None] = {}
        for change in changes:
            key = change.image_id
            if isinstance(change, Add):
                image = change.image
                final[key] = NewImage(key, image.metadata, image.terms, image.impacts, image.origin)
            elif isinstance(change, Delete):
                final[key] = None
            else:
                # The image moves to the newest, so that the metadata of a segment never change.
                before = final[key] if key in final else self._image(key)
                final[key] = before and before._replace(metadata=change.metadata)
        return final

    def _image(self, image_id: str) -> NewImage | None:
        """An image as it would be added, None if there is none."""
        document = self.document(image_id)
        if document is None:
            return None
        terms, impacts = self.postings_of(document)
        metadata = self.stored(document).metadata
        return NewImage(image_id, metadata, terms, impacts, self.origin(document))

    def postings_of(self, document: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The terms [n] of an image, rising, and its impacts [n]."""
        terms = np.flatnonzero(self._largest)
        [impacts] = self.impacts([document], terms.tolist())
        kept = impacts > 0
        return terms[kept], impacts[kept]

    def origin(self, document: int) -> str:
        """What an image was encoded from."""
        part = self._part(document)
        return self._parts[part].origin(document - self._firsts[part])

    def top(
        self, terms: Mapping[int, int], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The k documents with the largest sums of count × impact; ties by image id.

        Args:
            terms: vocabulary ids of a query's terms, and how often it contains each.
            k: documents at most.
            allowed: [documents] that may be found, whatever it says of deleted ones; None for all.

        Returns:
            documents and scores, both [<= k], falling by score; only documents that share a term
            with the query.

        Raises:
            ValueError: if k is not positive, or the query is so long that a sum could overflow.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        numbers, counts = np.array([*terms.items()], np.int64).reshape(-1, 2).T
        numbers = np.ascontiguousarray(numbers)
        bound = int((self._largest[numbers] + LEVELS) @ counts)  # a level may allow that much more
        if bound >= 2**31:
            raise ValueError(f"scores of this query could reach {bound:,}: it is too long")
        wide = counts.astype(np.uint16 if bound < NARROW else np.uint32)
        if allowed is None:
            mask, some = self._undeleted
        else:
            mask, some = self._masks.of(allowed, self._combined)
        documents, scores = self.segments.top(numbers, wide, min(k, self.documents), mask, some)
        for newest, first in zip(self.newest, self._firsts[len(self.segments.all) :], strict=True):
            if len(newest):
                own = mask[first : first + len(newest)]
                floor = int(np.partition(scores, -k)[-k]) if len(scores) >= k else 0
                found, sums = best_of_newest(
                    newest.columns, len(newest), numbers, wide, own, min(k, len(newest)), floor
                )
                if len(found):
                    documents = np.concatenate([documents, found + np.int32(first)])
                    scores = np.concatenate([scores, sums])
        return self._best(documents, scores, k)

    @cached_property
    def _undeleted(self) -> Masks:
        """Documents that are not deleted, and superblocks with one; empty for all."""
        if self.live is None:
            return _ALL, _ALL
        return self.live, self.segments.occupied(self.live)

    def _combined(self, allowed: NDArray[np.bool_]) -> Masks:
        """Allowed documents that are not deleted, and superblocks with one."""
        mask = allowed if self.live is None else allowed & self.live
        return mask, self.segments.occupied(mask)

    def _best(
        self, documents: NDArray[np.int32], scores: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The k best of some documents."""
        order = np.lexsort((self._by_id(documents), -scores))[:k]
        return documents[order], scores[order]

    def _by_id(self, documents: NDArray[np.int32]) -> NDArray[np.int64]:
        """Numbers that rise with the ids of some documents."""
        numbers = np.empty(len(documents), np.int64)
        newest = documents >= self._first_newest
        numbers[newest] = self._newest_by_id[documents[newest] - self._first_newest]
        numbers[~newest] = self.segments.ranks[documents[~newest]].astype(np.int64) << RANK
        return numbers

    def impacts(self, documents: Sequence[int], terms: Sequence[int]) -> NDArray[np.int64]:
        """The impacts [documents, terms] of some documents; see `ColumnIndex.impacts`."""
        numbers = np.array(documents, np.int64)
        parts = np.searchsorted(self._firsts, numbers, "right") - 1
        impacts = np.zeros((len(documents), len(terms)), np.int64)
        for part in set(parts.tolist()):
            own = parts == part
            impacts[own] = self._parts[part].impacts(numbers[own] - self._firsts[part], terms)
        return impacts

    @cached_property
    def document_frequencies(self) -> NDArray[np.int64]:
        """[V] in how many images each term has an impact, deleted ones among them until a merge."""
        segments = (segment.index.document_frequencies for segment in self.segments.all)
        newest = (one.document_frequencies for one in self.newest)
        found: NDArray[np.int64] = np.sum([*segments, *newest], axis=0)
        return found

    def term_impacts(self, term: int) -> NDArray[np.uint16]:
        """The impacts [documents] of all images for a term, 0 where one lacks it or is deleted."""
        impacts = np.concatenate([part.term_impacts(term) for part in self._parts])
        return impacts if self.live is None else impacts * self.live

    def document(self, image_id: str) -> int | None:
        """The document number of an image, None if there is none."""
        if image_id in self.places:
            return self.places[image_id]
        for first, segment in zip(self._firsts, self.segments.all, strict=False):
            place = segment.document(image_id)
            if place is not None and (self.live is None or self.live[first + place]):
                return first + place
        return None

    def stored(self, document: int) -> Stored:
        """Id and metadata of a document, deleted or not."""
        part = self._part(document)
        return self._parts[part].stored(document - self._firsts[part])

    def origin_parts(self) -> list[tuple[Segment | None, Callable[[], pa.ChunkedArray]]]:
        """What each image was encoded from, deleted or not: of each segment, and of the newest."""
        segments = [(segment, segment.origins) for segment in self.segments.all]
        return [*segments, *((None, newest.origins) for newest in self.newest)]

    def _part(self, document: int) -> int:
        return bisect_right(self._firsts, document) - 1


def _with_images(newest: Sequence[Newest], images: Sequence[NewImage]) -> list[Newest]:
    """Append images, in another matrix where one is full."""
    *full, last = newest
    while len(images) > last.room:
        full.append(last.after(images[: last.room]))
        images, last = images[last.room :], last.another()
    return [*full, last.after(images)]


def _numbered(newest: Sequence[Newest], gaps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the newest images that rise with their ids, among those of the segments' ranks."""
    ids = [one.stored(place).image_id for one in newest for place in range(len(one))]
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    numbers = (gaps - 1) << RANK
    numbers[order] += 1 + np.arange(len(ids))
    return numbers
