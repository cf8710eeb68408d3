"""Adds images of feature stores to an index, encoded as its own are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from indexer.encoding.term_scores import WINDOW, ImageEncoder
from indexer.impacts import encode_rows
from indexer.manifest import Manifest
from indexer.metadata import Metadata, described
from indexer.postings import ImagePostings
from indexer.settings import TermSet
from indexer.shards import index_folders
from indexer.store.changes import Add
from indexer.store.given import with_given
from indexer.store.origin import origin_of
from indexer.update.dense import DenseFollower, WrittenImages
from indexer.update.former import FormerImages
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
        aside: images whose photos show something else than what the user gave fields to; the
            record keeps these fields.
    """

    added: int
    replaced: int
    images: int
    aside: int = 0


def add_images(
    index: Path,
    stores: Sequence[FeatureStore],
    models: Sequence[str | Path],
    *,
    asked: Path | None = None,
    metadata: Metadata | None = None,
    read_photos: bool = True,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> AddReport:
    """Encode images and write them to an index, where searches find them part by part.

    What was written before an interruption stays. What the user gave to an image stays with it as
    long as its photo shows the same; values of a former file do not.

    Args:
        index: the index folder.
        stores: feature stores of the same photos, the plain one first, as many as the index had.
        models: folders or hub names of the models that the index was built with.
        asked: the file of queries, if the index was built with one.
        metadata: of images, returned with every hit beside the photo's width and height.
        read_photos: whether EXIF, XMP and IPTC of the photos are metadata too, where their folder
            is known and still there.
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
    with (
        full_disk_reported(index),
        open_writer(index) as writer,
    ):
        former = FormerImages(index)
        progress("encode", 0, len(rows))
        for start in range(0, len(rows), WINDOW * batch_size):
            part = rows[start : start + WINDOW * batch_size]
            shard = described(encode_rows(encoder, part, parameters), photos)
            there = {image_id for image_id in shard.postings.ids if image_id in writer}
            added += len(part) - len(there)
            images = [encoder.store[row] for row in part]
            origins = [origin_of(image) for image in images]
            ids = shard.postings.ids
            follower.add(WrittenImages(images, origins, encoder.store, encoder.store.photos, ids))
            named = zip(shard.postings, origins, strict=True)
            about = metadata or {}
            writer.write([_addition(image, origin, former, about) for image, origin in named])
            writer.commit()
            progress("encode", part.stop, len(rows))
        return AddReport(added, len(rows) - added, len(writer), len(former.aside))


def _addition(image: ImagePostings, origin: str, former: FormerImages, metadata: Metadata) -> Add:
    """The change that adds an image, with what the user gave to it now and before."""
    now, before = metadata.get(image.image_id, {}), former.given_to(image)
    given = {**(before.fields if before else {}), **now}
    whole = with_given(image.metadata, given)
    noted = image.image_id in former.record or now
    return Add(replace(image, metadata=whole, origin=origin), given if noted else None)
