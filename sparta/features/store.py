"""Image features on disk: Arrow shards, one row per image, written once and read row by row."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparta.addresses import download, folder_at, is_remote
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.files import sha256
from sparta.json_values import Json
from sparta.progress import Progress, no_progress

FORMAT = 2
HEADER = "store.json"
# Of each image's file what changes when it is replaced: size and time of modification.
Stamps: TypeAlias = Mapping[str, Sequence[int]]
SCHEMA = pa.schema(
    {
        "image_id": pa.string(),
        "features": pa.large_binary(),  # [n, d] little-endian float16, row by row
        "boxes": pa.binary(),  # [n, 4] little-endian float32
        "labels": pa.list_(pa.string()),  # empty where all n are ""
        "attributes": pa.list_(pa.string()),
        "width": pa.int32(),
        "height": pa.int32(),
    }
)
# Type of their offsets in Arrow's layout.
READ_BY_ROW = {"features": "<i8", "boxes": "<i4"}


class Shard(NamedTuple):
    """One opened shard.

    Features and boxes are read from the file row by row; the other columns, about a hundred bytes
    an image, are memory-mapped. Mapped pages count as memory of each process that has read them:
    after an epoch, every loader process of a training run would have the size of all stores.

    A shard on another machine is in memory as a whole.

    Attributes:
        path: of the file.
        content: of a file on another machine, None of one here.
        columns: the mapped columns, by name.
        bounds: of the other columns, by name: [images + 1] int64, row i is bytes bounds[i] to
            bounds[i + 1] of the file.
    """

    path: Path
    content: pa.Buffer | None
    columns: dict[str, pa.Array]
    bounds: dict[str, NDArray[np.int64]]


class FeatureStore(Sequence[ImageFeatures]):
    """A finished store: random access to images in order of their ids.

    Pickles as its folder, so that it can be handed to the workers of a DataLoader, which open
    the shards again when they first need them.

    Attributes:
        folder: where the store lies.
        source: what made the features.
        augmentation: how each photo was mirrored or cropped before extraction ("plain": not).
        fingerprint: hash of source, ids and content.
        shards: row ranges, one per file: the unit of resuming.
        shard_bytes: size of each of these files.
    """

    def __init__(self, folder: Path, header: Json) -> None:
        self.folder = folder
        self.source = FeatureSource(**header["source"])
        self._photos: str | None = header["photos"]
        self._header = header
        self.augmentation: str = header["augmentation"]
        self.fingerprint: str = header["fingerprint"]
        filled = [shard for shard in header["shards"] if shard["images"]]
        self._files = [folder / shard["file"] for shard in filled]
        self._starts = list(accumulate((shard["images"] for shard in filled), initial=0))
        self.shards = [range(start, end) for start, end in pairwise(self._starts)]
        self._shards: dict[int, Shard] = {}
        self._hashes: list[str] = [shard["sha256"] for shard in filled]
        self.shard_bytes: list[int] = [shard["bytes"] for shard in filled]
        self._intact: set[int] = set()  # shards whose content has been compared with its hash

    @classmethod
    def open(cls, folder: str | Path) -> FeatureStore:
        """Open a finished store, by its path or its address (s3://bucket/features).

        Raises:
            InputError: if the folder holds no store, one of another format, an unfinished one,
                or one whose shards are missing or cut off.
        """
        folder = folder_at(folder)
        header = read_header(folder)
        try:
            if not header["complete"]:
                raise InputError(
                    f"{folder}: the feature store is unfinished ({len(header['shards'])} shards "
                    "so far); run the command that was writing it once more, it will continue"
                )
            for shard in header["shards"]:
                _check_size(folder / shard["file"], shard["bytes"])
            return cls(folder, header)
        except (KeyError, TypeError, AttributeError) as error:  # fields of other names or types
            raise InputError(
                f"{folder / HEADER} is damaged ({error}); delete the folder and extract again"
            ) from error

    @cached_property
    def photos(self) -> Path | None:
        """Folder the photos came from, None if they came from elsewhere."""
        return folder_at(self._photos) if self._photos else None

    @property
    def stamps(self) -> Stamps:
        """Of the photos it was made of, those that could not be used too; {} if unknown."""
        return load_stamps(self.folder, self._header)

    def __reduce__(self) -> tuple[Callable[[Path], FeatureStore], tuple[Path]]:
        return FeatureStore.open, (self.folder,)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> ImageFeatures:  # type: ignore[override]
        """The image of one row; its arrays are read-only.

        Raises:
            InputError: if the shard is damaged.
        """
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"{self.folder}: row {index} of {len(self)}")
        number = bisect_right(self._starts, row) - 1
        row -= self._starts[number]
        if number not in self._intact:
            self.check_shard(number)
        shard = self._shard(number)
        cells = {name: column[row] for name, column in shard.columns.items()}
        values = _read_row(shard, row)
        boxes = np.frombuffer(values["boxes"], "<f4").reshape(-1, 4)
        n = len(boxes)
        features = np.frombuffer(values["features"], "<f2")
        return ImageFeatures(
            image_id=cells["image_id"].as_py(),
            features=features.reshape(n, self.source.dimension),
            boxes=boxes,
            labels=tuple(cells["labels"].as_py()) or ("",) * n,
            attributes=tuple(cells["attributes"].as_py()) or ("",) * n,
            width=cells["width"].as_py(),
            height=cells["height"].as_py(),
        )

    @cached_property
    def ids(self) -> list[str]:
        """All image ids, sorted."""
        return [
            image_id
            for shard in range(len(self._files))
            for image_id in self._shard(shard).columns["image_id"].to_pylist()
        ]

    def index(self, image_id: str) -> int:  # type: ignore[override]
        """Row of an image; KeyError if the store has none of that id."""
        row = bisect_left(self.ids, image_id)
        if row == len(self) or self.ids[row] != image_id:
            raise KeyError(image_id)
        return row

    def check_shard(self, number: int) -> None:
        """Compare a shard's content with its hash, which reading a row does once per process."""
        path = self._files[number]
        if is_remote(path):
            self._shard(number)
        elif sha256(path) != self._hashes[number]:
            raise _damaged(path, "its content has another hash")
        self._intact.add(number)

    def _shard(self, number: int) -> Shard:
        if number not in self._shards:
            path = self._files[number]
            content = self._downloaded(number) if is_remote(path) else None
            self._shards[number] = _open_shard(path, content)
        return self._shards[number]

    def _downloaded(self, number: int) -> pa.Buffer:
        """A shard on another machine, which replaces the former one in memory."""
        self._shards.clear()
        path = self._files[number]
        content = download(path)
        if hashlib.sha256(content).hexdigest() != self._hashes[number]:
            raise _damaged(path, "its content has another hash")
        return pa.py_buffer(content)


def read_header(folder: Path) -> Json:
    """The content of `store.json`, of a finished or unfinished store of this format."""
    path = folder / HEADER
    try:
        header: Json = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is not a feature store (no {HEADER} in it); "
            "make one with: sparta extract PHOTOS --out FOLDER"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); delete the folder and extract again") from (
            error
        )
    found = header.get("format") if isinstance(header, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path}: feature store format {found!r}, this version reads {FORMAT}; extract again"
        )
    return header


def load_stamps(folder: Path, content: Json) -> dict[str, Sequence[int]]:
    """The stamps that a header, or what it says of a former content, names; {} if not known."""
    path = folder / (content.get("stamps") or "")
    try:
        found: dict[str, Sequence[int]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def source_hash(source: FeatureSource) -> str:
    """Hash of what decides the features: equal for the same weights under another name."""
    return hashlib.sha256(json.dumps(source.content, sort_keys=True).encode()).hexdigest()


def _check_size(path: Path, expected: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != expected:
        state = "is missing" if found is None else f"has {found} bytes instead of {expected}"
        raise InputError(f"{path} {state}; delete the store's folder and extract again")


def _open_shard(path: Path, content: pa.Buffer | None) -> Shard:
    # Closing the file keeps the mapping: the arrays hold it. Large stores have more shards than
    # a process may have open files.
    options = pa.ipc.IpcReadOptions(use_threads=False)
    try:
        with pa.memory_map(str(path)) if content is None else pa.BufferReader(content) as file:
            start = file.read_buffer().address
            batch = pa.ipc.open_file(file, options=options).get_batch(0)
    except pa.ArrowInvalid as error:
        raise _damaged(path, str(error)) from error
    if not batch.schema.equals(SCHEMA):
        raise InputError(f"{path} has other columns than this version writes; extract again")
    columns = dict(zip(SCHEMA.names, batch.columns, strict=True))
    bounds = {}
    for name, offset in READ_BY_ROW.items():
        _, offsets, values = columns.pop(name).buffers()
        ends = np.frombuffer(offsets, offset, batch.num_rows + 1).astype(np.int64)
        bounds[name] = ends + (values.address - start)
    return Shard(path, content, columns, bounds)


def _read_row(shard: Shard, row: int) -> dict[str, bytes]:
    """Features and boxes of one row; holds no file open, for the same reason as above."""
    found = {}
    if shard.content is not None:
        whole = memoryview(shard.content)
        return {
            name: bytes(whole[slice(*bounds[row : row + 2])])
            for name, bounds in shard.bounds.items()
        }
    with shard.path.open("rb", buffering=0) as file:
        for name, bounds in shard.bounds.items():
            start, end = bounds[row : row + 2].tolist()
            file.seek(start)
            found[name] = file.read(end - start)
            if len(found[name]) < end - start:
                raise _damaged(shard.path, f"it ends within row {row}")
    return found


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(f"{path} is damaged ({reason}); delete the store's folder and extract again")


# ---- verification ------------------------------------------------------------------------------


def stores_in(folder: str | Path) -> list[Path]:
    """The feature store that a folder is, or those in it: one per test-time augmentation."""
    folder = folder_at(folder)
    if (folder / HEADER).is_file():
        return [folder]
    return sorted(header.parent for header in folder.glob(f"*/{HEADER}"))


def verify_stores(folders: Iterable[str | Path], progress: Progress = no_progress) -> list[str]:
    """What is damaged in feature stores, a line each; a store that cannot be opened is one line.

    Progress is of the stage "hash", in megabytes of each store.
    """
    problems: list[str] = []
    for folder in folders:
        try:
            store = FeatureStore.open(folder)
        except InputError as error:
            problems.append(str(error))
            continue
        done, total = 0, sum(store.shard_bytes)
        for number, size in enumerate(store.shard_bytes):
            try:
                store.check_shard(number)
            except InputError as error:
                problems.append(str(error))
            done += size
            progress("hash", -(-done // 10**6), -(-total // 10**6))
    return problems
