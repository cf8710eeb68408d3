"""The formats of features that others extracted, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sparta.errors import InputError
from sparta.features.convert import FeatureReader
from sparta.features.hgr import SPLITS, HgrReader
from sparta.features.precomp import PrecompReader, splits_of
from sparta.features.vinvl import VinvlReader

Format = Literal["vinvl", "precomp", "hgr"]


def open_reader(
    name: Format,
    folders: Sequence[Path],
    splits: Sequence[str] = (),
    image_suffix: str = "",
    made_by: str | None = None,
) -> FeatureReader:
    """Open files of one of the formats.

    Args:
        name: of the format.
        folders: with the files; several are put together where the format allows it.
        splits: of them, where they hold several.
        image_suffix: put behind each key to make the image id.
        made_by: a name for what made the features; None for the format's own.

    Raises:
        InputError: if options do not fit the format, or the files are odd.
    """
    named = {} if made_by is None else {"name": made_by}
    if name == "vinvl":
        if splits:
            raise InputError("--split: VinVL's folders have no splits; name the folders you want")
        return VinvlReader(folders, image_suffix, **named)
    if len(folders) > 1:
        raise InputError(f"--from {name} takes one folder, found {len(folders)}")
    if not splits:
        known = SPLITS if name == "hgr" else splits_of(folders[0])
        raise InputError(f"--split: name one or more of {', '.join(known)}")
    if name == "precomp":
        return PrecompReader(folders[0], splits, image_suffix, **named)
    if image_suffix:
        raise InputError("--image-suffix: videos are named, leave it out")
    return HgrReader(folders[0], splits, **named)
