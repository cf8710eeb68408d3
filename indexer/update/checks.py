"""Changes are checked before they are written: what is in the log can be applied."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.postings import ImagePostings
from sparta.errors import InputError
from sparta.image_ids import check_id


@dataclass(frozen=True)
class ChangeCheck:
    """What the images of an index must be like.

    Attributes:
        folder: of the index, for messages.
        vocabulary: number of terms.
        largest: impact.
    """

    folder: Path
    vocabulary: int
    largest: int

    def __call__(self, changes: Iterable[Change], has: Callable[[str], bool]) -> None:
        """Check changes in their order.

        Args:
            changes: to be written together.
            has: whether the index has an image before them.

        Raises:
            InputError: naming the image that cannot be written, and why.
        """
        there: dict[str, bool] = {}
        for change in changes:
            # An index of an earlier version may have any, which can be deleted.
            if not (isinstance(change, Delete) and has(change.image_id)):
                check_id(change.image_id)
            if isinstance(change, MetadataChange):
                if not there.get(change.image_id, has(change.image_id)):
                    raise InputError(f"{self.folder} has no image {change.image_id!r}")
                _check_metadata(change.image_id, change.metadata)
                continue
            there[change.image_id] = isinstance(change, Add)
            if isinstance(change, Add) and (problem := self._problem(change.image)):
                raise InputError(f"image {change.image_id!r} cannot be written: {problem}")

    def _problem(self, image: ImagePostings) -> str | None:
        _check_metadata(image.image_id, image.metadata)
        terms, impacts, read = image.terms, image.impacts, image.inputs
        positions = len(read.boxes) + len(read.label_terms)
        if not len(terms) == len(impacts) == len(image.positions):
            return "it has other numbers of terms, impacts and positions"
        if len(terms) and not (terms[0] >= 0 and terms[-1] < self.vocabulary):
            return f"a term is not one of the {self.vocabulary} of the vocabulary"
        if (terms[1:] <= terms[:-1]).any():
            return "its terms do not rise"
        if ((impacts < 1) | (impacts > self.largest)).any():
            return f"an impact is not from 1 to {self.largest}"
        if ((image.positions < -1) | (image.positions >= positions)).any():
            return "a term was won by a position that it lacks"
        if len(read.label_terms) != len(read.label_regions):
            return "it has other numbers of label tokens and of their regions"
        if ((read.label_terms < 0) | (read.label_terms >= self.vocabulary)).any():
            return f"a label token is not one of the {self.vocabulary} of the vocabulary"
        if ((read.label_regions < 0) | (read.label_regions >= len(read.boxes))).any():
            return "a label token is of a region that it lacks"
        return None


def _check_metadata(image_id: str, metadata: object) -> None:
    try:
        json.dumps(metadata, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InputError(f"the metadata of {image_id!r} cannot be JSON: {error}") from error
