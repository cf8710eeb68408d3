"""Pairs of a photo and a query, with the explanation of the photo's score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from indexer.search.api import Explainer, Explanation, TermExplanation, UnknownImageError
from sparta.captions.record import CaptionedPhoto
from sparta.errors import InputError
from sparta.features.extract.image_files import PhotoError, load_photo


@dataclass(frozen=True)
class Explained:
    """The explanation of one photo's score for one query.

    Attributes:
        query: the text.
        explanation: of the photo's score for it.
    """

    query: str
    explanation: Explanation

    @property
    def terms(self) -> list[TermExplanation]:
        """By falling score."""
        return sorted(self.explanation.terms, key=lambda term: -term.score)

    def record(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        return {"query": self.query, **asdict(self.explanation)}


def explain_all(
    searcher: Explainer, pairs: Iterable[tuple[str, str]], substitute: bool = True
) -> list[Explained]:
    """Explain the scores of photos for queries.

    Args:
        searcher: of the index.
        pairs: image ids and queries.
        substitute: whether words that the index lacks are replaced.

    Raises:
        InputError: if the index lacks an image.
    """
    try:
        return [
            Explained(query, searcher.explain(query, image, substitute=substitute))
            for image, query in pairs
        ]
    except UnknownImageError as error:
        raise InputError(f"the index has no image {error.args[0]!r}") from error


def every_nth(photos: Sequence[CaptionedPhoto], count: int) -> list[tuple[str, str]]:
    """Choose photos at even distances in the order of their ids, to avoid a selection by hand.

    Returns:
        Image ids, each with its first caption.

    Raises:
        InputError: if there are fewer photos.
    """
    if count > len(photos):
        raise InputError(f"--count {count}: the split has {len(photos)} photos")
    ordered = sorted(photos, key=lambda photo: photo.image_id)
    chosen = ordered[:: len(ordered) // count][:count]
    return [(photo.image_id, photo.captions[0]) for photo in chosen]


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Read image ids and queries, one pair a line with a tab between.

    Raises:
        InputError: if the file cannot be read, or a line is not a pair.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip("\n").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}") from error
    pairs = []
    for number, line in enumerate(lines, start=1):
        image_id, tab, query = line.partition("\t")
        if not (image_id and tab and query.strip()):
            raise InputError(f"{path}, line {number}: expected an image id, a tab and a query")
        pairs.append((image_id, query))
    if not pairs:
        raise InputError(f"{path} is empty: expected an image id, a tab and a query on each line")
    return pairs


def open_photos(folder: Path | str | None, image_ids: Iterable[str]) -> dict[str, Image.Image]:
    """Photos by image id.

    Args:
        folder: that the ids are relative to; None if the index names none.
        image_ids: may repeat.

    Raises:
        InputError: if the folder is None, or a photo cannot be read.
    """
    if folder is None:
        raise InputError("the index does not name a folder of photos: give --photos")
    found: dict[str, Image.Image] = {}
    for image_id in dict.fromkeys(image_ids):
        try:
            found[image_id] = load_photo(Path(folder) / image_id).image
        except (OSError, PhotoError) as error:
            raise InputError(f"photo {image_id!r} in {folder}: {error}; see --photos") from error
    return found
