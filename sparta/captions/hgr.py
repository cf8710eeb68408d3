"""Captions of videos in the folders of HGR (MSR-VTT, VATEX, TGIF, Youtube2Text)."""

from __future__ import annotations

from pathlib import Path

from pydantic import RootModel

from sparta.captions.json_file import load_json, validate
from sparta.captions.record import CaptionedPhoto, captioned
from sparta.errors import InputError
from sparta.features.readers.hgr import SPLITS, read_names

CAPTIONS = Path("annotation", "RET", "ref_captions.json")


class _Captions(RootModel[dict[str, list[str]]]):
    pass


def read_hgr(root: Path, split: str | None = None) -> list[CaptionedPhoto]:
    """Videos of a split, or of all of them, with all their captions.

    Args:
        root: with `annotation/RET/ref_captions.json` (name → captions) and
            `public_split/{split}_names.npy`.
        split: "trn", "val" or "tst".

    Raises:
        InputError: if there is no such split, or a video is in two splits.
    """
    known = [name for name in SPLITS if (root / "public_split" / f"{name}_names.npy").exists()]
    if split not in (None, *known) or not known:
        raise InputError(f"{root}: no split {split!r}; public_split has names of {known}")
    path = root / CAPTIONS
    captions = validate(_Captions, load_json(path), str(path)).root
    return captioned(
        path,
        (
            (f"{path}: {video}", CaptionedPhoto(video, one, tuple(captions.get(video, ()))))
            for one in ([split] if split else known)
            for video in read_names(root, one)
        ),
    )
