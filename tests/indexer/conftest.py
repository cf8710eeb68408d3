"""A small vocabulary, random impacts over it, and both searchers of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from indexer.build import build_index
from indexer.grounding import Inputs
from indexer.postings import ImagePostings, Postings
from indexer.search.lucene import LuceneSearcher
from indexer.write_index import IndexSettings, write_index
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny import save_model, write_store
from tests.indexer.tiny_dense import save_dense_model
from tests.reference.searcher import ReferenceSearcher

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
WORDS = ["dog", "cat", "beach", "ball", "red", "sky", "run", ".", "...", "|", "_", "é", "犬"]
PIECES = ["##s", "##ning", "##ny"]
RARE = "zebra"  # in the vocabulary, in no image
COMMON = "the"  # in every image

SETTINGS = IndexSettings(
    models=["m"],
    features=["f"],
    photos=None,
    top_n=None,
    bits=8,
    offset="none",
    offset_images=0,
    terms="all",
)


@pytest.fixture(scope="session")
def tokenizer() -> WordPieceTokenizer:
    terms = [*SPECIAL, *WORDS, *PIECES, RARE, COMMON]
    vocabulary = {term: i for i, term in enumerate(terms)}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(strip_accents=False)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.add_special_tokens(SPECIAL[:5])
    return WordPieceTokenizer(inner)


def random_postings(tokenizer: WordPieceTokenizer, images: int, seed: int = 0) -> Postings:
    """Few levels, so that many images tie."""
    rng = np.random.default_rng(seed)
    terms = np.flatnonzero(tokenizer.indexable)
    common = tokenizer.vocabulary.index(COMMON)
    choice = [t for t in terms if tokenizer.vocabulary[t] not in (COMMON, RARE)]
    rows = []
    for i in range(images):
        own = rng.choice(choice, size=rng.integers(0, len(choice)), replace=False)
        own = np.sort(np.append(own, common)).astype(np.int32)
        impacts = rng.integers(1, 5, len(own)).astype(np.int32)
        impacts[rng.random(len(own)) < 0.05] = 255
        labels = np.sort(rng.integers(0, 4, i % 6)).astype(np.int16)
        positions = rng.integers(-1, 4 + len(labels), len(own)).astype(np.int16)
        inputs = Inputs(
            rng.random((4, 4)).astype(np.float32),
            rng.choice(terms, len(labels)).astype(np.int32),
            labels,
        )
        rows.append(
            ImagePostings(f"a/{i:05d} é.jpg", {"width": i}, own, impacts, positions, inputs)
        )
    return Postings.of(rows)


@pytest.fixture(scope="session")
def postings(tokenizer: WordPieceTokenizer) -> Postings:
    return random_postings(tokenizer, 300)


@pytest.fixture(scope="session")
def make_index(
    tokenizer: WordPieceTokenizer,
) -> Callable[[Path, Postings], Path]:
    def make(folder: Path, postings: Postings) -> Path:
        offset = np.zeros(len(tokenizer.vocabulary), np.float32)
        half = len(postings) // 2
        rows = list(postings)
        shards = [Postings.of(rows[:half]), Postings.of(rows[half:])]
        write_index(folder, shards, tokenizer, offset, SETTINGS, scale=0.5)
        return folder

    return make


@pytest.fixture(scope="session")
def index(
    tmp_path_factory: pytest.TempPathFactory,
    make_index: Callable[[Path, Postings], Path],
    postings: Postings,
) -> Path:
    return make_index(tmp_path_factory.mktemp("index") / "index", postings)


@pytest.fixture(scope="session")
def lucene(index: Path) -> LuceneSearcher:
    return LuceneSearcher(index)


@pytest.fixture(scope="session")
def exact(postings: Postings, tokenizer: WordPieceTokenizer) -> ReferenceSearcher:
    return ReferenceSearcher(postings, tokenizer)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer) -> Path:
    return save_model(tmp_path_factory.mktemp("model"), tokenizer, untrained=["cat"])


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return write_store(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="session")
def dense_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_dense_model(tmp_path_factory.mktemp("vse"))


@pytest.fixture(scope="session")
def multi_view(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_dense_model(tmp_path_factory.mktemp("mv-vse"), "mv-vse", views=3, seed=1)


@pytest.fixture(scope="session")
def sparse_index(
    tmp_path_factory: pytest.TempPathFactory, store: FeatureStore, model_dir: Path
) -> Path:
    """An index of the feature store, to which dense models can be added."""
    out = tmp_path_factory.mktemp("sparse") / "index"
    build_index([store], [model_dir], out, device="cpu")
    return out
