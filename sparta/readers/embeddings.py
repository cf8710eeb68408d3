"""Image embeddings of dual encoders such as CLIP, stored by other software: one vector an image.

A path is a `.npy` or `.npz` of [N, d] floats, a Parquet file, or the folder that clip-retrieval
writes (github.com/rom1504/clip-retrieval, `clip_inference/writer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types
from pydantic import TypeAdapter

from sparta.errors import InputError, first_line
from sparta.features.record import JOINT, FeatureSource, ImageFeatures
from sparta.files import full_disk_reported
from sparta.json_values import Json
from sparta.readers.base import FeatureReader, ImportOptions, parse, read_lines, without_boxes
from sparta.readers.npy import FLOATS, INTEGERS, ArrayFile, Arrays, array_names
from sparta.readers.splits import decode_names

FOLDER, TABLES = "img_emb", "metadata"  # of clip-retrieval
SUFFIXES = (".npy", ".npz", ".parquet")
BESIDE = (".txt", ".json", ".parquet")  # files of an array's ids
# Columns of ids, of which the first counts: by a path a server finds the photo.
IDS = ("image", "image_path", "file_name", "filename", "path", "image_id", "id", "key", "url")
TAKEN = ("width", "height", "path", "folder", "upload")  # fields that an index has itself
AT_ONCE = 4096  # rows in memory
NEAR = 1e-3  # how far from 1 half precision may leave a length
_ROWS = TypeAdapter(list[str | int | dict[str, Any]])


def fits(path: Path) -> bool:
    """Whether a path looks like embeddings, by its name or the files in it."""
    return (path.suffix in SUFFIXES and path.is_file()) or any((path / FOLDER).glob("*.npy"))


class EmbeddingReader(FeatureReader):
    """Each embedding is an image of one region, the whole image; all are checked at first."""

    def __init__(self, paths: Sequence[Path], options: ImportOptions) -> None:
        self._parts = _parts(paths)
        names, self._vectors = read_embeddings(*paths)
        self._ids = [name + options.image_suffix for name in names]
        self._order = sorted(range(len(names)), key=self._ids.__getitem__)
        dimension, files = self._vectors.shape[1], [*dict.fromkeys(chain(*self._parts))]
        super().__init__(options, dimension, [self._ids[row] for row in self._order], files)
        extra = {"space": JOINT}  # the encoder's weights are unknown
        self.source = FeatureSource("patch", options.made_by, "", dimension, 0, extra=extra)

    def __getitem__(self, row: int) -> ImageFeatures:
        place = self._order[row]
        return without_boxes(self.ids[row], self._vectors[place : place + 1])

    def metadata(self) -> Iterator[Json]:
        """The rows of the files of ids, as far as they have columns."""
        rows = chain.from_iterable(_table(table) for _, table in self._parts)
        for image_id, row in zip(self._ids, rows, strict=True):
            if isinstance(row, dict):
                said = {name: value for name, value in row.items() if name not in TAKEN}
                kept = {n: v for n, v in said.items() if v not in (None, "", image_id) and v == v}
                yield {**kept, "image": image_id}  # without NaN, which is unequal to itself


def _parts(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Files of vectors, each with the file of its ids."""
    found: list[tuple[Path, Path]] = []
    for path in paths:
        for one in sorted((path / FOLDER).glob("*.npy")) or [path]:
            number = one.stem.rpartition("_")[2]
            tables = [path / TABLES / f"{TABLES}_{number}.parquet", *map(one.with_suffix, BESIDE)]
            there = [table for table in tables if table.is_file()]
            if len(there or [one][: one.suffix == ".npz"]) != 1:
                names = " and ".join(table.name for table in there) or "none"
                raise InputError(f"{one}: found ids in {names}: write one file, {one.stem}.txt")
            found.append((one, (there or [one])[0]))
    return found


def read_embeddings(*paths: Path) -> tuple[list[str], NDArray[np.float16]]:
    """The ids of N images, and their vectors [N, d] of length 1, in the files' order.

    The vectors are read-only, in a temporary file. Raises InputError, which names the file and the
    row that cannot be used.
    """
    parts, ids = _parts(paths), dict[str, None]()
    dimension = 0
    with full_disk_reported(Path(gettempdir())), TemporaryFile() as file:
        for path, table in parts:
            before = len(ids)
            for number, name in enumerate(_ids(table), 1):
                if name in ids:
                    raise InputError(f"{table}, row {number}: image {name!r} was there before")
                ids[name] = None
            row = before
            for block in _vectors(path):
                if block.shape[1] != (dimension := dimension or block.shape[1]):
                    raise InputError(f"{path}: rows of {block.shape[1]} numbers, not {dimension}")
                file.write(_unit(block, path, row - before).tobytes())
                row += len(block)
            if row != len(ids):
                count = f"{len(ids) - before:,} ids for the {row - before:,} rows"
                raise InputError(f"{table}: {count} of {path}")
        if not (ids and dimension):
            raise InputError(f"no embedding in {', '.join(map(str, paths))}")
        file.flush()
        return [*ids], np.memmap(file, np.float16, "r", shape=(len(ids), dimension))


def _unit(block: NDArray[np.number], path: Path, done: int) -> NDArray[np.float16]:
    """Vectors [n, d] at length 1; those near it stay as they are. `done` rows were before them."""
    with np.errstate(over="ignore", invalid="ignore"):  # found below
        values = block.astype(np.float32)
        lengths = np.linalg.norm(values, axis=1)
    for row in np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))[:1]:
        wrong = "all its numbers are 0, or one is NaN or infinite"
        raise InputError(f"{path}, row {done + row + 1}: {wrong}")
    other = np.abs(lengths - 1) > NEAR
    values[other] /= lengths[other, None]
    return values.astype(np.float16)


def _vectors(path: Path) -> Iterator[NDArray[np.number]]:
    """The vectors of a file, some [n, d] at a time."""
    if path.suffix == ".npz":
        yield _array(path, FLOATS, 2)
    elif path.suffix == ".npy":
        rows = len(ArrayFile(path, (2,), "float"))  # checked
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        yield from (values[start : start + AT_ONCE] for start in range(0, rows, AT_ONCE))
    else:
        done = 0
        for batch in parquet_batches(path, _is_vector):
            lists = batch[_one(batch.schema.names, path, "column of lists of floats")]
            sizes = lists.value_lengths().fill_null(0).to_numpy()
            for row in np.flatnonzero((sizes != sizes.max()) | (sizes == 0))[:1]:
                raise InputError(f"{path}, row {done + row + 1}: expected {sizes.max()} numbers")
            yield lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)
            done += len(batch)


def _array(path: Path, kinds: str, axes: int) -> NDArray[np.number]:
    """The array of an archive whose entries are of some kinds, with so many axes."""
    found = Arrays(path, sorted(array_names(path))).like(kinds, axes)
    return found[_one([*found], path, f"array with {axes} axes")]


def _one(names: Sequence[str], path: Path, what: str) -> str:
    """The only name, or that which speaks of images."""
    ours = [name for name in names if len(names) == 1 or "im" in name.lower()]
    if len(ours) != 1:
        raise InputError(f"{path}: expected one {what}, found {', '.join(names) or 'none'}")
    return ours[0]


def _ids(table: Path) -> Iterator[str]:
    """Ids as an index can have them: paths without root, addresses without //."""
    for number, row in enumerate(_table(table), 1):
        cells = [row[name] for name in IDS if name in row] if isinstance(row, dict) else [row]
        parts = str(next((one for one in cells if isinstance(one, str | int)), "")).split("/")
        image_id = "/".join(part for part in parts if part not in ("", ".", ".."))
        if not image_id.strip():
            raise InputError(f"{table}, row {number}: no id; columns of ids are {', '.join(IDS)}")
        yield image_id


def _table(path: Path) -> Iterator[Any]:
    """The rows of a file of ids: texts, or dictionaries with an id and other fields."""
    if path.suffix == ".parquet":
        for batch in parquet_batches(path, _is_field):
            yield from batch.to_pylist()
    elif path.suffix == ".npz":
        yield from decode_names(_array(path, "US" + INTEGERS, 1), path)
    elif path.suffix == ".txt":
        yield from read_lines(path)
    else:
        yield from parse(_ROWS, "\n".join(read_lines(path)).encode(), str(path))


def _is_vector(column: pa.Field) -> bool:
    return bool(types.is_floating(getattr(column.type, "value_type", pa.null())))


def _is_field(column: pa.Field) -> bool:
    kind = getattr(column.type, "value_type", column.type)  # of a list, the entries'
    return not (_is_vector(column) or types.is_nested(kind) or types.is_binary(kind))


def parquet_batches(
    path: Path, wanted: Callable[[pa.Field], bool] = lambda _: True
) -> Iterator[pa.RecordBatch]:
    """Some columns of a Parquet file, a few rows at a time; raises InputError."""
    try:
        from pyarrow import parquet  # whose library the serving image leaves out

        with parquet.ParquetFile(path) as file:
            columns = [column.name for column in file.schema_arrow if wanted(column)]
            yield from file.iter_batches(AT_ONCE, columns=columns)
    except Exception as error:  # a damaged file fails in many ways
        raise InputError(
            f"{path} is not Parquet, or Parquet cannot be read here: {first_line(error)}"
        ) from error
