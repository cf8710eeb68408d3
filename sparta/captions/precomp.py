"""Captions in the `precomp` folders of VSE++, SCAN and their descendants."""

from __future__ import annotations

from pathlib import Path

from sparta.captions.record import CaptionedPhoto, captioned
from sparta.errors import InputError
from sparta.features.readers.base import read_lines
from sparta.features.readers.precomp import PrecompSplit, rows_of_images, splits_of


def read_precomp(folder: Path, split: str | None = None) -> list[CaptionedPhoto]:
    """Photos of a split, or of all of them, with the ids of the feature store.

    Args:
        folder: with `{split}_caps.txt` (one caption a line, those of a photo together) and
            `{split}_ids.txt` (one id for each photo or for each caption).
        split: as the files call it; "dev:1000" for its first 1,000 photos, whose split is "dev".

    Raises:
        InputError: if there is no such split, numbers of lines disagree, or a photo appears twice
            (COCO's "test" is part of "testall": name one); the text names file and line.
    """
    known = splits_of(folder)
    chosen = [PrecompSplit.parse(split)] if split else [PrecompSplit(name, None) for name in known]
    for one in chosen:
        if one.name not in known:
            raise InputError(f"{folder}: no split {one.name!r}; the folder has {known}")
    return captioned(folder, (found for one in chosen for found in _photos(folder, one)))


def _photos(folder: Path, split: PrecompSplit) -> list[tuple[str, CaptionedPhoto]]:
    path = folder / f"{split.name}_caps.txt"
    lines = read_lines(path)
    images = rows_of_images(folder, split, len(lines), path)
    return [
        (
            f"{path}, lines {own.start + 1} to {own.stop}",
            CaptionedPhoto(image_id, split.name, tuple(lines[own])),
        )
        for image_id, own in images.items()
    ]
