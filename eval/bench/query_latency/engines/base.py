"""The interface of an engine in the benchmark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.dense_vectors import Vectors
from eval.bench.query_latency.collections.queries import TermQuery


class Answer(NamedTuple):
    """Images by descending score.

    Attributes:
        documents: [at most k] integers.
        scores: as many numbers.
    """

    documents: NDArray[np.integer]
    scores: NDArray[np.number]


class Promise(Enum):
    """How an engine's answers relate to the exact ones; the value is the description."""

    ORDER = "exact: the same images and scores in the same order, ties by image"
    SCORES = "exact: the same scores; of images with equal ones, any"
    ROUNDED = "exact up to the rounding of float32"
    NEAR = "approximate"


Data = TypeVar("Data", Corpus, Vectors)


class Engine(ABC, Generic[Data]):
    """An index of one collection, and its search.

    Attributes:
        settings: description of how it is built and searched.
        promise: about its answers.

    Args:
        data: the collection.
        folder: for the engine's index.
    """

    settings: ClassVar[str]
    promise: ClassVar[Promise]

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
