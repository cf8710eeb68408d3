"""Images added (feature stores, single photos), deleted, and given other metadata."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer.dense.manifest import MODEL, DenseManifest, dense_folder, dense_names
from indexer.dense.vectors import AddedRows, read_content_ids
from indexer.encoding.encoder import WINDOW, ImageEncoder, parameters_of
from indexer.encoding.features import check_features, feature_source
from indexer.encoding.impacts import ImpactParameters
from indexer.encoding.scorers import load_scorers
from indexer.manifest import Manifest, check_whole, index_folders, located
from indexer.metadata import Metadata, described
from indexer.postings import ImagePostings
from indexer.store.changes import Add, Delete, MetadataChange
from indexer.store.given import FormerImages, with_given
from indexer.store.images import content_id_of
from indexer.update.sync_plan import note_added
from indexer.update.writer import Writer, open_writer
from sparta.errors import InputError
from sparta.extract.extractor import Extractor, load_extractor_of
from sparta.extract.job import augmentation_names
from sparta.extract.photo_metadata import photo_metadata
from sparta.extract.photos import Augmentation, Photo
from sparta.extras import require
from sparta.features.record import BFLOAT16, FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.files import full_disk_reported
from sparta.model_id import model_folder
from sparta.progress import Progress, no_progress

if TYPE_CHECKING:
    from sparta.vse.batch import ImageInput
    from sparta.vse.model import VseModel

BATCH = 32  # images per pass of a model

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WrittenImages:
    """Images that are about to be written, to the index that has their content ids.

    Attributes:
        features: of each.
        content_ids: of each.
        source: of the features.
        where: the features are, for messages.
        photos: the folder that `names` are relative to, None if there are no photos.
        names: of the photos.
    """

    features: Sequence[ImageFeatures]
    content_ids: Sequence[str]
    source: FeatureSource
    where: Path
    photos: Path | None
    names: Sequence[str]


class DenseFollower:
    """Embeds images with the models of an index's dense parts, which are loaded when needed.

    A part whose model cannot embed them does not get them, and a warning says why: once, however
    many images it lacks. The caller is the index's one writer, and has made it live.
    """

    def __init__(self, index: Path, device: str = "auto") -> None:
        self._index, self._device = index, device
        self._parts: dict[str, _DensePartWriter | None] = {}
        self._warned: set[str] = set()

    def add(self, images: WrittenImages) -> None:
        """Store vectors of some images, before these are written; raises OSError."""
        for name in dense_names(self._index):
            try:
                if name not in self._parts:
                    self._parts[name] = None  # if it cannot be opened
                    self._parts[name] = _DensePartWriter(self._index, name, self._device)
                part = self._parts[name]
                if part is not None:
                    part.add(images)
            except InputError as error:
                self._warn(f"{self._index}: images have no vectors of {name}: {error}")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)


class _DensePartWriter:
    """A dense part, and its model on a device."""

    def __init__(self, index: Path, name: str, device: str) -> None:
        require("torch")
        from indexer.dense.text_encoder import load_part_model
        from sparta.networks.backbone import pick_device
        from sparta.text_encoder import move

        self._folder = dense_folder(index, name)
        made = DenseManifest.open(index, name, Manifest.open(index))
        self._rows = AddedRows(self._folder, made.views, made.dimension)
        self._known = {*read_content_ids(self._folder).to_pylist(), *self._rows.content_ids()}
        self._model: VseModel = load_part_model(self._folder / MODEL, made.model)
        move(self._model, pick_device(device))

    def add(self, images: WrittenImages) -> None:
        """Append vectors of the images that it has none of."""
        from indexer.dense.build import embed, pixels

        wanted = {o: place for place, o in enumerate(images.content_ids) if o not in self._known}
        if not wanted:
            return
        model = self._model
        if model.vision is None:
            check_features(self._folder / MODEL, model.config, images.source, images.where)
        elif images.photos is None:
            raise InputError("its model takes photos")
        found = []
        for first in range(0, len(wanted), BATCH):
            places = list(wanted.values())[first : first + BATCH]
            features = [images.features[place] for place in places]
            inputs: Sequence[ImageInput] = features
            if model.vision is not None and images.photos is not None:
                inputs = pixels(model, images.photos, [images.names[place] for place in places])
            found.append(embed(model, inputs, [image.image_id for image in features]))
        self._rows.append(list(wanted), np.concatenate(found))
        self._known |= wanted.keys()


AT_ONCE = 4096  # changes in a record of the log


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
    frequencies: Path | None = None,
    metadata: Metadata | None = None,
    read_photos: bool = True,
    note: bool = False,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> AddReport:
    """Encode images and write them to an index, where searches find them part by part.

    What was written before an interruption stays. What the user gave to an image stays with it as
    long as its photo shows the same; values of a former file do not.

    Stores are of the same photos, the plain one first, as many as the index had, `models` those
    that it was built with, and `frequencies` the file of queries, if there was one; the rest is as
    for `build_index`. With `note`, `sparta sync` does not encode the photos, just extracted, again.
    Progress has the stages "convert", in models, and "encode", in images.

    Raises InputError if the folder is not an index, models or stores are not like the index's,
    another process is writing it, or the disk is full.
    """
    check_whole(index)
    index = located(index).resolve()  # an alias may be switched meanwhile
    first = index_folders(index)[0]  # shards are encoded alike
    manifest, follower = Manifest.open(first), DenseFollower(first, device)
    encoder = ImageEncoder.open(stores, models, batch_size, device, manifest.terms, progress)
    parameters = parameters_of(first, manifest, encoder, len(stores), frequencies)
    _compare_precision(first, manifest, stores[0].source)
    plain, rows, added = stores[0], range(len(stores[0])), 0
    photos = plain.photos if read_photos else None
    with full_disk_reported(index), open_writer(index) as writer:
        former = FormerImages(index)
        progress("encode", 0, len(rows))
        for start in range(0, len(rows), WINDOW * batch_size):
            part = rows[start : start + WINDOW * batch_size]
            copies = [[store[row] for row in part] for store in stores]
            shard = described(parameters.postings(encoder.score(copies)), photos)
            ids, content_ids = shard.postings.ids, [content_id_of(image) for image in copies[0]]
            added += sum(image_id not in writer for image_id in ids)
            where = plain.source, plain.folder, plain.photos
            follower.add(WrittenImages(copies[0], content_ids, *where, ids))
            named = zip(shard.postings, content_ids, strict=True)
            about = metadata or {}
            writer.write(
                [_addition(image, content_id, former, about) for image, content_id in named]
            )
            writer.commit()
            progress("encode", part.stop, len(rows))
        if note:
            with suppress(OSError):  # then a sync encodes the photos again
                note_added(index, plain)  # while no copy can take the index's place
        return AddReport(added, len(rows) - added, len(writer), len(former.aside))


def models_of(index: Path, given: Sequence[str | Path] = ()) -> Sequence[str | Path]:
    """The models to encode with: the given ones, else those that the index was built with.

    Raises InputError if the folder is not an index, or one of its models is gone.
    """
    if given:
        return given
    names = Manifest.of(index).model_names or ["photos"]  # as in 0.2.0
    try:
        return [name for name in names if model_folder(name, weights=False)]
    except InputError as error:
        where = "give the model's new place with --model"
        raise InputError(f"{error}; {index} was built with it: {where}") from error


def _compare_precision(index: Path, manifest: Manifest, source: FeatureSource) -> None:
    if source.precision != manifest.precision:
        both = manifest.precision, source.precision
        log.warning("%s is in %s, added photos in %s: for one, build it again", index, *both)


def _addition(
    image: ImagePostings, content_id: str, former: FormerImages, metadata: Metadata
) -> Add:
    """The change that adds an image, with what the user gave to it now and before."""
    now, before = metadata.get(image.image_id, {}), former.given_to(image)
    given = {**(before.fields if before else {}), **now}
    whole = with_given(image.metadata, given)
    noted = image.image_id in former.record or now
    return Add(replace(image, metadata=whole, content_id=content_id), given if noted else None)


class ResidentEncoder:
    """Photos or features → postings of an index; networks are loaded when needed.

    Without `models` it uses the index's own. Vectors that dense models of the index have of them
    are stored at once, so that they are there when the image is. Not safe for several threads at
    once; the caller is the index's one writer. Raises InputError if the folder is not an index.
    """

    def __init__(self, index: Path, models: Sequence[str | Path], device: str = "auto") -> None:
        self._index, self._models, self._device = index, models_of(index, models), device
        self._manifest = Manifest.open(index)
        self._follower = DenseFollower(index, device)
        self._encoding: tuple[ImageEncoder, ImpactParameters] | None = None

    def photo(self, image_id: str, path: Path) -> ImagePostings:
        """The postings of a photo as `sparta add` would write them, with what its file says.

        Raises InputError if the photo cannot be used, or the index was built from something else.
        """
        copies = [
            self._regions(image_id, path, Augmentation(name))
            for name in augmentation_names(len(self._manifest.features))
        ]
        image = self._encode(copies, path)
        return replace(image, metadata={**image.metadata, **photo_metadata(path)})

    def features(self, image: ImageFeatures) -> ImagePostings:
        """The postings of an image whose features were extracted elsewhere.

        Raises InputError if the models take other features.
        """
        source = self._source
        grid = source.extra.get("grid")
        regions = grid * grid + 1 if grid else None
        if image.features.shape[1] != source.dimension or len(image.features) != (
            regions or len(image.features)
        ):
            wanted = f"[{regions or 'regions'}, {source.dimension}]"
            raise InputError(f"the features are {list(image.features.shape)}, not {wanted}")
        return self._encode([image])

    def _regions(self, image_id: str, path: Path, augmentation: Augmentation) -> ImageFeatures:
        decoder = self._extractor.decoder(path.parent, augmentation)
        photo = decoder.decode(path.name, augmentation.of(image_id))
        if not isinstance(photo, Photo):
            raise InputError(f"the photo cannot be used: {photo.reason}")
        [found] = self._extractor([replace(photo, image_id=image_id)])
        if not np.isfinite(found.features).all():
            raise InputError("the photo cannot be used: the network's output exceeds float16")
        return found

    def _encode(self, copies: Sequence[ImageFeatures], path: Path | None = None) -> ImagePostings:
        plain, content_id = copies[0], content_id_of(copies[0])
        if self._encoding is None:
            kind, regions, terms = self._source.kind, len(plain.features), self._manifest.terms
            loaded = load_scorers(self._models, kind, regions, self._device, terms)
            encoder = ImageEncoder(*loaded, [], 1, terms)
            found = parameters_of(self._index, self._manifest, encoder, len(copies))
            self._encoding = encoder, found
        encoder, parameters = self._encoding
        [image] = parameters.postings(encoder.score([[one] for one in copies])).postings
        where = self._source, Path(plain.image_id), path and path.parent
        self._follower.add(
            WrittenImages([plain], [content_id], *where, [path.name] if path else [])
        )
        return replace(image, content_id=content_id)

    @cached_property
    def _source(self) -> FeatureSource:
        return feature_source(self._models, "visual_sparta")

    @cached_property
    def _extractor(self) -> Extractor:
        bfloat16 = self._manifest.precision == BFLOAT16
        extractor = load_extractor_of(self._source, self._device, bfloat16)
        _compare_precision(self._index, self._manifest, extractor.source)
        return extractor


def delete_images(index: Path, ids: Sequence[str]) -> int:
    """Delete images, or none if the index lacks one. An interruption leaves some deleted.

    Returns how many images are left. Raises InputError if the folder is not an index, lacks one of
    the images, or another process is writing it.
    """
    with open_writer(index) as writer:
        absent = [image_id for image_id in ids if image_id not in writer]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise InputError(
                f"{index} has no image {absent[0]!r}{more}: give ids as sparta search shows them; "
                "nothing was deleted"
            )
        for start in range(0, len(ids), AT_ONCE):
            writer.write([Delete(image_id) for image_id in ids[start : start + AT_ONCE]])
        writer.commit()
        return len(writer)


@dataclass(frozen=True)
class UpdateReport:
    """What a change of metadata did.

    Attributes:
        changed: images with other metadata than before.
        unchanged: images that had these values already.
        unknown: ids that the index does not have.
    """

    changed: int
    unchanged: int
    unknown: list[str]


def update_metadata(
    index: Path, metadata: Metadata, progress: Progress = no_progress
) -> UpdateReport:
    """Change fields of images, None removes one; their terms, and fields that are not given, stay.

    What was written before an interruption stays, and is unchanged the next time. Progress has the
    stage "update", in images. Raises InputError if the folder is not an index, a value cannot be
    written, another process is writing the index, or the disk is full.
    """
    with full_disk_reported(index), open_writer(index) as writer:
        unknown = [image_id for image_id in metadata if image_id not in writer]
        changes = _changes(writer, metadata, progress)
        changed = 0
        while part := list(islice(changes, AT_ONCE)):
            writer.write(part)
            changed += len(part)
    return UpdateReport(changed, len(metadata) - len(unknown) - changed, unknown)


def _changes(writer: Writer, metadata: Metadata, progress: Progress) -> Iterator[MetadataChange]:
    """What has to be written, image by image."""
    for done, (image_id, fields) in enumerate(metadata.items()):
        progress("update", done, len(metadata))
        if image_id in writer:
            before = writer.metadata(image_id)
            after = with_given(before, fields)
            if after != before:
                yield MetadataChange(image_id, after, dict(fields))
    progress("update", len(metadata), len(metadata))
