"""Postings of images, image by image: what the offline job passes from the models to an index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.json_values import Json

Number = TypeVar("Number", bound=np.number)
_TYPES = {  # in memory
    "terms": np.int32,
    "impacts": np.int32,
    "positions": np.int16,
    "label_terms": np.int32,
    "label_regions": np.int16,
}
NO_VECTOR: NDArray[np.float16] = np.empty(0, np.float16)
_NARROW = (np.uint8, np.int8, np.uint16, np.int16, np.int32)  # in a file


@dataclass(frozen=True)
class Inputs:
    """The input positions of an image, as a model reads them.

    The r regions are positions 0 to r - 1, the k label tokens r to r + k - 1.

    Attributes:
        boxes: [r, 4] float32, the regions' x1, y1, x2, y2 relative to the photo.
        label_terms: [k] int32, the tokens' vocabulary ids.
        label_regions: [k] int16, the region each token labels.
        vector: [d] float16 of length 1, by which hits are re-ranked; empty if it is not kept.
    """

    boxes: NDArray[np.float32]
    label_terms: NDArray[np.int32]
    label_regions: NDArray[np.int16]
    vector: NDArray[np.float16] = field(default_factory=lambda: NO_VECTOR)


@dataclass(frozen=True)
class ImagePostings:
    """One image's postings and grounding.

    Attributes:
        image_id: as in the feature store.
        metadata: stored beside the image (width, height).
        terms: [n] int32, ascending vocabulary ids.
        impacts: [n] int32, at least 1.
        positions: [n] int16, which position won each term; -1 for none.
        inputs: what the positions refer to.
        content_id: what the image was encoded from (see `content_id_of`); "" while an index is
            built.
    """

    image_id: str
    metadata: Json
    terms: NDArray[np.int32]
    impacts: NDArray[np.int32]
    positions: NDArray[np.int16]
    inputs: Inputs
    content_id: str = ""


@dataclass(frozen=True)
class Postings:
    """Postings of many images end to end; image i's are `starts[i]:starts[i + 1]`.

    Attributes:
        ids: the images' ids.
        metadata: one dict per image.
        starts: [images + 1] int64.
        terms: [postings] int32.
        impacts: [postings] int32.
        positions: [postings] int16.
        box_starts: [images + 1] int64.
        boxes: [boxes, 4] float32.
        label_starts: [images + 1] int64.
        label_terms: [label tokens] int32.
        label_regions: [label tokens] int16.
        vectors: one float16 vector per image, perhaps empty; none at all if no image has one.
    """

    ids: list[str]
    metadata: list[Json]
    starts: NDArray[np.int64]
    terms: NDArray[np.int32]
    impacts: NDArray[np.int32]
    positions: NDArray[np.int16]
    box_starts: NDArray[np.int64]
    boxes: NDArray[np.float32]
    label_starts: NDArray[np.int64]
    label_terms: NDArray[np.int32]
    label_regions: NDArray[np.int16]
    vectors: Sequence[NDArray[np.float16]] = ()

    @classmethod
    def of(cls, rows: list[ImagePostings]) -> Postings:
        """Concatenate the postings of single images."""
        return cls(
            ids=[row.image_id for row in rows],
            metadata=[row.metadata for row in rows],
            starts=_starts([len(row.terms) for row in rows]),
            terms=_joined([row.terms for row in rows], np.int32),
            impacts=_joined([row.impacts for row in rows], np.int32),
            positions=_joined([row.positions for row in rows], np.int16),
            **_in_arrays([row.inputs for row in rows]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Postings]) -> Postings:
        """Concatenate the postings of many images."""
        arrays: dict[str, Any] = {
            name: _joined([getattr(part, name) for part in parts], dtype)
            for name, dtype in _TYPES.items()
        }
        boxes = [part.boxes.reshape(-1) for part in parts]
        vectors = [part.vectors or [NO_VECTOR] * len(part) for part in parts]
        kept = any(part.vectors for part in parts)
        return cls(
            ids=[image_id for part in parts for image_id in part.ids],
            metadata=[one for part in parts for one in part.metadata],
            starts=_joined_starts([part.starts for part in parts]),
            box_starts=_joined_starts([part.box_starts for part in parts]),
            boxes=_joined(boxes, np.float32).reshape(-1, 4),
            label_starts=_joined_starts([part.label_starts for part in parts]),
            vectors=[*chain.from_iterable(vectors)] if kept else (),
            **arrays,
        )

    @classmethod
    def without_grounding(
        cls,
        ids: list[str],
        metadata: list[Json],
        starts: NDArray[np.int64],
        terms: NDArray[np.int32],
        impacts: NDArray[np.int32],
    ) -> Postings:
        """Postings of images whose grounding is unknown."""
        none = np.zeros(len(ids) + 1, np.int64)
        return cls(
            ids=ids,
            metadata=metadata,
            starts=starts,
            terms=terms,
            impacts=impacts,
            positions=np.full(len(terms), -1, np.int16),
            box_starts=none,
            boxes=np.empty((0, 4), np.float32),
            label_starts=none,
            label_terms=np.empty(0, np.int32),
            label_regions=np.empty(0, np.int16),
        )

    def with_grounding(self, positions: NDArray[np.int16], inputs: Sequence[Inputs]) -> Postings:
        """The same postings, with the position that won each term, -1 for none."""
        return replace(self, positions=positions, **_in_arrays(inputs))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[ImagePostings]:
        for i, image_id in enumerate(self.ids):
            row = slice(self.starts[i], self.starts[i + 1])
            labels = slice(self.label_starts[i], self.label_starts[i + 1])
            yield ImagePostings(
                image_id,
                self.metadata[i],
                self.terms[row],
                self.impacts[row],
                self.positions[row],
                Inputs(
                    self.boxes[self.box_starts[i] : self.box_starts[i + 1]],
                    self.label_terms[labels],
                    self.label_regions[labels],
                    self.vectors[i] if self.vectors else NO_VECTOR,
                ),
            )

    def part(self, images: slice) -> Postings:
        """The postings of some consecutive images; arrays are views of these."""
        first, last, _ = images.indices(len(self))
        rows, boxes, labels = (
            slice(starts[first], starts[last])
            for starts in (self.starts, self.box_starts, self.label_starts)
        )
        ends = slice(first, last + 1)
        return Postings(
            ids=self.ids[images],
            metadata=self.metadata[images],
            starts=self.starts[ends] - rows.start,
            terms=self.terms[rows],
            impacts=self.impacts[rows],
            positions=self.positions[rows],
            box_starts=self.box_starts[ends] - boxes.start,
            boxes=self.boxes[boxes],
            label_starts=self.label_starts[ends] - labels.start,
            label_terms=self.label_terms[labels],
            label_regions=self.label_regions[labels],
            vectors=self.vectors[images],
        )

    def save(self, path: Path) -> None:
        """Write one npz file, under a temporary name first, so that it is complete or absent.

        Integers take the narrowest type that holds them: four bytes per posting with a
        vocabulary of BERT's size, 8 bits and up to 128 regions and label tokens.
        """
        unfinished = path.with_name(path.name + ".unfinished")
        kept: dict[str, Any] = {"vectors": np.stack(self.vectors)} if self.vectors else {}
        with unfinished.open("wb") as file:
            np.savez(
                file,
                images=np.frombuffer(json.dumps([self.ids, self.metadata]).encode(), np.uint8),
                starts=self.starts,
                terms=_narrowest(self.terms),
                impacts=_narrowest(self.impacts),
                positions=_narrowest(self.positions),
                box_starts=self.box_starts,
                boxes=self.boxes,
                label_starts=self.label_starts,
                label_terms=_narrowest(self.label_terms),
                label_regions=_narrowest(self.label_regions),
                **kept,
            )
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> Postings:
        """Read what `save` wrote; raises InputError if the file is damaged or something else."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            ids, metadata = json.loads(arrays.pop("images").tobytes())
            vectors = [*arrays.pop("vectors", ())]
            for name, dtype in _TYPES.items():
                arrays[name] = arrays[name].astype(dtype)
            return cls(ids=ids, metadata=metadata, vectors=vectors, **arrays)
        except (ValueError, KeyError, TypeError, EOFError, OSError, BadZipFile) as error:
            raise InputError(f"{path} is not a postings file: {error}; delete it") from error


@dataclass(frozen=True)
class QuantisationReport:
    """The error of impact × scale against the scores; reports can be summed.

    Attributes:
        clipped: scores above the top level.
        total_error: sum of the absolute differences.
        largest_error: the largest of them.
    """

    clipped: int = 0
    total_error: float = 0.0
    largest_error: float = 0.0

    def __add__(self, other: QuantisationReport) -> QuantisationReport:
        return QuantisationReport(
            self.clipped + other.clipped,
            self.total_error + other.total_error,
            max(self.largest_error, other.largest_error),
        )


class PostingShard(NamedTuple):
    """The postings of some consecutive images.

    Attributes:
        postings: of the images.
        report: what quantising them cost, empty if unknown.
    """

    postings: Postings
    report: QuantisationReport = QuantisationReport()


def _narrowest(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
    lowest, highest = numbers.min(initial=0), numbers.max(initial=0)
    limits = ((dtype, np.iinfo(dtype)) for dtype in _NARROW)
    fits = (dtype for dtype, limit in limits if limit.min <= lowest and highest <= limit.max)
    return numbers.astype(next(fits))


def _in_arrays(inputs: Sequence[Inputs]) -> dict[str, Any]:
    """The inputs of images, end to end."""
    boxes = [read.boxes.reshape(-1) for read in inputs]
    return {
        "box_starts": _starts([len(read.boxes) for read in inputs]),
        "boxes": _joined(boxes, np.float32).reshape(-1, 4),
        "label_starts": _starts([len(read.label_terms) for read in inputs]),
        "label_terms": _joined([read.label_terms for read in inputs], np.int32),
        "label_regions": _joined([read.label_regions for read in inputs], np.int16),
        "vectors": [read.vector for read in inputs] if any(len(o.vector) for o in inputs) else (),
    }


def _starts(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _joined_starts(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return _starts(_joined([np.diff(starts) for starts in parts], np.int64))


def _joined(rows: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.empty(0, dtype), *rows]).astype(dtype, copy=False)
