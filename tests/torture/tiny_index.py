"""A tiny index with a dense part, and what it answers: what the torture suites break."""

from pathlib import Path
from typing import Any

from indexer.build import build_index
from indexer.dense.build import add_dense
from indexer.engines.open import open_backend, open_index
from indexer.settings import PruningSettings
from sparta.cluster import connected
from sparta.features.store import FeatureStore
from tests.indexer.live_index import answer
from tests.indexer.tiny import save_model, write_store
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import small_tokenizer

QUERIES = ("dog beach", "red ball cat", "dogs running")


def make_corpus(folder: Path, shards: int = 3) -> Path:
    """Write `features`, a `model` and a dense model `vse`; returns their folder."""
    write_store(folder / "features", shards=shards)
    save_model(folder / "model", small_tokenizer(), untrained=["cat"])
    save_dense_model(folder / "vse")
    return folder


def build(corpus: Path, out: Path, top_n: int, address: str | None = None) -> None:
    """Build the corpus's index, as `sparta index` does; on a Ray cluster if one has an address."""
    stores, models = [FeatureStore.open(corpus / "features")], [corpus / "model"]
    pruning = PruningSettings(top_n=top_n, frequencies="none")
    with connected(address) as cluster:
        build_index(stores, models, out, pruning, device="cpu", cluster=cluster)


def add_vectors(corpus: Path, out: Path) -> None:
    """Add the dense part."""
    store = FeatureStore.open(corpus / "features")
    add_dense(out, store, "vse", corpus / "vse", device="cpu")


def answers(index: Path, dense: bool = False) -> list[Any]:
    """All hits of some queries, from both engines, with explanations; and of the dense part."""
    found: list[Any] = []
    for engine in ("columns", "lucene"):
        searcher = open_index(index, engine)
        for query in QUERIES:
            result = searcher.search(query, 50)
            hits = result.hits[:3]
            found.append([hit.metadata for hit in result.hits])
            found.append((answer(result), [searcher.explain(query, h.image_id) for h in hits]))
        searcher.close()
    if dense:
        vectors = open_backend(index, "vse")
        found += [answer(vectors.search(query, 50)) for query in QUERIES]
        vectors.close()
    return found


def rows(features: Path) -> list[Any]:
    """Everything that a feature store holds."""
    return [
        (image.image_id, image.features.tobytes(), image.boxes.tobytes(), image.labels)
        for image in FeatureStore.open(features)
    ]
