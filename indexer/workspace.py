"""What an interrupted build continues from: features, postings and offsets in its work folder."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from indexer.encoding.encoder import EncoderMap, ImageEncoder, encode_rows
from indexer.encoding.features import Photos
from indexer.encoding.impacts import ImpactParameters
from indexer.maintenance.copies import put
from indexer.postings import ImagePostings, Postings, PostingShard, QuantisationReport
from indexer.settings import IndexSettings
from indexer.update.sync_plan import Seen, SeenPhotos, beside_of, content_hash
from sparta.addresses import is_remote
from sparta.errors import InputError
from sparta.extract.photos import DEFAULT, Choice, Stamp, not_utf8, stamp_of
from sparta.features.record import SKIPPED, Skipped, read_skipped
from sparta.features.store import FeatureStore, Stamps
from sparta.files import MARKER, find_work, make_work, remove_entry, remove_work
from sparta.progress import Progress
from sparta.visualsparta.offsets import OFFSETS, TermOffsets

SETTINGS = "settings.sha256"
# What an earlier run leaves is named so, up to the first hyphen.
SAVED = {MARKER, SETTINGS, OFFSETS, "shard", "part", "sample", "features"}
AT_ONCE = 1024  # images in memory


class Part(NamedTuple):
    """Images that were encoded together, and whose postings are saved.

    Attributes:
        key: names its shards.
        shards: how many there are, each with images of rising ids.
        images: in all shards.
        first: the lowest id.
        features: fingerprint of each feature store.
        stamps: of the photos' files, {} if unknown.
        skipped: the photos that could not be used, and why; warnings too.
        contents: hash of each photo's content, "" if its file changed meanwhile; {} of stores.
    """

    key: str
    shards: int
    images: int
    first: str
    features: list[str]
    stamps: Stamps
    skipped: Mapping[str, str]
    contents: Mapping[str, str]


class Workspace:
    """A work folder beside an index, made when it is needed.

    An earlier run's is taken up, all others that such runs left are removed.

    Attributes:
        parts: of the images, all after `encode`.
    """

    def __init__(self, out: Path) -> None:
        self.parts: list[Part] = []
        self._out = out
        former = find_work(out)
        for folder in former[1:]:
            remove_work(folder)
        if former:
            self.folder = former[0]
        # An unfinished index is written again from the shards, which is the fast part.
        for entry in self.folder.iterdir() if former else ():
            if not {entry.name, entry.name.partition("-")[0]} & SAVED:
                remove_entry(entry)

    @cached_property
    def folder(self) -> Path:
        """The work folder."""
        return make_work(self._out)

    @cached_property
    def index(self) -> Path:
        """Where the index is written; absent at first."""
        # A process of a killed run may still be writing its own unfinished index.
        return self.folder / f"index-{secrets.token_hex(4)}"

    @cached_property
    def whole(self) -> Path:
        """Where an index is written that is divided into shards at `index`."""
        return self.folder / f"whole-{secrets.token_hex(4)}"

    @property
    def size(self) -> int:
        """Bytes of what an earlier run saved."""
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def begin(self, settings: IndexSettings) -> TermOffsets | None:
        """Forget what an earlier run saved with other settings; else return its offsets.

        There may be none, or damaged ones.
        """
        same = replace(settings, offset_images=0)  # which depends on what is in the folder now
        digest = hashlib.sha256(json.dumps(asdict(same)).encode()).hexdigest()
        path = self.folder / SETTINGS
        if not path.is_file() or path.read_text() != digest:
            for entry in self.folder.iterdir():
                if entry.name.startswith(("offsets", "shard-", "part-")):
                    remove_entry(entry)
            path.write_text(digest)
        return TermOffsets.load(self.folder / OFFSETS)

    def encode(
        self,
        images: Sequence[FeatureStore] | Photos,
        encoder: ImageEncoder,
        mapped: Callable[[ImageEncoder], EncoderMap],
        parameters: ImpactParameters,
        progress: Progress,
    ) -> None:
        """Save the postings of the images that an earlier run did not save, of photos in parts.

        The encoder has the given stores, or those of the first photos. Progress has the stage
        "encode", in images.
        """
        work = partial(encode_rows, parameters=parameters)

        def add(key: str, own: ImageEncoder, stamps: Stamps, count: int) -> None:
            before = sum(len(part.stamps) for part in self.parts)
            shards = own.store.shards
            missing = [number for number in range(len(shards)) if not self._load(key, number)]
            encoded = mapped(own)(work, [shards[number] for number in missing])
            for number, rows in enumerate(shards):
                if number in missing:
                    self.save_shard(key, number, next(encoded))
                progress("encode", before + rows.stop, total)
            if len(own.store) < count:
                progress("encode", before + count, total)  # some cannot be used
            folder = None if isinstance(images, Sequence) else images.folder
            self._save_part(key, own.stores, stamps, folder)

        if not isinstance(images, Photos):
            total = len(images[0])
            add("stores", encoder, images[0].stamps, total)
            return
        total = len(images.stamps)
        self._load_parts(images.stamps)
        if not self.parts:
            add(images.key(images.first), encoder, images.first, len(images.first))
        done = {image_id for part in self.parts for image_id in part.stamps}
        for stamps, stores in images.parts(done, self.folder, progress):
            add(images.key(stamps), replace(encoder, stores=stores), stamps, len(stamps))

    def _save_part(
        self, key: str, stores: Sequence[FeatureStore], stamps: Stamps, photos: Path | None
    ) -> None:
        """Save that all shards of some images are there, of `photos` what their contents are."""
        ids, features = stores[0].ids, [store.fingerprint for store in stores]
        skipped = {one.image_id: one.reason for one in read_skipped(stores[0].folder)}
        count, first = len(stores[0].shards), ids[0] if ids else ""
        here = photos if photos and not is_remote(photos) else None
        contents = (
            {one: _content(here / one, stamp) for one, stamp in stamps.items()} if here else {}
        )
        part = Part(key, count, len(ids), first, features, stamps, skipped, contents)
        unfinished = self.folder / "unfinished.json"
        unfinished.write_text(json.dumps(part))
        unfinished.replace(self.folder / f"part-{key}.json")
        self.parts.append(part)

    def _load_parts(self, stamps: Stamps) -> None:
        """Take up the parts whose photos are all there and the same, and whose shards are whole."""
        for path in sorted(self.folder.glob("part-*.json")):
            try:
                part = Part(*json.loads(path.read_text()))
                same = all(stamps.get(one) == stamp for one, stamp in part.stamps.items())
            except (OSError, ValueError, TypeError, AttributeError):  # damaged
                same = False
            if same and all(self._load(part.key, number) for number in range(part.shards)):
                self.parts.append(part)
            else:
                remove_entry(path)  # its photos go into other parts, even if they come back

    def save_shard(self, key: str, number: int, shard: PostingShard) -> None:
        """Save a shard; the postings come last, so that a shard with postings is complete."""
        path = self._shard(key, number)
        path.with_suffix(".json").write_text(json.dumps(asdict(shard.report)))
        shard.postings.save(path)

    def _load(self, key: str, number: int) -> PostingShard | None:
        """A saved shard, None if there is none of that number or it is damaged."""
        path = self._shard(key, number)
        try:
            report = QuantisationReport(**json.loads(path.with_suffix(".json").read_text()))
            return PostingShard(Postings.load(path), report)
        except (OSError, ValueError, TypeError):
            return None

    def _shard(self, key: str, number: int) -> Path:
        return self.folder / f"shard-{key}-{number:05d}.npz"

    @property
    def fingerprints(self) -> list[str]:
        """Of the features of all parts, one for each augmentation, as a store has one."""
        found = []
        for each in zip(*(part.features for part in self.parts), strict=True):
            precision, dash, _ = each[0].rpartition("-")
            digest = hashlib.sha256("".join(sorted(each)).encode()).hexdigest()
            found.append(each[0] if len(each) == 1 else f"{precision}{dash}{digest[:32]}")
        return found

    def postings(self) -> Iterator[PostingShard]:
        """The postings of all images, by rising id."""
        if len(self.parts) == 1:
            yield from self._shards(self.parts[0])
            return
        # The first photos are from the whole folder; the other parts follow one another.
        ordered = merge(*map(self._images, self.parts), key=itemgetter(0))
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
            shard = self._load(part.key, number)
            if shard is None:
                raise InputError(
                    f"{self._shard(part.key, number)} is damaged, the disk may be failing: run the "
                    "same command again, which makes it anew"
                )
            yield shard

    def publish(
        self, photos: Path | None, out: Path, place: Path, choice: Choice = DEFAULT
    ) -> None:
        """Put the finished index in its place in or at `out`, and remove the workspace.

        The index notes which photos it has seen, by which `choice`, for `sparta sync`, and which
        could not be used.
        """
        skipped = {image_id: why for part in self.parts for image_id, why in part.skipped.items()}
        listed = [Skipped(*one) for one in sorted(skipped.items())]
        if listed:
            lines = [json.dumps(asdict(one)) + "\n" for one in listed]
            (self.index / SKIPPED).write_text("".join(lines), encoding="utf-8")
        stamps = {image_id: one for part in self.parts for image_id, one in part.stamps.items()}
        if photos is not None and not is_remote(photos) and stamps:
            named = [image_id for image_id in stamps if not not_utf8(image_id)]
            contents = {one: own for part in self.parts for one, own in part.contents.items()}
            problems = {one.image_id: one.reason for one in listed if not one.warning}
            root = Path(os.path.realpath(photos))
            seen = {
                one: Seen(
                    Stamp(*stamps[one]),
                    contents.get(one) or None,
                    problems.get(one),
                    beside_of(root, one),
                )
                for one in named
            }
            SeenPhotos(root, seen, choice).save(self.index, built=True)
        put(self.index, out, place, self.folder)
        # First what a next run would continue from: it must not find half of the shards.
        (self.folder / SETTINGS).unlink(missing_ok=True)
        remove_work(self.folder)


def _content(path: Path, stamp: Sequence[int]) -> str:
    """Hash of a photo's content, just read; "" if its file has another stamp by now."""
    found = content_hash(path)
    return found if found and list(stamp_of(path)) == list(stamp) else ""
