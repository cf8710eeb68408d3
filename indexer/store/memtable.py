"""The newest images of an index, in memory: a dense matrix of impacts, one column an image."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.layout import impact_type
from indexer.fields.columns import FieldPart, part_of
from indexer.fields.kinds import Kind, joined, narrowest, with_derived
from indexer.store.images import Stored
from sparta.errors import InputError
from sparta.json_values import Json

CAPACITY = 4096  # images: with 8 bits a term is one page of memory
PART = 256  # images; the fields of the last few are made anew after each commit, in milliseconds

Kinds = frozenset[tuple[str, Kind]]  # the fields of an image


class NewImage(NamedTuple):
    """An image to be added."""

    image_id: str  # as in the index
    metadata: Json  # stored beside the image
    terms: NDArray[np.integer]  # [n] vocabulary ids, each once
    impacts: NDArray[np.integer]  # [n], at least 1
    content_id: str  # what the image was encoded from
    grounding: bytes  # what won each term, packed


class Memtable:
    """The first images of a matrix, to which others may be appended: those are not seen here.

    May be read from any thread, also while one thread appends to the same matrix.
    """

    def __init__(self, matrix: _ImpactMatrix, images: int = 0) -> None:
        self._matrix, self._images = matrix, images
        self.room = CAPACITY - images  # for how many more images
        self.columns = matrix.impacts  # [V, n], with columns of images that are not among these
        self.largest = matrix.largest  # [V] at least the largest impact of each term
        # [V] in how many images each term has an impact, or in some more.
        self.document_frequencies = matrix.document_frequencies

    @classmethod
    def empty(cls, vocabulary: int, bits: int) -> Memtable:
        """No image yet, for so many terms, and impacts of at most 16 bits."""
        return cls(_ImpactMatrix(vocabulary, impact_type(bits)))

    def another(self) -> Memtable:
        """An empty matrix of the same shape."""
        return Memtable(self._matrix.first(0))

    def __len__(self) -> int:
        """Number of images."""
        return self._images

    def after(self, images: Sequence[NewImage]) -> Memtable:
        """These images and some more, at most `room`; this object stays as it is.

        Raises InputError if a term is not of the vocabulary or an impact has more bits.
        """
        matrix = self._matrix
        if len(matrix.images) != self._images:  # others were appended after these
            matrix = matrix.first(self._images)
        matrix.append(images)
        return Memtable(matrix, self._images + len(images))

    def impacts(self, documents: Sequence[int], terms: Sequence[int]) -> NDArray[np.int64]:
        """The impacts [documents, terms] of some images, 0 where one lacks a term."""
        places = np.ix_(np.array(terms, np.int64), np.array(documents, np.int64))
        impacts: NDArray[np.int64] = self._matrix.impacts[places].T.astype(np.int64)
        return impacts

    def term_impacts(self, term: int) -> NDArray[np.uint16]:
        """The impacts [images] of all images for a term, 0 where one lacks it."""
        impacts: NDArray[np.uint16] = self.columns[term, : len(self)].astype(np.uint16)
        return impacts

    def kinds(self, documents: Iterable[int]) -> dict[str, Kind]:
        """The narrowest kinds that fit the values of some images."""
        return joined(map(dict, {self._matrix.kinds(document) for document in documents}))

    def fields(self, kinds: Mapping[str, Kind]) -> list[FieldPart]:
        """The fields of the images, one part for every `PART` of them and for what is left.

        They are of these kinds, which the values of all images fit that are not deleted.
        """
        return [
            self._matrix.fields(first, min(first + PART, self._images), kinds)
            for first in range(0, self._images, PART)
        ]

    def stored(self, document: int) -> Stored:
        """Id and metadata of an image."""
        return self._matrix.images[document]

    def content_id(self, document: int) -> str:
        """What an image was encoded from."""
        return self._matrix.content_ids[document]

    def content_ids(self) -> pa.ChunkedArray:
        """[n] what each image was encoded from."""
        return pa.chunked_array([self._matrix.content_ids[: self._images]], pa.large_string())

    def grounding(self, document: int) -> bytes:
        """The packed grounding of an image."""
        return self._matrix.groundings[document]


class _ImpactMatrix:
    """Impacts [vocabulary, CAPACITY]; only pages that hold some count as memory in use."""

    def __init__(self, vocabulary: int, impact: np.dtype) -> None:
        memory = mmap.mmap(-1, vocabulary * CAPACITY * impact.itemsize, mmap.MAP_PRIVATE)
        self.impacts = np.frombuffer(memory, impact).reshape(vocabulary, CAPACITY)
        self.largest = np.zeros(vocabulary, impact)
        self.document_frequencies = np.zeros(vocabulary, np.int64)
        self.images: list[Stored] = []
        self.content_ids: list[str] = []
        self.groundings: list[bytes] = []
        self._parts: dict[int, FieldPart] = {}  # by the number of the first image
        self._kinds: dict[int, Kinds] = {}

    def kinds(self, number: int) -> Kinds:
        """The kinds of the values of an image."""
        found = self._kinds.get(number)
        if found is None:
            fields = with_derived(*self.images[number]).items()
            kinds = [
                (name, narrowest(one if isinstance(one, list) else [one])) for name, one in fields
            ]
            found = self._kinds[number] = frozenset((n, kind) for n, kind in kinds if kind)
        return found

    def fields(self, first: int, last: int, kinds: Mapping[str, Kind]) -> FieldPart:
        """The fields of the images from `first` to `last`, made once if they are `PART`."""
        part = self._parts.get(first)
        if part is None or part.images != last - first:
            part = part_of(self.images[first:last], kinds)
        self._parts[first] = part = part.of_kinds(kinds, self.images[first:last].__getitem__)
        return part

    def append(self, images: Sequence[NewImage]) -> None:
        """Append images; raises InputError if a term or an impact is out of range."""
        terms, impacts = (
            np.concatenate([np.empty(0, np.int64), *parts])
            for parts in ([image.terms for image in images], [image.impacts for image in images])
        )
        for name, values, limit in (
            ("terms", terms, len(self.largest) - 1),
            ("impacts", impacts, np.iinfo(self.largest.dtype).max),
        ):
            if len(values) and not 0 <= values.min() <= values.max() <= limit:
                raise InputError(f"{name} of the images must be from 0 to {limit:,}")
        first = len(self.images)
        # First of all, so that nobody writes here again if this is interrupted.
        self.images += [Stored(image.image_id, image.metadata) for image in images]
        self.content_ids += [image.content_id for image in images]
        self.groundings += [image.grounding for image in images]
        lengths = [len(image.terms) for image in images]
        places = np.repeat(np.arange(first, first + len(images)), lengths)
        self.impacts[terms, places] = impacts
        np.maximum.at(self.largest, terms, impacts.astype(self.largest.dtype))
        self.document_frequencies += np.bincount(terms, minlength=len(self.largest))

    def first(self, images: int) -> _ImpactMatrix:
        """A copy of the first images."""
        copy = _ImpactMatrix(len(self.largest), self.largest.dtype)
        copy.images, copy.content_ids = self.images[:images], self.content_ids[:images]
        copy.groundings = self.groundings[:images]
        for term in np.flatnonzero(self.largest) if images else ():
            copy.impacts[term, :images] = self.impacts[term, :images]
            copy.largest[term] = copy.impacts[term].max()
            copy.document_frequencies[term] = np.count_nonzero(copy.impacts[term])
        return copy
