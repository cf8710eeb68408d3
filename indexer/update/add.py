"""Adds images of feature stores to an index, encoded as its own are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from indexer.encoding.term_scores import WINDOW, ImageEncoder
from indexer.impacts import encode_rows
from indexer.live.changes import Add
from indexer.live.origin import origin_of
from indexer.manifest import Manifest
from indexer.metadata import RESERVED, Metadata, described
from indexer.postings import ImagePostings
from indexer.settings import TermSet
from indexer.shards import index_folders
from indexer.update.dense import DenseFollower, WrittenImages
from indexer.update.parameters import parameters_of
from indexer.update.writer import open_writer
from sparta.disk import full_disk_reported
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress


@dataclass(frozen=True)
class AddReport:
    """What adding images did.

    Attributes:
        added: images that the index lacked.
        replaced: images that took the place of one with their id.
        images: in the index afterwards.
    """

    added: int
    replaced: int
    images: int


def add_images(
    index: Path,
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    *,
    asked: Path | None = None,
    metadata: Metadata | None = None,
    read_photos: bool = True,
    keep_fields: bool = False,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> AddReport:
    """Encode images and write them to an index, where searches find them part by part.

    What was written before an interruption stays.

    Args:
        index: the index folder.
        stores: feature stores of the same photos, the plain one first, as many as the index had.
        models: folders or hub names of the models that the index was built with.
        asked: the file of queries, if the index was built with one.
        metadata: of images, returned with every hit beside the photo's width and height.
        read_photos: whether EXIF, XMP and IPTC of the photos are metadata too, where their folder
            is known and still there.
        keep_fields: whether images that are replaced keep fields that the new ones lack.
        batch_size: images per pass of a model.
        device: "auto" takes a GPU if there is one.
        progress: stages "convert", in models, and "encode", in images.

    Raises:
        InputError: if the folder is not an index, models or stores are not like the index's,
            another process is writing it, or the disk is full.
    """
    first = index_folders(index)[0]  # shards are encoded alike
    manifest = Manifest.open(first)
    terms: TermSet = "trained" if manifest.terms == "trained" else "all"
    encoder = ImageEncoder.open(stores, models, batch_size, device, terms, progress)
    parameters = parameters_of(first, manifest, encoder, len(stores), asked)
    photos = encoder.store.photos if read_photos else None
    rows, added, follower = range(len(encoder.store)), 0, DenseFollower(first, device)
    with full_disk_reported(index), open_writer(index) as writer:
        progress("encode", 0, len(rows))
        for start in range(0, len(rows), WINDOW * batch_size):
            part = rows[start : start + WINDOW * batch_size]
            shard = described(encode_rows(encoder, part, parameters), metadata or {}, photos)
            there = {image_id for image_id in shard.postings.ids if image_id in writer}
            added += len(part) - len(there)
            images = [encoder.store[row] for row in part]
            origins = [origin_of(image) for image in images]
            ids = shard.postings.ids
            follower.add(WrittenImages(images, origins, encoder.store, encoder.store.photos, ids))
            former = {one: writer.metadata(one) for one in there if keep_fields}
            named = map(_with_origin, shard.postings, origins)
            writer.write([Add(_with_fields(image, former)) for image in named])
            writer.commit()
            progress("encode", part.stop, len(rows))
        return AddReport(added, len(rows) - added, len(writer))


def _with_origin(image: ImagePostings, origin: str) -> ImagePostings:
    return replace(image, origin=origin)


def _with_fields(image: ImagePostings, former: Metadata) -> ImagePostings:
    """An image with the fields of a former one that it lacks, but for those of its photo."""
    fields = {k: v for k, v in former.get(image.image_id, {}).items() if k not in RESERVED}
    return replace(image, metadata={**fields, **image.metadata})
