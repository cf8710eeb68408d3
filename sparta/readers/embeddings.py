"""Image embeddings of dual encoders such as CLIP, stored by other software: one vector an image.

A path is a `.npy` or `.npz` of [N, d] floats, a Parquet file, or the folder that clip-retrieval
writes (github.com/rom1504/clip-retrieval, `clip_inference/writer.py`).
"""

from __future__ import annotations

from bisect import bisect_right
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
from sparta.readers.npy import (
    FLOATS,
    INTEGERS,
    TEXTS,
    ArrayFile,
    Arrays,
    array_names,
    decode_texts,
)

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


def read_embeddings(path: str | Path) -> tuple[list[str], NDArray[np.float16]]:
    """The ids of N images, and their vectors [N, d] of length 1, read-only, in the files' order.

    Raises InputError, which names the file and the row that cannot be used.
    """
    reader = EmbeddingReader([Path(path)], ImportOptions(""))
    for row, problem in reader.problems.items():
        raise InputError(f"{reader.place(row)}: {problem}")
    return reader.file_ids, reader.vectors


class EmbeddingReader(FeatureReader):
    """Each embedding is an image of one region, the whole image.

    The vectors are unpacked to a temporary file at first: ids are in any order.

    Attributes:
        file_ids: ids of the N images in the files' order.
        vectors: [N, d] float16 in this order, of length 1, read-only.
        problems: row in this order → why it cannot be used.
    """

    def __init__(self, paths: Sequence[Path], options: ImportOptions) -> None:
        if not options.limit.all_regions:
            raise InputError("--regions and --keep: an embedding is of the whole image")
        self._parts = [part for path in paths for part in _parts(path)]
        self._starts, self._suffix = [0], options.image_suffix
        self.file_ids, self.problems = list[str](), dict[int, str]()
        with full_disk_reported(Path(gettempdir())), TemporaryFile() as file:
            dimension = 0
            for block in self._unpacked():
                if block.shape[1] != (dimension or block.shape[1]):
                    found = f"{dimension} and {block.shape[1]}"
                    raise InputError(f"{paths[0]}: embeddings of {found} numbers: give one kind")
                dimension = block.shape[1]
                file.write(block.tobytes())
            if not (self.file_ids and dimension):
                known = f"{', '.join(SUFFIXES)} or a folder with {FOLDER}"
                raise InputError(f"{paths[0]}: no embedding is in it: give {known}")
            file.flush()
            shape = len(self.file_ids), dimension
            self.vectors = np.memmap(file, np.float16, "r", shape=shape)
        first: dict[str, int] = {}
        for row, one in enumerate(self.file_ids):
            if (before := first.setdefault(one, row)) != row:
                self.problems[row] = f"image {one!r} was already in {self.place(before)}"
        self._order = sorted(range(len(self.file_ids)), key=self.file_ids.__getitem__)
        ids = [self.file_ids[row] for row in self._order]
        files = [*dict.fromkeys(chain.from_iterable(self._parts))]
        super().__init__(options, dimension, ids, files)
        # Files do not say which encoder made them.
        extra = {"space": JOINT}
        self.source = FeatureSource("patch", options.made_by, "", dimension, 0, extra=extra)

    def __getitem__(self, row: int) -> ImageFeatures:
        place = self._order[row]
        if place in self.problems:
            raise InputError(f"{self.place(place)}: {self.problems[place]}")
        return without_boxes(self.ids[row], self.vectors[place : place + 1])

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        part = bisect_right(self._starts, row) - 1
        return f"{self._parts[part][0]}, row {row - self._starts[part] + 1}"

    def metadata(self) -> Iterator[Json]:
        """Of each image that has any, its id as `image` and the other columns of its row."""
        rows = chain.from_iterable(_table(table) for _, table in self._parts)
        for row, fields in enumerate(rows):
            image_id = self.file_ids[row]
            if row in self.problems or not isinstance(fields, dict):
                continue
            known = image_id.removesuffix(self._suffix), "", None
            kept = {
                name: value
                for name, value in fields.items()
                if value not in known and value == value and name not in TAKEN  # NaN is not itself
            }
            if kept:
                yield {**kept, "image": image_id}

    def _unpacked(self) -> Iterator[NDArray[np.float16]]:
        for path, table in self._parts:
            row = self._starts[-1]
            for block in _vectors(path):
                vectors, usable = _unit(block)
                for wrong in np.flatnonzero(~usable).tolist():
                    self.problems[row + wrong] = "its numbers are all 0, or one is no finite number"
                row += len(block)
                yield vectors
            self.file_ids += [one + self._suffix for one in _ids(table)]
            if len(self.file_ids) != row:
                ids, rows = (end - self._starts[-1] for end in (len(self.file_ids), row))
                raise InputError(f"{table}: {ids:,} ids for the {rows:,} rows of {path}")
            self._starts.append(row)


def _parts(path: Path) -> list[tuple[Path, Path]]:
    """Files of embeddings, each with the file of its ids, which may be the same."""
    if path.is_dir():
        found = sorted((path / FOLDER).glob("*.npy"))
        numbers = [one.stem.rpartition("_")[2] for one in found]
        tables = [path / TABLES / f"{TABLES}_{number}.parquet" for number in numbers]
        return list(zip(found, tables, strict=True))
    if path.suffix == ".parquet":
        return [(path, path)]
    beside = [one for one in map(path.with_suffix, BESIDE) if one.is_file()]
    if len(beside) > 1 or (path.suffix == ".npy" and not beside):
        names = " and ".join(one.name for one in beside) or "no file"
        text = path.with_suffix(".txt").name
        raise InputError(f"{path}: found {names} of ids; write one, such as {text}: an id a line")
    return [(path, beside[0] if beside else path)]


# ---- vectors -------------------------------------------------------------------------------------


def _unit(block: NDArray[np.number]) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """Vectors [n, d] at length 1, and which [n] can be used; those near it stay as they are."""
    values = block.astype(np.float32)
    lengths = np.linalg.norm(values, axis=1)
    usable = np.isfinite(lengths) & (lengths > 0)
    other = usable & (np.abs(lengths - 1) > NEAR)
    values[other] /= lengths[other, None]
    values[~usable] = 0
    return values.astype(np.float16), usable


def _vectors(path: Path) -> Iterator[NDArray[np.number]]:
    """The vectors of a file, some [n, d] at a time."""
    if path.suffix == ".npy":
        yield from ArrayFile(path, (2,), "float").blocks(AT_ONCE)
    elif path.suffix == ".npz":
        found = Arrays(path, sorted(array_names(path))).like(FLOATS, 2)
        yield found[_one([*found], path, "array of floats [N, d]")]
    else:
        done = 0
        for batch in parquet_batches(path, lambda one: _is_list(one, types.is_floating)):
            name = _one(batch.schema.names, path, "column of lists of floats")
            yield _matrix(batch[name], path, done)
            done += len(batch)


def _one(names: Sequence[str], path: Path, what: str) -> str:
    """The only name, or that which speaks of images."""
    ours = [name for name in names if len(names) == 1 or "im" in name.lower()]
    if len(ours) != 1:
        raise InputError(f"{path}: expected one {what}, found {', '.join(names) or 'none'}")
    return ours[0]


def _matrix(lists: pa.Array, path: Path, done: int) -> NDArray[np.number]:
    """Lists of equally many numbers as [n, d]; `done` rows were before them."""
    sizes = lists.value_lengths().fill_null(0).to_numpy()
    for row in np.flatnonzero((sizes != sizes.max()) | (sizes == 0))[:1]:
        raise InputError(f"{path}, row {done + row + 1}: expected {sizes.max()} numbers")
    values: NDArray[np.number] = lists.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(lists), -1)


# ---- ids and fields ------------------------------------------------------------------------------


def _ids(table: Path) -> Iterator[str]:
    """Ids as an index can have them: paths without root, addresses without //."""
    for number, row in enumerate(_table(table, ids_alone=True), 1):
        cells = [row[name] for name in IDS if name in row] if isinstance(row, dict) else [row]
        parts = str(next((one for one in cells if isinstance(one, str | int)), "")).split("/")
        image_id = "/".join(part for part in parts if part not in ("", ".", ".."))
        if not image_id.strip():
            raise InputError(f"{table}, row {number}: no id; columns of ids are {', '.join(IDS)}")
        yield image_id


def _table(path: Path, ids_alone: bool = False) -> Iterator[Any]:
    """The rows of a file of ids: texts, or dictionaries with an id and other fields."""
    if path.suffix == ".parquet":
        for batch in parquet_batches(path, _is_id if ids_alone else _is_field):
            yield from batch.to_pylist()
    elif path.suffix == ".npz":
        found = Arrays(path, sorted(array_names(path))).like(TEXTS + INTEGERS, 1)
        yield from decode_texts(found[_one([*found], path, "array of ids")], path)
    elif path.suffix == ".txt":
        yield from read_lines(path)
    else:
        yield from parse(_ROWS, "\n".join(read_lines(path)).encode(), str(path))


def _is_list(column: pa.Field, of: Callable[[pa.DataType], bool]) -> bool:
    kind = column.type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return lists and of(kind.value_type)


def _is_field(column: pa.Field) -> bool:
    """Whether metadata can have the values of a column."""
    plain = not (types.is_nested(column.type) or types.is_binary(column.type))
    return (plain and column.name[:2] != "__") or _is_list(column, types.is_string)


def _is_id(column: pa.Field) -> bool:
    return column.name in IDS and _is_field(column)


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
