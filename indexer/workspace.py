"""What an interrupted build continues from: features, postings and offsets in its work folder."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from indexer.encoding.encoder import TermOffsets
from indexer.encoding.features import Photos, none_usable
from indexer.postings import ImagePostings, Postings, PostingShard, QuantisationReport
from indexer.settings import IndexSettings
from sparta.errors import InputError
from sparta.features.record import read_skipped
from sparta.features.store import FeatureStore, Stamps
from sparta.files import MARKER, find_work, make_work, remove_entry, remove_work, replace_folder
from sparta.progress import Progress, part_of

SETTINGS = "settings.sha256"
OFFSETS = "offsets.npz"
# What an earlier run leaves is named so, up to the first hyphen.
SAVED = {MARKER, SETTINGS, OFFSETS, "shard", "part", "sample", "features"}
AT_ONCE = 1024  # images in memory


class Part(NamedTuple):
    """Images of an index that were encoded together, and whose postings are saved.

    Attributes:
        key: names its shards.
        shards: how many there are, each with images of rising ids.
        images: in all shards.
        first: the lowest id.
        features: fingerprint of each feature store.
        stamps: of the photos' files, where they are known.
        skipped: reason by id of the photos that could not be used.
    """

    key: str
    shards: int
    images: int
    first: str
    features: list[str]
    stamps: Stamps
    skipped: Mapping[str, str]


class Workspace:
    """A work folder of an index: term offsets, finished shards of postings, features of photos.

    An earlier run's is taken up, all others that such runs left are removed; it is made when it is
    needed.

    """

    def __init__(self, out: Path) -> None:
        self._out = out
        former = find_work(out)
        for folder in former[1:]:
            remove_work(folder)
        if former:
            self._folder = former[0]
        # An unfinished index is written again from the shards, which is the fast part.
        for entry in self._folder.iterdir() if former else ():
            if not {entry.name, entry.name.partition("-")[0]} & SAVED:
                remove_entry(entry)

    @cached_property
    def _folder(self) -> Path:
        return make_work(self._out)

    @cached_property
    def index(self) -> Path:
        """Where the index is written; absent at first."""
        # A process of a killed run may still be writing its own unfinished index.
        return self._folder / f"index-{secrets.token_hex(4)}"

    @cached_property
    def whole(self) -> Path:
        """Where an index is written that is divided into shards at `index`."""
        return self._folder / f"whole-{secrets.token_hex(4)}"

    def stores_of_sample(self, photos: Photos, progress: Progress) -> list[FeatureStore]:
        """The features of a sample of photos, which are there until the end.

        Raises InputError if none of them can be used.
        """
        stamps = photos.sample()
        part = part_of(progress, 0, len(stamps), len(photos.stamps))
        stores = photos.extract(self.features(photos.key(stamps), "sample"), stamps, part)
        if not len(stores[0]):
            skipped = read_skipped(stores[0].folder)
            remove_work(self._folder)
            raise none_usable(photos.folder, skipped)
        return stores

    def features(self, key: str, kind: str = "features") -> Path:
        """The folder for the features of some photos; that of others of this kind is removed."""
        for other in self._folder.glob(f"{kind}-*"):
            if other.name != f"{kind}-{key}":
                remove_entry(other)
        return self._folder / f"{kind}-{key}"

    def begin(self, settings: IndexSettings) -> None:
        """Forget what an earlier run saved with other settings."""
        digest = hashlib.sha256(json.dumps(asdict(settings)).encode()).hexdigest()
        path = self._folder / SETTINGS
        if not path.is_file() or path.read_text() != digest:
            for entry in self._folder.iterdir():
                if entry.name.startswith(("offsets", "shard-", "part-")):
                    remove_entry(entry)
            path.write_text(digest)

    @property
    def size(self) -> int:
        """Bytes of what an earlier run saved."""
        return sum(path.stat().st_size for path in self._folder.iterdir())

    def load_offsets(self) -> TermOffsets | None:
        """The saved offsets, None if there are none or they are damaged."""
        try:
            with np.load(self._folder / OFFSETS, allow_pickle=False) as file:
                return TermOffsets(file["offset"], float(file["largest"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def save_offsets(self, offsets: TermOffsets) -> None:
        """Save the offsets, under a temporary name first."""
        unfinished = self._folder / "unfinished.npz"
        np.savez(unfinished, offset=offsets.offset, largest=offsets.largest)
        unfinished.replace(self._folder / OFFSETS)

    def load_shard(self, key: str, number: int) -> PostingShard | None:
        """A saved shard, None if there is none of that number or it is damaged."""
        path = self._shard(key, number)
        try:
            report = QuantisationReport(**json.loads(path.with_suffix(".json").read_text()))
            return PostingShard(Postings.load(path), report)
        except (OSError, ValueError, TypeError):
            return None

    def save_shard(self, key: str, number: int, shard: PostingShard) -> None:
        """Save a shard; the postings come last, so that a shard with postings is complete."""
        path = self._shard(key, number)
        path.with_suffix(".json").write_text(json.dumps(asdict(shard.report)))
        shard.postings.save(path)

    def _shard(self, key: str, number: int) -> Path:
        return self._folder / f"shard-{key}-{number:05d}.npz"

    def save_part(
        self, key: str, stamps: Stamps, stores: Sequence[FeatureStore], shards: int
    ) -> Part:
        """Save that all shards of some images are there."""
        ids, skipped = stores[0].ids, read_skipped(stores[0].folder)
        part = Part(
            key,
            shards,
            len(ids),
            ids[0] if ids else "",
            [store.fingerprint for store in stores],
            stamps,
            {one.image_id: one.reason for one in skipped},
        )
        unfinished = self._folder / "unfinished.json"
        unfinished.write_text(json.dumps(part))
        unfinished.replace(self._folder / f"part-{key}.json")
        return part

    def load_parts(self, stamps: Stamps) -> list[Part]:
        """The parts whose photos are all there and the same, and whose shards are whole."""
        found = []
        for path in sorted(self._folder.glob("part-*.json")):
            part = Part(*json.loads(path.read_text()))
            shards = (self.load_shard(part.key, number) for number in range(part.shards))
            same = all(stamps.get(one) == stamp for one, stamp in part.stamps.items())
            if same and all(shard is not None for shard in shards):
                found.append(part)
        return found

    def postings(self, parts: Sequence[Part]) -> Iterator[PostingShard]:
        """The postings of all images, by rising id."""
        if len(parts) == 1:
            yield from self._shards(parts[0])
            return
        # The photos of the sample are from the whole folder; other parts follow one another.
        ordered = merge(*map(self._images, parts), key=itemgetter(0))
        images = ((image, report) for _, image, report in ordered if image is not None)
        while some := list(islice(images, AT_ONCE)):
            report = sum((one for _, one in some), QuantisationReport())
            yield PostingShard(Postings.of([image for image, _ in some]), report)

    def _images(self, part: Part) -> Iterator[tuple[str, ImagePostings | None, QuantisationReport]]:
        """The images of a part by id, and what quantising cost with the first of a shard.

        Before them comes the lowest id alone: no shard is read before its turn.
        """
        yield part.first, None, QuantisationReport()
        for shard in self._shards(part):
            report = shard.report
            for image in shard.postings:
                yield image.image_id, image, report
                report = QuantisationReport()

    def _shards(self, part: Part) -> Iterator[PostingShard]:
        for number in range(part.shards):
            shard = self.load_shard(part.key, number)
            if shard is None:
                raise InputError(
                    f"{self._shard(part.key, number)} is damaged: the disk may be failing; run the "
                    "same command again, it makes the file anew"
                )
            yield shard

    def publish(self, out: Path) -> None:
        """Put the finished index in its place, and remove the workspace."""
        replace_folder(self.index, out, self._folder)
        # First what a next run would continue from: it must not find half of the shards.
        (self._folder / SETTINGS).unlink()
        remove_work(self._folder)
