"""What is known of a folder's photos before they are compared for the first time."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime
from pathlib import Path

from indexer.live.given import read_given
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest
from indexer.parts import LUCENE
from indexer.update.sync.scan import Scan
from indexer.update.sync.seen import Seen, SeenPhotos
from sparta.errors import InputError
from sparta.features.extract.listing import Stamp
from sparta.features.extract.photos import not_utf8
from sparta.features.skipped import read_skipped
from sparta.features.store import FeatureStore, read_header
from sparta.features.unchanged import load_stamps

FEATURES = "plain"  # of the stores that an index was built from


def as_built(index: Path, root: Path, scan: Scan) -> SeenPhotos:
    """The photos that an index has from its build.

    The feature store beside the index recorded the size of each file; without it, metadata of the
    images has it, and which photos have vanished is unknown. A file of the same size counts as the
    same: times are often those of a copy, and encoding a whole library again takes hours. Where
    no size is known, files older than the index do. A photo that was deleted from the index counts
    as seen until its size changes.

    Args:
        index: the index folder.
        root: the folder that ids are relative to.
        scan: its photos.
    """
    manifest = Manifest.read(index)
    stamps = _recorded(index, manifest, root, scan)
    seen = _by_metadata(index, manifest, scan) if stamps is None else stamps
    for image_id, given in read_given(index).items():
        stamp = scan.photos.get(image_id)
        if stamp is not None and any(one.deleted and one.fits(stamp.bytes) for one in given):
            seen.setdefault(image_id, Seen(stamp))
    return SeenPhotos(root, seen)


def _recorded(index: Path, manifest: Manifest, root: Path, scan: Scan) -> dict[str, Seen] | None:
    """From the feature store that the index was built from, None if it is not there."""
    folder = index.with_name(f"{index.name}.features") / FEATURES
    try:
        store = FeatureStore.open(folder)
    except (InputError, OSError):
        return None
    photos = store.photos
    if store.fingerprint != manifest.features[0] or not photos:
        return None
    if Path(os.path.realpath(photos)) != root:
        return None
    problems = {one.image_id: one.reason for one in read_skipped(folder)}
    seen = {}
    for image_id, numbers in load_stamps(folder, read_header(folder)).items():
        recorded, now = Stamp(*numbers), scan.photos.get(image_id)
        if not now and (image_id in problems or not_utf8(image_id)):
            continue  # the index never had it
        same = now is not None and now.bytes == recorded.bytes
        seen[image_id] = Seen(now if now and same else recorded, None, problems.get(image_id))
    return seen


def _by_metadata(index: Path, manifest: Manifest, scan: Scan) -> dict[str, Seen]:
    """From the sizes that the index has in its metadata, and the time when it was built."""
    built = datetime.fromisoformat(manifest.created).timestamp() * 1e9
    seen = {}
    with closing(LuceneIndex(index / LUCENE)) as images:
        for image_id, stamp in scan.photos.items():
            document = images.document(image_id)
            if document is not None:
                recorded = images.stored(document).metadata.get("bytes")
                if recorded == stamp.bytes or (recorded is None and stamp.mtime_ns <= built):
                    seen[image_id] = Seen(stamp)
    return seen
