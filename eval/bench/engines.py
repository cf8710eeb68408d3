"""The timed engines over one collection, and the exact answers they are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eval.bench.collections import Corpus
from eval.bench.queries import TermQuery, query_matrix
from eval.bench.vectors import Vectors
from indexer.dense.vectors import EF_CONSTRUCTION, EF_SEARCH, NEIGHBOURS, ImageVectors, best
from indexer.engines.lucene import LuceneIndex
from indexer.index_writer import FIRST, finish_index
from indexer.lucene.writer import LuceneWriter
from indexer.manifest import LUCENE, OFFSETS
from indexer.postings import Postings, QuantisationReport
from indexer.settings import IndexSettings
from indexer.store.commit import segment_folder
from indexer.store.segment import SegmentWriter
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.extras import how_to_install
from sparta.json_values import Json

STARTS, DOCUMENTS, IMPACTS = "starts.npy", "documents.npy", "impacts.npy"
VECTORS, GRAPH = "vectors.npy", "vectors.faiss"


class Answer(NamedTuple):
    """Images by descending score."""

    documents: NDArray[np.integer]  # [at most k] integers
    scores: NDArray[np.number]  # as many numbers


class Promise(Enum):
    """How an engine's answers relate to the exact ones; the value is the description."""

    ORDER = "exact: the same images and scores in the same order, ties by image"
    SCORES = "exact: the same scores; of images with equal ones, any"
    ROUNDED = "exact up to the rounding of float32"
    NEAR = "approximate"


Data = TypeVar("Data", Corpus, Vectors)


class Engine(ABC, Generic[Data]):
    """An index of one collection, and its search."""

    settings: ClassVar[str]  # description of how it is built and searched
    promise: ClassVar[Promise]  # about its answers
    library: ClassVar[str | None] = None  # that it needs and this package does not, if any

    def __init__(self, data: Data, folder: Path) -> None:
        self.data: Data = data
        self.folder = folder

    @abstractmethod
    def build(self) -> None:
        """Write the index into the folder."""

    @abstractmethod
    def open(self) -> None:
        """Load the index."""

    def read_ahead(self) -> None:
        """Read mapped files again, whose pages what was built since may have taken."""

    @abstractmethod
    def search(self, query: TermQuery, k: int) -> Answer:
        """The k best images; fewer where fewer score above 0. Thread-safe."""

    def memory_bytes(self) -> int:
        """Bytes that a search reads from: of the arrays in memory, or of the index's files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def close(self) -> None:
        """Release files and memory."""
        self.__dict__ = {"data": self.data, "folder": self.folder}


class LuceneEngine(Engine[Corpus]):
    """Impacts as term frequencies, one segment, no grounding."""

    settings = (
        "Lucene 9.9 as sparta search calls it: impacts as term frequencies, one segment, read "
        "through memory maps; calls into Java take turns, so that threads gain nothing"
    )
    promise = Promise.ORDER

    def build(self) -> None:
        """Write one document an image."""
        images = self.data.images
        with LuceneWriter(self.folder / LUCENE, self.data.vocabulary, images) as writer:
            for part in numbered(self.data):
                writer.add(part)

    def open(self) -> None:
        """Open the index."""
        self._index = LuceneIndex(self.folder / LUCENE)

    def search(self, query: TermQuery, k: int) -> Answer:
        """One call into Java for the query, one for the hits."""
        found = np.array(self._index.top(query.pieces, k), np.float64).reshape(-1, 2)
        return Answer(found[:, 0].astype(np.int32), found[:, 1])

    def close(self) -> None:
        """Close the index."""
        self._index.close()
        super().close()


class ColumnsEngine(Engine[Corpus]):
    """An index of one segment, without Lucene, as `sparta serve --engine columns` searches it."""

    settings = "as sparta serve searches them: memory-mapped, read ahead, one core a query"
    promise = Promise.ORDER

    def build(self) -> None:
        """Write the segment, and what an index has beside it."""
        terms, bits, images = len(self.data.vocabulary), self.data.bits, self.data.images
        with SegmentWriter(segment_folder(self.folder, FIRST), terms, bits) as segment:
            for part in numbered(self.data):
                segment.add(part)
            segment.finish()
            frequencies = segment.frequencies
        np.save(self.folder / OFFSETS, np.zeros(terms, np.float32))
        settings = IndexSettings(
            bits=bits, models=[], features=[], photos=None, offset_images=images
        )
        report = QuantisationReport()
        finish_index(self.folder, images, frequencies, report, "", settings, scale=1.0)

    def open(self) -> None:
        """Open the commit."""
        self._snapshot = Snapshot.open(self.folder)

    def read_ahead(self) -> None:
        """Read the columns from disk, as a server does."""
        self._snapshot.read_ahead()

    def search(self, query: TermQuery, k: int) -> Answer:
        """Sum the columns."""
        return Answer(*self._snapshot.top(query.terms, k))


def numbered(corpus: Corpus) -> Iterator[Postings]:
    """The images as an index takes them, under their numbers, without metadata or grounding."""
    done = 0
    for rows in corpus.rows():
        ids = [f"{done + place:09d}" for place in range(rows.shape[0])]
        yield postings_of(rows, ids, {})
        done += rows.shape[0]


def postings_of(rows: csr_array, ids: list[str], metadata: Json) -> Postings:
    """Impacts [n, V] as an index stores images of these ids, without grounding."""
    starts = rows.indptr.astype(np.int64)
    return Postings.without_grounding(ids, [metadata] * len(ids), starts, rows.indices, rows.data)


class Bm25sEngine(Engine[Corpus]):
    """The library's retrieval over our impacts instead of BM25 scores."""

    settings = "bm25s with its numba backend, float32 scores and int32 images, given our impacts"
    promise = Promise.SCORES
    library = "bm25s"

    def build(self) -> None:
        """Write the lists that the library would compute."""
        write_lists(self.data, self.folder)

    def open(self) -> None:
        """Pass them to the library."""
        import bm25s

        self._model = bm25s.BM25(backend="numba")
        self._model.scores = {
            "data": np.load(self.folder / IMPACTS),
            "indices": np.load(self.folder / DOCUMENTS),
            "indptr": np.load(self.folder / STARTS),
            "num_docs": self.data.images,
        }
        self._model.nonoccurrence_array = None
        self._model.unique_token_ids_set = range(len(self.data.vocabulary))

    def search(self, query: TermQuery, k: int) -> Answer:
        """Search; a repeated term is passed as often as it occurs."""
        terms = [term for term, count in query.terms.items() for _ in range(count)]
        k = min(k, self.data.images)
        (documents,), (scores,) = self._model.retrieve([terms], k=k, show_progress=False)
        return Answer(documents[scores > 0], scores[scores > 0])


def write_lists(corpus: Corpus, folder: Path) -> None:
    """Write each term's images and impacts, term after term, in three npy files.

    Starts are [V + 1] int64, documents [postings] int32, impacts [postings] float32.
    """
    frequencies = np.zeros(len(corpus.vocabulary), np.int64)
    for rows in corpus.rows():
        frequencies += np.bincount(rows.indices, minlength=len(frequencies))
    starts = np.concatenate([[0], np.cumsum(frequencies)])
    np.save(folder / STARTS, starts)
    shape = (corpus.postings,)
    documents = open_memmap(folder / DOCUMENTS, "w+", np.int32, shape)
    impacts = open_memmap(folder / IMPACTS, "w+", np.float32, shape)
    ends, first = starts[:-1].copy(), 0
    for rows in corpus.rows():
        part = rows.tocsc()
        counts = np.diff(part.indptr)
        # Where each posting goes: the end of its term's list so far, and its place in this part.
        places = np.repeat(ends - part.indptr[:-1], counts) + np.arange(part.nnz)
        documents[places] = part.indices + first
        impacts[places] = part.data
        ends += counts
        first += rows.shape[0]


class NumpyEngine(Engine[Vectors]):
    """All inner products, then a partition for the k best."""

    settings = "numpy: float32 matrix in memory @ query (BLAS on one core), then a partition"
    promise = Promise.ROUNDED

    def build(self) -> None:
        """The vectors as they are."""
        (self.folder / VECTORS).hardlink_to(self.data.path)

    def open(self) -> None:
        """Read them."""
        self._vectors = np.load(self.folder / VECTORS)

    def search(self, query: TermQuery, k: int) -> Answer:
        """Multiply and choose."""
        images, scores, _ = best(self._vectors @ self.data.queries[query.number], k)
        return Answer(images, scores)


class FaissFlat(Engine[Vectors]):
    """Every vector is compared."""

    settings = "FAISS IndexFlatIP, one core"
    promise = Promise.ROUNDED
    library = "faiss"
    _index: Any

    def build(self) -> None:
        """The vectors as they are, which the index would hold once more."""
        (self.folder / VECTORS).hardlink_to(self.data.path)

    def open(self) -> None:
        """Add all vectors."""
        import faiss

        self._index = faiss.IndexFlatIP(self.data.open().shape[-1])
        for chunk in self.data.chunks():
            self._index.add(chunk)

    def search(self, query: TermQuery, k: int) -> Answer:
        """Ask with one vector."""
        found = self._index.search(self.data.queries[query.number][None], k)
        scores, images = found[0][0], found[1][0]
        return Answer(images[images >= 0], scores[images >= 0])


class FaissHnsw(FaissFlat):
    """Vectors are compared along a graph."""

    settings = (
        f"FAISS IndexHNSWFlat as sparta add --dense --hnsw builds it: {NEIGHBOURS} neighbours, "
        f"efConstruction {EF_CONSTRUCTION}, efSearch {EF_SEARCH} or k if that is more"
    )
    promise = Promise.NEAR

    def build(self) -> None:
        """Add all vectors to a graph."""
        graph = ImageVectors.create(self.data.open().shape[-1], 1, "hnsw")
        for chunk in self.data.chunks():
            graph.add(chunk[:, None])
        graph.save(self.folder / GRAPH)

    def open(self) -> None:
        """Read the graph."""
        import faiss

        self._index = faiss.read_index(str(self.folder / GRAPH))
        self._index.hnsw.efSearch = EF_SEARCH


AnyEngine: TypeAlias = Engine[Any]
SPARSE: dict[str, type[AnyEngine]] = {
    "lucene": LuceneEngine,
    "columns": ColumnsEngine,
    "bm25s": Bm25sEngine,
}
DENSE: dict[str, type[AnyEngine]] = {
    "numpy": NumpyEngine,
    "faiss-flat": FaissFlat,
    "faiss-hnsw": FaissHnsw,
}
ENGINES = SPARSE | DENSE


def find(names: Sequence[str]) -> tuple[dict[str, type[AnyEngine]], dict[str, str]]:
    """Engines by name: those whose library is installed; and why the others are left out."""
    found: dict[str, type[AnyEngine]] = {}
    missing: dict[str, str] = {}
    for name in names:
        if name not in ENGINES:
            raise InputError(f"--engine: {name!r} is not one of: {', '.join(ENGINES)}")
        engine = ENGINES[name]
        try:
            if engine.library:
                import_module(engine.library)
        except ImportError as error:
            missing[name] = f"{error.name} is not installed: {how_to_install('bench')}"
        else:
            found[name] = engine
    return found, missing


# ---- exact answers ------------------------------------------------------------------------------

ROUNDING = 1e-4  # of inner products of vectors of length 1 in float32
AT = 10


class WrongAnswer(Exception):
    """Raised when an engine's answer breaks its promise."""


@dataclass(frozen=True)
class GroundTruth:
    """The score of every image for some queries."""

    scores: NDArray[np.int32] | NDArray[np.float32]  # [Q, N] sums of impacts or inner products

    @classmethod
    def of_impacts(cls, corpus: Corpus, queries: Sequence[TermQuery]) -> GroundTruth:
        """Multiply all impacts by the queries' counts: slow, obvious, exact."""
        counts = query_matrix(queries, len(corpus.vocabulary)).T.tocsr()
        parts = [(rows @ counts).toarray().T for rows in corpus.rows()]
        return cls(np.concatenate(parts, axis=1))

    @classmethod
    def of_vectors(cls, vectors: Vectors, queries: Sequence[TermQuery]) -> GroundTruth:
        """Multiply all vectors by the queries'."""
        own = vectors.queries[[query.number for query in queries]]
        parts = [(chunk @ own.T).T for chunk in vectors.chunks()]
        return cls(np.concatenate(parts, axis=1))

    def top(self, row: int, k: int) -> Answer:
        """The k best images of one query, ties by number; only images that share a term with it."""
        images, scores, _ = best(self.scores[row], k)
        if np.issubdtype(scores.dtype, np.integer):
            images, scores = images[scores > 0], scores[scores > 0]
        return Answer(images, scores)

    def check(self, name: str, promise: Promise, answers: Sequence[Answer], k: int) -> float:
        """Compare an engine's answers with the exact ones.

        Returns:
            overlap at 10: the share of the ten best images that the engine found; any image with
            an equal score counts.

        Raises:
            WrongAnswer: if the promise is broken.
        """
        shares = []
        for row, answer in enumerate(answers):
            right = self.top(row, k)
            if not self._holds(promise, answer, right, self.scores[row]):
                raise WrongAnswer(f"{name} finds {answer} instead of {right}")
            shares.append(self._overlap(answer, right, self.scores[row]))
        return float(np.mean(shares))

    def _holds(
        self, promise: Promise, answer: Answer, right: Answer, scores: NDArray[np.number]
    ) -> bool:
        if promise is Promise.NEAR:
            return True
        if len(answer.documents) != len(right.documents):
            return False
        if promise is Promise.ORDER and not np.array_equal(answer.documents, right.documents):
            return False
        within = ROUNDING if promise is Promise.ROUNDED else 0
        own = scores[answer.documents]
        return bool(
            len(np.unique(answer.documents)) == len(answer.documents)
            and np.allclose(answer.scores, right.scores, rtol=0, atol=within)
            and np.allclose(own, answer.scores, rtol=0, atol=within)
        )

    def _overlap(self, answer: Answer, right: Answer, scores: NDArray[np.number]) -> float:
        if not len(right.documents):
            return 1.0
        wanted = min(AT, len(right.documents))
        least = right.scores[wanted - 1]
        if np.issubdtype(scores.dtype, np.floating):
            least -= ROUNDING / 10
        found = np.unique(answer.documents[:wanted])
        return float((scores[found] >= least).sum() / wanted)
