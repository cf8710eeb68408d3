"""The formats of features extracted by other software, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sparta.errors import InputError
from sparta.features.readers import (
    bottom_up,
    bottom_up_npz,
    hgr,
    lxmert,
    oscar_captioning,
    oscar_pt,
    precomp,
    scene_graph,
    vinvl,
)
from sparta.features.readers.base import FeatureReader
from sparta.features.readers.parsing.region_limit import RegionLimit

Format = Literal[
    "vinvl",
    "oscar-pt",
    "oscar-captioning",
    "scene-graph",
    "bottom-up",
    "lxmert",
    "bottom-up-npz",
    "precomp",
    "hgr",
]


@dataclass(frozen=True)
class ForeignFormat:
    """A format and what opens it.

    Attributes:
        paths: what the user names, for messages.
        fits: whether a path looks like this format, by names and at most a first line.
        reader: class whose instances are its readers: of (paths, image_suffix, name, limit), or
            of (folder, splits, ...) where there are splits.
        splits: lists those of a folder; None where the format has none.
        numbered: whether its labels are numbers, for which the reader takes a vocabulary.
        scored: whether its attributes may have confidences.
    """

    paths: str
    fits: Callable[[Path], bool]
    reader: Callable[..., FeatureReader]
    splits: Callable[[Path], Sequence[str]] | None = None
    numbered: bool = False
    scored: bool = False


FORMATS: Mapping[Format, ForeignFormat] = {
    "vinvl": ForeignFormat(
        "folders with features.tsv and predictions.tsv",
        vinvl.fits,
        vinvl.VinvlReader,
        scored=True,
    ),
    "oscar-pt": ForeignFormat(
        "SPLIT_img_KIND_feats.pt with SPLIT_KIND_labels.pt beside it, or folders of them",
        oscar_pt.fits,
        oscar_pt.OscarPtReader,
        scored=True,
    ),
    "oscar-captioning": ForeignFormat(
        "YAML files that name feature, label and hw, or folders of them",
        oscar_captioning.fits,
        oscar_captioning.OscarCaptioningReader,
        scored=True,
    ),
    "scene-graph": ForeignFormat(
        "predictions.tsv with an .hw.tsv beside it, or folders of them",
        scene_graph.fits,
        scene_graph.SceneGraphReader,
        scored=True,
    ),
    "bottom-up": ForeignFormat(
        f"TSVs with {', '.join(bottom_up.COLUMNS.names)}", bottom_up.fits, bottom_up.BottomUpReader
    ),
    "lxmert": ForeignFormat(
        f"TSVs with {', '.join(lxmert.COLUMNS.names)}",
        lxmert.fits,
        lxmert.LxmertReader,
        numbered=True,
        scored=True,
    ),
    "bottom-up-npz": ForeignFormat(
        f"folders of .npz files with {', '.join(bottom_up_npz.NEEDED)}",
        bottom_up_npz.fits,
        bottom_up_npz.BottomUpNpzReader,
        numbered=True,
        scored=True,
    ),
    "precomp": ForeignFormat(
        "a folder with SPLIT_ims.npy and SPLIT_ids.txt",
        precomp.fits,
        precomp.PrecompReader,
        lambda folder: precomp.splits_of(folder, "_ims.npy"),
    ),
    "hgr": ForeignFormat(
        "a folder with SPLIT_ft.hdf5 or SPLIT_ft.npy",
        hgr.fits,
        hgr.HgrReader,
        lambda _folder: hgr.SPLITS,
    ),
}


def fitting(paths: Sequence[Path]) -> list[Format]:
    """Names of the formats that all the paths look like."""
    return [name for name, known in FORMATS.items() if all(_fits(known, path) for path in paths)]


def detect(paths: Sequence[Path]) -> Format:
    """The format of some paths.

    Raises:
        InputError: if they look like none, or like several.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist")
    found = fitting(paths)
    if len(found) == 1:
        return found[0]
    places = ", ".join(map(str, paths))
    if found:
        raise InputError(f"{places}: could be {' or '.join(found)}; name one instead of auto")
    known = "; ".join(f"{name} ({known.paths})" for name, known in FORMATS.items())
    raise InputError(f"{places}: no format fits; name one instead of auto: {known}")


def _fits(known: ForeignFormat, path: Path) -> bool:
    try:
        return known.fits(path)
    except OSError:  # such as a folder that may not be read
        return False


def open_reader(
    name: Format,
    paths: Sequence[Path],
    splits: Sequence[str] = (),
    image_suffix: str = "",
    made_by: str | None = None,
    limit: RegionLimit = RegionLimit(),
    vocabulary: Path | None = None,
) -> FeatureReader:
    """Open files of one of the formats.

    Args:
        name: name of the format.
        paths: files or folders; several are combined where the format allows it.
        splits: of them, where they hold several.
        image_suffix: appended to each key to make the image id.
        made_by: a name for what made the features; None for the format's own.
        limit: which regions and attributes to keep.
        vocabulary: folder of the words for numbered labels; None for regions without labels.

    Raises:
        InputError: if options do not fit the format, or the files are malformed.
    """
    known = FORMATS[name]
    named: dict[str, Any] = {} if made_by is None else {"name": made_by}
    if vocabulary is not None:
        if not known.numbered:
            raise InputError(f"--vocabulary: labels of {name} are not numbers; leave it out")
        named["vocabulary"] = vocabulary
    if limit.attributes is not None and not known.scored:
        raise InputError(f"--attributes: files of {name} have no attributes; leave it out")
    if known.splits is None:
        if splits:
            raise InputError(f"--split: files of {name} have no splits; name the files to import")
        return known.reader(paths, image_suffix, limit=limit, **named)
    if len(paths) > 1:
        raise InputError(f"{name} takes one folder, found {len(paths)}")
    if not splits:
        raise InputError(f"--split: name one or more of {', '.join(known.splits(paths[0]))}")
    if not limit.all_regions:
        raise InputError(f"--regions and --keep: {name} takes all that its files have")
    if name == "precomp":
        return known.reader(paths[0], splits, image_suffix, **named)
    if image_suffix:
        raise InputError("--image-suffix: videos are named, leave it out")
    return known.reader(paths[0], splits, **named)
