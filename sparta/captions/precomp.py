"""Captions in the `precomp` folders of VSE++, SCAN and their descendants."""

from __future__ import annotations

from pathlib import Path

from sparta.captions.record import CaptionedPhoto, checked, each_once
from sparta.errors import InputError
from sparta.features.readers.parsing.text_lines import read_lines
from sparta.features.readers.precomp import PrecompSplit, image_ids, splits_of


def read_precomp(
    folder: Path, split: str | None = None, *, captions_per_photo: int = 5
) -> list[CaptionedPhoto]:
    """Photos of a split, or of all of them, with the ids of the feature store.

    Args:
        folder: with `{split}_caps.txt` (one caption a line, those of a photo together) and
            `{split}_ids.txt` (one id for each photo or for each caption).
        split: as the files call it; "dev:1000" for its first 1,000 photos, whose split is "dev".
        captions_per_photo: lines per photo.

    Raises:
        InputError: if there is no such split, numbers of lines disagree, a line is blank, or a
            photo appears twice (COCO's "test" is part of "testall": name one); the text names
            file and line.
    """
    known = splits_of(folder)
    chosen = [PrecompSplit.parse(split)] if split else [PrecompSplit(name, None) for name in known]
    for one in chosen:
        if one.name not in known:
            raise InputError(f"{folder}: no split {one.name!r}; the folder has {known}")
    return each_once(found for one in chosen for found in _photos(folder, one, captions_per_photo))


def _photos(folder: Path, split: PrecompSplit, group: int) -> list[tuple[str, CaptionedPhoto]]:
    path = folder / f"{split.name}_caps.txt"
    lines = read_lines(path)
    if not lines or len(lines) % group:
        raise InputError(
            f"{path}: expected a multiple of {group} lines, {group} captions a photo, found "
            f"{len(lines)}"
        )
    ids = image_ids(folder, split.name, len(lines) // group)[: split.limit]
    photos = []
    for start, image_id in zip(range(0, len(lines), group), ids, strict=False):
        where = f"{path}, lines {start + 1} to {start + group}"
        photos.append((where, checked(image_id, split.name, lines[start : start + group], where)))
    return photos
