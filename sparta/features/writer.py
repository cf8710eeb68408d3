"""Write a feature store shard by shard, so that a killed run continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparta.addresses import folder_at, id_problem
from sparta.errors import InputError
from sparta.features.record import FLOAT32, SKIPPED, FeatureSource, ImageFeatures, Skipped
from sparta.features.store import (
    FORMAT,
    HEADER,
    SCHEMA,
    FeatureStore,
    Stamps,
    load_stamps,
    read_header,
    source_hash,
)
from sparta.files import is_free
from sparta.json_values import Json

SHARD_SIZE = 512
PARTIAL = ".partial"  # of the name of a file that is being written


class StoreWriter:
    """Appends whole shards to a store; what is on disk after each is always consistent.

    Opening a folder that already holds shards of the same inputs continues behind the last
    finished one; `done` is their number. With stamps a store of other files is written anew:
    `unchanged` has its images whose files are still the same. They stay on disk until the new
    content is complete.

    Args:
        folder: created if absent; must be empty or hold a store of the same inputs.
        augmentation: how photos are mirrored or cropped before extraction.
        inputs: anything else that decides the content, JSON values under names a user understands.

    Raises:
        InputError: if the folder holds other files or a store of other inputs, or no file of the
            store is among those stamped.
    """

    def __init__(
        self,
        folder: str | Path,
        source: FeatureSource,
        photos: str | Path | None = None,
        *,
        augmentation: str = "plain",
        inputs: Json | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        self.folder = folder = Path(folder)
        self._stamps = stamps
        self._header: Json = {
            "format": FORMAT,
            "complete": False,
            "source": asdict(source),
            "augmentation": augmentation,
            "photos": None if photos is None else str(folder_at(photos).resolve()),
            "inputs": inputs or {},
            "stamps": None if stamps is None else stamps_file(stamps),
            "shards": [],
            "fingerprint": "",
            "superseded": [],
            "generation": 0,
        }
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / HEADER).exists():
            self._continue(read_header(folder), source)
        elif not is_free(folder, f"{HEADER}{PARTIAL}"):
            raise InputError(f"{folder} is not empty and holds no feature store; use another --out")
        self._save_header()
        if not self.complete:
            self._cut_log()
        if stamps is not None and not (folder / self._header["stamps"]).is_file():
            _replace(folder / self._header["stamps"], json.dumps(stamps).encode())

    @cached_property
    def unchanged(self) -> UnchangedImages:
        """Images of the store's former content, for write_shard."""
        return UnchangedImages(self.folder, self._header, self._stamps or {})

    @property
    def done(self) -> int:
        """Shards finished so far."""
        return len(self._header["shards"])

    @property
    def complete(self) -> bool:
        """Whether the store was finished, now or by an earlier run."""
        return bool(self._header["complete"])

    @property
    def skipped(self) -> int:
        """Photos skipped so far."""
        return sum(shard["skipped"] for shard in self._header["shards"])

    @property
    def images(self) -> int:
        """Images written so far."""
        return sum(shard["images"] for shard in self._header["shards"])

    @property
    def shard_bytes(self) -> int:
        """Size of the largest shard so far."""
        return max((shard["bytes"] for shard in self._header["shards"]), default=0)

    def write_shard(self, images: list[ImageFeatures], skipped: Iterable[Skipped] = ()) -> None:
        """Append one shard; ids must rise within it and from shard to shard.

        Raises:
            ValueError: if ids do not rise, or features are not finite or of another dimension.
        """
        self._check(images)
        name = _shard_name(self._header["generation"], self.done)
        content = _shard_buffer(images)
        _replace(self.folder / name, content)
        count = self._log(skipped)
        self._header["shards"].append(
            {
                "file": name,
                "images": len(images),
                "skipped": count,
                "last": images[-1].image_id if images else None,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        )
        self._save_header()

    def finish(self) -> FeatureStore:
        """Mark the store complete and open it."""
        source = FeatureSource(**self._header["source"])
        digest = hashlib.sha256(source_hash(source).encode())
        for shard in self._header["shards"]:
            digest.update(shard["sha256"].encode())
        named = "" if source.precision == FLOAT32 else f"{source.precision}-"
        self._header |= {"complete": True, "fingerprint": named + digest.hexdigest()[:32]}
        self._header["superseded"] = []
        self._save_header()
        self._remove_superseded()
        return FeatureStore.open(self.folder)

    def _continue(self, old: Json, source: FeatureSource) -> None:
        self._check_same(old, source)
        old = {"stamps": None, "superseded": [], "generation": 0, **old}
        for name in ("complete", "shards", "fingerprint", "superseded", "generation"):
            self._header[name] = old[name]
        if not self.complete:
            self._drop_damaged()
        same = old["stamps"] in (None, self._header["stamps"])
        if self._stamps is not None and not (same and old["inputs"] == self._header["inputs"]):
            self._supersede(old["stamps"], self._stamps)

    def _check_same(self, old: Json, source: FeatureSource) -> None:
        """Refuse a store of other inputs; files may differ where they are stamped."""
        former = FeatureSource(**old["source"])
        changes = source.differences(former)
        mine = {"augmentation": self._header["augmentation"], "precision": source.precision}
        theirs = {"augmentation": old["augmentation"], "precision": former.precision}
        if self._stamps is None:
            mine, theirs = mine | self._header["inputs"], theirs | old["inputs"]
        changes += [
            f"{name}: {mine.get(name)!r} against {theirs.get(name)!r}"
            for name in mine | theirs
            if mine.get(name) != theirs.get(name)
        ]
        if changes:
            raise InputError(
                f"{self.folder} holds features of other inputs (requested against found): "
                f"{'; '.join(changes)}. Use another --out, or delete the folder"
            )

    def _supersede(self, name: str | None, stamps: Stamps) -> None:
        """Begin anew, and note what was there: its shards, and the name of its file of stamps."""
        if self._header["shards"]:
            former = {"shards": self._header["shards"], "stamps": name}
            ids = load_stamps(self.folder, former) or FeatureStore(self.folder, self._header).ids
            if stamps.keys().isdisjoint(ids):
                raise InputError(
                    f"{self.folder} holds features of other photos, none of which is among these. "
                    "Use another --out, or delete the folder"
                )
            self._header["superseded"].append(former)
            self._header["generation"] += 1
        self._header |= {"complete": False, "shards": [], "fingerprint": ""}

    def _remove_superseded(self) -> None:
        """Delete what the header no longer names, an interrupted removal's rest included."""
        named = {shard["file"] for shard in self._header["shards"]} | {self._header["stamps"]}
        for pattern in ("shard-[0-9]*.arrow", "stamps-*.json"):
            for path in self.folder.glob(pattern):
                if path.name not in named:
                    path.unlink()

    def _drop_damaged(self) -> None:
        """Keep the shards whose bytes reached the disk; a power cut may have lost the last."""
        for position, shard in enumerate(self._header["shards"]):
            path = self.folder / shard["file"]
            content = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(content).hexdigest() != shard["sha256"]:
                del self._header["shards"][position:]
                return

    def _cut_log(self) -> None:
        """Forget photos skipped in a shard that was not finished."""
        path = self.folder / SKIPPED
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        _replace(path, b"".join(lines[: self.skipped]))

    def _log(self, skipped: Iterable[Skipped]) -> int:
        lines = [json.dumps(asdict(entry)) + "\n" for entry in skipped]
        with (self.folder / SKIPPED).open("a", encoding="utf-8") as file:
            file.writelines(lines)
        return len(lines)

    def _check(self, images: list[ImageFeatures]) -> None:
        last = [shard["last"] for shard in self._header["shards"] if shard["images"]]
        ids = last[-1:] + [image.image_id for image in images]
        for before, after in pairwise(ids):
            if before >= after:
                raise ValueError(f"image ids must rise: {after!r} comes after {before!r}")
        dimension = self._header["source"]["dimension"]
        for image in images:
            if problem := id_problem(image.image_id):
                raise ValueError(f"the image id {image.image_id[:50]!r} {problem}")
            if image.features.shape[1] != dimension or not np.isfinite(image.features).all():
                raise ValueError(
                    f"{image.image_id}: expected finite features [n, {dimension}], "
                    f"found {list(image.features.shape)}"
                )

    def _save_header(self) -> None:
        text = json.dumps(self._header, indent=1, ensure_ascii=False) + "\n"
        _replace(self.folder / HEADER, text.encode())


def _shard_name(generation: int, number: int) -> str:
    return f"shard-{generation}-{number:05d}.arrow" if generation else f"shard-{number:05d}.arrow"


def _shard_buffer(images: list[ImageFeatures]) -> pa.Buffer:
    rows = {
        "image_id": [image.image_id for image in images],
        "features": [image.features.astype("<f2").tobytes() for image in images],
        "boxes": [image.boxes.astype("<f4").tobytes() for image in images],
        "labels": [list(image.labels) if any(image.labels) else [] for image in images],
        "attributes": [list(image.attributes) if any(image.attributes) else [] for image in images],
        "width": [image.width for image in images],
        "height": [image.height for image in images],
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_pydict(rows, schema=SCHEMA))
    return sink.getvalue()


def _replace(path: Path, content: bytes | pa.Buffer) -> None:
    """Let a file appear whole or not at all."""
    partial = path.with_name(path.name + PARTIAL)
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


# ---- features of files that have not changed ---------------------------------------------------


@dataclass(frozen=True)
class Changes:
    """How files differ from those a store was made of."""

    added: int
    changed: int
    removed: int
    kept: int

    def __str__(self) -> str:
        return (
            f"since features were stored {self.added:,} photos were added, {self.changed:,} "
            f"changed and {self.removed:,} removed; features of {self.kept:,} are kept"
        )


class UnchangedImages:
    """Images of the former contents of a store, by id, as far as their files are the same.

    The header's "superseded" has shards and file of stamps of each former content, the oldest
    first.
    """

    def __init__(self, folder: Path, header: Json, stamps: Stamps) -> None:
        self._rows: dict[str, tuple[FeatureStore, int]] = {}
        former: dict[str, Sequence[int]] = {}
        for content in header["superseded"]:
            store = FeatureStore(folder, header | _whole(folder, content))
            known = load_stamps(folder, content)
            former |= dict.fromkeys(store.ids, ()) | known
            for row, image_id in enumerate(store.ids):
                if image_id in stamps and stamps[image_id] == known.get(image_id):
                    self._rows[image_id] = store, row
        added = sum(image_id not in former for image_id in stamps)
        both = [image_id for image_id in stamps if image_id in former]
        changed = sum(stamps[image_id] != former[image_id] for image_id in both)
        counts = Changes(added, changed, len(former) - len(both), len(self._rows))
        self.changes = counts if former else None

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._rows

    def __getitem__(self, image_id: str) -> ImageFeatures:
        """One image."""
        store, row = self._rows[image_id]
        return store[row]


def stamps_file(stamps: Stamps) -> str:
    """The name of a file of stamps, which their hash is part of."""
    digest = hashlib.sha256(json.dumps(stamps).encode()).hexdigest()
    return f"stamps-{digest[:16]}.json"


def _whole(folder: Path, content: Json) -> Json:
    """The shards whose files are there."""
    sizes = [(shard, folder / shard["file"]) for shard in content["shards"]]
    found = [s for s, path in sizes if path.is_file() and path.stat().st_size == s["bytes"]]
    return {"shards": found}
