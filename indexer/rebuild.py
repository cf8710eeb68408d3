"""What a rebuild keeps of the index it replaces: all that the user gave to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from indexer.encoding.impacts import Quantiser
from indexer.fields.kinds import Kind, read_kinds
from indexer.maintenance.copies import link_uploads
from indexer.manifest import UPLOAD, UPLOADS, Manifest, index_folders, is_index, owner
from indexer.metadata import Metadata
from indexer.postings import ImagePostings, Postings, PostingShard
from indexer.store.changes import Add
from indexer.store.commit import LOGS
from indexer.store.given import (
    FILE,
    FormerImages,
    Given,
    add_given,
    size_of,
    with_given,
    write_given,
)
from indexer.store.images import BUILT
from indexer.store.snapshot import Snapshot
from indexer.update.images import ResidentEncoder
from indexer.update.sync_plan import SeenPhotos, synced_folders
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.json_values import JsonMapping, JsonValue
from sparta.model_id import lasting_name
from sparta.progress import Notice


@dataclass
class Kept:
    """What is kept of the index that a build replaces, if there is one.

    Attributes:
        former: the index; None if there is none.
        kinds: declared kinds of its fields.
    """

    former: FormerImages | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    _out: Path = Path()
    _manifest: Manifest | None = None
    _alike: bool = False  # the vocabularies
    # Images that the new stores lack: the file of each photo, and those given by terms.
    _photos: dict[str, Path] = field(default_factory=dict)
    _uploads: dict[str, str] = field(default_factory=dict)
    _terms: dict[str, None] = field(default_factory=dict)
    _record: dict[str, list[Given]] = field(default_factory=dict)
    _with_fields: int = 0
    _deleted: int = 0

    def compare_with(self, models: Sequence[str]) -> None:
        """Note the fingerprints of the new index's models."""
        if self.former is not None and self._manifest is not None:
            self.former.comparable = self._manifest.models == [*models]

    def described(self, shard: PostingShard, metadata: Metadata) -> PostingShard:
        """The shard with what the user gave to its images, without those that were deleted.

        `metadata` are of the build's file. Where it repeats what the former build was given, later
        changes stay.
        """
        if not metadata and not self._record:
            return shard
        rows = [self._described(image, metadata) for image in shard.postings]
        return shard._replace(postings=Postings.of([row for row in rows if row is not None]))

    def _described(self, image: ImagePostings, metadata: Metadata) -> ImagePostings | None:
        if image.image_id in self._photos or image.image_id in self._terms:
            return image  # what was sent takes its place
        now, size = dict(metadata.get(image.image_id, {})), size_of(image.metadata)
        record = self._record.get(image.image_id, [])
        if not record and not now:
            return image
        before = None
        if self.former is not None and record:
            if self.former.is_deleted(image.image_id, size):
                self._deleted += 1
                return None
            before = self.former.given_to(image)
        # A content to which nothing was given has no later changes of what the file says.
        fields, built = (before.fields, record[-1].built) if before else ({}, {})
        self._with_fields += bool(fields)
        newer = {name: one for name, one in now.items() if _differs(built, name, one)}
        given = Given(size, {**fields, **newer}, now, sent="")
        add_given(self._record, image.image_id, given)
        return replace(image, metadata=with_given(image.metadata, given.fields))

    def finish(
        self, index: Path, models: Sequence[str | Path], device: str, notice: Notice
    ) -> None:
        """Give the new index what its photos and the metadata file did not.

        Its manifest names the models. Nobody else writes it. `notice` gets a line about what was
        kept. Raises InputError if a photo that was sent cannot be used.
        """
        write_given(index, self._record)
        folders, names = index_folders(index), [lasting_name(model) for model in models]
        for folder in folders:
            replace(Manifest.read(folder), model_names=names).save(folder)
        if self.former is None:
            return
        if self._photos or self._terms:
            encoder = ResidentEncoder(folders[0], models, device)
            with open_writer(index) as writer:
                for image_id, path in self._photos.items():
                    writer.write([self._photo(encoder.photo(image_id, path))])
                manifest = Manifest.read(folders[0])
                quantiser = Quantiser(manifest.scale, manifest.bits)
                writer.write([self._ready(image_id, quantiser) for image_id in self._terms])
        link_uploads(self._out, index)
        for root in {*synced_folders(self._out)} - {_photos_of(Manifest.read(folders[0]))}:
            if seen := SeenPhotos.open(self._out, root):
                seen.save(index)
        if text := self._summary():
            notice(text)

    def _photo(self, image: ImagePostings) -> Add:
        metadata = image.metadata
        if name := self._uploads.get(image.image_id):
            metadata = {**metadata, UPLOAD: name}
        assert self.former is not None
        given = self.former.given_to(image)
        fields = given.fields if given else {}
        return Add(replace(image, metadata=with_given(metadata, fields)))

    def _ready(self, image_id: str, quantiser: Quantiser) -> Add:
        """An image that was sent as term weights, which have another scale now."""
        assert self.former is not None and self._manifest is not None
        image = self.former.image(image_id)
        assert image is not None
        scores = (image.impacts * self._manifest.scale).astype(np.float32)
        return Add(replace(image, impacts=quantiser.impacts(scores)))

    def _summary(self) -> str:
        assert self.former is not None
        sent, aside = len(self._photos) + len(self._terms), len(self.former.aside)
        counts = {
            "images with fields: {}": self._with_fields,
            "deletions: {}": self._deleted,
            "images sent or added: {}": sent,
        }
        parts = [text.format(f"{count:,}") for text, count in counts.items() if count]
        text = f"kept of the former index: {', '.join(parts)}" if parts else ""
        if aside:
            text += "; " if text else ""
            text += f"put aside, since their photos show something else: fields of {aside:,}"
        return text


def kept_of(out: Path, ids: Sequence[str] | None = None, vocabulary: str = "") -> Kept:
    """What is to be kept of the index at `out`, where there may be none.

    Nobody else writes it: the caller holds its lock. The new index is built from images `ids` with
    models of that vocabulary; without these it is only read. Raises InputError if something that
    the user gave could not be kept.
    """
    try:
        kept = _open(out, vocabulary) if is_index(out) else Kept()
    except InputError as error:
        if not _was_written(out):
            return Kept()  # a damaged index, made again from its photos
        raise InputError(
            f"what was given to {out} cannot be kept ({error}): restore a snapshot, or "
            "move the index away or choose another --out to build one without it"
        ) from error
    if kept.former is not None and ids is not None:
        _plan(kept, out, set(ids))
    return kept


def _open(out: Path, vocabulary: str) -> Kept:
    first = index_folders(out)[0]
    manifest, former = Manifest.open(first, former=True), FormerImages(out, written=True)
    alike = manifest.vocabulary == vocabulary
    record = {image_id: list(given) for image_id, given in former.record.items()}
    return Kept(former, read_kinds(first), out, manifest, alike, _record=record)


def _was_written(out: Path) -> bool:
    """Whether an index that cannot be opened may have something that the user gave."""
    return any(path.exists() for name in (FILE, LOGS, UPLOADS) for path in out.rglob(name))


def _plan(kept: Kept, out: Path, ids: set[str]) -> None:
    """Find out where the images are that the new stores lack, whose images are `ids`.

    Raises InputError if an image would be lost.
    """
    assert kept.former is not None and kept._manifest is not None
    photos = _photos_of(kept._manifest)
    roots = {root: SeenPhotos.open(out, root) for root in synced_folders(out)}
    record, lost = kept.former.record, list[str]()
    folders = index_folders(out)
    added = {key: one for folder in folders for key, one in _added(kept.former.snapshot(folder))}
    for image_id in set(record) - set(added):  # a merged index has them as built
        if record[image_id][-1].sent and (image := kept.former.image(image_id)):
            added[image_id] = image.metadata
    for image_id, metadata in added.items():
        sent = record[image_id][-1].sent if image_id in record else None
        root = next((root for root, one in roots.items() if one and image_id in one.photos), None)
        if metadata.get(UPLOAD):
            kept._uploads[image_id] = metadata[UPLOAD]
            own = folders[owner(image_id, len(folders))]
            path = own / UPLOADS / metadata[UPLOAD]
        elif sent == "terms" and kept._alike:
            kept._terms[image_id] = None
            continue
        elif not sent and (image_id in ids or root == photos is not None):
            continue  # it is there, or has vanished
        else:
            path = root / image_id if root and not sent else None
        if path is None or not path.is_file():
            lost.append(image_id)
        else:
            kept._photos[image_id] = path
    if lost:
        raise InputError(
            f"{out} has {len(lost):,} images that the new one would lack, such as {lost[0]!r}: "
            "they were sent as features or terms, or added from photos that are not there. Delete "
            "them with sparta delete, or choose another --out; nothing was changed"
        )


def _added(snapshot: Snapshot) -> Iterator[tuple[str, JsonMapping]]:
    """Ids and metadata of an index's images that are not as they were built."""
    if not snapshot.commit.version and not snapshot.commit.bytes:
        return  # a merged index has them as built
    content_ids = [
        one for _, content_ids in snapshot.content_id_parts() for one in content_ids().to_pylist()
    ]
    for document in snapshot.live_documents().tolist():
        if not content_ids[document].startswith(BUILT):
            yield snapshot.stored(document)


def _photos_of(manifest: Manifest) -> Path | None:
    photos = manifest.photos
    return Path(os.path.realpath(photos)) if photos else None  # of links in a circle, too


def _differs(built: JsonMapping, name: str, value: JsonValue) -> bool:
    return name not in built or built[name] != value
