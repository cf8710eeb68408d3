"""Photos that captions or queries name and that an index or a feature store lacks."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from indexer.care.copies import copy_index
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE, MANIFEST
from indexer.shards import index_folders
from indexer.update.delete import delete_images
from sparta.captions.matching import some_of, stored_ids
from sparta.errors import InputError
from sparta.features.extract.decode_pool import default_workers
from sparta.features.store import FeatureStore
from sparta.vse.photo_folder import PhotoFolder

AT_ONCE = 1000  # images of an index that are read together

Store = FeatureStore | PhotoFolder

log = logging.getLogger(__name__)


def check_missing(
    missing: Sequence[object],
    wanted: int,
    others: Iterable[str],
    what: str,
    where: object,
    allowed: bool | None,
    remedy: str = "choose a --split that it has",
) -> None:
    """Refuse to measure without some photos, unless the user allows it and others are left.

    Args:
        missing: their ids.
        wanted: how many photos are asked for.
        others: ids that there are, for the message.
        what: is asked for, such as "captioned photos".
        where: the photos are missing.
        allowed: --allow-missing; None for a command without this option.
        remedy: what else the user may do.

    Raises:
        InputError: naming three of the missing ids beside three others.
    """
    if not missing or (allowed and len(missing) < wanted):
        return
    if len(missing) == wanted:
        remedy += ", or name the photos by its ids"
    elif allowed is not None:
        remedy += ", or leave the missing ones out with --allow-missing"
    raise InputError(
        f"{where} lacks {len(missing):,} of the {wanted:,} {what}: {some_of(missing)}; it has "
        f"{some_of(others)}: {remedy}"
    )


def missing_in(
    stores: Iterable[Store],
    wanted: Sequence[str],
    allowed: bool | None,
    what: str = "captioned photos",
) -> set[str]:
    """The photos that at least one store lacks.

    Args:
        stores: of features, or of photos; those that cannot be read count as missing.
        wanted: the photos.
        allowed: see `check_missing`.
        what: likewise.

    Raises:
        InputError: if some are missing and that is not allowed, or all are.
    """
    missing: set[str] = set()
    for folder, store in {store.folder: store for store in stores}.items():
        own = stored_ids(wanted, set(store.ids), str(folder))
        there = held(store, own.values())
        lacking = [one for one in wanted if own.get(one) not in there]
        check_missing(lacking, len(wanted), store.ids, what, folder, allowed)
        missing.update(lacking)
    check_missing([*missing], len(wanted), (), what, "what all --features have in common", allowed)
    return missing


def held(store: Store, ids: Iterable[str]) -> set[str]:
    """Those of some ids that a store has; of photos, those that can be read."""
    found = set(store.ids).intersection(ids)
    if isinstance(store, PhotoFolder) and found:
        photos = PhotoFolder(store.folder, store.source, found)
        for one in photos.unreadable(default_workers()):
            log.warning("%s: %s", store.folder / one.image_id, one.reason)
            found.remove(one.image_id)
    return found


def ids_of_index(index: Path) -> Iterator[str]:
    """The ids of all images of an index, in shards or not."""
    for folder in index_folders(index):
        with closing(LuceneIndex(folder / LUCENE)) as images:
            for start in range(0, images.documents, AT_ONCE):
                some = range(start, min(start + AT_ONCE, images.documents))
                for document, stored in zip(some, images.read_stored(some), strict=True):
                    if images.live is None or images.live[document]:
                        yield stored.image_id


@contextmanager
def index_of(index: Path, image_ids: Container[str]) -> Iterator[Path]:
    """A temporary copy of an index, from which all other images are deleted."""
    with TemporaryDirectory() as work:
        copy = Path(work) / "index"
        if index_folders(index) == [index]:
            copy_index(index, copy)
        else:
            copy.mkdir()
            shutil.copy(index / MANIFEST, copy)
            for folder in index_folders(index):
                copy_index(folder, copy / folder.name)
        delete_images(copy, [one for one in ids_of_index(copy) if one not in image_ids])
        yield copy
