"""Seismic: lists cut to their largest values, in clusters with a summary each."""

from __future__ import annotations

import numpy as np
from seismic import SeismicDataset, SeismicIndex, get_seismic_string

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise

FILE = "index"
POSTINGS = 8000  # of a list on average: twice the default, since captions' terms are frequent
QUERY_CUT = 10  # terms of a query, the largest first
HEAP_FACTOR = 0.8  # a cluster is passed over below this share of what the heap asks for


class Seismic(Engine[Corpus]):
    """The package of the method's authors."""

    settings = (
        f"pyseismic-lsr 0.5: {POSTINGS:,} postings a list on average, query_cut {QUERY_CUT}, "
        f"heap_factor {HEAP_FACTOR}, the rest as by default"
    )
    promise = Promise.NEAR

    def build(self) -> None:
        """Pass the images to the library."""
        dataset = SeismicDataset()
        first = 0
        for rows in self.data.rows():
            dataset.add_documents_by_id(
                [str(number) for number in range(first, first + len(rows))],
                rows.terms.astype(np.int64),
                rows.impacts.astype(np.float32),
                rows.starts,
            )
            first += len(rows)
        made = SeismicIndex.build_from_dataset(dataset, n_postings=POSTINGS)
        made.save(str(self.folder / FILE))

    def open(self) -> None:
        """Read the index."""
        self._index = SeismicIndex.load(str(self.folder / f"{FILE}.index.seismic"))

    def search(self, query: TermQuery, k: int) -> Answer:
        """Terms are text to it, and so are images."""
        terms = np.array([str(term) for term in query.terms], get_seismic_string())
        counts = np.array(list(query.terms.values()), np.float32)
        found = self._index.search(
            "", terms, counts, k, query_cut=QUERY_CUT, heap_factor=HEAP_FACTOR
        )
        return Answer(
            np.array([int(image) for _, _, image in found], np.int64),
            np.array([score for _, score, _ in found], np.float32),
        )
