"""The vectors of images in a FAISS index file, and the images nearest to a query's vector."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.manifest import MANIFEST
from indexer.store.images import DIGITS
from sparta.errors import InputError, first_line
from sparta.extras import require
from sparta.files import sync

CONTENT_IDS = "content_ids.arrow"  # of the rows
_SCHEMA = pa.schema([("content_id", pa.large_string())])


def write_content_ids(folder: Path, content_ids: Iterable[str]) -> None:
    """Write and sync the content ids of a part's rows, in their order."""
    table = pa.table([list(content_ids)], schema=_SCHEMA)
    with (
        pa.OSFile(str(folder / CONTENT_IDS), "wb") as file,
        pa.ipc.new_file(file, _SCHEMA) as writer,
    ):
        writer.write_table(table)
    sync(folder / CONTENT_IDS)


def read_content_ids(folder: Path) -> pa.ChunkedArray:
    """The content ids of a part's rows; raises InputError if the file is damaged."""
    path = folder / CONTENT_IDS
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate(full=True)
        return table.column("content_id")
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InputError(
            f"{path} is damaged ({first_line(error)}): add the dense part again with "
            "`sparta add --dense`"
        ) from error


VectorIndexKind = Literal["flat", "hnsw"]

NEIGHBOURS = 32  # links of a vector in the graph
EF_CONSTRUCTION = 200
EF_SEARCH = 128  # candidates kept while searching the graph; more if k is larger


class Nearest(NamedTuple):
    """Images by descending score, ties by number."""

    images: NDArray[np.int64]  # [k] image numbers
    scores: NDArray[np.float32]  # [k]
    # [k] the view that has the score, the first of equals; None if images have one
    views: NDArray[np.int64] | None = None


class ImageVectors:
    """K vectors for each of N images, compared by inner product; an image's score is its best.

    A flat index compares the query with every vector. An HNSW graph (arXiv 1603.09320) visits
    few of them and may miss some images, but what it finds has the same scores. Row image·K + view
    of the FAISS index has a view; `added` are [M, K, D] vectors of further images, which a graph
    does not have.
    """

    def __init__(self, index: Any, views: int, added: NDArray[np.float32] | None = None) -> None:
        faiss = import_faiss()
        self._index = index
        self._added = np.empty((0, views, index.d), np.float32) if added is None else added
        self._flat = faiss.downcast_index(index.storage) if hasattr(index, "storage") else index
        self.views = views

    @classmethod
    def create(cls, dimension: int, views: int, kind: VectorIndexKind = "flat") -> ImageVectors:
        """An index without images."""
        faiss = import_faiss()
        if kind == "flat":
            return cls(faiss.IndexFlatIP(dimension), views)
        graph = faiss.IndexHNSWFlat(dimension, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = EF_CONSTRUCTION
        return cls(graph, views)

    @classmethod
    def open(cls, path: Path, views: int) -> ImageVectors:
        """Read a file; raises InputError if FAISS cannot read it."""
        try:
            return cls(import_faiss().read_index(str(path)), views)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"{path} cannot be read: {reason}; add it again with `sparta add --dense`"
            ) from error

    def save(self, path: Path) -> None:
        """Write a file."""
        import_faiss().write_index(self._index, str(path))

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Append images [B, K, D]; raises ValueError for other shapes and infinite numbers."""
        if vectors.shape[1:] != (self.views, self.dimension) or not np.isfinite(vectors).all():
            raise ValueError(
                f"expected finite vectors [B, {self.views}, {self.dimension}], "
                f"found {list(vectors.shape)}"
            )
        self._index.add(np.ascontiguousarray(vectors.reshape(-1, self.dimension)))

    def followed_by(self, added: NDArray[np.float32]) -> ImageVectors:
        """These images and others [M, K, D] after them; these stay as they are."""
        return ImageVectors(self._index, self.views, added)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self._index.d)

    def __len__(self) -> int:
        """N."""
        return self._first_added + len(self._added)

    @property
    def _first_added(self) -> int:
        return int(self._index.ntotal) // self.views

    def of(self, image: int) -> NDArray[np.float32]:
        """The vectors of an image's views, [K, D]."""
        if image >= self._first_added:
            found: NDArray[np.float32] = self._added[image - self._first_added]
            return found
        found = self._flat.reconstruct_n(image * self.views, self.views)
        return found

    def nearest(
        self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Nearest:
        """The k best images for a query's vector [D]; all of them if there are fewer.

        Images that are `allowed` [N] are all compared; None for any.
        """
        if self._index is not self._flat and allowed is None and not len(self._added):
            return self._walk(query, k)
        scores = self.scores(query)
        found = best(scores.max(axis=1), k, allowed)
        if self.views == 1:
            return found
        return found._replace(views=scores[found.images].argmax(axis=1))

    def scores(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Inner products of a vector [D] with every view of every image, [N, K]; exact.

        Equal vectors get equal scores, which a matrix product does not promise.
        """
        faiss = import_faiss()
        query = np.ascontiguousarray(query, np.float32)
        found = np.empty((len(self), self.views), np.float32)
        first = self._first_added
        parts = [(found[:first], self._flat.get_xb())]
        if len(self._added):
            parts.append((found[first:], faiss.swig_ptr(self._added)))
        for products, vectors in parts:
            faiss.fvec_inner_products_ny(
                faiss.swig_ptr(products),
                faiss.swig_ptr(query),
                vectors,
                self.dimension,
                products.size,
            )
        return found

    def _walk(self, query: NDArray[np.float32], k: int) -> Nearest:
        """Search the graph; k·K vectors belong to at least k images."""
        rows = min(k, len(self)) * self.views
        options = import_faiss().SearchParametersHNSW(efSearch=max(EF_SEARCH, rows))
        scores, found = self._index.search(query[None], rows, params=options)
        scores, found = scores[found >= 0], found[found >= 0]
        order = np.lexsort((found, -scores))
        scores, found = scores[order], found[order]
        _, first = np.unique(found // self.views, return_index=True)
        first = np.sort(first)[:k]
        views = found[first] % self.views if self.views > 1 else None
        return Nearest(found[first] // self.views, scores[first], views)


def best(
    scores: NDArray[np.float32],
    k: int,
    allowed: NDArray[np.bool_] | None = None,
    image_id: Callable[[int], str] | None = None,
) -> Nearest:
    """The k largest of the scores [N] of N images, of those allowed [N], None for all.

    Ties are ordered by `image_id`, or by number where images are in the order of their ids.
    """
    candidates = np.arange(len(scores)) if allowed is None else np.flatnonzero(allowed)
    if k < len(candidates):
        own = scores[candidates]
        candidates = candidates[own >= np.partition(own, -k)[-k]]
    if image_id is not None:
        candidates = np.array(sorted(candidates.tolist(), key=image_id), np.int64)
    images = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return Nearest(images, scores[images])


def import_faiss() -> Any:
    """The `faiss` module; raises InputError if it is not installed."""
    return require("faiss")


PREFIX = "added-"
_RECORD = np.dtype([("content_id", f"S{DIGITS}"), ("vectors", "<u4"), ("record", "<u4")])


class AddedRows:
    """The rows that were appended to a part, as far as they are whole; more with every call.

    A row never changes, so that rows may be read while others are appended. Rows of a part that was
    made anew are in other files. `views` and `dimension` are those of a row.
    """

    def __init__(self, folder: Path, views: int, dimension: int) -> None:
        made = sha256((folder / MANIFEST).read_bytes()).hexdigest()[:12]
        self._shape = views, dimension
        self.content_id_file = folder / f"{PREFIX}{made}.content_ids"
        self.vector_file = folder / f"{PREFIX}{made}.vectors"

    def records(self) -> NDArray[np.void]:
        """The whole records; raises InputError if one before the last is damaged."""
        data = self.content_id_file.read_bytes() if self.content_id_file.exists() else b""
        found = np.frombuffer(data, _RECORD, len(data) // _RECORD.itemsize)
        whole = np.array([one["record"] == crc32(one.tobytes()[:-4]) for one in found], np.bool_)
        count = len(whole) if whole.all() else int(whole.argmin())
        if whole[count:].any():
            raise _damaged(self.content_id_file)
        return found[:count]

    def content_ids(self) -> list[str]:
        """[n] of each row."""
        content_ids: list[str] = self.records()["content_id"].astype(f"U{DIGITS}").tolist()
        return content_ids

    def vectors(self, count: int, checked: int = 0) -> NDArray[np.float32]:
        """[count, K, D] the first rows, mapped; checksums of the first `checked` are passed over.

        Raises InputError if a row is damaged.
        """
        if not count:
            return np.empty((0, *self._shape), np.float32)
        try:
            rows = np.memmap(self.vector_file, np.dtype("<f4"), "r", 0, (count, *self._shape))
        except (OSError, ValueError) as error:  # missing, or too short
            raise _damaged(self.vector_file) from error
        expected = self.records()["vectors"]
        if any(crc32(rows[row]) != expected[row] for row in range(checked, count)):
            raise _damaged(self.vector_file)
        return rows

    def append(self, content_ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Append n rows [n, K, D] with their content ids and sync them; only the writer may.

        Raises InputError if the records are damaged; OSError if the disk fails.
        """
        count = len(self.records())
        rows = np.ascontiguousarray(vectors, "<f4")
        records = np.zeros(len(content_ids), _RECORD)
        records["content_id"] = content_ids
        records["vectors"] = [crc32(row) for row in rows]
        records["record"] = [crc32(one.tobytes()[:-4]) for one in records]
        _write(self.vector_file, count * rows[0].nbytes, rows.tobytes())
        _write(self.content_id_file, count * _RECORD.itemsize, records.tobytes())
        sync(self.content_id_file.parent)


def _write(path: Path, position: int, data: bytes) -> None:
    """Put data after the whole rows of a file, and sync it."""
    with path.open("ab") as file:
        file.truncate(position)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged: add the dense part again with `sparta add --dense`")


# Content ids of images that never change, under a name of their own; those of others under None.
ContentIdParts: TypeAlias = Sequence[tuple[Hashable | None, Callable[[], pa.ChunkedArray]]]


class RowFinder:
    """Looks up rows by content ids; what does not change is looked up once. Safe from any thread.

    After the first call, memory holds some 170 bytes a row. `content_ids` are of the first rows.
    """

    def __init__(self, content_ids: pa.ChunkedArray) -> None:
        self._lock = Lock()
        self._rows: dict[str, int] = {}
        self._content_ids: pa.ChunkedArray | None = content_ids
        self._first = len(content_ids)
        self._known = 0
        # Of the images that were looked up last: rows, and how many rows there were then.
        self._found: dict[Hashable, tuple[NDArray[np.int64], int]] = {}

    def find(self, images: ContentIdParts, added: Sequence[str]) -> NDArray[np.int64]:
        """[documents] the row of each image of one commit, -1 where there is none.

        `added` are the content ids of the rows after the first; no fewer than in an earlier call.
        """
        with self._lock:
            if self._content_ids is not None:
                self._add(self._content_ids.to_pylist())
                self._content_ids = None
            self._add(added[self._known - self._first :])
            found, every = {}, [np.empty(0, np.int64)]
            for name, content_ids in images:
                rows, known = self._found.get(name, (None, 0))
                if rows is None:
                    rows = self._look_up(content_ids())
                elif known < self._known and (rows < 0).any():
                    lacking, rows = rows < 0, rows.copy()
                    rows[lacking] = self._look_up(content_ids().filter(pa.array(lacking)))
                every.append(rows)
                if name is not None:
                    found[name] = rows, self._known
            self._found = found
            return np.concatenate(every)

    def _add(self, content_ids: Sequence[str]) -> None:
        for row, content_id in enumerate(content_ids, start=self._known):
            self._rows.setdefault(content_id, row)
        self._known += len(content_ids)

    def _look_up(self, content_ids: pa.ChunkedArray) -> NDArray[np.int64]:
        rows = self._rows
        return np.array(
            [rows.get(content_id, -1) for content_id in content_ids.to_pylist()], np.int64
        )
