"""Fixtures: a small vocabulary, random impacts over it, searchers of them, tiny models."""

import shutil
from pathlib import Path

import pytest

from indexer.build import build_index
from indexer.columns import index as column_index
from indexer.columns import postings as in_numpy
from indexer.engines.open import open_index
from indexer.postings import Postings
from indexer.search.searcher import Searcher
from indexer.store import segment, snapshot
from sparta.features.store import FeatureStore
from tests.indexer.live_index import LiveReference
from tests.indexer.random_postings import MakeIndex, random_postings, shards_of, write_postings
from tests.indexer.tiny import draw, save_model, write_store
from tests.indexer.tiny_dense import save_dense_model
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import ReferenceSearcher


@pytest.fixture(params=["C", "NumPy"])
def either_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search as with the compiled kernel, and as without."""
    for module in (column_index, segment, snapshot) if request.param == "NumPy" else ():
        monkeypatch.setattr(module, "kernel", in_numpy)


@pytest.fixture(scope="session")
def postings() -> Postings:
    return random_postings(TOKENIZER, 300)


@pytest.fixture(scope="session")
def make_index() -> MakeIndex:
    def make(folder: Path, postings: Postings) -> Path:
        write_postings(folder, shards_of(postings, -(-len(postings) // 2)), TOKENIZER)
        return folder

    return make


@pytest.fixture(scope="session")
def index(
    tmp_path_factory: pytest.TempPathFactory, make_index: MakeIndex, postings: Postings
) -> Path:
    return make_index(tmp_path_factory.mktemp("index") / "index", postings)


@pytest.fixture
def copy(index: Path, tmp_path: Path) -> Path:
    """An index of one's own."""
    return Path(shutil.copytree(index, tmp_path / "copy"))


@pytest.fixture(scope="session")
def small() -> Postings:
    return random_postings(TOKENIZER, 12)


@pytest.fixture
def built(tmp_path: Path, small: Postings, make_index: MakeIndex) -> Path:
    """A small index of one's own."""
    return make_index(tmp_path / "index", small)


@pytest.fixture
def right(small: Postings) -> LiveReference:
    """The images of the small index, which take the same changes."""
    return LiveReference(small)


@pytest.fixture(scope="session")
def searcher(index: Path) -> Searcher:
    return open_index(index)


@pytest.fixture(scope="session")
def exact(postings: Postings) -> ReferenceSearcher:
    return ReferenceSearcher(postings, TOKENIZER)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"), TOKENIZER, untrained=["cat"])


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


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three small photos."""
    photos = tmp_path / "photos"
    for i in range(3):
        draw(photos / f"{i}.png", i)
    return photos
