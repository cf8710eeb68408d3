"""The formats of features extracted by other software, by name, and their import into a store."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from sparta.addresses import check_id
from sparta.errors import InputError
from sparta.features.record import METADATA, SKIPPED, ImageFeatures, Skipped
from sparta.features.store import FeatureStore
from sparta.features.writer import SHARD_SIZE, StoreWriter
from sparta.files import check_room, full_disk_reported, writing
from sparta.progress import Progress, no_progress
from sparta.readers import bottom_up, embeddings, oscar, oscar_tsv, splits
from sparta.readers.base import FeatureReader, ImportOptions, RegionLimit
from sparta.readers.bottom_up import BOTTOM_UP, LXMERT, BottomUpReader
from sparta.readers.oscar import OscarReader

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
    "embeddings",
]


@dataclass(frozen=True)
class ForeignFormat:
    """A format and what opens it."""

    paths: str  # what the user names, for messages
    # Whether a path looks like this format, by names and at most a first line
    fits: Callable[[Path], bool]
    open: Callable[[Sequence[Path], ImportOptions], FeatureReader]  # opens the reader
    made_by: str  # what made the features, where the user does not say; "" for the folder's name
    # Lists those of a folder; None where the format has none
    splits: Callable[[Path], Sequence[str]] | None = None
    # Whether its labels are numbers, for which the reader takes a vocabulary
    numbered: bool = False
    scored: bool = False  # whether its attributes may have confidences


FORMATS: Mapping[Format, ForeignFormat] = {
    "vinvl": ForeignFormat(
        "folders with features.tsv and predictions.tsv",
        oscar.fits_vinvl,
        partial(OscarReader, oscar.open_vinvl),
        "vinvl",
        scored=True,
    ),
    "oscar-pt": ForeignFormat(
        "SPLIT_img_KIND_feats.pt with SPLIT_KIND_labels.pt beside it, or folders of them",
        oscar.fits_pt,
        partial(OscarReader, oscar.open_pt),
        "oscar",
        scored=True,
    ),
    "oscar-captioning": ForeignFormat(
        "YAML files that name feature, label and hw, or folders of them",
        oscar_tsv.fits_captioning,
        partial(OscarReader, oscar_tsv.open_captioning),
        "vinvl",
        scored=True,
    ),
    "scene-graph": ForeignFormat(
        "predictions.tsv with an .hw.tsv beside it, or folders of them",
        oscar_tsv.fits_scene_graph,
        partial(OscarReader, oscar_tsv.open_scene_graph),
        "vinvl",
        scored=True,
    ),
    "bottom-up": ForeignFormat(
        f"TSVs with {', '.join(BOTTOM_UP.names)}",
        BOTTOM_UP.fit,
        partial(BottomUpReader, BOTTOM_UP),
        "bottom-up",
    ),
    "lxmert": ForeignFormat(
        f"TSVs with {', '.join(LXMERT.names)}",
        LXMERT.fit,
        partial(BottomUpReader, LXMERT),
        "lxmert",
        numbered=True,
        scored=True,
    ),
    "bottom-up-npz": ForeignFormat(
        f"folders of .npz files with {', '.join(bottom_up.NPZ_ARRAYS)}",
        bottom_up.fits_npz,
        bottom_up.BottomUpNpzReader,
        "bottom-up-npz",
        numbered=True,
        scored=True,
    ),
    "precomp": ForeignFormat(
        "a folder with SPLIT_ims.npy and SPLIT_ids.txt",
        splits.fits,
        splits.PrecompReader,
        "precomp",
        lambda folder: splits.splits_of(folder, "_ims.npy"),
    ),
    "hgr": ForeignFormat(
        "a folder with SPLIT_ft.hdf5 or SPLIT_ft.npy",
        splits.fits_hgr,
        splits.HgrReader,
        "",
        lambda _folder: splits.HGR_SPLITS,
    ),
    "embeddings": ForeignFormat(
        f"{', '.join(embeddings.SUFFIXES)} of a dual encoder, or clip-retrieval's folders",
        embeddings.fits,
        embeddings.EmbeddingReader,
        "embeddings",
    ),
}


def fitting(paths: Sequence[str | Path]) -> list[Format]:
    """Names of the formats that all the paths look like."""
    return [name for name, known in FORMATS.items() if all(_fits(known, path) for path in paths)]


def detect(paths: Sequence[str | Path]) -> Format:
    """The format of some paths."""
    for path in map(Path, paths):
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


def _fits(known: ForeignFormat, path: str | Path) -> bool:
    try:
        return known.fits(Path(path))
    except OSError:  # such as a folder that may not be read
        return False


def open_reader(
    name: Format,
    paths: Sequence[str | Path],
    splits: Sequence[str] = (),
    image_suffix: str = "",
    made_by: str | None = None,
    limit: RegionLimit = RegionLimit(),
    vocabulary: str | Path | None = None,
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
    if vocabulary is not None and not known.numbered:
        raise InputError(f"--classes: labels of {name} are not numbers; leave it out")
    if limit.attributes is not None and not known.scored:
        raise InputError(f"--attributes: files of {name} have no attributes; leave it out")
    if known.splits is None:
        if splits:
            raise InputError(f"--split: files of {name} have no splits; name the files to import")
    elif len(paths) > 1:
        raise InputError(f"{name} takes one folder, found {len(paths)}")
    elif not splits:
        raise InputError(f"--split: name one or more of {', '.join(known.splits(Path(paths[0])))}")
    elif not limit.all_regions:
        raise InputError(f"--regions and --keep: {name} takes all that its files have")
    made_by = known.made_by if made_by is None else made_by
    words = None if vocabulary is None else Path(vocabulary)
    options = ImportOptions(made_by, splits, image_suffix, limit, words)
    return known.open([Path(path) for path in paths], options)


# ---- import --------------------------------------------------------------------------------------


def import_features(
    reader: FeatureReader, out: str | Path, progress: Progress = no_progress, skip_bad: bool = False
) -> FeatureStore:
    """Write a reader's images into a store, a shard at a time in memory.

    A run that was killed, or ended at a malformed image, continues when it is called again. With
    `skip_bad` a malformed image is left out and listed in `out/skipped.jsonl`. Progress has the
    stage "import", in images. Raises InputError if an image is malformed and not to be skipped, all
    are, `out` holds features of other inputs, another process is writing it, or the disk has too
    little room.
    """
    images, out = len(reader.ids), Path(out)
    files = [f"{path.resolve()}\0{path.stat().st_size}" for path in reader.files]
    listing = {
        "files": f"{len(files)} with hash {_hash(files)}",
        "images": f"{images} with hash {_hash(reader.ids)}",
    }
    with writing(out), full_disk_reported(out):
        writer = StoreWriter(out, reader.source, inputs=listing)
        if writer.complete:
            return FeatureStore.open(out)
        for start in range(writer.done * SHARD_SIZE, images, SHARD_SIZE):
            rows = range(start, min(start + SHARD_SIZE, images))
            writer.write_shard(*_read(reader, rows, skip_bad))
            check_room(out, (images - rows.stop) * writer.shard_bytes // SHARD_SIZE)
            progress("import", rows.stop, images)
        if not writer.images:
            raise InputError(f"no image could be used; {out / SKIPPED} says why")
        if (about := reader.metadata()) is not None:
            with (out / METADATA).open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(one, default=str) + "\n" for one in about)
        return writer.finish()


def _read(
    reader: FeatureReader, rows: range, skip_bad: bool
) -> tuple[list[ImageFeatures], list[Skipped]]:
    """The images of some rows, and those that are malformed."""
    images: list[ImageFeatures] = []
    skipped: list[Skipped] = []
    for row in rows:
        try:
            image = reader[row]
            check_id(image.image_id)
            images.append(image)
        except InputError as error:
            if not skip_bad:
                raise InputError(
                    f"{error}. Images like this are left out with --skip-bad"
                ) from error
            skipped.append(Skipped(reader.ids[row], str(error)))
    return images, skipped


def _hash(lines: Sequence[str]) -> str:
    """Hash by which another run notices other files (by name and size) or images."""
    return hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()[:16]
