"""Sites to measure: of an index as it is, or of a larger collection made of its images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eval.bench.query_latency.collections.corpus import CorpusRows
from eval.bench.query_latency.collections.enlarge import CollectionKind, enlarge
from eval.bench.query_latency.collections.impact_source import read_source
from eval.bench.serving.enlarged_index import METADATA, image_id
from indexer.grounding import Grounding, Inputs, pack
from server.publish.collection import Collection, open_collection, ordered
from server.publish.folder import SiteFolder
from server.publish.index import write_index
from server.publish.page import write_page
from server.publish.records import Shown
from sparta.progress import Progress
from sparta.substitutes import SubstituteTable
from sparta.tokenizer import WordPieceTokenizer

NOTHING = Inputs(
    np.empty((0, 4), np.float32), np.empty(0, np.int32), np.empty(0, np.int16)
)  # what won is unknown


@contextmanager
def collection_to_publish(
    index: Path, images: int | None, kind: CollectionKind
) -> Iterator[Collection]:
    """The images of an index, or as many as wanted made of them, without grounding."""
    if images is None:
        with open_collection(index) as collection:
            yield collection
        return
    source = read_source(index)
    tokenizer = WordPieceTokenizer.from_folder(index)
    impacts = joined(enlarge(source, images, None, kind), len(tokenizer.vocabulary))
    order = ordered(impacts, source.bits)
    yield made_collection(impacts, order, tokenizer, SubstituteTable.open(index), source.bits)


def joined(chunks: Iterable[CorpusRows], vocabulary: int) -> csr_array:
    """[images, vocabulary] the impacts of rows."""
    terms, impacts, lengths = [], [], [np.zeros(1, np.int64)]
    for rows in chunks:
        terms.append(rows.terms)
        impacts.append(rows.impacts.astype(np.uint16))
        lengths.append(np.diff(rows.starts))
    starts = np.cumsum(np.concatenate(lengths))
    shape = (len(starts) - 1, vocabulary)
    return csr_array((np.concatenate(impacts), np.concatenate(terms), starts), shape=shape)


def made_collection(
    impacts: csr_array,
    order: NDArray[np.int32],
    tokenizer: WordPieceTokenizer,
    substitutes: SubstituteTable,
    bits: int,
) -> Collection:
    """Images with numbers for ids, of usual size, without grounding."""
    starts, terms = impacts.indptr, impacts.indices

    def groundings(documents: Sequence[int]) -> list[bytes]:
        own = [terms[starts[one] : starts[one + 1]] for one in documents]
        return [pack(Grounding(one, np.full(len(one), -1), NOTHING)) for one in own]

    ids = [image_id(number) for number in range(impacts.shape[0])]
    return Collection(
        tokenizer, substitutes, bits, ids, impacts, order, lambda _: dict(METADATA), groundings
    )


def write_site(
    out: Path, collection: Collection, file_bytes: int, progress: Progress
) -> dict[str, int]:
    """Write a site without pictures.

    Returns:
        bytes of each kind of file.
    """
    site = SiteFolder(out)
    first = write_index(
        site,
        collection,
        lambda one: Shown(collection.ids[one], collection.metadata(one), None),
        about={"pictures": {"sizes": [], "suffix": "", "originals": False}, "examples": []},
        file_bytes=file_bytes,
        progress=progress,
    )
    write_page(site, first)
    site.finish()
    sizes: dict[str, int] = {}
    for path, size in site.sizes.items():
        room, _, name = path.partition("/")
        kind = name.partition("-")[0].removesuffix(".json") if room == "index" else "page"
        sizes[kind] = sizes.get(kind, 0) + size
    return sizes
