"""One commit of an index, open for searching: segments, and the newest images in memory."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.index import MaskCache, kernel
from indexer.columns.layout import LEVELS, NARROW
from indexer.fields.kinds import OF_PHOTOS, Kind, joined, read_kinds
from indexer.filters.evaluate import FieldIndex
from indexer.grounding import pack_all, unpack
from indexer.manifest import OFFSETS, Manifest, check_small_parts, located
from indexer.postings import ImagePostings, Postings
from indexer.store.changes import Add, Change, Delete
from indexer.store.commit import Commit, ReplacedError, SegmentList, commit_content, parse_commit
from indexer.store.images import Stored
from indexer.store.log import read_changes, with_written
from indexer.store.memtable import Memtable, NewImage
from indexer.store.segment import Documents, Segment, Segments
from sparta.errors import InputError
from sparta.json_values import JsonMapping

FEW = 1 / 16  # of a segment's images, of which a term's impacts are looked up one by one
RANK = 24  # bits below a rank, for the newest images between two of the segments
Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # of documents, and of superblocks
_ALL: NDArray[np.bool_] = np.empty(0, np.bool_)


class IndexLocation(NamedTuple):
    """What all commits of an index share."""

    path: Path  # of the index folder as it was given, perhaps an alias
    folder: Path  # that it led to
    found: os.stat_result  # the status of that folder: what a restored index is in has another
    manifest: Manifest
    vocabulary: int  # number of terms

    @classmethod
    def of(cls, index: Path, former: bool = False) -> IndexLocation:
        """Read the manifest of an index folder; raises InputError if it is damaged.

        A `former` format may be allowed.
        """
        manifest, folder = Manifest.open(index, former), located(index).resolve()
        check_small_parts(folder, manifest.parts)
        offsets = np.load(folder / OFFSETS, mmap_mode="r", allow_pickle=False)
        return cls(index, folder, folder.stat(), manifest, len(offsets))

    def check_same(self) -> None:
        """Check that the path still leads to this index; raises ReplacedError if not."""
        folder = located(self.path).resolve()
        same = folder == self.folder and folder.is_dir()
        same = same and os.path.samestat(folder.stat(), self.found)
        if not same or Manifest.read(folder) != self.manifest:
            raise ReplacedError(f"{self.path} is another index by now: open it again")


class Snapshot:
    """The images of one commit. Immutable, and safe from any thread.

    Documents are numbered segment by segment, where numbers rise with the ids, and then as the
    newest images were added. A deleted or replaced image keeps its number.
    """

    def __init__(
        self,
        place: IndexLocation,
        commit: Commit,
        segments: Segments,  # images that were there when the change log began
        newest: Sequence[Memtable],  # those added since, the last matrix perhaps with room
        live: NDArray[np.bool_] | None,  # [documents] which are not deleted, None for all
        places: Mapping[str, int],  # id → document of the newest images that are not deleted
        gaps: NDArray[np.int64],  # before how many of the segments' images each of the newest is
        best: dict[int, tuple[int, int]],  # term → largest impact in the segments, and its image
    ) -> None:
        self.place, self.commit = place, commit
        self.segments, self.newest, self.live, self.places = segments, newest, live, places
        self._parts: list[Segment | Memtable] = [*segments.all, *newest]
        *self._firsts, self.documents = accumulate(map(len, self._parts), initial=0)
        self._first_newest = self._firsts[len(segments.all)]
        # Items of a memory view are read faster than those of an array.
        parts = [segments.largest, *(one.largest for one in newest)]
        self._largest = memoryview(np.max(parts, axis=0))
        self._single = len(segments.all) == 1 and self.documents == self._first_newest
        self._masks: MaskCache[Masks] = MaskCache()
        self._gaps, self._best = gaps, best
        self._fields: FieldIndex | None = None
        self.vocabulary, self.bits = place.vocabulary, 8 * newest[0].columns.itemsize

    @classmethod
    def open(cls, index: Path, commit: Commit | None = None) -> Snapshot:
        """Open the newest commit of an index folder, or a former one whose files are there.

        Raises InputError if it is not an index, is divided into shards, or a file is missing or
        damaged.
        """
        place = IndexLocation.of(index)
        return _newest(place, None) if commit is None else _at(place, commit, None)

    @classmethod
    def written(cls, index: Path) -> Snapshot:
        """All that was written to an index folder, committed or not; nobody writes it.

        It may be of a former format.
        """
        place = IndexLocation.of(index, former=True)
        commit = parse_commit(commit_content(place.folder), place.folder)
        return _at(place, with_written(place.folder, commit), None)

    def refreshed(self) -> Snapshot | None:
        """The newest commit, None if it is this one.

        Raises ReplacedError if another index is in the place of this one, or its newest commit does
        not continue this one; InputError if a file is missing or damaged.
        """
        self.place.check_same()
        folder = self.place.folder
        if parse_commit(commit_content(folder), folder) == self.commit:
            return None
        return _newest(self.place, self)

    def __len__(self) -> int:
        """Number of images that are not deleted."""
        return self._count

    @cached_property
    def _count(self) -> int:
        return self.documents if self.live is None else int(np.count_nonzero(self.live))

    def after(self, changes: Iterable[Change], commit: Commit) -> Snapshot:
        """The images after some changes, in order, up to a commit; this object stays as it is.

        Only one thread at a time may call this, here or on what it returns. A change of the
        metadata of an absent image has no effect. Raises InputError if a term or an impact is out
        of range.
        """
        final = self.last(changes)
        gone = [found for found in map(self.document, final) if found is not None]
        added = [image for image in final.values() if image is not None]
        places = {key: place for key, place in self.places.items() if key not in final}
        places |= {image.image_id: self.documents + i for i, image in enumerate(added)}
        live, best = self.live, self._best
        if gone or live is not None:
            live = np.ones(self.documents + len(added), np.bool_)
            live[: self.documents] = True if self.live is None else self.live
            live[gone] = False
            best = {term: found for term, found in best.copy().items() if live[found[1]]}
        before = np.array([self.segments.before(image.image_id) for image in added], np.int64)
        newest, gaps = _with_images(self.newest, added), np.concatenate([self._gaps, before])
        return Snapshot(self.place, commit, self.segments, newest, live, places, gaps, best)

    def last(self, changes: Iterable[Change]) -> dict[str, NewImage | None]:
        """What each changed image is after all changes, None if it is deleted."""
        found: dict[str, ImagePostings | NewImage | None] = {}
        for change in changes:
            key = change.image_id
            if isinstance(change, Add):
                found[key] = change.image
            elif isinstance(change, Delete):
                found[key] = None
            else:
                # The image moves to the newest, so that the metadata of a segment never change.
                if key not in found:
                    document = self.document(key)
                    found[key] = None if document is None else self.new_image(document)
                found[key] = _described(found[key], change.metadata)
        images = [one for one in found.values() if isinstance(one, ImagePostings)]
        groundings = iter(pack_all(Postings.of(images)))
        return {
            key: _packed(one, next(groundings)) if isinstance(one, ImagePostings) else one
            for key, one in found.items()
        }

    def new_image(self, document: int) -> NewImage:
        """An image as it would be added."""
        (image_id, metadata), terms = self.stored(document), self.terms_of(document)
        [impacts], [grounding] = self.impacts([document], terms), self.groundings([document])
        return NewImage(image_id, metadata, terms, impacts, self.content_id(document), grounding)

    def images(self, documents: Iterable[int]) -> Iterator[ImagePostings]:
        """Images as they were written, but for the rounding of their boxes."""
        for document in documents:
            [packed] = self.groundings([document])
            grounding, (image_id, metadata) = unpack(packed), self.stored(document)
            [impacts] = self.impacts([document], grounding.terms.tolist())
            yield ImagePostings(
                image_id,
                metadata,
                grounding.terms.astype(np.int32),
                impacts.astype(np.int32),
                grounding.positions.astype(np.int16),
                grounding.inputs,
                self.content_id(document),
            )

    def read_ahead(self) -> None:
        """Touch every page of the segments' columns, so that no query waits for the disk."""
        for segment in self.segments.all:
            segment.index.read_ahead()

    def live_documents(self) -> NDArray[np.int64]:
        """The documents that are not deleted, rising."""
        return np.arange(self.documents) if self.live is None else np.flatnonzero(self.live)

    def terms_of(self, document: int) -> NDArray[np.int64]:
        """The terms [n] of an image, rising."""
        [packed] = self.groundings([document])
        return unpack(packed).terms.astype(np.int64)

    def groundings(self, documents: Iterable[int]) -> list[bytes]:
        """What won each term of some images, as `indexer.grounding.pack_all` packs it."""
        found = []
        for document in documents:
            part = self._part(document)
            found.append(self._parts[part].grounding(document - self._firsts[part]))
        return found

    def content_id(self, document: int) -> str:
        """What an image was encoded from."""
        part = self._part(document)
        return self._parts[part].content_id(document - self._firsts[part])

    def top(
        self, terms: Mapping[int, int], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Documents:
        """The k documents with the largest sums of count × impact; ties by image id.

        `terms` are those of a query, by vocabulary id, with how often it contains each; `allowed`
        is [documents] that may be found, whatever it says of deleted ones. Returns documents and
        scores, falling, of documents that share a term with the query. Raises ValueError if k is
        not positive, or the query is so long that a sum could overflow.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        largest = self._largest  # a level may allow as much more as there are
        bound = sum([count * (largest[term] + LEVELS) for term, count in terms.items()])
        if bound >= 2**31:
            raise ValueError(f"scores of this query could reach {bound:,}: it is too long")
        numbers = np.fromiter(terms, np.int64, len(terms))
        wide = np.fromiter(terms.values(), np.uint16 if bound < NARROW else np.uint32, len(terms))
        mask, some = self._undeleted if allowed is None else self._masks.of(allowed, self._combined)
        found = self.segments.top(numbers, wide, min(k, self.documents), mask, some)
        return found if self._single else self._with_newest(found, numbers, wide, mask, k)

    def _with_newest(
        self,
        found: Documents,
        numbers: NDArray[np.int64],
        counts: NDArray[np.generic],
        mask: NDArray[np.bool_],
        k: int,
    ) -> Documents:
        """The k best of what was found in segments and of the newest images."""
        documents, scores = found
        for newest, first in zip(self.newest, self._firsts[len(self.segments.all) :], strict=True):
            if len(newest):
                own = mask[first : first + len(newest)]
                floor = int(np.partition(scores, -k)[-k]) if len(scores) >= k else 0
                more, sums = kernel.best_of_newest(
                    newest.columns, len(newest), numbers, counts, own, min(k, len(newest)), floor
                )
                if len(more):
                    documents = np.concatenate([documents, more + np.int32(first)])
                    scores = np.concatenate([scores, sums])
        order = np.lexsort((self._by_id(documents), -scores))[:k]
        return documents[order], scores[order]

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

    def _by_id(self, documents: NDArray[np.int32]) -> NDArray[np.int64]:
        """Numbers that rise with the ids of some documents."""
        numbers = np.empty(len(documents), np.int64)
        newest = documents >= self._first_newest
        numbers[newest] = self._newest_by_id[documents[newest] - self._first_newest]
        numbers[~newest] = self.segments.ranks[documents[~newest]].astype(np.int64) << RANK
        return numbers

    @cached_property
    def _newest_by_id(self) -> NDArray[np.int64]:
        """Numbers of the newest images that rise with their ids, among those of segments' ranks."""
        ids = [one.stored(place).image_id for one in self.newest for place in range(len(one))]
        order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
        numbers = (self._gaps - 1) << RANK
        numbers[order] += 1 + np.arange(len(ids))
        return numbers

    def impacts(
        self, documents: Sequence[int], terms: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The impacts [documents, terms] of some documents, 0 where one lacks a term."""
        numbers = np.array(documents, np.int64)
        parts = np.searchsorted(self._firsts, numbers, "right") - 1
        impacts = np.zeros((len(documents), len(terms)), np.int64)
        for part in set(parts.tolist()):
            own = parts == part
            impacts[own] = self._parts[part].impacts(numbers[own] - self._firsts[part], terms)
        return impacts

    def largest_impact(self, term: int) -> int:
        """The largest impact of any image that is not deleted, 0 if none has the term."""
        largest = self._largest_in_segments(term)
        for newest, first in zip(self.newest, self._firsts[len(self.segments.all) :], strict=True):
            if newest.largest[term] > largest:
                own = newest.term_impacts(term)
                if self.live is not None:
                    own = own * self.live[first : first + len(own)]
                largest = max(largest, int(own.max(initial=0)))
        return largest

    def _largest_in_segments(self, term: int) -> int:
        if self._whole or not self.segments.largest[term]:
            return int(self.segments.largest[term])
        known = self._best.get(term)
        if known is None:
            mask, some = self._undeleted
            terms, once = np.array([term], np.int64), np.ones(1, np.uint32)
            documents, scores = self.segments.top(terms, once, 1, mask, some)
            if not len(documents):
                return 0
            first = int(scores.argmax())
            known = self._best[term] = int(scores[first]), int(documents[first])
        return known[0]

    @cached_property
    def _whole(self) -> bool:
        """Whether no image of the segments is deleted."""
        return self.live is None or bool(self.live[: self._first_newest].all())

    def frequency(self, term: int) -> int:
        """In how many images that are not deleted a term has an impact."""
        found = 0
        for part, gone in zip(self._parts, self._gone, strict=True):
            if isinstance(part, Segment) and len(gone) <= FEW * len(part):
                found += int(part.index.document_frequencies[term])
                found -= int(np.count_nonzero(part.impacts(gone, [term])))
            else:
                impacts = part.term_impacts(term)
                found += int(np.count_nonzero(impacts) - np.count_nonzero(impacts[gone]))
        return found

    @cached_property
    def _gone(self) -> list[NDArray[np.int64]]:
        """The deleted images of each segment and each of the newest."""
        live = np.ones(self.documents, np.bool_) if self.live is None else self.live
        return [*map(np.flatnonzero, np.split(~live, self._firsts[1:]))]

    @cached_property
    def document_frequencies(self) -> NDArray[np.int64]:
        """[V] at least the `frequency` of each term: deleted images count until a merge."""
        segments = (segment.index.document_frequencies for segment in self.segments.all)
        newest = (one.document_frequencies for one in self.newest)
        found: NDArray[np.int64] = np.sum([*segments, *newest], axis=0)
        return found

    @property
    def bounds(self) -> NDArray[np.int64]:
        """[2, V] at least the `frequency` and the `largest_impact` of each term."""
        return np.stack([self.document_frequencies, self._largest])

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

    def stored_all(self, documents: Iterable[int]) -> list[Stored]:
        """Ids and metadata of documents, as `stored`."""
        # Hits are many: those of a single segment are read without a detour.
        return [*map(self._parts[0].stored if self._single else self.stored, documents)]

    def content_id_parts(self) -> list[tuple[Segment | None, Callable[[], pa.ChunkedArray]]]:
        """What each image was encoded from, deleted or not: of each segment, and of the newest."""
        segments = [(segment, segment.content_ids) for segment in self.segments.all]
        return [*segments, *((None, newest.content_ids) for newest in self.newest)]

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of each field: declared, of photos' files, or what the values of all images fit.

        Deleted images count until their segment is merged. Raises InputError if a file is damaged.
        """
        found = [segment.kinds for segment in self.segments.all]
        firsts = self._firsts[len(found) :]
        for first, newest in zip(firsts, self.newest, strict=True):
            live = np.ones(self.documents, np.bool_) if self.live is None else self.live
            found.append(newest.kinds(np.flatnonzero(live[first : first + len(newest)]).tolist()))
        fixed = {**OF_PHOTOS, **read_kinds(self.place.folder)}
        return {name: fixed.get(name, kind) for name, kind in joined(found).items()}

    def field_index(self, kinds: Mapping[str, Kind] | None = None) -> FieldIndex:
        """The typed fields of the images; `kinds` are those of a larger index that this is part of.

        Raises InputError if they are damaged.
        """
        wanted, found = {**self.kinds, **(kinds or {})}, self._fields
        if found is None or found.kinds != wanted:
            parts = [segment.fields(wanted) for segment in self.segments.all]
            parts += chain.from_iterable(newest.fields(wanted) for newest in self.newest)
            found = self._fields = FieldIndex(parts, self.live, wanted)
        return found

    def _part(self, document: int) -> int:
        return bisect_right(self._firsts, document) - 1


def _newest(place: IndexLocation, former: Snapshot | None) -> Snapshot:
    """The newest commit; of a former one all that did not change is shared."""
    while True:
        content = commit_content(place.folder)
        try:
            return _at(place, parse_commit(content, place.folder), former)
        except (FileNotFoundError, InputError):
            # The next commit came, and the files of this one went, before they were read?
            if commit_content(place.folder) == content:
                raise


def _at(place: IndexLocation, commit: Commit, former: Snapshot | None) -> Snapshot:
    if former is not None:
        if not commit.continues(former.commit):
            raise ReplacedError(f"{place.path} is of another state by now: open it again")
        if commit.segments == former.commit.segments:
            since = former.commit
            return former.after(read_changes(place.folder, since.log, since.bytes, commit), commit)
    opened = opened_segments(place, commit.segments, former)
    return opened.after(read_changes(place.folder, commit.segments.log, 0, commit), commit)


def opened_segments(
    place: IndexLocation, listed: SegmentList, former: Snapshot | None = None
) -> Snapshot:
    """The images of some segments, without the changes after them."""
    folder = place.folder
    known = {(one.folder.name, one.seal): one for one in former.segments.all} if former else {}
    segments = [
        known.get((name, entry.sha256)) or Segment(folder, name, entry)
        for name, entry in listed.entries.items()
    ]
    live = [entry.live(folder) for entry in listed.entries.values()]
    every = None if all(own.all() for own in live) else np.concatenate(live)
    newest = [Memtable.empty(place.vocabulary, place.manifest.bits)]
    own = Segments(segments, place.vocabulary)
    return Snapshot(place, Commit(), own, newest, every, {}, np.empty(0, np.int64), {})


def _described(
    image: ImagePostings | NewImage | None, metadata: JsonMapping
) -> ImagePostings | NewImage | None:
    """An image with other metadata."""
    if isinstance(image, ImagePostings):
        return replace(image, metadata=dict(metadata))
    return image and image._replace(metadata=dict(metadata))


def _packed(image: ImagePostings, grounding: bytes) -> NewImage:
    """An image of the change log as one to be added."""
    terms, impacts = image.terms, image.impacts
    return NewImage(image.image_id, image.metadata, terms, impacts, image.content_id, grounding)


def _with_images(newest: Sequence[Memtable], images: Sequence[NewImage]) -> list[Memtable]:
    """Append images, in another matrix where one is full."""
    *full, last = newest
    while len(images) > last.room:
        full.append(last.after(images[: last.room]))
        images, last = images[last.room :], last.another()
    return [*full, last.after(images)]
